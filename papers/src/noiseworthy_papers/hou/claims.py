"""What Hou et al. say of their figures (Observations 1 to 4), what we say, and how each is judged.

Points of a row differ in one quantity: algorithm, clip, epsilon are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from noiseworthy_papers.judge import Claim
from noiseworthy_papers.kinds import Ahead, Alike, Level, Ordered, Untestable
from noiseworthy_papers.optima import Interior, OptimumMoves
from noiseworthy_papers.points import Point
from noiseworthy_papers.selecting import APART, Where, best_of, rows, split
from noiseworthy_papers.spec import Table

ALGORITHMS = ("dp-fedavg", "dp-scaffnew")
NOISY, FREE = Where(noisy=True), Where(noisy=False)
SCAFFNEW_FREE = Where(noisy=False, algorithm="dp-scaffnew")
_NOTICEABLE = 0.01


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
    chosen = rows(Where(noisy=True, algorithm=algorithm).of(points), "local_steps", APART)
    found = sorted((best_of(row, "error") for row in chosen), key=lambda p: p.quantity("clip_norm"))
    groups = split(found, lambda p: p.quantity("clip_norm"))
    steps = [[p.quantity("local_steps") for p in own] for own in groups]
    clips = np.array([own[0].quantity("clip_norm") for own in groups])
    return clips, np.array([np.mean(s) for s in steps]), np.array([np.var(s) for s in steps])


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
    "three clips and two coefficients leave one degree of freedom: R² then hardly tells the forms apart, "
    "neither here nor in the paper"
)

UNLEARNT = (
    Claim(
        "Observation 1: a non-trivial optimal number of local steps exists (judged: the least error lies "
        "inside the range and below 0.75, and both ends have 0.01 more).",
        (Interior("local_steps", "error", NOISY, by=_NOTICEABLE, most=0.75, apart=APART),),
        "Under the paper's budgets, with sound noise or as printed (v = 1), there is nothing to optimise: "
        "every training ends near chance, even with a single upload. See the item *noise*.",
    ),
    Claim(
        "Under the paper's budgets nothing is learnt at any number of local steps (judged: every error is at "
        "least 0.75, with chance at 0.9).",
        (Level("error", NOISY, least=0.75),),
        ours=True,
    ),
)
STEPS = (
    Claim(
        "Observation 1: a non-trivial optimal number of local steps exists for both algorithms (judged: for "
        "each clip and ε the least error lies inside the range, and both ends have 0.01 more).",
        (Interior("local_steps", "error", NOISY, by=_NOTICEABLE, apart=APART),),
        _SHORT,
    ),
    Claim(
        "Observation 1: it exists for DP-ScaffNew even without noise.",
        (Interior("local_steps", "error", SCAFFNEW_FREE, by=_NOTICEABLE, apart=APART),),
        _SHORT,
    ),
    Claim(
        "Observation 1: at the best local steps noise costs almost nothing (judged: at most 0.05 of error).",
        (
            Ahead(
                Where(noisy=True, best_over="local_steps"),
                Where(noisy=False, best_over="local_steps"),
                "error",
                by=-0.05,
                match=("algorithm",),
            ),
        ),
        _NOISE,
    ),
    Claim(
        "Observation 3: the smaller ε, the more local steps are best (judged: for each clip, from each ε "
        "to the next).",
        (OptimumMoves("local_steps", "epsilon", rising=False, score="error", where=NOISY, apart=APART),),
    ),
)
CLIPPING = (
    Claim(
        "Observation 4: the larger the clip, the more local steps are best (judged: for each ε, from each "
        "clip to the next).",
        (OptimumMoves("local_steps", "clip_norm", rising=True, score="error", where=NOISY, apart=APART),),
    ),
    Claim(
        "Observation 4: the clip does not significantly change the error at the best local steps (judged: by "
        "at most 0.05).",
        (Alike("error", 0.05, Where(noisy=True, best_over="local_steps"), ("algorithm", "epsilon")),),
        _NOISE,
    ),
)
ITERATIONS = (
    Claim(
        "Observation 2: a non-trivial optimal number of iterations exists (judged: for each ε the least "
        "error lies inside the range, and both ends have 0.01 more).",
        (Interior("iterations", "error", by=_NOTICEABLE, apart=APART),),
    ),
    Claim(
        "Observation 2: DP-ScaffNew gets worse with more iterations even without noise.",
        (Ordered("error", "iterations", rising=True, where=SCAFFNEW_FREE, ends=True, by=_NOTICEABLE),),
        "The paper sees it after thousands of iterations; ours are far fewer.",
    ),
    Claim(
        "Observation 3: the smaller ε, the fewer iterations are best (judged: for each algorithm).",
        (OptimumMoves("iterations", "epsilon", rising=True, score="error", where=NOISY, apart=APART),),
    ),
)
FITS = (
    Claim("The optimal local steps of DP-ScaffNew depend linearly on the clip.", (Untestable(_FEW_CLIPS),)),
    Claim("Those of DP-FedAvg depend on its square root.", (Untestable(_FEW_CLIPS),)),
)
COINS = (
    Claim(
        "Public coins of probability 1/τ, as in Algorithm 2, do as well as communication after every τ-th "
        "iteration, as in the experiments (judged: errors differ by at most 0.05).",
        (Alike("error", 0.05, match=("epsilon", "local_steps")),),
        "Coins leave rounds of different lengths, and their number is not T/τ.",
        ours=True,
    ),
)
