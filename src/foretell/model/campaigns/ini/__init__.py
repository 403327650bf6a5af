"""aMLLibrary's files: read as they are, into the same typed campaign as TOML."""
