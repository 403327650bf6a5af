"""Worker processes, which hold the models and answer requests about them."""
