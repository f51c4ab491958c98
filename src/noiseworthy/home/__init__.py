"""What owners make of a shared model at home, where nothing leaves: own, shared and tuned models."""
