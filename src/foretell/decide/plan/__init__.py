"""Plans: the configuration to use, with its reasons."""
