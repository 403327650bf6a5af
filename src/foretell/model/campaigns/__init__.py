"""Campaigns: models built from a declarative file, in TOML or in aMLLibrary's format."""
