"""The data, models and constants of Ma et al., section V-A."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np

from noiseworthy.data import load_records
from noiseworthy.data.records import Records
from noiseworthy.plans.plan import StepSize
from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.budgets import Budgets
from noiseworthy_papers.selections import Estimating
from noiseworthy_papers.spec import Arm, Bench, LossUnit, Series

CLIENTS, COHORT, ROUNDS, FIRST_ROUNDS = 100, 20, 200, 10
MOMENTUM, WEIGHT_DECAY = 0.9, 2e-4
ALPHA = 3.0
DELTAS: dict[Family, tuple[float, float]] = {"gaussian": (1e-5, 1e-4), "laplace": (0.0, 0.0)}
MECHANISMS: tuple[Family, ...] = ("gaussian", "laplace")
LOANS = 40_000
TABLE_3: dict[tuple[str, Family], tuple[float, float, float, float]] = {
    ("Lending", "gaussian"): (0.937, 0.277, 0.997, 0.239),
    ("Lending", "laplace"): (1.040, 1.046, 3.472, 1.063),
    ("MNIST", "gaussian"): (1.063, 1.960, 5.514, 4.986),
    ("MNIST", "laplace"): (1.039, 53.565, 106.463, 55.018),
    ("F-MNIST", "gaussian"): (1.050, 12.117, 18.062, 14.198),
    ("F-MNIST", "laplace"): (0.962, 144.688, 406.756, 200.645),
    ("FEMNIST", "gaussian"): (1.037, 5.971, 11.815, 10.515),
    ("FEMNIST", "laplace"): (1.053, 118.286, 310.663, 153.461),
    ("CIFAR-10", "gaussian"): (1.097, 1.958, 5.859, 5.678),
    ("CIFAR-10", "laplace"): (1.109, 66.112, 125.825, 63.722),
}
"""By data and mechanism: rho_min, gamma, L and mu."""


@dataclass(frozen=True)
class Case:
    """One data set with its model and the constants that the paper states for it.

    Attributes:
        name: as the paper calls the data.
        bench: data, clients and model.
        clip: B.
        step: step sizes.
        least: epsilon_min.
        most: epsilon_max, but for figure 4.
        uppers: epsilon_max of figure 4.
        loss_cap: Theta.
        curvature: L and mu of Table III by mechanism, which weigh heterogeneity in the second stage.
        column: place in Table I.
    """

    name: str
    bench: Bench
    clip: float
    step: StepSize
    least: float
    most: float
    uppers: tuple[float, ...]
    loss_cap: float
    curvature: dict[Family, tuple[float, float]]
    column: int

    @property
    def regression(self) -> bool:
        """Whether the paper scores the squared error."""
        return self.bench.model == "linear"

    def arm(self, mechanism: Family, epsilons: tuple[float, ...], series: tuple[Series, ...]) -> Arm:
        """Series under one mechanism, with budgets that clients draw up to each epsilon."""
        budgets = self.budgets(mechanism)
        return Arm(mechanism, epsilons, budgets.deltas[1], self.clip, self.step, series, budgets=budgets)

    def budgets(self, mechanism: Family) -> Budgets:
        """How clients draw theirs."""
        return Budgets(self.least, DELTAS[mechanism])

    def estimating(self, mechanism: Family) -> Estimating:
        """The first stage."""
        return Estimating(FIRST_ROUNDS, self.loss_cap, *self.curvature[mechanism])


def _curvature(data: str) -> dict[Family, tuple[float, float]]:
    return {mechanism: TABLE_3[data, mechanism][2:] for mechanism in MECHANISMS}


def loans(data_dir: str | Path | None) -> Records:
    """40,000 loans drawn from Lending Club, 32,000 of them to train on."""
    records = load_records("lending-club", data_dir=data_dir)
    generator = np.random.default_rng(0)
    kept = generator.permutation(len(records))[: LOANS * 4 // 5]
    tested = generator.permutation(len(records.test_x))[: LOANS // 5]
    return replace(
        records, x=records.x[kept], y=records.y[kept],
        test_x=records.test_x[tested], test_y=records.test_y[tested],
    )  # fmt: skip


# Data sets --------------------------------------------------------------------------------------------

IMAGES = Bench(
    source="mnist",
    model="ma-cnn",
    partition="dirichlet",
    alpha=ALPHA,
    clients=CLIENTS,
    task=(("ridge", WEIGHT_DECAY),),
    miniature=True,
    horizon=ROUNDS,
    caveat="MNIST, 60,000 digits; the CNN of the paper, 4,266 parameters.",
)
SLOW, FAST = StepSize(0.05, 200.0), StepSize(0.2, 100.0)
LENDING = Case(
    "Lending Club",
    replace(
        IMAGES,
        source="lending-club",
        made=loans,
        model="linear",
        bias=True,
        strata=10,
        task=(("ridge", WEIGHT_DECAY / 2),),
        miniature=False,
        loss=LossUnit("mean squared error", 2.0, "R²"),
        caveat="Lending Club, 32,000 loans with a derived interest rate and 8,000 to test on; 10 principal "
        "components and a constant, 11 parameters. A Dirichlet partition needs classes: the loans are dealt "
        "out by tenths of the rate. Our loss is half the squared error, so that clip 75, step 0.04 and cap "
        "75 here are the paper's 150, 0.02 and 150.",
    ),
    75.0, StepSize(0.04, 200.0), 0.1, 3.0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), 75.0,
    _curvature("Lending"), 0,
)  # fmt: skip
MNIST = Case(
    "MNIST", IMAGES, 20.0, SLOW, 0.1, 3.0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), log(10),
    _curvature("MNIST"), 1,
)  # fmt: skip
FASHION = Case(
    "Fashion-MNIST",
    replace(
        IMAGES,
        source="fashion-mnist",
        model="lenet5",
        caveat="Fashion-MNIST, 60,000 pictures of clothes; LeNet-5, 61,706 parameters.",
    ),
    25.0, SLOW, 0.5, 4.0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), log(10),
    _curvature("F-MNIST"), 2,
)  # fmt: skip
FEMNIST = Case(
    "FEMNIST",
    replace(
        IMAGES,
        source="mnist-writers",
        model="group-cnn",
        partition="natural",
        alpha=None,
        caveat="MNIST by writer stands in for FEMNIST, which is not at hand: ten digits for 62 characters, "
        "and clients are 100 groups of five or six of its 539 writers, not a Dirichlet partition. The "
        "network is the paper's but for its last layer, with group norm for batch norm, which would mix "
        "records.",
    ),
    25.0, SLOW, 0.5, 4.0, (1.0, 2.0, 3.0, 4.0, 5.0, 6.0), log(10),
    _curvature("FEMNIST"), 3,
)  # fmt: skip
CIFAR = Case(
    "CIFAR-10",
    replace(
        IMAGES,
        source="cifar10-jpeg",
        model="resnet20",
        caveat="CIFAR-10, 50,000 images from JPEG files; ResNet-20, 272,474 parameters, with group norm for "
        "batch norm, which would mix records.",
    ),
    5.0, FAST, 1.0, 6.0, (2.0, 4.0, 6.0, 8.0, 10.0), log(10),
    _curvature("CIFAR-10"), 4,
)  # fmt: skip
CIFAR_EXACT = replace(
    CIFAR,
    bench=replace(
        CIFAR.bench,
        source="cifar10",
        caveat="CIFAR-10, a subset with exact pixels: 4,000 images, 40 per client for the paper's 500, and "
        "noise 12.5 times as large; ResNet-20 with group norm.",
    ),
)


def linear(case: Case) -> Case:
    """The same data and constants with softmax regression, which is trained at full size."""
    data, _, _ = case.bench.caveat.partition(";")
    model = "softmax regression, 7,840 parameters, at the clip and step that the paper has for its network"
    bench = replace(case.bench, model="softmax", caveat=f"{data}; {model}.")
    return replace(case, name=f"{case.name} with softmax regression", bench=bench)


CASES = {
    "lending": LENDING,
    "mnist-linear": linear(MNIST),
    "f-mnist-linear": linear(FASHION),
    "mnist": MNIST,
    "f-mnist": FASHION,
    "femnist": FEMNIST,
    "cifar-10": CIFAR,
    "cifar-10-exact": CIFAR_EXACT,
}
