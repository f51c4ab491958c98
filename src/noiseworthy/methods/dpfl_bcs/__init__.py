"""Ma et al.: whom to ask how often."""
