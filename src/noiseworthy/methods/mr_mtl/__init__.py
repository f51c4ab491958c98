"""Liu et al.: every owner trains a model of its own, drawn towards the mean of all."""
