"""Settings of Ma et al.: an algorithm on exact counts, of clients asked alike or by DPFL-BCS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs import two_stages
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem

AlgorithmName = Literal["dpfl-bcs"] | rivals.RivalName
BIASED: Literal["dpfl-bcs"] = "dpfl-bcs"
ALGORITHMS = (BIASED, *rivals.RIVALS)


@dataclass(frozen=True)
class Estimating:
    """A first stage that estimates heterogeneity.

    Attributes:
        rounds: T0.
        loss_cap: Theta, the most that a record's loss counts.
        smoothness: L, by which the second stage weighs heterogeneity against noise.
        strong_convexity: mu, likewise.
    """

    rounds: int
    loss_cap: float
    smoothness: float
    strong_convexity: float

    @property
    def constants(self) -> dict[str, Constant]:
        """L and mu for a planner."""
        values = {"smoothness": self.smoothness, "strong_convexity": self.strong_convexity}
        return {name: Constant(value, "assumed") for name, value in values.items()}


@dataclass(frozen=True)
class Selection:
    """T rounds of an algorithm with K clients each.

    Attributes:
        algorithm: `dpfl-bcs` or one of `methods.rivals`; `fedsgd` takes no noise whatever the mechanism.
        rounds: T.
        clients_per_round: K.
        biased: ask clients as often as DPFL-BCS would, and not all alike; it always does so itself.
        momentum: of the server.
        estimating: first stage of DPFL-BCS; None plans in one stage, by budgets and sizes alone.
    """

    algorithm: AlgorithmName
    rounds: int
    clients_per_round: int
    biased: bool = False
    momentum: float = 0.0
    estimating: Estimating | None = None

    def plan(self, problem: Problem, step: StepSize, batch_size: int | None = None) -> Plan:
        """The setting with the noise that it needs; always full batches."""
        if self.estimating is not None:
            return self._staged(problem, step, self.estimating)
        if self.algorithm == "dpfl-bcs":
            return replace(self._chosen(problem, step), momentum=self.momentum)
        return rivals.plan(
            self.algorithm,
            replace(problem, family="none") if self.algorithm == "fedsgd" else problem,
            rounds=self.rounds,
            clients_per_round=self.clients_per_round,
            step=step,
            counts=self._chosen(problem, step).releases if self.biased else None,
            momentum=self.momentum,
        )

    def longest(self, iterations: int) -> Selection:
        """The setting of most rounds among those of so many iterations, to pad schedules to."""
        return replace(self, rounds=iterations)

    @property
    def work(self) -> int:
        """Full-batch gradients of a client."""
        return self.rounds * self.clients_per_round

    def _chosen(self, problem: Problem, step: StepSize) -> Plan:
        return participation.plan(
            problem, {}, rounds=self.rounds, clients_per_round=self.clients_per_round, step=step
        )

    def _staged(self, problem: Problem, step: StepSize, first: Estimating) -> Plan:
        return two_stages.plan(
            problem,
            first.constants,
            rounds=self.rounds,
            clients_per_round=self.clients_per_round,
            estimation_rounds=first.rounds,
            loss_cap=first.loss_cap,
            step=step,
            momentum=self.momentum,
        )
