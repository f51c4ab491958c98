"""From a study file to the objects it speaks of: federation, task, problem, public facts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._tables import PerClient
from noiseworthy.data import Federation
from noiseworthy.data.federation import numbered
from noiseworthy.data.prior_columns import blocks_of
from noiseworthy.errors import ConfigError, DataError, InvalidInput
from noiseworthy.methods.question import Question, given
from noiseworthy.methods.registry import method
from noiseworthy.plans.problem import ASSUMED, Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import ClippingMode, unit_of
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.releases import Release
from noiseworthy.studies.class_weights import names_of_classes, shares_of, with_numbers
from noiseworthy.studies.clients import Stated, by_name, in_order
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.models import proxy_task, task_for, with_task
from noiseworthy.studies.occupied import NO_DATA
from noiseworthy.studies.opening import Opened, check_model, open_data
from noiseworthy.studies.privacy_table import budgets_of
from noiseworthy.studies.public_sizes import closer, label_range, label_scale, record_size, untrained_loss
from noiseworthy.studies.summed import check_can_be_summed
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.images import seen_shape
from noiseworthy.trials.facts import OWNERS as GIVEN_OWNERS
from noiseworthy.trials.facts import PublicFacts


@dataclass(frozen=True)
class Prepared:
    """A study with what its tables name; federation and task are None when planned from sizes alone.

    The task is the model of one record. Where rows are persons, its bounds are those of a person's loss, too,
    which is a mean of losses of records; what trains is `trained`.

    Public `relatives` hold the study's records under another name: `public = "auto"` leaves them out.
    """

    study: Study
    federation: Federation | None
    task: Task | None
    sizes: np.ndarray
    dimension: int
    relatives: tuple[str, ...] = ()
    ranges: BoughtRanges | None = None
    """Ranges of columns and the size of labels that were bought, for shares of the budgets."""
    deploys: bool = False
    """Whether it is to be trained at owners, of whom nothing is bought before planning."""

    @property
    def at_owners(self) -> bool:
        """Whether its records are, or are to be, at the end of a network."""
        return self.study.federation.of_owners or self.deploys

    def problem(self, clip_norm: float, clipping: ClippingMode = "A") -> Problem:
        """The planner's problem with a given clip, the budget in the unit of its clipping mode."""
        table = self.study.privacy
        unit = unit_of(clipping, table.unit)
        budget = PrivacyBudget.of(self.epsilon, self.delta, len(self.sizes), table.relation, unit)
        if self.ranges is not None:
            budget = self.ranges.left_of(budget)
        return Problem(
            self.sizes, self.dimension, budget, table.mechanism, clip_norm, table.sampling_rate, clipping,
            self._resources(), table.whom, table.unit,
        )  # fmt: skip

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clients, in order; places where they have none."""
        return numbered(len(self.sizes)) if self.federation is None else self.federation.clients

    @property
    def named(self) -> bool:
        """Whether clients have names of their own, by which alone numbers are theirs."""
        return self.federation is not None and self.federation.named

    def in_order(self, where: str, stated: Stated) -> PerClient:
        """Numbers in the order of the clients, as `studies.clients.in_order`."""
        return in_order(where, stated, self.names, named=self.named)

    def stated(self, numbers: PerClient) -> Stated:
        """Numbers in the order of the clients as a study states them: by name where clients have names."""
        return by_name(numbers, self.names if self.named else ())

    @property
    def epsilon(self) -> PerClient:
        """The privacy losses that clients allow, those of a range drawn."""
        return budgets_of(self.study, "epsilon", self.names, named=self.named)

    @property
    def delta(self) -> PerClient:
        """The probabilities of a larger loss, those of a range drawn."""
        return budgets_of(self.study, "delta", self.names, named=self.named)

    @property
    def resource_budget(self) -> PerClient:
        """What clients may spend of their resources.

        Raises:
            ConfigError: a study without `[resources]`.
        """
        if (table := self.study.resources) is None:
            raise ConfigError("[resources] is missing; state cost_per_round, cost_per_step and the budget")
        return self.in_order("[resources] budget", table.budget)

    @property
    def question(self) -> Question:
        """The study as its method's planner sees it."""
        privacy, constants = self.study.privacy, self.study.constants
        return Question(
            mechanism=privacy.mechanism, clip_norm=given(privacy.clip_norm), source=constants.source,
            assumed={name: Constant(value, ASSUMED) for name, value in constants.assumed().items()},
            share=constants.share, heterogeneity=self._heterogeneity,
            heterogeneity_spread=constants.heterogeneity_spread, sizes=self.sizes, task=self.task,
            classes=None if self.federation is None else self.federation.classes, model=self.model,
            problem=self.problem, pilot_gradients=self._pilot_gradients,
        )  # fmt: skip

    def model(self) -> Task:
        """The model, for what needs one.

        Raises:
            ConfigError: the study names no data.
        """
        self.trained()
        return cast(Task, self.task)

    def _pilot_gradients(self, problem: Problem, pilot: Release) -> NDArray[np.float64]:
        from noiseworthy.engines.pilot import pilot_gradients  # here, because few plans buy constants

        federation, task = self.trained()
        return pilot_gradients(federation, task, problem, pilot, self.study.federation.seed)

    def _heterogeneity(self) -> PerClient | None:
        stated = self.study.constants.heterogeneity
        return None if stated is None else self.in_order("[constants] heterogeneity", stated)

    def _resources(self) -> Resources | None:
        if (table := self.study.resources) is None:
            return None
        keys = ("cost_per_round", "cost_per_step")
        per_round, per_step = (self.in_order(f"[resources] {key}", getattr(table, key)) for key in keys)
        return Resources.of(per_round, per_step, self.resource_budget, len(self.sizes), table.unit)

    def trained(self) -> tuple[Federation, Task]:
        """Federation and the task of its rows, records or persons, for commands that train.

        Raises:
            ConfigError: the study names no data.
        """
        if self.federation is None or self.task is None:
            raise ConfigError(NO_DATA)
        if (most := self.federation.persons) is None:
            return self.federation, self.task
        from noiseworthy.tasks.persons import Persons  # here, because few studies are of persons

        return self.federation, Persons(self.task, most, self.federation.record_shape[0])

    @property
    def steering_floor(self) -> float:
        """Floor of steering: a tenth of the loss that a model without any knowledge has.

        Raises:
            ConfigError: sizes alone, which do not say what is predicted.
        """
        if self.federation is None:
            raise ConfigError("[algorithm] steering needs data, by which a loss is known; leave it out")
        if (classes := self.federation.classes) is not None:
            return _KNOWN * untrained_loss(self.study.task.model, classes)
        return _KNOWN / 2 * (self._label_scale or 1.0) ** 2

    @property
    def _label_scale(self) -> float | None:
        """Size of the numbers to predict: bought, stated, or by their range; None for classes."""
        told = closer(self.study, self.ranges)
        return label_scale(self.study, self.trained()[0]) if told is None else told.label_scale

    def public_facts(self) -> PublicFacts:
        """What trials may imitate: sizes, shapes, classes and the stated skew, no record."""
        federation, _ = self.trained()
        if federation.label_shape:
            raise ConfigError(
                "planning by trial knows one class per record; for tokens and masks fix everything under "
                "[algorithm], clip_norm and step_size included"
            )
        partition, settings = believed_partition(self.study)
        told = closer(self.study, self.ranges)
        # of two classes, too, a stand-in has an output for each: one alone would be clipped in another mode
        several = self.study.task.model is None and (federation.classes or 0) > 2
        study = with_task(self.study, {"model": "softmax"}) if several else self.study
        return PublicFacts(
            problem=self.problem(1.0),
            record_shape=seen_shape(self.study.task.model, federation.feature_shape),
            classes=federation.classes, make_task=partial(proxy_task, study),
            source=self.study.located(str(self.study.federation.data)), partition=partition,
            settings=settings, label_scale=self._label_scale,
            label_range=label_range(self.study, federation) if told is None else None,
            label_octaves=() if told is None else told.label_octaves,
            label_noise=0.0 if self.ranges is None else self.ranges.label_noise,
            class_shares=shares_of(self.study.task), metric=self.study.planning.metric,
            model=self.study.task.model_dump_json(),
            columns=() if federation.schema is None else blocks_of(federation.schema),
            record_size=None if federation.schema is None else record_size(federation.schema),
            stated_epsilon=None if self.ranges is None else float(self.ranges.budget.epsilon.max()),
            asked=given(getattr(self.study.algorithm, "clients_per_round", None)),
        )  # fmt: skip


_KNOWN = 0.1


def prepare(study: Study | Path | str, opened: Opened | None = None) -> Prepared:
    """Open the data and the task that a study names.

    Args:
        study: what to open, or the path of its file.
        opened: its data where they were opened before.

    Raises:
        ConfigError: tables that do not fit each other.
        DataError: data that cannot be read.
        InvalidInput: no study, or fewer clients than a secure sum needs in a round.
    """
    if isinstance(study, dict):
        raise InvalidInput("study must be a Study or its file's path, got a dict; give parse_study(dict)")
    study = study if isinstance(study, Study) else load_study(study)
    check_can_be_summed(study)
    table = study.federation
    if table.data is None:
        sizes = check.counts("[federation] sizes", table.sizes or [], remedy="one entry per client")
        if study.task.dimension is None:
            raise ConfigError(
                "[task] dimension is missing; planning from sizes alone needs the number of parameters"
            )
        study.privacy.whom.check_cohort(len(sizes))
        return Prepared(study, None, None, sizes, check.count("[task] dimension", study.task.dimension))
    federation, ranges = open_data(study) if opened is None else opened
    check_model(study, federation)
    study.privacy.whom.check_cohort(federation.n_clients)
    study = _settled(study, federation)
    task = task_for(study, federation)
    if study.task.dimension not in (None, task.dimension):
        raise ConfigError(
            f"[task] dimension = {study.task.dimension}, but the model on {federation.name} has "
            f"{task.dimension} parameters; leave dimension out when data are given"
        )
    return Prepared(study, federation, task, federation.sizes, task.dimension, ranges=ranges)


def _settled(study: Study, federation: Federation) -> Study:
    """The study without an intercept where records are images, and with numbers of classes in their order."""
    table = with_numbers(study.task, names_of_classes(study, federation))
    images = len(federation.record_shape) > 1 and table.bias == "auto"
    table = table.model_copy(update={"bias": 0.0}) if images else table
    return study if table is study.task else study.model_copy(update={"task": table})


def believed_partition(study: Study) -> tuple[str, dict[str, Any]]:
    """How trials deal records out: as the study says, as other owners hold theirs, or iid.

    How given owners differ, only the private data could tell; public owners stand in for them.
    """
    table = study.federation
    if table.partition == GIVEN_OWNERS or (table.partition is None and table.clients is None):
        return GIVEN_OWNERS, {}
    if table.partition in ("label-shards", "dirichlet", "sorted"):
        settings = {"labels_per_client": table.labels_per_client, "alpha": table.alpha}
        return table.partition, {name: value for name, value in settings.items() if value is not None}
    return "iid", {}


def trials_wanted(prepared: Prepared) -> bool:
    """Whether a study is planned by trial: it says so, or has data and noise and leaves something free."""
    study = prepared.study
    if study.constants.source is not None:
        return study.constants.source == "fitted"
    free = method(study.algorithm.name).leaves_free(study.algorithm) or study.privacy.clip_norm == "auto"
    return _can_be_tried(prepared) and free


def _can_be_tried(prepared: Prepared) -> bool:
    """Whether there are data and noise, and nothing that trials know nothing of: constants, whom to ask."""
    study = prepared.study
    if prepared.federation is None or not law_of(study.privacy.mechanism).noisy:
        return False
    if study.constants.assumed() or isinstance(study.constants.heterogeneity, list | dict):
        return False
    return not tells_clients_apart(study)


def tells_clients_apart(study: Study) -> bool:
    """Whether its method is to ask clients as budgets or heterogeneity say, which trials know nothing of."""
    return method(study.algorithm.name).tells_clients_apart(study.algorithm)


def check_same_sizes(problem: Problem, federation: Federation) -> None:
    """Refuse to train with another federation than the noise was calibrated for.

    Raises:
        DataError: sizes that differ from the plan's.
    """
    if not np.array_equal(problem.sizes, federation.sizes):
        raise DataError(
            f"the plan was made for sizes {problem.sizes.tolist()[:5]}..., the data hold "
            f"{federation.sizes.tolist()[:5]}...; plan again, because noise depends on them"
        )
