"""What clients tell before training: the mean of their records, and shares of their classes."""
