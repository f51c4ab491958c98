"""What clients tell before training: the mean of the numbers to predict."""
