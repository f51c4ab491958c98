"""Hou et al.: local steps with control variates, and coins that say when to communicate."""
