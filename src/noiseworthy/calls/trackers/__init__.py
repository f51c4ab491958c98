"""Trackers of experiments: each notes with one product what a run publishes, and nothing else."""
