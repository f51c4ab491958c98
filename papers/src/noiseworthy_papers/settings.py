"""Settings that a figure trains: for each algorithm what one chooses, and the plan that it makes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.registry import method
from noiseworthy.plans.local_work import Coins
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy_papers.selections import ALGORITHMS, Estimating, Selection


@dataclass(frozen=True)
class FedSGD:
    """T rounds of FedSGD-DPC with b clients each."""

    rounds: int
    clients_per_round: int

    def plan(self, problem: Problem, step: StepSize, batch_size: int | None = None) -> Plan:
        """The setting with the noise that it needs; always full batches."""
        return queries_replies.stated(problem, self.rounds, self.clients_per_round, step)

    def longest(self, iterations: int) -> FedSGD:
        """The setting of most rounds among those of so many iterations, to pad schedules to."""
        return replace(self, rounds=iterations)

    @property
    def work(self) -> int:
        """Full-batch gradients of a client."""
        return self.rounds * self.clients_per_round

    def __str__(self) -> str:
        return f"({self.rounds}, {self.clients_per_round})"


@dataclass(frozen=True)
class _Iterations:
    """T iterations, so many of them between two uploads, with b clients per round."""

    iterations: int
    local_steps: float
    clients_per_round: int

    def longest(self, iterations: int) -> Self:
        """The setting of most rounds among those of so many iterations, to pad schedules to."""
        return replace(self, iterations=iterations, local_steps=1)

    @property
    def rounds(self) -> int:
        """Communications, expected ones where coins fall."""
        return int(self.iterations / self.local_steps)

    @property
    def work(self) -> int:
        """Local steps of all clients."""
        return self.iterations * self.clients_per_round


@dataclass(frozen=True)
class FedAvg(_Iterations):
    """T iterations of DP-FedAvg, E of them between two uploads, with b clients per round."""

    local_steps: int

    def plan(self, problem: Problem, step: StepSize, batch_size: int | None = None) -> Plan:
        """The setting with the noise that it needs."""
        return local_iterations.stated(
            problem, self.iterations, self.local_steps, self.clients_per_round, step, batch_size
        )


@dataclass(frozen=True)
class ScaffNew(_Iterations):
    """T iterations of DP-ScaffNew by all clients, a mean of tau of them between two uploads.

    With `regular` clients communicate after every tau-th iteration, as the experiments of Hou et al. do; else
    when a public coin of probability 1/tau falls, as their algorithm says.
    """

    regular: bool = True

    def plan(self, problem: Problem, step: StepSize, batch_size: int | None = None) -> Plan:
        """The setting with the noise that it needs."""
        if self.clients_per_round != problem.n_clients:
            raise InvalidInput(
                f"clients_per_round must be {problem.n_clients}, everybody, for dp-scaffnew; "
                f"got {self.clients_per_round}"
            )
        p = 1 / self.local_steps
        drawn = communication_probability.stated(problem, self.iterations, p, step, batch_size=batch_size)
        return (
            _regular(drawn, RegularCoins(self.iterations, p, batch_size=batch_size))
            if self.regular
            else drawn
        )


@dataclass(frozen=True)
class Averaging(_Iterations):
    """K iterations of DP-PASGD by all devices, tau of them between two averagings, each with its noise."""

    local_steps: int

    def plan(self, problem: Problem, step: StepSize, batch_size: int | None = None) -> Plan:
        """The setting with the noise that it needs."""
        return averaging_period.stated(problem, self.iterations, self.local_steps, step, batch_size)


@dataclass(frozen=True)
class RegularCoins(Coins):
    """Coins that fall after every (1/p)-th iteration.

    Example:
        >>> RegularCoins(12, 1 / 3).counts(4)
        array([3, 3, 3, 3])
    """

    @cached_property
    def flips(self) -> NDArray[np.bool_]:
        """Whether clients communicate after each iteration, shape (T,)."""
        return np.arange(1, self.iterations + 1) % round(1 / self.probability) == 0


def _regular(plan: Plan, coins: Coins) -> Plan:
    releases = np.full(plan.problem.n_clients, coins.rounds)
    return replace(
        plan,
        rounds=coins.rounds,
        clients_per_round=plan.problem.n_clients,
        releases=releases,
        release=plan.problem.release(releases),
        local=coins,
    )


Setting: TypeAlias = FedSGD | FedAvg | ScaffNew | Averaging | Selection
_KINDS = {"fedsgd-dpc": FedSGD, "dp-fedavg": FedAvg, "dp-scaffnew": ScaffNew, "dp-pasgd": Averaging}
_ITERATIONS, _ROUNDS = ("iterations", "local_steps"), ("rounds", "clients_per_round")
_APART = {
    "fedsgd-dpc": _ROUNDS,
    **dict.fromkeys(["dp-fedavg", "dp-scaffnew", "dp-pasgd"], _ITERATIONS),
    **dict.fromkeys(ALGORITHMS, _ROUNDS[:1]),
}
SYMBOLS = {name: {method(name).words.terms[key].symbol: key for key in keys} for name, keys in _APART.items()}
"""The quantities that tell the settings of an algorithm apart, by the symbol of its paper."""
UNTRAINED = {"rounds": 0, "iterations": 0, "local_steps": 0, "clients_per_round": 0}
"""The quantities of not training."""


def algorithm_of(setting: Setting) -> str:
    """The algorithm's name in a study file.

    Example:
        >>> algorithm_of(FedAvg(120, 3, 500))
        'dp-fedavg'
    """
    if isinstance(setting, Selection):
        return setting.algorithm
    return next(name for name, kind in _KINDS.items() if isinstance(setting, kind))


def quantities(setting: Setting | None) -> dict[str, float]:
    """What all settings have, to draw and to judge by; zeros for None, the setting of not training.

    Example:
        >>> quantities(FedAvg(120, 3, 500))
        {'rounds': 40, 'iterations': 120, 'local_steps': 3, 'clients_per_round': 500}
    """
    if setting is None:
        return dict(UNTRAINED)
    if isinstance(setting, FedSGD | Selection):
        rounds, asked = setting.rounds, setting.clients_per_round
        return {"rounds": rounds, "iterations": rounds, "local_steps": 1, "clients_per_round": asked}
    return {name: getattr(setting, name) for name in UNTRAINED}


def named(algorithm: str, values: dict[str, float]) -> str:
    """A setting in symbols.

    Example:
        >>> named("dp-fedavg", quantities(FedAvg(120, 3, 500)))
        'T=120, E=3'
    """
    if not values["rounds"]:
        return "do not train"
    return ", ".join(f"{symbol}={values[name]:g}" for symbol, name in SYMBOLS[algorithm].items())


def to_json(setting: Setting | None) -> dict[str, Any] | None:
    """Plain values for a file; None, the setting of not training, stays None."""
    return None if setting is None else {"algorithm": algorithm_of(setting), **asdict(setting)}


def from_json(values: dict[str, Any] | None) -> Setting | None:
    """The setting that `to_json` wrote.

    Example:
        >>> from_json(to_json(FedSGD(22, 1)))
        FedSGD(rounds=22, clients_per_round=1)
    """
    if values is None:
        return None
    if values["algorithm"] in ALGORITHMS:
        first = values["estimating"]
        return Selection(**{**values, "estimating": None if first is None else Estimating(**first)})
    return _KINDS[values["algorithm"]](**{name: v for name, v in values.items() if name != "algorithm"})
