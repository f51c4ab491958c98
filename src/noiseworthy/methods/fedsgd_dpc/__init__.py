"""Zhou et al.: how many rounds, and how many clients in each."""
