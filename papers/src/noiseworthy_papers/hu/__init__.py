"""Hu et al.: averaging periods within a privacy and a resource budget."""
