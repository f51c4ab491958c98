"""What Hou et al. say of their figures (Observations 1 to 4), what we say, and how each is judged.

Errors are means over seeds. The points of a row differ in one quantity: algorithm, clip, epsilon are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from noiseworthy.experiments.papers.claims import Judge
from noiseworthy.experiments.papers.spec import NO_NOISE, Claim, Judgement, Point, Table, Word

Row = list[Point]
ALGORITHMS = ("dp-fedavg", "dp-scaffnew")
_NOTICEABLE = 0.01


# Judges -----------------------------------------------------------------------------------------------


def inside(along: str, *, algorithm: str = "", finite: bool = True, most: float = 1.0) -> Judge:
    """The least error lies inside the range, is at most `most`, and both ends have at least 0.01 more."""

    def judge(points: Sequence[Point]) -> Judgement:
        rows = [row for row in rows_of(points, along) if (row[0].epsilon != NO_NOISE) == finite]
        rows = [row for row in rows if _is(row, algorithm)]
        ends = [min(row[0].error, row[-1].error) for row in rows]
        limits = [min(end - _NOTICEABLE, most) for end in ends]
        held = [best(row).error <= limit for row, limit in zip(rows, limits, strict=True)]
        shown = [
            f"{_name(row)}: {best(row).error:.3f} at {best(row).quantity(along):g} (ends {row[0].error:.3f}, "
            f"{row[-1].error:.3f})"
            for row in rows
        ]
        return _counted(held, shown)

    return judge


def moves(along: str, *, rising: bool) -> Judge:
    """The optimum never moves the other way as epsilon grows, and differs between the ends."""

    def judge(points: Sequence[Point]) -> Judgement:
        groups = _optima(points, along, lambda p: (p.algorithm, p.clip_norm), lambda p: p.epsilon)
        return _ordered(groups, rising, "ε")

    return judge


def clip_moves(along: str) -> Judge:
    """The optimum never falls as the clip grows, and differs between the ends."""

    def judge(points: Sequence[Point]) -> Judgement:
        groups = _optima(points, along, lambda p: (p.algorithm, p.epsilon), lambda p: p.clip_norm)
        return _ordered(groups, True, "C")

    return judge


def clip_spares(most: float) -> Judge:
    """At the best local steps, the error differs by at most `most` between clips."""

    def judge(points: Sequence[Point]) -> Judgement:
        found = _split(_bests(points, "local_steps"), lambda p: (p.algorithm, p.epsilon))
        spans = {key: [p.error for p in sorted(own, key=lambda p: p.clip_norm)] for key, own in found.items()}
        spans = {key: errors for key, errors in spans.items() if len(errors) > 1}
        shown = [f"{_words(*key)}: " + " / ".join(f"{e:.3f}" for e in span) for key, span in spans.items()]
        return _counted([max(span) - min(span) <= most for span in spans.values()], shown)

    return judge


def comparable(within: float) -> Judge:
    """At the best local steps, noise costs at most so much error."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for own in _split(_bests(points, "local_steps"), lambda p: p.algorithm).values():
            free = min(p.error for p in own if p.epsilon == NO_NOISE)
            for p in (p for p in own if p.epsilon != NO_NOISE):
                held.append(p.error <= free + within)
                shown.append(f"{_name([p])}: {p.error:.3f} against {free:.3f}")
        return _counted(held, shown)

    return judge


def nothing_learnt(least: float) -> Judge:
    """Every training under a budget ends with at least so much error."""

    def judge(points: Sequence[Point]) -> Judgement:
        noisy = [p for p in points if p.epsilon != NO_NOISE]
        kinds = _split(noisy, lambda p: ("as printed" if p.role == "as printed" else "sound", p.algorithm))
        errors = {key: [p.error for p in own] for key, own in kinds.items()}
        shown = [
            f"{kind}, {_short(name)}: errors {min(own):.3f} to {max(own):.3f}"
            for (kind, name), own in errors.items()
        ]
        return _counted([p.error >= least for p in noisy], shown)

    return judge


def worsens(algorithm: str) -> Judge:
    """Without noise, the error at the most iterations exceeds the least by more than 0.01."""

    def judge(points: Sequence[Point]) -> Judgement:
        rows = [r for r in rows_of(points, "iterations") if r[0].epsilon == NO_NOISE and _is(r, algorithm)]
        held = [row[-1].error > best(row).error + _NOTICEABLE for row in rows]
        shown = [f"{_name(row)}: least {best(row).error:.3f}, last {row[-1].error:.3f}" for row in rows]
        return _counted(held, shown)

    return judge


def fits_best(algorithm: str, form: str) -> Judge:
    """Of a linear and a square-root fit of the optimal local steps to the clip, one explains more."""

    def judge(points: Sequence[Point]) -> Judgement:
        fits = {fit.form: fit for fit in fitted(points, algorithm)}
        other = next(fit for name, fit in fits.items() if name != form)
        word: Word = "agrees" if fits[form].r_squared > other.r_squared else "disagrees"
        return Judgement(word, "; ".join(f"R² {fit.r_squared:.3f} ({name})" for name, fit in fits.items()))

    return judge


def alike(most: float) -> Judge:
    """Coins and regular communication differ by at most so much error."""

    def judge(points: Sequence[Point]) -> Judgement:
        both = _split(points, lambda p: (p.epsilon, p.quantity("local_steps")))
        pairs = [sorted(own, key=lambda p: "coins" in p.series) for own in both.values()]
        shown = [f"{_name([a])}, {a.name}: {a.error:.3f}, coins {b.error:.3f}" for a, b in pairs]
        return _counted([abs(a.error - b.error) <= most for a, b in pairs], shown)

    return judge


# Figure 5 ---------------------------------------------------------------------------------------------


class Fit(NamedTuple):
    """Least squares of the mean optimal local steps on f(C): slope f(C) + intercept."""

    form: str
    slope: float
    intercept: float
    r_squared: float


FORMS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"linear": lambda c: c, "square root": np.sqrt}


def fitted(points: Sequence[Point], algorithm: str) -> list[Fit]:
    """The linear and the square-root fit; R^2 is 0 where the optimum does not move at all."""
    clips, means, _ = means_by_clip(points, algorithm)
    return [_fit(name, form(clips), means) for name, form in FORMS.items()]


def means_by_clip(points: Sequence[Point], algorithm: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Clips, and mean and variance over epsilons of the optimal local steps; each of shape (clips,)."""
    found = [p for p in _bests(points, "local_steps") if p.algorithm == algorithm and p.epsilon != NO_NOISE]
    groups = _split(sorted(found, key=lambda p: p.clip_norm), lambda p: p.clip_norm)
    steps = [[p.quantity("local_steps") for p in own] for own in groups.values()]
    return np.array(list(groups)), np.array([np.mean(s) for s in steps]), np.array([np.var(s) for s in steps])


def _fit(name: str, x: np.ndarray, y: np.ndarray) -> Fit:
    slope, intercept = np.polyfit(x, y, 1)
    total = np.sum((y - y.mean()) ** 2)
    rest = np.sum((y - slope * x - intercept) ** 2)
    return Fit(name, float(slope), float(intercept), float(1 - rest / total) if total > 0 else 0.0)


def fits_table(points: Sequence[Point]) -> list[Table]:
    """Mean and variance of the optimal local steps by clip, and both fits."""
    rows, fits = [], []
    for algorithm in ALGORITHMS:
        for clip, mean, variance in zip(*means_by_clip(points, algorithm), strict=True):
            rows.append([algorithm, f"{clip:g}", f"{mean:.2f}", f"{variance:.2f}"])
        fits += [
            [algorithm, f.form, f"{f.slope:.4f}", f"{f.intercept:.2f}", f"{f.r_squared:.3f}"]
            for f in fitted(points, algorithm)
        ]
    return [
        Table(["algorithm", "clip", "mean over ε", "variance over ε"], rows, "Optimal local steps"),
        Table(["algorithm", "fit", "slope", "intercept", "R²"], fits, "Fits (three clips, two coefficients)"),
    ]


# Parts that judges share ------------------------------------------------------------------------------


def rows_of(points: Sequence[Point], along: str) -> list[Row]:
    """Points that differ in `along` (and rounds) only, in its order; rows of one are dropped."""
    rows = _split(points, lambda p: (p.algorithm, p.clip_norm, p.epsilon, p.role))
    return [sorted(row, key=lambda p: p.quantity(along)) for row in rows.values() if len(row) > 1]


def best(row: Sequence[Point]) -> Point:
    """The first point of least error."""
    return min(row, key=lambda p: p.error)


def _bests(points: Sequence[Point], along: str) -> list[Point]:
    return [best(row) for row in rows_of(points, along)]


def _optima(
    points: Sequence[Point], along: str, group: Callable[[Point], Any], by: Callable[[Point], float]
) -> dict[Any, list[float]]:
    """Optimal quantities under noise, in the order of `by`, for each group of more than one."""
    finite = [p for p in _bests(points, along) if p.epsilon != NO_NOISE]
    groups = _split(sorted(finite, key=by), group)
    return {key: [p.quantity(along) for p in own] for key, own in groups.items() if len(own) > 1}


def _ordered(groups: dict[Any, list[float]], rising: bool, name: str) -> Judgement:
    held = [
        values[0] != values[-1] and all((b >= a) if rising else (b <= a) for a, b in pairwise(values))
        for values in groups.values()
    ]
    shown = [f"{_words(*key)}: " + " / ".join(f"{v:g}" for v in values) for key, values in groups.items()]
    counted = _counted(held, shown)
    return counted._replace(evidence=f"{counted.evidence} (in the order of rising {name})")


def _split(points: Sequence[Point], key: Callable[[Point], Any]) -> dict[Any, list[Point]]:
    groups: dict[Any, list[Point]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return groups


def _counted(held: Sequence[bool], shown: Sequence[str]) -> Judgement:
    """All hold: agrees. At least half: partly."""
    word: Word = "partly" if held and 2 * sum(held) >= len(held) else "disagrees"
    word = "agrees" if held and all(held) else word
    return Judgement(word, f"{sum(held)} of {len(held)} cases: " + "; ".join(shown))


def _is(row: Row, algorithm: str) -> bool:
    return algorithm in ("", row[0].algorithm)


def _name(row: Sequence[Point]) -> str:
    point = row[0]
    return f"{_short(point.algorithm)} C={point.clip_norm:g} " + _epsilon(point.epsilon)


def _words(algorithm: str, value: float) -> str:
    return f"{_short(algorithm)} at {value:g}"


def _short(algorithm: str) -> str:
    return {"dp-fedavg": "FedAvg", "dp-scaffnew": "ScaffNew"}.get(algorithm, algorithm)


def _epsilon(value: float) -> str:
    return "ε=∞" if value == NO_NOISE else f"ε={value:g}"


# Claims -----------------------------------------------------------------------------------------------

_SHORT = (
    "There are far fewer iterations than the paper's 10,000. Doing all of them between two uploads is then "
    "no bad choice yet, so that the largest number of local steps may win."
)
_NOISE = (
    "Noise is proportional to C in all that the paper prints, and our updates are shorter than C, so that a "
    "larger clip is a factor on the noise and nothing else. The paper's constant v is unknown."
)
_FEW_CLIPS = (
    "Three clips and two coefficients leave one degree of freedom: R² then hardly tells the forms apart, "
    "neither here nor in the paper."
)

UNLEARNT = (
    Claim(
        "Observation 1: a non-trivial optimal number of local steps exists (judged: the least error lies "
        "inside the range and below 0.75, and both ends have 0.01 more).",
        inside("local_steps", most=0.75),
        "Under the paper's budgets, with sound noise or as printed (v = 1), there is nothing to optimise: "
        "every training ends near chance, even with a single upload. See the item *noise*.",
    ),
    Claim(
        "Under the paper's budgets nothing is learnt at any number of local steps (judged: every error is at "
        "least 0.75, with chance at 0.9).",
        nothing_learnt(0.75),
        ours=True,
    ),
)
STEPS = (
    Claim(
        "Observation 1: a non-trivial optimal number of local steps exists for both algorithms (judged: for "
        "each clip and ε the least error lies inside the range, and both ends have 0.01 more).",
        inside("local_steps"),
        _SHORT,
    ),
    Claim(
        "Observation 1: it exists for DP-ScaffNew even without noise.",
        inside("local_steps", algorithm="dp-scaffnew", finite=False),
        _SHORT,
    ),
    Claim(
        "Observation 1: at the best local steps noise costs almost nothing (judged: at most 0.05 of error).",
        comparable(0.05),
        _NOISE,
    ),
    Claim(
        "Observation 3: the smaller ε, the more local steps are best (judged: for each clip they never fall "
        "as ε falls, and differ between the ends).",
        moves("local_steps", rising=False),
    ),
)
CLIPPING = (
    Claim(
        "Observation 4: the larger the clip, the more local steps are best (judged: for each ε they never "
        "fall with the clip, and differ between the ends).",
        clip_moves("local_steps"),
    ),
    Claim(
        "Observation 4: the clip does not significantly change the error at the best local steps (judged: by "
        "at most 0.05).",
        clip_spares(0.05),
        _NOISE,
    ),
)
ITERATIONS = (
    Claim(
        "Observation 2: a non-trivial optimal number of iterations exists (judged: for each ε the least "
        "error lies inside the range, and both ends have 0.01 more).",
        inside("iterations"),
    ),
    Claim(
        "Observation 2: DP-ScaffNew gets worse with more iterations even without noise.",
        worsens("dp-scaffnew"),
        "The paper sees it after thousands of iterations; ours are far fewer.",
    ),
    Claim(
        "Observation 3: the smaller ε, the fewer iterations are best (judged: for each algorithm).",
        moves("iterations", rising=True),
    ),
)
FITS = (
    Claim(
        "The optimal local steps of DP-ScaffNew depend linearly on the clip (judged: a larger R² than that "
        "of the square root).",
        fits_best("dp-scaffnew", "linear"),
        _FEW_CLIPS,
    ),
    Claim(
        "Those of DP-FedAvg depend on its square root (judged: a larger R² than that of the line).",
        fits_best("dp-fedavg", "square root"),
        _FEW_CLIPS,
    ),
)
COINS = (
    Claim(
        "Public coins of probability 1/τ, as in Algorithm 2, do as well as communication after every τ-th "
        "iteration, as in the experiments (judged: errors differ by at most 0.05).",
        alike(0.05),
        "Coins leave rounds of different lengths, and their number is not T/τ.",
        ours=True,
    ),
)
