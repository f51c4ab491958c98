"""Hu et al.: how many noised local steps between two averagings."""
