"""Planning by trial: the real algorithm on public stand-ins with the federation's exact noise."""
