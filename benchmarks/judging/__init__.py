"""How plans are judged: cells, an oracle that may treat records too, stated defaults, and the table."""
