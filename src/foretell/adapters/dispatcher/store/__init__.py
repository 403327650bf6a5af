"""What the dispatcher keeps on disk, so that a restart loses nothing and repeats nothing."""
