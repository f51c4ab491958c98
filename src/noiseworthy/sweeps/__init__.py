"""Many trainings side by side."""
