"""Tables II to IV of Fu et al.: the printed numbers beside ours, under sound noise and under the paper's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from noiseworthy_papers.noise_shares import spent_as_printed
from noiseworthy_papers.points import NO_NOISE, Point, Score
from noiseworthy_papers.selecting import numeral
from noiseworthy_papers.spec import Table

Printed = dict[float, tuple[int, float, float]]
"""epsilon -> the optimum, the score there, and the worst score."""

TABLE_2: Printed = {
    1.0: (10, 27.40, 1963.41),
    3.0: (30, 23.55, 26.82),
    5.0: (30, 23.13, 24.94),
    NO_NOISE: (100, 22.59, 24.06),
}
TABLE_3: Printed = {
    1.0: (12, 40.44, 3568.41),
    3.0: (3, 25.95, 28.78),
    5.0: (2, 23.94, 26.65),
    NO_NOISE: (1, 22.58, 26.14),
}
TABLE_4: Printed = {
    10.0: (24, 0.4663, 0.0509),
    20.0: (12, 0.6347, 0.0521),
    30.0: (12, 0.6781, 0.3500),
    NO_NOISE: (2, 0.7470, 0.7088),
}


def beside(
    name: str, along: str, score: Score, printed: Printed, delta: float
) -> Callable[[Sequence[Point]], list[Table]]:
    """A table of optima: the paper's, ours, and ours under noise as printed with the epsilon it spends.

    Args:
        name: of the optimum, such as T*.
        along: the quantity that is chosen.
        score: what is scored.
        printed: the paper's table.
        delta: of the budgets.
    """
    mean = "loss" if score == "loss" else "accuracy"

    def table(points: Sequence[Point]) -> list[Table]:
        header = ["ε", f"paper: {name}", mean, "worst", f"ours: {name}", mean, "worst",
                  f"noise as printed (not private): {name}", mean, "worst", "ε spent"]  # fmt: skip
        return [Table(header, [_row(points, along, score, e, row, delta) for e, row in printed.items()])]

    return table


def _row(
    points: Sequence[Point],
    along: str,
    score: Score,
    epsilon: float,
    row: tuple[int, float, float],
    delta: float,
) -> list[str]:
    trained = [p for p in points if p.epsilon == epsilon and p.rounds and not p.role.startswith("planned")]
    sound = [p for p in trained if p.role != "as printed"]
    unsound = [p for p in trained if p.role == "as printed"]
    best, good, bad = row
    shown = [numeral(epsilon), str(best), _number(good), _number(bad)]
    shown += _extremes(sound, along, score)
    if not unsound:
        return [*shown, "", "", "", ""]
    spent = spent_as_printed(unsound[0].mechanism, epsilon, delta)
    return [*shown, *_extremes(unsound, along, score), f"{spent:.3g}"]


def _extremes(points: Sequence[Point], along: str, score: Score) -> list[str]:
    ranked = sorted(points, key=lambda p: getattr(p, score), reverse=score == "accuracy")
    best, worst = ranked[0], ranked[-1]
    return [f"{best.quantity(along):g}", _number(getattr(best, score)), _number(getattr(worst, score))]


def _number(value: float) -> str:
    return f"{value:.4f}" if value < 1 else f"{value:.2f}"
