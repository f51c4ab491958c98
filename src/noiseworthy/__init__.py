"""noiseworthy: private federated learning, planned."""
