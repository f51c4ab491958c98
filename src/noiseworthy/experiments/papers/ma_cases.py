"""Data sets and settings of Ma et al. with linear models, and what stage 1 tells of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Federation, federate, load_records
from noiseworthy.data.records import Records
from noiseworthy.engines.simulation import Shards
from noiseworthy.experiments import two_stages
from noiseworthy.experiments.estimates import describe
from noiseworthy.experiments.papers.ma_constants import constants_of
from noiseworthy.experiments.papers.ma_truth import Truth, true_heterogeneity
from noiseworthy.experiments.two_stages import Estimation
from noiseworthy.planning import two_stages as planner
from noiseworthy.planning.heterogeneity import as_printed
from noiseworthy.planning.participation_bound import Curvature, participation_costs
from noiseworthy.planning.participation_search import greedy
from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import Task, make_task

Mechanism = Literal["gaussian", "laplace"]
Counts = NDArray[np.int64]
N, K, T, T0 = 100, 20, 200, 10
RIDGE, MOMENTUM = 2e-4, 0.9
DELTA = (1e-5, 1e-4)
MECHANISMS: dict[Mechanism, str] = {"gaussian": "GM", "laplace": "LM"}
_LOANS = 32_000
"""40,000 records, 80 % of which train."""


class Size(NamedTuple):
    """Clients, how many of them answer in a round, rounds in all, and rounds of stage 1."""

    clients: int = N
    clients_per_round: int = K
    rounds: int = T
    estimation_rounds: int = T0


@dataclass(frozen=True)
class Data:
    """A data set with the paper's settings for it, for a linear model.

    Attributes:
        name: as in the paper's Table III.
        source: as in a study file.
        curvature: L and mu, public: of records in [0, 1] and the ridge, or stated.
        clip_norm: Xi.
        step: step sizes.
        loss_cap: Theta.
        epsilon: ends of the range that budgets are drawn from.
        partition: how records are dealt out.
        alpha: of the partition.
        model: name of the model.
        bias: whether a constant feature is appended.
        records: how many train; None takes all.
        size: of the federation.
        caveat: what a reader must know.
    """

    name: str
    source: str
    curvature: Curvature
    clip_norm: float
    step: StepSize
    loss_cap: float
    epsilon: tuple[float, float]
    partition: str = "dirichlet"
    alpha: float | None = 3.0
    model: str = "softmax"
    bias: bool = False
    records: int | None = None
    size: Size = Size()
    caveat: str = ""

    def open(self, data_dir: str | Path | None) -> tuple[Federation, Task]:
        """The records dealt to clients, and the model."""
        records = _some(load_records(self.source, data_dir=data_dir), self.records)
        federation = federate(
            records, clients=self.size.clients, partition=self.partition, alpha=self.alpha, seed=0
        )
        shape, classes = federation.record_shape, federation.classes
        return federation, make_task(self.model, shape, classes, ridge=RIDGE, bias=self.bias)

    def plan(self, mechanism: Mechanism, sizes: Counts, dimension: int, seed: int) -> Plan:
        """Both stages, under the budgets of a seed."""
        budget = budgets(self.epsilon, mechanism, len(sizes), seed)
        problem = Problem(sizes, dimension, budget, mechanism, self.clip_norm)
        values = vars(self.curvature).items()
        return planner.plan(
            problem, {name: Constant(value, "assumed") for name, value in values},
            rounds=self.size.rounds, clients_per_round=self.size.clients_per_round,
            estimation_rounds=self.size.estimation_rounds, loss_cap=self.loss_cap, step=self.step,
            momentum=MOMENTUM,
        )  # fmt: skip


def budgets(epsilon: tuple[float, float], mechanism: Mechanism, clients: int, seed: int) -> PrivacyBudget:
    """Budgets drawn evenly, in public, from the paper's ranges; Laplace noise is pure.

    Example:
        >>> budgets((0.1, 3.0), "laplace", 2, 0).delta
        array([0., 0.])
    """
    generator = np.random.default_rng([seed, 0x3A])
    drawn, tails = generator.uniform(*epsilon, clients), generator.uniform(*DELTA, clients)
    return PrivacyBudget(drawn, tails if mechanism == "gaussian" else np.zeros(clients))


def _some(records: Records, most: int | None) -> Records:
    """So many training records, drawn by a fixed seed."""
    if most is None:
        return records
    kept = np.random.default_rng(0).permutation(len(records.x))[:most]
    return replace(records, x=records.x[kept], y=records.y[kept])


# The data of the paper --------------------------------------------------------------------------------


def _images(name: str, source: str, least: float, most: float, clip: float, **rest: Any) -> Data:
    """Images with pixels in [0, 1]: half the square of their largest norm bounds the curvature."""
    pixels = rest.pop("pixels", 28 * 28)
    settings: dict[str, Any] = {"step": StepSize(0.05, 200.0), **rest}
    return Data(
        name, source, Curvature(pixels / 2 + RIDGE, RIDGE), clip, loss_cap=math.log(10),
        epsilon=(least, most), **settings,
    )  # fmt: skip


LENDING = Data(
    "Lending", "lending-club", Curvature(2.5, 0.47), 75.0, StepSize(0.04, 200.0), 75.0, (0.1, 3.0),
    partition="quantity-skew", model="linear", bias=True, records=_LOANS,
    caveat="Lending Club with a derived interest rate, 32,000 loans dealt in sizes by Dirichlet(3), because "
    "rates are no classes: clients differ in size and little else. Losses are half the squared error: clip "
    "75, step 0.04 and Θ = 75 for the paper's 150, 0.02 and 150. L = 2.5 and μ = 0.47 are the ends of the "
    "spectrum of the public part.",
)  # fmt: skip
MNIST = _images("MNIST", "mnist", 0.1, 3.0, 20.0)
FASHION = _images("F-MNIST", "fashion-mnist", 0.5, 4.0, 25.0)
WRITERS = _images(
    "FEMNIST", "mnist-writers", 0.5, 4.0, 25.0, partition="natural", alpha=None,
    caveat="MNIST by writer stands in for FEMNIST: digits only, the 539 writers dealt to 100 clients.",
)  # fmt: skip
CIFAR = _images(
    "CIFAR-10", "cifar10-jpeg", 1.0, 6.0, 5.0, pixels=32 * 32 * 3, step=StepSize(0.2, 100.0),
    caveat="CIFAR-10 from JPEG files.",
)  # fmt: skip


# Measuring --------------------------------------------------------------------------------------------


def measure(
    data: Data,
    mechanism: Mechanism,
    seeds: Sequence[int],
    opened: tuple[Federation, Task],
    truth: Truth,
    on_progress: Callable[[float], None] = lambda done: None,
) -> dict[str, Any]:
    """Train both stages under every seed; what stage 1 told, what follows, and how far off it is.

    Returns:
        Plain values: `told` of each seed (`experiments.estimates`, with the `true` Gamma_n), `asked` and
        `excess` of stage 2 by what it is decided by, `constants` by P2 and P2' from the first seed, and the
        final `loss` and `accuracy` of each.
    """
    federation, task = opened
    plans = [data.plan(mechanism, federation.sizes, task.dimension, seed) for seed in seeds]
    shards = Shards.load(federation, task)
    run, stages = two_stages.train(plans, shards, task, seeds, evaluations=2, on_progress=on_progress)
    asked = [_decisions(plan, stage, truth) for plan, stage in zip(plans, stages, strict=True)]
    return {
        "told": [{**describe(stage), "true": truth.heterogeneity.tolist()} for stage in stages],
        "common": truth.common.tolist(),
        "asked": [{name: counts.tolist() for name, counts in one.items()} for one in asked],
        "excess": [_excesses(plan, one, truth) for plan, one in zip(plans, asked, strict=True)],
        "constants": constants_of(stages[0], data.curvature),
        "loss": run.loss[:, -1].tolist(),
        "accuracy": run.accuracy[:, -1].tolist(),
    }


def _decisions(plan: Plan, stage: Estimation, truth: Truth) -> dict[str, Counts]:
    """Counts of stage 2 by our estimate, by the paper's, by nothing and by the truth."""
    printed = as_printed(stage.reports, plan.problem.n_clients)

    def by(value: NDArray[np.float64]) -> Counts:
        return planner.replanned(plan, replace(stage.found, value=value)).releases

    return {
        "estimate": stage.plan.releases,
        "printed": by(printed),
        "alike": plan.releases,
        "true": by(truth.heterogeneity),
    }


def _excesses(plan: Plan, asked: dict[str, Counts], truth: Truth) -> dict[str, float]:
    """How much more J of stage 2 costs at the true Gamma_n than the best counts do, as a share."""
    costs = participation_costs(
        plan.problem, plan.constants, truth.heterogeneity, plan.rounds, plan.clients_per_round
    )
    best = costs.value(greedy(costs, plan.clients_per_round * plan.rounds))
    return {name: costs.value(counts) / best - 1 for name, counts in asked.items() if name != "true"}


def truth_of(opened: tuple[Federation, Task]) -> Truth:
    """True Gamma_n; reads all records without noise."""
    federation, task = opened
    return true_heterogeneity(Shards.load(federation, task), task)
