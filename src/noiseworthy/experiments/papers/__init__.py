"""Tables and figures of papers as data, run by one runner."""

from noiseworthy.experiments.papers.reproduction import PAPERS, reproduce

__all__ = ["PAPERS", "reproduce"]
