"""The figures of Zhou et al. as data: what is trained, what the paper says of it, how that is judged.

Zhou et al., "The optimal numbers of queries and replies in federated learning with differential privacy",
section VII. Figures 1, 3, 5, 7 are softmax regression on MNIST, figures 2, 4, 6, 8 a CNN on FEMNIST.
"""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.experiments.papers import claims
from noiseworthy.experiments.papers.spec import Arm, Bench, Cell, Claim, Figure, Role, Series
from noiseworthy.experiments.papers.zhou_table import FEMNIST, MNIST, Row
from noiseworthy.planning.plan import StepSize

ROUNDS = (10, 50, 100, 150, 200, 250, 500)
STEP = StepSize(0.05, 50.0)
CLEAR_MARGIN = 0.03

DIGITS = Bench(
    "mnist", "softmax", "label-shards", 2, public=("fashion-mnist", "digits"),
    caveat="MNIST, 10 clients of 6,000 images with two digits each; softmax regression with 7,840 parameters.",
)  # fmt: skip
WRITERS = Bench(
    "mnist-writers", "cnn", "natural", miniature=True, preferred="leaf:femnist",
    caveat="MNIST by writer stands in for FEMNIST: 539 writers joined into 10 clients, 10 classes, so the CNN has "
    "28,938 parameters where 62 classes give 110,526. With a LEAF folder `femnist` among the data, that is used.",
)  # fmt: skip


def _fixed(label: str, rounds: int, clients: int, role: Role = "fixed") -> Series:
    return Series(label, role, lambda epsilon, fraction: (rounds, clients))


def _table_one(row: Row, b: int, role: Role = "fixed") -> Series:
    def cell(epsilon: float, fraction: float) -> Cell:
        return row.rounds_for(epsilon * fraction, b), b

    return Series(f"T*, b={b}", role, cell)


def _grid(cells: list[Cell]) -> tuple[Series, ...]:
    return tuple(_fixed(f"T={rounds}, b={b}", rounds, b, "grid") for rounds, b in cells)


def _laplace(row: Row, clip_norm: float, *more: Series) -> Arm:
    """The paper's budgets and its T* of Table I for b = 1 (its optimum), 5 and 10."""
    series = (_table_one(row, 1, "paper"), _table_one(row, 5), _table_one(row, 10))
    return Arm("laplace", (1.0, 5.0, 10.0), 0.0, clip_norm, STEP, (*series, *more))


def _gaussian(*more: Series) -> Arm:
    """The paper's budgets at its T = 100, for b = 10 (its optimum), 5 and 1."""
    series = (
        _fixed("T=100, b=10", 100, 10, "paper"),
        _fixed("T=100, b=5", 100, 5),
        _fixed("T=100, b=1", 100, 1),
    )
    return Arm("gaussian", (0.1, 0.5, 1.0), 1e-5, 10.0, STEP, (*series, *more))


PLANS = (Series("our plan, paper's clip and step", "planned rounds"), Series("our plan, all auto", "planned"))
LAPLACE_GRID = _grid([(t, b) for b in (1, 5, 10) for t in ROUNDS if t * b <= 1000])
GAUSSIAN_GRID = _grid([(t, 10) for t in ROUNDS if t != 100])

_STEP_REASON = (
    "The ranking of b belongs to this step and clip. The noise that all uploads put on a prediction hardly depends on "
    "b at a given number of uploads per client: with both planned, b is nearly free."
)
_GAUSSIAN_REASON = (
    "The bound omits the bias of clipping and the drift of the constant-size noise; under strong noise fewer rounds "
    "than 100 do as well or better."
)


def _per_round(bench: Bench, row: Row, clip_norm: float, *plans: Series) -> Figure:
    extra = (_fixed("T=50, b=1", 50, 1), _fixed("T=50, b=10", 50, 10))
    star = f"T*, b=1 (T*={row.rounds[1][0]})"
    worse = claims.worse("T=50, b=1", "T*, b=1", "laplace", 1.0, factor=1.1)
    return Figure(
        "loss per round", "curves", bench,
        (_laplace(row, clip_norm, *extra, *plans), _gaussian(_fixed("T=10, b=10", 10, 10), *plans)),
        (
            Claim("Poorly set b and T inflate the final loss significantly.", claims.inflated(1.25),
                  "Where noise is weak at these step sizes, settings differ less than by a quarter."),
            Claim(f"Laplace, ε = 1: T = 50 is much worse than {star}; said of FEMNIST with T = 10 or 11.", worse,
                  "At b = 1 a client replies 5 times at T = 50; the loss is flat around its minimum there."),
            Claim("Gaussian: b = 10 and T = 100 has the least loss.", claims.best("paper", ("fixed",), "gaussian"),
                  _GAUSSIAN_REASON),
            Claim("The planned b* and T* have the least final loss in all cases.", claims.best("paper", ("fixed",)),
                  "The printed T* are close to the best T at b = 1, but not always ahead of every other setting."),
        ),
    )  # fmt: skip


def _by_clients(bench: Bench, row: Row, clip_norm: float) -> Figure:
    return Figure(
        "loss and accuracy against b", "clients", bench, (_laplace(row, clip_norm), _gaussian()),
        (
            Claim("Laplace: the loss is higher if b is larger.",
                  claims.ordered("loss", "clients_per_round", rising=True, mechanism="laplace"), _STEP_REASON),
            Claim("Laplace: the accuracy is lower if b is larger.",
                  claims.ordered("accuracy", "clients_per_round", rising=False, mechanism="laplace"), _STEP_REASON),
            Claim("Gaussian: the loss is smaller if b is larger.",
                  claims.ordered("loss", "clients_per_round", rising=False, mechanism="gaussian"), _GAUSSIAN_REASON),
            Claim("Gaussian: the accuracy is higher if b is larger.",
                  claims.ordered("accuracy", "clients_per_round", rising=True, mechanism="gaussian"), _GAUSSIAN_REASON),
        ),
    )  # fmt: skip


def _by_epsilon(bench: Bench, row: Row, clip_norm: float) -> Figure:
    return Figure(
        "loss and accuracy against epsilon", "epsilon", bench, (_laplace(row, clip_norm), _gaussian()),
        (
            Claim("A smaller budget means more loss, for all settings.",
                  claims.ordered("loss", "epsilon", rising=False)),
            Claim("A smaller budget means less accuracy, for all settings.",
                  claims.ordered("accuracy", "epsilon", rising=True),
                  "Where settings are limited by the number of steps and not by noise, budgets hardly matter."),
            Claim("The setting b*, T* is the best of all.", claims.best("paper", ("fixed", "grid")),
                  "T* is the best T at b = 1 to within a few percent; under the Gaussian mechanism T = 100 is the "
                  "paper's choice, not an optimum: more rounds pay under weak noise, fewer under strong noise."),
            Claim("Badly chosen b and T cost much accuracy at the least budget (judged: 10 points).", claims.drops(0.10)),
        ),
    )  # fmt: skip


def _with_plans(figure: Figure) -> Figure:
    """Figure 5 with the paper's whole grid and this product's plans, and the claims made for them."""
    laplace, gaussian = figure.arms
    arms = (
        replace(laplace, series=(*laplace.series, *LAPLACE_GRID, *PLANS)),
        replace(gaussian, series=(*gaussian.series, *GAUSSIAN_GRID, *PLANS)),
    )
    others: tuple[Role, ...] = ("paper", "fixed", "grid")
    ours = (
        Claim("At the paper's clip and step the planned (T, b) is within 10 % of the least loss of the grid.",
              claims.within("planned rounds", 0.10, others),
              "The public data disagree with MNIST on how much noise is too much.", ours=True),
        Claim("With clip and step planned too, the plan beats the best cell of the grid by a clear margin "
              f"(judged: less loss and {100 * CLEAR_MARGIN:.0f} points of accuracy).",
              claims.beats("planned", others, CLEAR_MARGIN),
              "Less loss everywhere; where the grid's best is accurate already, fewer points are left to win.", ours=True),
    )  # fmt: skip
    return replace(figure, arms=arms, claims=(*figure.claims, *ours))


def _by_data(bench: Bench, row: Row, clip_norm: float, *plans: Series) -> Figure:
    fit = Series("T*, b*", "paper", row.planned)
    laplace = Arm("laplace", (1.0, 2.0, 5.0, 10.0), 0.0, clip_norm, STEP, (fit, *plans))
    series = (_fixed("T=100, b=10", 100, 10, "paper"), *plans)
    gaussian = Arm("gaussian", (0.1, 0.2, 0.5, 1.0), 1e-5, 10.0, STEP, series)
    return Figure(
        "accuracy against epsilon and the share of records", "data", bench, (laplace, gaussian),
        (
            Claim("Less accuracy if the budget is smaller.", claims.ordered("accuracy", "epsilon", rising=True)),
            Claim("Less accuracy if fewer records are used.", claims.ordered("accuracy", "fraction", rising=True)),
            Claim("Laplace is very poor if the budget or the share of records is small (judged: below 0.6).",
                  claims.level("laplace", "paper", most=0.6, where=lambda p: p.epsilon * p.fraction <= 1)),
            Claim("Gaussian is very high even at a small budget with a small share (judged: above 0.8).",
                  claims.level("gaussian", "paper", least=0.8, where=lambda p: p.epsilon <= 0.2 and p.fraction <= 0.2),
                  "With sound noise it is not. The paper's q = 0.01 with an unspecified constant c2 = 1 would spend far "
                  "more than the stated budget (theory 1.8, item 1)."),
        ),
        fractions=(0.1, 0.2, 0.5, 1.0),
    )  # fmt: skip


FIGURES = {
    "figure-1": _per_round(DIGITS, MNIST, 300.0, *PLANS),
    "figure-2": _per_round(WRITERS, FEMNIST, 200.0),
    "figure-3": _by_clients(DIGITS, MNIST, 300.0),
    "figure-4": _by_clients(WRITERS, FEMNIST, 200.0),
    "figure-5": _with_plans(_by_epsilon(DIGITS, MNIST, 300.0)),
    "figure-6": _by_epsilon(WRITERS, FEMNIST, 200.0),
    "figure-7": _by_data(DIGITS, MNIST, 300.0),
    "figure-8": _by_data(WRITERS, FEMNIST, 200.0),
}
