"""An upload as it leaves a client: whole numbers on a public grid, stamped with the origin of its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput

Assurance = Literal["simulation", "grid-csprng", "awaited"]
ASSURANCES: tuple[Assurance, ...] = ("simulation", "grid-csprng", "awaited")

LIMIT = 2**53
"""Whole numbers beyond this are not released: from there on floats skip some of them."""


@runtime_checkable
class Noise(Protocol):
    """The noise of uploads of one client, in steps of its grid."""

    @property
    def assurance(self) -> Assurance:
        """What the noise may be trusted with; the stamp of every upload that it was added to."""
        ...

    def added_to(self, total: NDArray[np.int64]) -> NDArray[np.int64]:
        """A clipped total plus a new draw, shape (p,); anything but int64 is refused."""
        ...


@dataclass(frozen=True)
class Grid:
    """Multiples of a public power of two.

    Attributes:
        exponent: k; neighbouring points are 2^k apart.

    Example:
        >>> Grid(-2).spacing
        0.25
        >>> Grid.finest(1.0)  # 1.0 is 2^52 steps of it
        Grid(exponent=-52)
    """

    exponent: int

    def __post_init__(self):
        check.count("grid exponent", self.exponent, least=-1000, most=1000)

    @classmethod
    def finest(cls, largest: float) -> Grid:
        """The finest grid on which numbers up to `largest` are at most 2^53 steps, to a factor of two."""
        check.positive("largest", largest)
        return cls(math.frexp(largest)[1] - 53)

    @property
    def spacing(self) -> float:
        """2^k, exactly."""
        return float(np.ldexp(1.0, self.exponent))


@dataclass(frozen=True)
class Upload:
    """What a client sends, and everything that is needed to read it.

    Attributes:
        steps: noised total in steps of the grid, shape (p,), int64.
        grid: public.
        divisor: public number that the total is divided by: records n_i, or 1.
        assurance: the stamp of its noise.

    Example:
        >>> Upload(np.array([8, -4]), Grid(-2), 10, "simulation").values
        array([ 0.2, -0.1])
    """

    steps: NDArray[np.int64]
    grid: Grid
    divisor: float
    assurance: Assurance

    def __post_init__(self):
        check.one_of("assurance", self.assurance, ASSURANCES)
        check.positive("divisor", self.divisor)
        releasable(self.steps)

    @property
    def values(self) -> NDArray[np.float64]:
        """The mean that the server computes with, shape (p,)."""
        # rounded once, by the division: whole numbers up to 2^53 times a power of two are exact
        return np.float64(self.grid.spacing) * self.steps / self.divisor


def releasable(steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same numbers where they may leave a client: int64 within +-2^53.

    Raises:
        InvalidInput: other numbers. The message shows none of them: they are private.
    """
    if not isinstance(steps, np.ndarray) or steps.dtype != np.int64 or steps.ndim != 1:
        raise InvalidInput(
            "an upload must be a list of int64 steps of a grid; clip and quantise first, nothing was released"
        )
    if np.any(steps > LIMIT) or np.any(steps < -LIMIT):
        raise InvalidInput("uploads must lie within +-2^53 steps; take a coarser grid, nothing was released")
    return steps


@dataclass(frozen=True)
class Derived:
    """What an owner computed from noised sums alone, where the sums themselves do not leave.

    Attributes:
        values: float64, shape (u,), finite: a model's move (p,), or a gradient and two losses (p + 2,).
        assurance: the stamp of the sums' noise.
    """

    values: NDArray[np.float64]
    assurance: Assurance

    def __post_init__(self):
        if self.values.dtype != np.float64 or self.values.ndim != 1 or not np.all(np.isfinite(self.values)):
            raise InvalidInput("what is derived must be a list of finite float64; ask for smaller steps")
        check.one_of("assurance", self.assurance, ASSURANCES)
