"""From a study to a decision."""
