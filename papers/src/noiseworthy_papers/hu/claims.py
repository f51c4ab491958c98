"""What Hu et al. say of their figures (section 8), what we say, and how each is judged."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy_papers.judge import NEAR, SLACK, Claim
from noiseworthy_papers.kinds import Ahead, Ordered
from noiseworthy_papers.noise_shares import averaging_share
from noiseworthy_papers.optima import Near, OptimumMoves
from noiseworthy_papers.points import Point
from noiseworthy_papers.selecting import Where
from noiseworthy_papers.spec import Table

_DELTA = 1e-4

PLANNED, CONVEX, GENERAL = (
    Where(series=(name,)) for name in ("planned", "planned, convex bound", "planned, general bound")
)
GRID = Where(("grid",))


# Claims -----------------------------------------------------------------------------------------------

VALIDATION = (
    "K is chosen for each τ by the mean accuracy on the validation records of all devices, over R = 1, 2, … "
    "rounds: the paper's own range, K ≥ 200, holds nothing that the budget pays for. The validation records "
    "are taken to be public, as nothing is trained on them; the trainings of the grid are not charged, so "
    "that it is for comparison only. An untrained model answers class 0 and is right for about three of four "
    "people of Adult, so that a share of accuracy is easily reached there: the last column of the table says "
    "how much of what the best setting gains a plan keeps."
)
_SLOW = (
    "The general bound holds only while ηL + η²L²τ(τ−1)(1−ηλ)^-(τ−1) ≤ 1, which at this step allows "
    "τ of 1 to 4; longer periods learn more here."
)
EFFICIENCY = (
    Claim(
        "DP-PASGD with τ = 10 always achieves higher accuracy than DP-SGD for the same resources.",
        (Ahead(Where(("paper",)), Where(("fixed",)), "accuracy"),),
        "With sound noise each further step needs more noise for all of them.",
    ),
)
_FLAT = "The curves are flat near their best, so that its place is partly chance."
_KEPT = f"loses at most {SLACK:.0%} of the accuracy that the best setting of the grid gains over not training"
PERIODS = (
    Claim(
        f"The planned τ is close to the best of the grid (judged: within a factor of {NEAR:g} of every τ "
        "that is not told to be worse than the best).",
        (Near("local_steps", PLANNED, target=GRID, score="accuracy"),),
        "With sound noise, which is 5 to 28 times that of the paper, the bound plans shorter periods than "
        "those of most accuracy.",
    ),
    Claim(
        f"Our planned τ {_KEPT}.",
        (Ahead(PLANNED, GRID, "accuracy", tie=True),),
        "The bound counts noise as if it met the greatest curvature until the end, and speaks of the "
        "loss; accuracy still gains where noise keeps the loss from falling, most on Adult-1 with "
        "its small devices.",
        ours=True,
    ),
    Claim(
        f"The convex bound, which is proved for these losses, {_KEPT}.",
        (Ahead(CONVEX, GRID, "accuracy", tie=True),),
        "What is proved of the drift between averages is more than what happens, and makes periods shorter.",
        ours=True,
    ),
    Claim(
        f"The general bound in all d dimensions {_KEPT}.",
        (Ahead(GENERAL, GRID, "accuracy", tie=True),),
        _SLOW,
        ours=True,
    ),
    Claim(
        "The best τ of the grid rises with ε.",
        (OptimumMoves("local_steps", "epsilon", rising=True, score="accuracy", where=GRID),),
        _FLAT,
    ),
    Claim(
        "The best τ of the grid falls when C rises from 500 to 1000.",
        (OptimumMoves("local_steps", "budget", rising=False, score="accuracy", where=GRID),),
        _FLAT,
    ),
)
BY_RESOURCES = (
    Claim(
        "A larger resource budget generally implies higher accuracy (judged: the largest against the least).",
        (Ordered("accuracy", "budget", rising=True, where=PLANNED, ends=True),),
        "Where privacy limits accuracy, resources change it by less than its spread.",
    ),
)
BY_PRIVACY = (
    Claim(
        "A larger privacy budget usually leads to higher accuracy (judged: the largest against the least).",
        (Ordered("accuracy", "epsilon", rising=True, where=PLANNED, ends=True),),
        "Where resources limit accuracy, privacy changes it by less than its spread.",
    ),
)
PERIOD_BY_BUDGETS = (
    Claim(
        "The planned τ rises with ε (judged: from the least to the largest).",
        (Ordered("local_steps", "epsilon", rising=True, where=PLANNED, ends=True),),
    ),
    Claim(
        "The planned τ falls as C rises (judged: from the least to the largest).",
        (Ordered("local_steps", "budget", rising=False, where=PLANNED, ends=True),),
        "Whole rounds: what is left after R of them goes into longer periods until it pays for one more.",
    ),
)


# Tables -----------------------------------------------------------------------------------------------


def plan_table(points: Sequence[Point]) -> list[Table]:
    """Planned tau and K beside the best of the grid, for every pair of budgets."""
    rows = []
    for grid, mine in _by_budgets(points):
        best = max(grid, key=lambda p: p.accuracy)
        rows.append([
            f"{mine.budget:g}", f"{mine.epsilon:g}", mine.name, _measured(mine),
            best.name, _measured(best), _kept(mine, best),
        ])  # fmt: skip
    header = ["C", "ε", "planned", "accuracy", "best of the grid", "accuracy", "of the gain"]
    return [Table(header, rows, "Plans and grid")]


def _by_budgets(points: Sequence[Point]) -> list[tuple[list[Point], Point]]:
    """The grid and the plan, for every pair of budgets."""
    plans = sorted((p for p in points if p.series == "planned"), key=lambda p: (p.budget, p.epsilon))
    return [
        (
            [p for p in points if p.role == "grid" and (p.epsilon, p.budget) == (mine.epsilon, mine.budget)],
            mine,
        )
        for mine in plans
    ]


def _kept(mine: Point, best: Point) -> str:
    """Share of the accuracy that the best setting gains on the untrained model, which answers class 0."""
    untrained = float(best.curves("accuracy")[:, 0].mean())
    gain = best.accuracy - untrained
    return f"{(mine.accuracy - untrained) / gain:.0%}" if gain > 0 else "–"


def printed_table(points: Sequence[Point]) -> list[Table]:
    """What the printed noise would spend of each budget."""
    rows = []
    for epsilon in sorted({p.epsilon for p in points}):
        share = averaging_share(epsilon, _DELTA)
        mu = gaussian_mu(epsilon, _DELTA) / share
        log = -np.log(_DELTA)
        rho = float(mu) ** 2 / 2
        rows.append([
            f"{epsilon:g}", f"1/{1 / share:.1f}", f"{float(gaussian_epsilon(mu, _DELTA)):.1f}",
            f"{rho + 2 * np.sqrt(rho * log):.1f}",
        ])  # fmt: skip
    header = [
        "ε allowed",
        "printed noise over ours",
        "ε it spends, exactly",
        "ε it spends, by the paper's conversion",
    ]
    return [Table(header, rows, "The noise as printed, eq. (23): not private")]


def _measured(point: Point) -> str:
    return f"{point.accuracy:.3f} ± {point.std('accuracy'):.3f}"
