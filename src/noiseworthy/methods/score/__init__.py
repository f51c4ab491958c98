"""What owners tell of a model: how good it is on records that they hold out."""
