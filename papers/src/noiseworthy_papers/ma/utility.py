"""Utility as Ma et al. report it, by seed, and paired gaps between series of one figure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.points import Point
from noiseworthy_papers.samples import Sample, contrast

FREE, TWO_STAGES, ONE_STAGE = "FedSGD, no noise", "DPFL-BCS, two stages", "DPFL-BCS, one stage"
PRINTED, PERSONAL_BIASED = "DPFL-BCS, as printed", "PrivateFL-BCS"
PLAIN: dict[Family, str] = {"gaussian": "DPSGD", "laplace": "DMLDP"}
WITHOUT = ", no momentum"
RIVALS = ("DPSGD", "DMLDP", "WeiAvg", "PFA", "PrivateFL")
"""Labels of the series, by which claims and tables know them."""
Group = dict[str, Point]


@dataclass(frozen=True)
class Utility:
    """What is better, the larger: points of accuracy, or the squared error with its sign turned.

    Attributes:
        regression: whether the squared error counts.
    """

    regression: bool

    def of(self, point: Point) -> Sample:
        """Final utility of every seed; -inf where it diverged."""
        final = np.array(point.losses if self.regression else point.accuracies, float)[:, -1]
        better = -final if self.regression else 100 * final
        return Sample.of(np.where(np.isnan(better), -np.inf, better))

    def gap(self, better: Point, than: Point) -> Sample:
        """By how much one point is better than another, paired by seed; two that diverged are alike."""
        return contrast((1.0, self.of(better)), (-1.0, self.of(than)))

    def shown(self, point: Point) -> str:
        """Mean ± deviation over seeds, in the unit of the paper's tables.

        A squared error far beyond the range of the data, or infinite, is `diverged`.
        """
        final = self.of(point)
        if not all(abs(value) < 1e4 for value in final.values):
            return "diverged"
        return f"{abs(final.mean):.2f} ± {final.std:.2f}" + ("" if self.regression else " %")


def groups(points: Sequence[Point]) -> list[Group]:
    """Points by series that differ in nothing else, in the order of mechanism, epsilon and alpha."""
    found: dict[tuple, Group] = {}
    for point in points:
        found.setdefault(place(point), {})[point.series] = point
    return [found[key] for key in sorted(found)]


def place(point: Point) -> tuple:
    """Mechanism, epsilon and alpha."""
    return point.mechanism, point.epsilon, point.alpha or 0.0


def named(group: Group, *, varying: Sequence[str] = ()) -> str:
    """A group by its mechanism and by what varies."""
    first = next(iter(group.values()))
    symbols = {"epsilon": "ε", "alpha": "α"}
    return " ".join([first.mechanism, *(f"{symbols[name]}={first.quantity(name):g}" for name in varying)])


def varying(points: Sequence[Point]) -> list[str]:
    """Which of epsilon and alpha take several values."""
    return [name for name in ("epsilon", "alpha") if len({p.quantity(name) for p in points}) > 1]
