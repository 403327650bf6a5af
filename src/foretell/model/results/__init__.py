"""What a fit leaves behind: one schema for campaigns and automatic mode, its text, its files."""
