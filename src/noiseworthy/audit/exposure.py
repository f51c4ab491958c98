"""What the worst canary would give away if the noise is as planned: exact, for every client, without trials.

The distance between an upload's two noiseless means is a fact of the code that computes it. In units of the
planned noise it is the ratio of that upload, and ratios compose to an epsilon. If that epsilon exceeds the
claim, the sensitivity that the claim rests on is wrong.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.audit.families import Family, Parts, family_at
from noiseworthy.audit.observations import Observations
from noiseworthy.audit.targets import Target

_DIGITS = 5
"""Ratios that agree in so many digits are one; float32 resolves no more of a difference."""


@dataclass(frozen=True)
class Exposure:
    """The releases of every client as a canary moves them.

    Attributes:
        parts: ratio and count of each kind of upload, for every client.
        epsilon: what they give away at the client's delta, shape (N,); 0 for a client that uploads nothing.
    """

    parts: tuple[Parts, ...]
    epsilon: NDArray[np.float64]

    @property
    def asked(self) -> NDArray[np.int64]:
        """Clients that upload something a canary moves."""
        return np.flatnonzero([bool(parts) for parts in self.parts])


def exposure_of(seen: Observations, target: Target) -> Exposure:
    """What canaries give away, from the first of the trainings that were observed.

    Where canaries reach their worst case, all trainings show the same distances.

    Args:
        seen: trainings of a twin.
        target: of that twin.
    """
    parts = _parts(seen, target)
    made = Exposure(parts, np.zeros(len(parts)))
    if (asked := made.asked).size:
        family = family_of(target, tuple(parts[i] for i in asked))
        made.epsilon[asked] = family.epsilon(1.0, target.delta[asked])
    return made


def family_of(target: Target, parts: tuple[Parts, ...]) -> Family:
    """The family of noise of a training, at the ratios of some of its clients."""
    return family_at(target.release.mechanism.law, parts, target.release.sampling_rate)


def _parts(seen: Observations, target: Target) -> tuple[Parts, ...]:
    """Uploads of every client by how far the canary moves them, in the norm of the noise."""
    ratios = np.linalg.norm(seen.shifts[0], ord=target.release.mechanism.law.order, axis=2)
    moved = [ratios[(seen.clients == client) & (ratios > 0)] for client in range(seen.worlds.shape[1])]
    return tuple(_counted(one) for one in moved)


def _counted(ratios: NDArray[np.float64]) -> Parts:
    """
    Example:
        >>> _counted(np.array([0.5, 0.50000001, 0.25]))
        ((0.25, 1), (0.5, 2))
    """
    if not ratios.size:
        return ()
    # to nearest, so off by 5e-5 of a ratio at most: within the slack that exposures have
    rounded = np.array([float(f"{ratio:.{_DIGITS}g}") for ratio in ratios])
    values, counts = np.unique(rounded, return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))
