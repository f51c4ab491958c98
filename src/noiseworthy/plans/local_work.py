"""What a client computes before an upload: plain steps, noised steps, or steps until a public coin falls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput


@dataclass(frozen=True)
class _Steps:
    """A stated number of local steps before every upload, on all records or on minibatches."""

    steps: int
    batch_size: int | None = None

    def __post_init__(self):
        check.count("local_steps", self.steps)
        if self.batch_size is not None:
            check.count("batch_size", self.batch_size)

    def counts(self, rounds: int) -> NDArray[np.int64]:
        """Local steps in each round, shape (T_g,)."""
        return np.full(rounds, self.steps)

    def as_dict(self, rounds: int) -> dict[str, Any]:
        """Keys that a plan adds to its contract."""
        total = rounds * self.steps
        return {"local_steps": self.steps, "total_iterations": total, "batch_size": self.batch_size}


@dataclass(frozen=True)
class LocalSteps(_Steps):
    """E local steps before every upload, on all records or on minibatches.

    Attributes:
        steps: E.
        batch_size: records per step, drawn with replacement; None takes all of them. Only clipping modes that
            protect a whole client allow a minibatch.
    """

    noised: ClassVar[bool] = False
    summed: ClassVar[bool] = True
    """Whether an upload is a sum of clipped steps, so that its sensitivity grows with their sizes."""

    def taken(self, uploads: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
        """Local steps of clients that upload so often in a training of so many rounds, shape (N,)."""
        return uploads * self.steps

    def released(self, uploads: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Noised values that depend on one record after so many uploads, shape (N,)."""
        return uploads


@dataclass(frozen=True)
class NoisySteps(_Steps):
    """tau local steps before every averaging, each with noise of its own, on all records or on minibatches.

    A minibatch is one of the floor(n/X) disjoint ones that a client's records are dealt into, freshly
    shuffled for every pass, so that no record is used twice in a pass.

    Attributes:
        steps: tau.
        batch_size: X, records per step; None takes all. A client that holds fewer takes all of them.

    Example:
        >>> work = NoisySteps(9, batch_size=100)
        >>> work.records(np.array([60, 250])), work.uses(81, np.array([60, 250]))
        (array([ 60, 100]), array([81, 41]))
    """

    noised: ClassVar[bool] = True
    summed: ClassVar[bool] = False

    def records(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Records X_m in one step of each client, shape (M,)."""
        return sizes if self.batch_size is None else np.minimum(self.batch_size, sizes)

    def batches(self, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Disjoint minibatches in one pass over each client's records, shape (M,)."""
        return sizes // self.records(sizes)

    def uses(self, iterations: ArrayLike, sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Most steps that one record takes part in, ceil(k / floor(n/X)) after k iterations, shape (M,).

        What the noise must pay for: steps that a record is not in do not depend on it
        (docs/theory/accounting.md#subsampled-records).
        """
        # the last pass counts whole where it is cut short: any record may have been in what was done of it
        return -(-np.asarray(iterations) // self.batches(sizes))

    def taken(self, uploads: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
        """Local steps of clients that upload so often in a training of so many rounds, shape (N,)."""
        return np.full_like(uploads, rounds * self.steps)

    def released(self, uploads: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Noised values that depend on one record after so many uploads, shape (N,)."""
        return self.uses(uploads * self.steps, sizes)

    def as_dict(self, rounds: int) -> dict[str, Any]:
        """Keys that a plan adds to its contract."""
        return super().as_dict(rounds) | {"noised": "every local step"}


@dataclass(frozen=True)
class Coins:
    """T iterations, each followed by communication if a shared public coin says so.

    The coins are drawn before training, so that the number of rounds that is charged is the number that
    happens. Calibrating on the mean p T instead overspends about four times in ten
    (docs/theory/hou.md#realised-rounds).

    Attributes:
        iterations: T, local steps of every client in the whole training; 0 is no training.
        probability: p of communication after an iteration.
        seed: of the public coins.
        batch_size: records per local step, drawn with replacement; None takes all of them.

    Raises:
        InvalidInput: T below 0, p outside (0, 1], a negative seed.

    Example:
        >>> coins = Coins(100, 0.1, seed=0)
        >>> coins.expected_rounds, coins.rounds, int(coins.counts(coins.rounds).sum()) <= 100
        (10.0, 6, True)
    """

    noised: ClassVar[bool] = False
    summed: ClassVar[bool] = False
    iterations: int
    probability: float
    seed: int = 0
    batch_size: int | None = None

    def __post_init__(self):
        check.count("iterations", self.iterations, least=0)
        check_probability(self.probability)
        check.count("coin_seed", self.seed, least=0)
        if self.batch_size is not None:
            check.count("batch_size", self.batch_size)

    @cached_property
    def flips(self) -> NDArray[np.bool_]:
        """theta_0..theta_{T-1}, shape (T,): whether clients communicate after each iteration."""
        # a stream of its own: a study may use one seed for coins and for schedules
        generator = np.random.default_rng([self.seed, 0xC0175])
        return generator.random(self.iterations) < self.probability

    @property
    def expected_rounds(self) -> float:
        """p T."""
        return self.probability * self.iterations

    @property
    def rounds(self) -> int:
        """R, the uploads that every client really makes."""
        return int(self.flips.sum())

    def taken(self, uploads: NDArray[np.int64], rounds: int) -> NDArray[np.int64]:
        """Local steps of clients that upload so often in a training of so many rounds, shape (N,)."""
        return np.full_like(uploads, self.counts(rounds).sum())

    def released(self, uploads: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Noised values that depend on one record after so many uploads, shape (N,)."""
        return uploads

    def counts(self, rounds: int) -> NDArray[np.int64]:
        """Local steps before each of the first `rounds` uploads, shape (rounds,).

        Steps after the last upload reach nobody and are not taken.
        """
        return np.diff(np.flatnonzero(self.flips), prepend=-1)[:rounds]

    def as_dict(self, rounds: int) -> dict[str, Any]:
        """Keys that a plan adds to its contract."""
        return {
            "iterations": self.iterations,
            "communication_probability": self.probability,
            "expected_rounds": self.expected_rounds,
            "realised_rounds": self.rounds,
            "expected_local_steps": 1 / self.probability,
            "coin_seed": self.seed,
            "batch_size": self.batch_size,
        }


LocalWork: TypeAlias = LocalSteps | NoisySteps | Coins
"""All kinds of work before an upload, `noised` step by step or as a whole; a plain gradient is none."""


def check_probability(value: float) -> float:
    """A communication probability in (0, 1].

    Raises:
        InvalidInput: outside of it, or no number.
    """
    p = check.positive("communication_probability", value).item()
    if p > 1:
        raise InvalidInput(f"communication_probability must lie in (0, 1], got {p:g}; 1 is every iteration")
    return p


def divisors(number: int) -> NDArray[np.int64]:
    """All divisors, ascending.

    Example:
        >>> divisors(12)
        array([ 1,  2,  3,  4,  6, 12])
    """
    small = np.arange(1, math.isqrt(number) + 1)
    small = small[number % small == 0]
    return np.unique(np.append(small, number // small))


def check_length(name: str, value: int) -> int:
    """T, in rounds or iterations, if it is a whole number of at least 1."""
    return check.count(name, value, remedy=f"T = 0 is no training; leave {name} to the planner")


def check_divides(total_iterations: int, local_steps: int) -> None:
    """Refuse local steps that do not divide the iterations.

    Raises:
        InvalidInput: with the nearest numbers that would do.
    """
    t, e = total_iterations, local_steps
    if t % e == 0:
        return
    every = divisors(t)
    near = [every[every < e].max(), *every[every > e][:1]]
    lengths = [length for length in (t // e * e, -(-t // e) * e) if length]
    raise InvalidInput(
        f"local_steps must divide total_iterations = {t}, got {e}; use local_steps = {_either(near)}, "
        f"or total_iterations = {_either(lengths)}"
    )


def _either(numbers: list[int]) -> str:
    return " or ".join(str(number) for number in numbers)
