"""Experiments: from a study file to a plan, a training, a comparison and a record."""
