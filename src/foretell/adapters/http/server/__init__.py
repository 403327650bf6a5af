"""Parts of any HTTP server of foretell; nothing here knows what is served."""
