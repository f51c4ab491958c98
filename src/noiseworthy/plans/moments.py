"""What a plan of one upload holds beside that of every plan: second moments, and how they are solved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from noiseworthy import _validate as check


@dataclass(frozen=True)
class SecondMoments:
    """What every client uploads once in the place of gradients: moments of its records q = (x, c r).

    r is what the label asks of the untrained outputs, minus the slope of the loss there.

    Attributes:
        outputs: K numbers in r.
        squares: whether the second moment of r is among the upload, as it is of a regression.
        label_weight: c above 0, by which the sensitivity is shared out between x x' and x r'.
        shrinkage: of the solution: a ridge of so many spectral norms of the noise in the mean of x x'.
        unscaled: least factor by which the clip scales the moments of a record with a label of typical size.
    """

    outputs: int
    squares: bool
    label_weight: float
    shrinkage: float
    unscaled: float

    def __post_init__(self):
        check.count("outputs", self.outputs)
        check.positive("label_weight", self.label_weight)
        check.positive("shrinkage", self.shrinkage)
        check.positive("unscaled", self.unscaled)

    def numbers(self, dimension: int) -> int:
        """Numbers in an upload, for a model of p parameters: w (w + 1) / 2 + w K, w = p / K, and r' r.

        Example:
            >>> SecondMoments(10, False, 1.0, 1.0, 1.0).numbers(650)
            2795
        """
        width = dimension // self.outputs
        return width * (width + 1) // 2 + dimension + self.squares

    def of_one_number(self) -> SecondMoments:
        """The same of a regression."""
        return replace(self, outputs=1, squares=True)

    def as_dict(self, dimension: int) -> dict[str, Any]:
        """What a plan as plain values says of it."""
        known = {"label_weight": self.label_weight, "shrinkage": self.shrinkage}
        return {"clipping_mode": "M", **known, "upload_numbers": self.numbers(dimension)}
