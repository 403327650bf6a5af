"""Running tasks: workers, policies, where bodies run, and what became of each task."""
