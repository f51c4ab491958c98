"""Algorithms: one paper, one file; the schedule of who is asked when."""
