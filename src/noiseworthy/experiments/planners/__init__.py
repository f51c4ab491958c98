"""Planners of a study, one file per algorithm: where constants come from, and what is decided with them."""
