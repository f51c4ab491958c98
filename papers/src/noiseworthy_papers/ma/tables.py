"""Tables beside the figures of Ma et al.: utilities with gaps, Table I, and what printed noise spends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.budgets import spent_by_bound
from noiseworthy_papers.ma.benches import CLIENTS, Case
from noiseworthy_papers.ma.utility import (
    ONE_STAGE,
    PERSONAL_BIASED,
    PRINTED,
    Group,
    Utility,
    groups,
    named,
    varying,
)
from noiseworthy_papers.points import Point
from noiseworthy_papers.spec import Table

Tables = Callable[[Sequence[Point]], list[Table]]
TABLE_1 = {
    ("gaussian", "PrivateFL"): (
        "25.28 ± 1.25", "22.95 ± 0.77 %", "57.12 ± 2.39 %", "49.67 ± 1.14 %", "40.49 ± 0.83 %"),
    ("gaussian", PERSONAL_BIASED): (
        "20.45 ± 0.56", "91.84 ± 0.53 %", "80.73 ± 1.43 %", "67.05 ± 0.61 %", "56.13 ± 0.52 %"),
    ("laplace", "PrivateFL"): (
        "28.68 ± 1.78", "12.91 ± 0.54 %", "14.94 ± 0.68 %", "5.08 ± 0.47 %", "10.28 ± 0.33 %"),
    ("laplace", PERSONAL_BIASED): (
        "20.94 ± 0.63", "81.25 ± 1.29 %", "69.42 ± 1.24 %", "47.35 ± 1.29 %", "46.41 ± 0.60 %"),
}  # fmt: skip
"""By mechanism and algorithm: Lending Club (squared error), MNIST, Fashion-MNIST, FEMNIST, CIFAR-10."""


def printed_gain(mechanism: Family, column: int) -> float:
    """What biased selection gains PrivateFL in a column of Table I: accuracy, or squared error.

    Example:
        >>> round(printed_gain("gaussian", 0), 2), round(printed_gain("laplace", 1), 4)
        (4.83, 0.6834)
    """
    plain, biased = (TABLE_1[mechanism, name][column] for name in ("PrivateFL", PERSONAL_BIASED))
    gained = abs(float(plain.split()[0]) - float(biased.split()[0]))
    return gained / 100 if "%" in plain else gained


def tables_of(case: Case) -> Tables:
    """Final utilities with the gap of our plan to each, and what noise as printed spends."""
    utility = Utility(case.regression)

    def tables(points: Sequence[Point]) -> list[Table]:
        printed = [p for p in points if p.series == PRINTED]
        spent = [_spent(case, printed[0])] if printed else []
        return [_utilities(utility, points), *spent]

    return tables


def table_1_beside(case: Case) -> Tables:
    """The paper's column of Table I beside ours."""
    utility = Utility(case.regression)

    def tables(points: Sequence[Point]) -> list[Table]:
        rows = [
            [p.mechanism, p.series, TABLE_1[p.mechanism, p.series][case.column], utility.shown(p)]
            for p in points
        ]
        return [
            Table(["noise", "algorithm", "paper", "ours"], rows, f"{case.name}: the paper's numbers and ours")
        ]

    return tables


def _utilities(utility: Utility, points: Sequence[Point]) -> Table:
    found, several = groups(points), varying(points)
    columns = [named(group, varying=several) for group in found]
    unit = "squared error" if utility.regression else "accuracy"
    title = f"Final {unit}, and by how much {ONE_STAGE} is better, paired by seed"
    series = dict.fromkeys(p.series for p in points)
    return Table(
        ["series", *columns],
        [[name, *(_cell(utility, group, name) for group in found)] for name in series],
        title,
    )


def _cell(utility: Utility, group: Group, name: str) -> str:
    if name not in group:
        return ""
    value = utility.shown(group[name])
    if name == ONE_STAGE:
        return value
    gap = utility.gap(group[ONE_STAGE], group[name])
    return f"{value} ({gap.mean:+.2f} ± {gap.std:.2f})"


def _spent(case: Case, printed: Point) -> Table:
    """Over all clients and seeds, the epsilon spent under the noise of the paper's bound."""
    budgets, seeds = case.budgets(printed.mechanism), range(len(printed.losses))
    draws = [budgets.drawn(printed.epsilon, CLIENTS, seed) for seed in seeds]
    multiples = np.concatenate([spent_by_bound(*drawn) / drawn[0] for drawn in draws])
    row = [f"{multiples.mean():.2f}", f"{multiples.max():.2f}", f"{np.mean(multiples > 1):.0%}"]
    return Table(
        ["spent, times ε_n, mean", "worst", "clients that overspend"], [row],
        "As printed: what the noise of the paper's bound spends",
    )  # fmt: skip
