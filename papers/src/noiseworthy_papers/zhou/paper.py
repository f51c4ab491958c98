"""The figures of Zhou et al. as data: what is trained, and what the paper says of it.

Zhou et al., "Optimizing the numbers of queries and replies in federated learning with differential privacy"
(2021), section VII. Figures 1, 3, 5, 7 are softmax regression on MNIST, figures 2, 4, 6, 8 a CNN on FEMNIST.
Claims and how they are judged are in `claims`.
"""

from __future__ import annotations

from dataclasses import replace

from noiseworthy.plans.plan import StepSize
from noiseworthy_papers.points import Role
from noiseworthy_papers.settings import FedSGD
from noiseworthy_papers.spec import Arm, Bench, Figure, Layout, Paper, Series
from noiseworthy_papers.zhou import claims as says
from noiseworthy_papers.zhou.planner import by_trial
from noiseworthy_papers.zhou.table import FEMNIST, MNIST, Row, reproduce_table

ROUNDS = (10, 50, 100, 150, 200, 250, 500)
STEP = StepSize(0.05, 50.0)
FRACTIONS = (0.1, 0.2, 0.5, 1.0)

DIGITS = Bench(
    source="mnist",
    model="softmax",
    partition="label-shards",
    labels_per_client=2,
    public=("fashion-mnist", "digits"),
    caveat="MNIST, 10 clients of 6,000 images with two digits each; softmax regression, 7,840 parameters.",
)
WRITERS = Bench(
    source="mnist-writers",
    model="cnn",
    partition="natural",
    miniature=True,
    preferred="leaf:femnist",
    caveat="MNIST by writer stands in for FEMNIST: 539 writers joined into 10 clients, and 10 classes, so "
    "that the CNN has 28,938 parameters where 62 classes give 110,526. A LEAF folder `femnist` in the data "
    "folder takes its place. Nothing is planned by trial for the CNN: its trials are too slow on a CPU.",
)


# Settings ---------------------------------------------------------------------------------------------


def _fixed(rounds: int, clients: int, role: Role = "fixed") -> Series:
    return Series(f"T={rounds}, b={clients}", role, lambda epsilon, fraction: FedSGD(rounds, clients))


def _starred(row: Row, b: int, role: Role = "fixed") -> Series:
    """T*(b) of Table I."""

    def setting(epsilon: float, fraction: float) -> FedSGD:
        return FedSGD(row.rounds_for(epsilon * fraction, b), b)

    return Series(f"T*, b={b}", role, setting)


def _laplace(row: Row, clip_norm: float, *more: Series) -> Arm:
    """The paper's budgets and its T* for b = 1 (its optimum), 5 and 10."""
    series = (_starred(row, 1, "paper"), _starred(row, 5), _starred(row, 10), *more)
    return Arm("laplace", (1.0, 5.0, 10.0), 0.0, clip_norm, STEP, series)


def _gaussian(*more: Series) -> Arm:
    """The paper's budgets at its T = 100, for b = 10 (its optimum), 5 and 1."""
    series = (_fixed(100, 10, "paper"), _fixed(100, 5), _fixed(100, 1), *more)
    return Arm("gaussian", (0.1, 0.5, 1.0), 1e-5, 10.0, STEP, series)


PLANS = (
    Series("our plan, paper's clip and step", "planned rounds", planner=by_trial(everything=False)),
    Series("our plan, clip and step too", "planned", planner=by_trial(everything=True)),
)
LAPLACE_GRID = tuple(_fixed(t, b, "grid") for b in (1, 5, 10) for t in ROUNDS if t * b <= 1000)
"""The paper's grid up to 1,000 uploads in all, for the time it takes; the best cells have far fewer."""
GAUSSIAN_GRID = tuple(_fixed(t, 10, "grid") for t in ROUNDS if t != 100)
"""The paper has T = 100 only; we add its other T at its best b."""


CURVES = Layout("round", lines="series", panels=("mechanism", "epsilon"), log="x", most=3.2)
CLIENTS = Layout("clients_per_round", ("loss", "accuracy"), most=3.2)
EPSILON = Layout("epsilon", ("loss", "accuracy"), lines="series", most=3.2)
DATA = Layout("fraction", ("accuracy",))


# Figures ----------------------------------------------------------------------------------------------


def _per_round(bench: Bench, row: Row, clip_norm: float, *plans: Series) -> Figure:
    laplace = _laplace(row, clip_norm, _fixed(50, 1), _fixed(50, 10), *plans)
    gaussian = _gaussian(_fixed(10, 10), *plans)
    claims = says.PER_ROUND_FEMNIST if row is FEMNIST else says.PER_ROUND
    return Figure("loss per round", CURVES, bench, (laplace, gaussian), claims)


def _by_clients(bench: Bench, row: Row, clip_norm: float) -> Figure:
    arms = (_laplace(row, clip_norm), _gaussian())
    return Figure("loss and accuracy against b", CLIENTS, bench, arms, says.BY_CLIENTS)


def _by_epsilon(bench: Bench, row: Row, clip_norm: float) -> Figure:
    arms = (_laplace(row, clip_norm), _gaussian())
    return Figure("loss and accuracy against ε", EPSILON, bench, arms, says.BY_EPSILON)


def _with_plans(figure: Figure) -> Figure:
    """The paper's whole grid and this product's plans beside its settings, and what we claim for them."""
    arms = tuple(
        replace(arm, series=(*arm.series, *grid, *PLANS))
        for arm, grid in zip(figure.arms, (LAPLACE_GRID, GAUSSIAN_GRID), strict=True)
    )
    note = (
        "Grid: under the Laplace mechanism the paper's cells of up to 1,000 uploads in all (bT); under the "
        "Gaussian mechanism, where the paper has T = 100 only, its other T at b = 10 too."
    )
    return replace(figure, arms=arms, claims=(*figure.claims, *says.OURS), note=note)


def _by_data(bench: Bench, row: Row, clip_norm: float) -> Figure:
    """T* and b* for fewer records come from the curve behind Table I: noise depends on epsilon d."""
    fitted = Series("T*, b*", "paper", row.planned)
    laplace = Arm("laplace", (1.0, 2.0, 5.0, 10.0), 0.0, clip_norm, STEP, (fitted,))
    gaussian = Arm("gaussian", (0.1, 0.2, 0.5, 1.0), 1e-5, 10.0, STEP, (_fixed(100, 10, "paper"),))
    title = "accuracy against ε and the share of records"
    note = "T* and b* for fewer records come from the curve behind Table I, at ε times the share."
    return Figure(title, DATA, bench, (laplace, gaussian), says.BY_DATA, FRACTIONS, note)


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

COMMON = """\
- Noise is what the stated budget needs under replace-one neighbours: exact composition over the ⌈bT/N⌉
  uploads that a client really makes. The paper counts bT/N and leaves a constant of its Gaussian noise open.
- The Gaussian mechanism uses full batches. The paper samples q = 0.01 of the records, which in this
  setting needs *more* noise for the same budget, and adds sampling variance
  (docs/theory/zhou.md#smaller-batches).
- The paper says that the step size starts at 0.05 and decays, not how; we take 0.05 / (1 + t/50).
- Seeds change schedule, start and noise; the partition of the records is one and the same. ± is the standard
  deviation over seeds. Losses are test cross-entropies after the last round; ln 10 = 2.303 is a guess.
"""

PAPER = Paper("zhou", "Zhou et al.", {"table-1": reproduce_table, **FIGURES}, COMMON)
