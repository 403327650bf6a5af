"""HTTP: parts of a server, the application that serves models, and its web page."""
