"""How a table comes in: what its columns seem to be, and what is wrong with it, at its owner's machine."""
