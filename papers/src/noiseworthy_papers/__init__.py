"""Tables and figures of papers as data, run by one runner."""

from noiseworthy_papers.reproduction import PAPERS, reproduce

__all__ = ["PAPERS", "reproduce"]
