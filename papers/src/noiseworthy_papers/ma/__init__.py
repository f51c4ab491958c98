"""Ma et al.: whom to ask how often, by budget, size and heterogeneity."""
