"""Conformance suites: what every mechanism, accountant, planner and algorithm must keep, as tests to inherit.

A suite is a plain class. Inherit it under a name that pytest collects, override what is abstract, and every
promise that the privacy claim rests on is tested for your part as it is for ours:

    from noiseworthy.testing import NoiseConformance

    class TestMyNoise(NoiseConformance):
        family = "gaussian"

        def noise(self, scale):
            return MyNoise(scale)

Statistics use fixed seeds where a part takes any; where it takes none, each false-alarm rate is stated.
"""

from noiseworthy.testing.accountants import AccountantConformance
from noiseworthy.testing.algorithms import AlgorithmConformance
from noiseworthy.testing.mechanisms import ClipConformance, NoiseConformance
from noiseworthy.testing.planners import PlannerConformance

__all__ = [
    "AccountantConformance",
    "AlgorithmConformance",
    "ClipConformance",
    "NoiseConformance",
    "PlannerConformance",
]
