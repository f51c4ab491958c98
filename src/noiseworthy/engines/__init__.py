"""Engines: the compiled simulation, its plain debug twin, and the trajectories they leave."""
