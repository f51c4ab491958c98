"""The least bound of DP-FedAvg over whole iterations T, divisors E of T and clients b."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import Real
from noiseworthy.methods.dp_fedavg.bound import LocalBound, Noise
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.fedsgd_dpc.planner import cohorts_of
from noiseworthy.plans.local_work import divisors
from noiseworthy.plans.resources import Resources

Whole = NDArray[np.int64]
_AT_ONCE = 2**18
"""Settings that are weighed together, some ten megabytes."""


class Given(NamedTuple):
    """What is fixed; None is planned."""

    total_iterations: int | None = None
    local_steps: int | None = None
    clients_per_round: int | None = None


NOTHING = Given()


class Setting(NamedTuple):
    """T, E and b, with the bound there."""

    total_iterations: int
    local_steps: int
    clients_per_round: int
    value: float

    @property
    def rounds(self) -> int:
        """T_g = T/E."""
        return self.total_iterations // self.local_steps


def optimum(
    bound: LocalBound,
    noise: Noise,
    clients: int,
    max_iterations: int,
    given: Given = NOTHING,
    resources: Resources | None = None,
) -> Setting:
    """The (T, E, b) of least bound over the integers, E a divisor of T; ties go to the fewest rounds.

    Enumerates T <= max_iterations and E | T, at every b that can be best: for T_g rounds and k uploads only
    the largest b with ceil(b T_g/N) = k. What the clients cannot pay for has an infinite bound.

    Args:
        bound: from `local_bound`.
        noise: n(T_g, b): `UploadNoise` of a problem, or a `PowerLaw` of one's own.
        clients: N.
        max_iterations: most T to consider where T is not fixed.
        given: what is fixed.
        resources: of the clients, who pay k (c1 + E c2) each; None where nothing is scarce.

    Example:
        >>> from noiseworthy.methods.dp_fedavg.bound import PowerLaw
        >>> bound = LocalBound(1.0, 0.5, 1.0, 0.1, 100.0)
        >>> optimum(bound, PowerLaw(2.0, 0.1), 10, 500)[:3]
        (36, 2, 10)
        >>> optimum(bound, PowerLaw(2.0, 0.1), 10, 500, Given(total_iterations=64))[:3]
        (64, 4, 10)
        >>> battery = Resources.of(10.0, 1.0, 100.0, 10)
        >>> optimum(bound, PowerLaw(2.0, 0.1), 10, 500, Given(clients_per_round=10), battery)[:3]
        (16, 2, 10)

    Source: docs/theory/fu.md#planner, "this enumeration is the reference answer".
    """
    limit = most_uploads(resources, given.total_iterations or max_iterations)
    parts = _triples(clients, max_iterations, given)
    found = [_least(bound, noise, clients, limit, *part) for part in parts]
    value = min(setting.value for setting in found)
    return next(setting for setting in found if setting.value <= value + 1e-12 * abs(value))


def most_uploads(resources: Resources | None, longest: int) -> Real:
    """Uploads that every client can pay for, after E steps each; shape (longest + 1,), at the place E."""
    if resources is None:
        return np.full(longest + 1, np.inf)
    return resources.most_rounds_after(np.arange(longest + 1))


def _least(
    bound: LocalBound, noise: Noise, clients: int, limit: Real, rounds: Whole, steps: Whole, b: Whole
) -> Setting:
    """The best of some (T_g, E, b), each of shape (m,), T_g ascending; ties go to the fewest rounds."""
    values = bound.at(noise, rounds * steps, steps, b, clients)
    values = np.where(uploads(rounds, b, clients) <= limit[steps], values, np.inf)
    value = values.min()
    fewest = rounds == rounds[np.argmax(values <= value + 1e-12 * abs(value))]
    best = np.argmin(np.where(fewest, values, np.inf)) if np.isfinite(value) else 0
    return Setting(int(rounds[best] * steps[best]), int(steps[best]), int(b[best]), float(values[best]))


def _triples(clients: int, most: int, given: Given) -> Iterator[tuple[Whole, Whole, Whole]]:
    """All (T_g, E), rounds ascending, each with every b that can be best, some at once."""
    rounds, steps = _pairs(most, given)
    if given.clients_per_round is not None:
        yield rounds, steps, np.full_like(rounds, given.clients_per_round)
        return
    full = np.cumsum(np.minimum(rounds, clients)) // _AT_ONCE
    for part in np.split(np.arange(len(rounds)), np.flatnonzero(np.diff(full)) + 1):
        places, b = cohorts_of(rounds[part], clients)
        yield rounds[part][places], steps[part][places], b


def _pairs(most: int, given: Given) -> tuple[Whole, Whole]:
    t, e = given.total_iterations, given.local_steps
    if t is not None:
        steps = divisors(t)[::-1] if e is None else np.array([e])
        return t // steps, steps
    if e is not None:
        rounds = np.arange(1, most // e + 1)
        return rounds, np.full_like(rounds, e)
    rounds = np.arange(1, most + 1)
    steps = [np.arange(1, most // t + 1) for t in range(1, most + 1)]
    return np.repeat(rounds, most // rounds), np.concatenate(steps)
