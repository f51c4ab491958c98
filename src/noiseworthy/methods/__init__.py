"""One room for each algorithm: its table, planner, bound, algorithm, wire form and words."""
