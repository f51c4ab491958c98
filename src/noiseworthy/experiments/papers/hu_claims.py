"""What Hu et al. say of their figures (section 8), what we say, and how each is judged."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from noiseworthy.experiments.papers.claims import Judge, ordered
from noiseworthy.experiments.papers.noise_shares import averaging_share
from noiseworthy.experiments.papers.spec import Claim, Judgement, Point, Table, Word
from noiseworthy.privacy.gaussian import gaussian_epsilon, gaussian_mu

_DELTA = 1e-4
BAR = 0.98
"""Share of the best accuracy of the grid that a plan must reach."""


def reaches(series: str, share: float) -> Judge:
    """Under every budget the accuracy of a series is at least a share of the best of the grid."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for grid, mine in _by_budgets(points, series):
            best = max(grid, key=lambda p: p.accuracy)
            held.append(mine.accuracy >= share * best.accuracy)
            ours = f"τ={mine.local_steps:g} {mine.accuracy:.3f}"
            shown.append(
                f"{_where(mine)}: {ours}, best τ={best.local_steps:g} {best.accuracy:.3f} "
                f"({mine.accuracy / best.accuracy:.1%})"
            )
        return Judgement(_word(held), f"{sum(held)} of {len(held)}: " + "; ".join(shown))

    return judge


def beats(series: str, other: str) -> Judge:
    """One curve ends above another, by more than the standard deviation of their difference."""

    def judge(points: Sequence[Point]) -> Judgement:
        mine, theirs = (next(p for p in points if p.series == name) for name in (series, other))
        gain = mine.accuracy - theirs.accuracy
        spread = np.hypot(mine.std("accuracy"), theirs.std("accuracy"))
        word: Word = "agrees" if gain > spread else "partly" if gain > 0 else "disagrees"
        return Judgement(word, f"{mine.accuracy:.3f} against {theirs.accuracy:.3f} (deviation {spread:.3f})")

    return judge


def best_period(along: str, *, rising: bool) -> Judge:
    """The tau of best accuracy in the grid never falls (or rises) with a budget, the other held."""

    def judge(points: Sequence[Point]) -> Judgement:
        best = {}
        for grid, mine in _by_budgets(points, "planned"):
            best[mine.epsilon, mine.budget] = max(grid, key=lambda p: p.accuracy).local_steps
        return _ordered_by(best, along, rising)

    return judge


def planned_period(along: str, *, rising: bool) -> Judge:
    """The planned tau never falls (or rises) with a budget, the other held."""

    def judge(points: Sequence[Point]) -> Judgement:
        chosen = {(p.epsilon, p.budget): p.local_steps for p in points if p.role == "planned"}
        return _ordered_by(chosen, along, rising)

    return judge


def _ordered_by(values: dict[tuple[float, float], float], along: str, rising: bool) -> Judgement:
    """Neighbours along epsilon (first of the key) or the budget (second); equals are no violation."""
    axis = 0 if along == "epsilon" else 1
    held, shown = [], []
    for other in sorted({key[1 - axis] for key in values}):
        row = sorted((key[axis], value) for key, value in values.items() if key[1 - axis] == other)
        steps = [value for _, value in row]
        held += [a == b or (b > a) == rising for a, b in pairwise(steps)]
        name = "C" if axis == 0 else "ε"
        shown.append(f"{name}={other:g}: " + " / ".join(f"{value:g}" for value in steps))
    return Judgement(_word(held), f"{sum(held)} of {len(held)} neighbouring pairs: " + "; ".join(shown))


def _by_budgets(points: Sequence[Point], series: str) -> list[tuple[list[Point], Point]]:
    """The grid and the point of a series, for every pair of budgets."""
    pairs = []
    for mine in (p for p in points if p.series == series):
        grid = [
            p for p in points if p.role == "grid" and (p.epsilon, p.budget) == (mine.epsilon, mine.budget)
        ]
        pairs.append((grid, mine))
    return sorted(pairs, key=lambda pair: (pair[1].budget, pair[1].epsilon))


def _where(point: Point) -> str:
    return f"C={point.budget:g} ε={point.epsilon:g}"


def _word(held: Sequence[bool]) -> Word:
    if held and all(held):
        return "agrees"
    return "partly" if held and 2 * sum(held) >= len(held) else "disagrees"


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
        beats("DP-PASGD, τ = 10", "DP-SGD, τ = 1"),
        "With sound noise each further step needs more noise for all of them.",
    ),
)
PERIODS = (
    Claim(
        f"Our planned τ reaches {BAR:.0%} of the best accuracy of the grid.",
        reaches("planned", BAR),
        "The bound counts noise as if it met the greatest curvature until the end, and speaks of the "
        "loss; accuracy still gains where noise keeps the loss from falling, most on Adult-1 with "
        "its small devices.",
        ours=True,
    ),
    Claim(
        f"The convex bound, which is proved for these losses, does so, too ({BAR:.0%}).",
        reaches("planned, convex bound", BAR),
        "What is proved of the drift between averages is more than what happens, and makes periods shorter.",
        ours=True,
    ),
    Claim(
        f"The general bound of theory 4.3 in all d dimensions does so, too ({BAR:.0%}).",
        reaches("planned, general bound", BAR),
        _SLOW,
        ours=True,
    ),
    Claim(
        "The best τ of the grid rises with ε.",
        best_period("epsilon", rising=True),
        "The curves are flat near their best, so that its place is partly chance.",
    ),
    Claim(
        "The best τ of the grid falls when C rises from 500 to 1000.",
        best_period("budget", rising=False),
        "The curves are flat near their best, so that its place is partly chance.",
    ),
)
BY_RESOURCES = (
    Claim(
        "A larger resource budget generally implies higher accuracy.",
        ordered("accuracy", "budget", rising=True, roles=("planned",)),
        "Where privacy limits accuracy, resources change it by less than its spread.",
    ),
)
BY_PRIVACY = (
    Claim(
        "A larger privacy budget usually leads to higher accuracy.",
        ordered("accuracy", "epsilon", rising=True, roles=("planned",)),
        "Between neighbouring ε accuracy changes by less than its spread.",
    ),
)
PERIOD_BY_BUDGETS = (
    Claim("The planned τ rises with ε.", planned_period("epsilon", rising=True)),
    Claim(
        "The planned τ falls as C rises.",
        planned_period("budget", rising=False),
        "Whole rounds: what is left after R of them goes into longer periods until it pays for one more.",
    ),
)


# Tables -----------------------------------------------------------------------------------------------


def plan_table(points: Sequence[Point]) -> list[Table]:
    """Planned tau and K beside the best of the grid, for every pair of budgets."""
    rows = []
    for grid, mine in _by_budgets(points, "planned"):
        best = max(grid, key=lambda p: p.accuracy)
        rows.append([
            f"{mine.budget:g}", f"{mine.epsilon:g}", mine.name, _measured(mine),
            best.name, _measured(best), f"{mine.accuracy / best.accuracy:.1%}", _kept(mine, best),
        ])  # fmt: skip
    header = ["C", "ε", "planned", "accuracy", "best of the grid", "accuracy", "reached", "of the gain"]
    return [Table(header, rows, "Plans and grid")]


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
