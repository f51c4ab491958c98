"""Hou et al.: how often local steps with control variates should communicate."""
