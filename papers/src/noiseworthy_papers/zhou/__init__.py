"""Zhou et al.: how many rounds and clients replies are worth their noise for."""
