"""How long one job takes: phase types, jobs of tasks or waves, samples, and jobs that sprint."""
