"""The same plan over a network of data owners."""
