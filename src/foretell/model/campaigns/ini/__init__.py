"""aMLLibrary's campaign and prediction files, read unchanged."""
