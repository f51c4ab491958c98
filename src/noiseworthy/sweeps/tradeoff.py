"""The trade-off surface of a study: what its planner makes of other privacy and resource budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy._tables import Auto, PerClient
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.resources import ResourceUnit
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.trust import TRUST_MODELS, TrustModel
from noiseworthy.studies.decision import Decision, Progress
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.summed import check_can_be_summed
from noiseworthy.studies.tables import ResourcesTable
from noiseworthy.sweeps.compare import Cell, run_grid, search_epsilon, untrained_score

EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)
BUDGETS = (0.25, 0.5, 1.0, 2.0)
"""Shares of a study's own budgets that are looked at where nothing is stated."""


@dataclass(frozen=True)
class Axis:
    """Budgets along one side of the surface.

    Attributes:
        values: ascending; numbers, or factors of the budgets that the study states per client.
        own: where the study itself lies: its number, or factor 1.
        per_client: whether values are factors.

    Example:
        >>> Axis.of("auto", 8.0, (0.5, 1.0))
        Axis(values=(4.0, 8.0), own=8.0, per_client=False)
        >>> Axis.of([2.0, 0.1], [3.0, 5.0], ())
        Axis(values=(0.1, 2.0), own=1.0, per_client=True)
    """

    values: tuple[float, ...]
    own: float
    per_client: bool

    @classmethod
    def of(cls, stated: list[float] | Auto, own: PerClient, shares: Sequence[float]) -> Axis:
        """The stated values, or shares of the study's own budget."""
        at = 1.0 if isinstance(own, list) else own
        values = [share * at for share in shares] if stated == "auto" else stated
        return cls(tuple(sorted(set(values))), at, isinstance(own, list))

    def is_own(self, value: float) -> bool:
        """Whether the study itself lies there."""
        return bool(np.isclose(value, self.own, rtol=1e-12, atol=0))

    def budget(self, own: PerClient, value: float) -> PerClient:
        """The budgets of the clients at a value of the axis."""
        return [value * one for one in own] if isinstance(own, list) else value


@dataclass(frozen=True)
class BudgetPair:
    """One pair of budgets: what is planned within them, and what that reaches.

    Attributes:
        epsilon: privacy budget, on its axis.
        budget: resource budget, on its axis.
        own: whether these are the study's own budgets.
        trust: whom owners trust; None for whom the study says.
        plan: the decision; None where these budgets allow none.
        reason: why there is no plan, empty where there is one.
        loss: final test losses, shape (seeds,); infinite if diverged, empty without a plan.
        accuracy: final test scores, shape (seeds,); NaN where there is no score, empty without a plan.
    """

    epsilon: float
    budget: float
    own: bool
    trust: TrustModel | None = None
    plan: Plan | None = None
    reason: str = ""
    loss: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    accuracy: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class Surface:
    """Every pair of budgets of a study.

    Attributes:
        epsilon: the axis of privacy budgets.
        budget: the axis of resource budgets.
        unit: of the resources.
        points: row by row, the least resource budget first.
        seeds: of every training.
        trusts: the study's own resources under each trust, least to most, along the privacy budgets; those
            of the study's own are `points` where these have them. Empty where it asks for none.
    """

    epsilon: Axis
    budget: Axis
    unit: ResourceUnit
    points: tuple[BudgetPair, ...]
    seeds: tuple[int, ...]
    trusts: tuple[BudgetPair, ...] = ()

    @classmethod
    def of(cls, prepared: Prepared) -> Surface:
        """The pairs that a study asks for, nothing planned yet.

        Raises:
            ConfigError: no `[resources]`, no data, or no noise.
        """
        study, resources = prepared.study, _resources(prepared)
        prepared.trained()
        if not law_of(study.privacy.mechanism).noisy:
            raise ConfigError(
                'the trade-off needs noise, got mechanism = "none"; use "gaussian" or "laplace" in [privacy]'
            )
        across = Axis.of(study.tradeoff.epsilon, prepared.epsilon, EPSILONS)
        up = Axis.of(study.tradeoff.budget, prepared.resource_budget, BUDGETS)
        points = tuple(
            BudgetPair(epsilon, budget, across.is_own(epsilon) and up.is_own(budget))
            for budget in up.values
            for epsilon in across.values
        )
        trusts = tuple(
            BudgetPair(epsilon, up.own, own and across.is_own(epsilon), model)
            for model in TRUST_MODELS
            for own in [model == study.privacy.trust]
            for epsilon in across.values
        )
        kept = trusts if study.tradeoff.trust else ()
        return cls(across, up, resources.unit, points, tuple(study.tradeoff.seeds), kept)

    @property
    def plans(self) -> list[Plan]:
        """The plans that train, in the order of their points."""
        return _that_train(self.points)

    def again(self, pair: BudgetPair, own: TrustModel) -> BudgetPair | None:
        """The point of the surface that a pair under one trust is, where the study's own is that."""
        same = (one for one in self.points if one.epsilon == pair.epsilon and self.budget.is_own(one.budget))
        return next(same, None) if pair.trust == own else None

    @property
    def search_epsilon(self) -> float | None:
        """What carrying out every plan once would spend of the client that is worst off.

        Constants that were bought count even where nothing is trained; None where nothing is spent, or the
        sum has no closed form.
        """
        made = [point.plan for point in self.points if point.plan is not None]
        return search_epsilon(made) if made else None


def plan_surface(
    surface: Surface,
    prepared: Prepared,
    own: Decision | None = None,
    on_progress: Progress = lambda done: None,
) -> Surface:
    """Plan every pair of budgets once, with the planner of the study.

    Args:
        surface: of the study.
        prepared: the study.
        own: the decision for the study's own budgets where it is known already.
        on_progress: told the share of pairs done.

    Returns:
        The surface with plans; a pair of budgets that allow none has the reason instead.

    Raises:
        ConfigError: a study that its planner cannot plan.
        InvalidInput: no pair has a plan.
    """
    made, trust = [], prepared.study.privacy.trust
    pairs = [*surface.points, *(one for one in surface.trusts if surface.again(one, trust) is None)]
    for i, pair in enumerate(pairs):
        told = _part(on_progress, i, len(pairs))
        made.append(_planned(surface, pair, prepared, own, told))
        told(1.0)
    points, others = made[: len(surface.points)], made[len(surface.points) :]
    if all(point.plan is None for point in points):
        raise InvalidInput(f"no pair of budgets in [tradeoff] has a plan: {points[-1].reason}")
    return _with_trusts(replace(surface, points=tuple(points)), others, trust)


def _with_trusts(surface: Surface, others: Sequence[BudgetPair], own: TrustModel) -> Surface:
    """The surface whose pairs under each trust are its own points, and where it has none the others."""
    rest = iter(others)
    filled = []
    for pair in surface.trusts:
        same = surface.again(pair, own)
        filled.append(next(rest) if same is None else replace(same, trust=pair.trust))
    return replace(surface, trusts=tuple(filled))


def _that_train(pairs: Sequence[BudgetPair]) -> list[Plan]:
    return [pair.plan for pair in pairs if pair.plan is not None and pair.plan.train]


def train_surface(surface: Surface, prepared: Prepared, on_progress: Progress = lambda done: None) -> Surface:
    """Train every plan of a surface in simulation; what does not train has the untrained score.

    Args:
        surface: planned for the same study.
        prepared: the study.
        on_progress: told the share of the work done.
    """
    federation, task = prepared.trained()
    seeds, start = surface.seeds, untrained_score(task, Shards.load(federation, task))
    trust = prepared.study.privacy.trust
    others = [one for one in surface.trusts if surface.again(one, trust) is None]
    plans = surface.plans + _that_train(others)
    cells = iter(run_grid(plans, federation, task, seeds, on_progress) if plans else ())
    idle = Cell({}, *(np.full(len(seeds), float(value)) for value in start))

    def reached(point: BudgetPair) -> BudgetPair:
        if point.plan is None:
            return point
        cell = next(cells) if point.plan.train else idle
        return replace(point, loss=cell.loss, accuracy=cell.accuracy)

    trained = replace(surface, points=tuple(reached(point) for point in surface.points))
    return _with_trusts(trained, [reached(one) for one in others], trust)


def _part(on_progress: Progress, i: int, of: int) -> Progress:
    """Progress within the i-th of several parts of equal length."""
    return lambda done: on_progress((i + done) / of)


def _planned(
    surface: Surface, point: BudgetPair, prepared: Prepared, own: Decision | None, on_progress: Progress
) -> BudgetPair:
    """The point with its plan; what no plan can be made for is no error, but a reason."""
    if point.own and own is not None:  # under whichever trust, it is the study itself
        return replace(point, plan=own.plan)
    study, resources = prepared.study, _resources(prepared)
    epsilon = surface.epsilon.budget(prepared.epsilon, point.epsilon)
    budget = surface.budget.budget(prepared.resource_budget, point.budget)
    privacy: dict[str, object] = {"epsilon": prepared.stated(epsilon)}
    if point.trust not in (None, study.privacy.trust):
        privacy |= {"trust": point.trust, "colluders": 0, "dropouts": 0, "cohorts": "public"}
    changed = {
        "privacy": study.privacy.model_copy(update=privacy),
        "resources": resources.model_copy(update={"budget": prepared.stated(budget)}),
    }
    other = study.model_copy(update=changed)
    if point.trust is not None:
        try:
            check_can_be_summed(other)
        except ConfigError as error:
            return replace(point, reason=str(error))
    try:
        return replace(point, plan=decide(replace(prepared, study=other), on_progress).plan)
    except InvalidInput as error:
        return replace(point, reason=str(error))


def _resources(prepared: Prepared) -> ResourcesTable:
    if prepared.study.resources is None:
        raise ConfigError(
            "the trade-off needs [resources]; state cost_per_round, cost_per_step and the budget of a client"
        )
    return prepared.study.resources
