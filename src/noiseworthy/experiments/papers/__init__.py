"""Tables and figures of papers as data, run by one runner."""

from noiseworthy.experiments.papers.reproduction import reproduce

__all__ = ["reproduce"]
