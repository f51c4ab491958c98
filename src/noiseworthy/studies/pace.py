"""How fast trainings run on this machine, measured in a few rounds before all of them are run."""

import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.algorithm import Algorithm

LEAST_ROUNDS = 4
"""Rounds that are timed: one while compiling, one, and two."""


class Pace(NamedTuple):
    """Seconds that trainings side by side need to compile, for a round, and to be scored once."""

    compiling: float
    a_round: float
    a_score: float

    def seconds(self, rounds: int, evaluations: int) -> float:
        """Of whole trainings that are compiled already.

        Example:
            >>> Pace(2.0, 0.1, 0.5).seconds(100, 4)
            12.0
        """
        return self.a_round * rounds + self.a_score * evaluations


def pace_of(
    algorithms: Sequence[Algorithm], planned: NDArray[np.int64], shards: Shards, seeds: Sequence[int]
) -> Pace:
    """The pace of trainings, from their first rounds.

    They run in the program that the whole trainings use, which is not compiled again.

    Args:
        algorithms: S algorithms of at least `LEAST_ROUNDS` rounds.
        planned: as for `simulate`.
        shards: the federation on the device.
        seeds: S seeds.
    """
    ends = [time.monotonic()]
    rounds = np.array([1, 2, LEAST_ROUNDS])
    simulate(algorithms, planned, shards, rounds, seeds, on_segment=lambda _: ends.append(time.monotonic()))
    first, one_round, two_rounds = (float(seconds) for seconds in np.diff(ends))
    a_round = max(two_rounds - one_round, two_rounds / LEAST_ROUNDS)
    return Pace(max(first - one_round, 0.0), a_round, max(one_round - a_round, 0.0))
