"""Which measurements a claim speaks of, how they are put side by side, and how they are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.samples import Sample, contrast
from noiseworthy_papers.settings import UNTRAINED

if TYPE_CHECKING:
    from noiseworthy_papers.points import Measurement, Role, Score

T = TypeVar("T")
PLACE = ("mechanism", "epsilon", "fraction", "budget", "alpha")
"""What is equal where settings are compared."""
SOUND: tuple[Role, ...] = ("paper", "fixed", "grid")
"""Settings under noise that keeps its promise, other than our plans."""
APART = ("algorithm", "clip_norm", "role")
"""What else tells rows of settings apart, where a figure has several of these."""
SYMBOLS = {
    "epsilon": "ε", "alpha": "α", "budget": "C", "clip_norm": "C", "fraction": "share of the records",
    "clients_per_round": "b",
}  # fmt: skip
"""Of quantities that claims run along."""
LOWER = frozenset({"loss", "error", "distance", "excess"})
"""Scores that are better the lower they are."""


@dataclass(frozen=True)
class Where:
    """A choice of measurements.

    Attributes:
        roles: whose settings; empty takes all.
        series: their labels; empty takes all.
        mechanism: kind of noise; empty takes all.
        algorithm: its name; empty takes all.
        noisy: under a finite budget, or without noise; None takes both.
        ending: of the label.
        within: least and most of a quantity, in any number.
        best_over: of the settings that differ in this quantity alone, keep the one of least mean error.
    """

    roles: tuple[Role, ...] = ()
    series: tuple[str, ...] = ()
    mechanism: str = ""
    algorithm: str = ""
    noisy: bool | None = None
    ending: str = ""
    within: tuple[tuple[str, float, float], ...] = ()
    best_over: str = ""

    def of(self, points: Sequence[Measurement]) -> list[Measurement]:
        """Those that are chosen, in their order."""
        chosen = [point for point in points if self._takes(point)]
        if not self.best_over:
            return chosen
        return [best_of(row, "error") for row in rows(chosen, self.best_over, APART)]

    def _takes(self, point: Measurement) -> bool:
        return (
            (not self.roles or point.role in self.roles)
            and (not self.series or point.series in self.series)
            and self.mechanism in ("", point.mechanism)
            and self.algorithm in ("", point.algorithm)
            and (self.noisy is None or self.noisy == (point.epsilon != NO_NOISE))
            and point.series.endswith(self.ending)
            and all(least <= point.quantity(name) <= most for name, least, most in self.within)
        )


ALL = Where()
"""Every measurement."""


def advantage(
    score: Score, mine: Measurement, than: Measurement, *more: tuple[float, Sample], factor: float = 1.0
) -> Sample:
    """By how much `factor` times a score is better than another, and more terms."""
    sign = -1.0 if score in LOWER else 1.0
    return contrast((sign * factor, mine.sample(score)), (-sign, than.sample(score)), *more)


def best_of(row: Sequence[Measurement], score: Score) -> Measurement:
    """The first measurement of best mean."""
    return (min if score in LOWER else max)(row, key=lambda point: point.sample(score).mean)


def tied(row: Sequence[Measurement], score: Score) -> list[Measurement]:
    """Those that are not told to be worse than the best of a row, which is one of them."""
    best = best_of(row, score)
    return [p for p in row if p is best or advantage(score, best, p).told(max(1, len(row) - 1)) <= 0]


def rows(points: Iterable[Measurement], along: str, apart: Sequence[str] = ()) -> list[list[Measurement]]:
    """Measurements that differ in `along` (and what follows from it) only, in its order, two or more."""
    keys = [*PLACE, *apart, *(() if along in UNTRAINED else ("series",))]
    found = groups(points, [key for key in keys if key != along])
    return [sorted(row, key=lambda point: point.quantity(along)) for row in found if len(row) > 1]


def groups(points: Iterable[Measurement], keys: Sequence[str]) -> list[list[Measurement]]:
    """Measurements that are equal in some attributes."""
    return split(points, lambda point: tuple(getattr(point, key) for key in keys))


def split(things: Iterable[T], key: Callable[[T], Any]) -> list[list[T]]:
    """Things by a key, in the order in which keys come first."""
    found: dict[Any, list[T]] = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return list(found.values())


# Words ------------------------------------------------------------------------------------------------


def where(point: Measurement, *, without: str = "") -> str:
    """The place of a measurement: noise, budgets, share of the records, partition."""
    parts = [point.mechanism] if point.mechanism else []
    if without != "epsilon" and point.mechanism:
        parts.append(epsilon(point.epsilon))
    if without != "budget" and point.budget != float("inf"):
        parts.append(f"C={point.budget:g}")
    if without != "fraction" and point.fraction != 1:
        parts.append(f"{point.fraction:.0%} of the records")
    if without != "alpha" and point.alpha is not None:
        parts.append(f"α={point.alpha:g}")
    return " ".join(parts)


def epsilon(value: float) -> str:
    """A budget by its symbol."""
    return f"ε={numeral(value)}"


def numeral(value: float) -> str:
    """A number in digits; ∞ for what is without limit, as the budget of no noise."""
    return "∞" if value == float("inf") else f"{value:g}"


def ends(along: str, low: Measurement, high: Measurement) -> str:
    """From which to which value of a quantity."""
    name = SYMBOLS.get(along, along.replace("_", " "))
    values = (numeral(p.quantity(along)) for p in (low, high))
    return f"{name} {' to '.join(values)}"


def titled(point: Measurement, text: str, *, without: str = "") -> str:
    """Text after the place that it speaks of."""
    place = where(point, without=without)
    return f"{place}: {text}" if place else text


def number(score: Score, sample: Sample) -> str:
    """The mean of a score."""
    if score in ("accuracy", "error"):
        return f"{sample.mean:.3f}"
    return f"{sample.mean:.4g}" if score in LOWER and abs(sample.mean) < 1 else figures(sample.mean)


def deviation(sample: Sample) -> str:
    """± the deviation over seeds, where there is one."""
    return "" if sample.exact else f" ± {'?' if sample.std != sample.std else f'{sample.std:.2g}'}"


def figures(value: float) -> str:
    """A number with three digits after the point, fewer where it is large."""
    return f"{value:.3f}" if abs(value) < 1e3 else f"{value:.4g}"


def gap(score: Score, sample: Sample) -> str:
    """A difference of scores with its deviation over seeds; accuracies in points."""
    if sample.exact:
        return f"{sample.mean:+g}"
    unit, factor = (" points", 100.0) if score in ("accuracy", "error") else ("", 1.0)
    if sample.std != sample.std:
        return f"{factor * sample.mean:+.2f} ± ?{unit}"
    if factor * max(abs(sample.mean), sample.std) >= 0.01 or sample.mean == 0:
        return f"{factor * sample.mean:+.2f} ± {factor * sample.std:.2f}{unit}"
    return f"{factor * sample.mean:+.2g} ± {factor * sample.std:.2g}{unit}"
