"""Kinds of noise, each in a file of its own, and all that the product knows of it.

A `Law` is a kind of noise: its name, norm, size and words, and what its releases are paid in. Its `Analysis`,
loaded when asked for, says what they cost together, what is drawn and what an auditor may hold against it.
A `Mechanism` is noise of a law as a value, a size per client. Sizes belong to the un-multiplied mean gradient
of a client, per coordinate.

Nothing outside this package compares a mechanism with a name; it asks the law.
"""

from noiseworthy.privacy.mechanisms.base import Family, Law, Mechanism
from noiseworthy.privacy.mechanisms.gaussian import Gaussian
from noiseworthy.privacy.mechanisms.laplace import Laplace
from noiseworthy.privacy.mechanisms.none import NoNoise
from noiseworthy.privacy.mechanisms.registry import law_of, names, noisy_names

__all__ = ["Family", "Gaussian", "Laplace", "Law", "Mechanism", "NoNoise", "law_of", "names", "noisy_names"]
