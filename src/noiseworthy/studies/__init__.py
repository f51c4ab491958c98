"""Studies: the file, what it names, planning, training, run folders."""
