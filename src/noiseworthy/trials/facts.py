"""What a planner may know without asking anybody: the public facts of a federation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil
from typing import Any, Protocol

import numpy as np

from noiseworthy.data.prior_columns import Block
from noiseworthy.methods.space import MOST_CLIENTS
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.means import MeanRelease
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.qualities import Metric
from noiseworthy.trials.treatment import Treatment

_MOST_OF_ALL = 5000
OWNERS = "natural"
"""The partition of data that name their owners: how these differ, only the private data could tell."""


class TaskMaker(Protocol):
    """Makes the study's model for other records."""

    def __call__(
        self,
        shape: tuple[int, ...],
        classes: int | None,
        treatment: Treatment | None,
        public: str | None = None,
        /,
    ) -> Task:
        """The model for records of a shape, with so many classes, treated in a way.

        Records of public data, given by name, are not seen against themselves.
        """
        ...


@dataclass(frozen=True)
class PublicFacts:
    """Public facts that trials imitate; no private feature or label is among them.

    Attributes:
        problem: sizes, budgets and mechanism (its clip and dimension are placeholders).
        record_shape: shape of one record.
        classes: number of classes; None for regression.
        make_task: the study's model for other records.
        source: name of the private data, so that it is never its own proxy.
        partition: name of the partition that the clients are believed to follow; `natural` of given owners.
        settings: its settings, e.g. `labels_per_client`.
        label_scale: public root mean square of the numbers that a regression predicts.
        label_range: their public range, where it is all that is known of them.
        label_octaves: shares of them in octaves below the end of their range (`privacy.octaves`), if these
            were bought of numbers of one sign; empty where they are not known.
        label_noise: deviation of the noise in the mean of the numbers to predict, which training starts at;
            0 where it is not told.
        class_shares: public shares of the classes, in their order; None where nobody states them.
        metric: by which settings are chosen.
        for_owners: whether they are chosen by the loss of models that owners tune at home.
        model: the settings of the model in words, by which results are kept; empty keeps none.
        columns: what the numbers of a record are, where a schema says it.
        record_size: norm of a record that its columns suggest, where all have public ranges.
        stated_epsilon: greatest of the study, where `problem` holds what is left of it after what was bought.
        asked: clients that the study states for a round.
    """

    problem: Problem
    record_shape: tuple[int, ...]
    classes: int | None
    make_task: TaskMaker
    source: str
    partition: str
    settings: dict[str, Any] = field(default_factory=dict)
    label_scale: float | None = None
    label_range: tuple[float, float] | None = None
    label_octaves: tuple[float, ...] = ()
    label_noise: float = 0.0
    class_shares: tuple[float, ...] | None = None
    metric: Metric = "loss"
    for_owners: bool = False
    model: str = ""
    columns: tuple[Block, ...] = ()
    record_size: float | None = None
    stated_epsilon: float | None = None
    asked: int | None = None

    @property
    def own_epsilon(self) -> float:
        """Greatest epsilon of a client as the study states it."""
        return self.stated_epsilon or float(self.problem.budget.epsilon.max())

    def told_before(self, treatment: Treatment | None) -> BoughtRanges | None:
        """What clients tell before training for a treatment, and pay for; not yet what they say."""
        if treatment is None or not treatment.centred:
            return None
        problem, once = self.problem, np.ones(self.problem.n_clients, np.int64)
        known = problem.sizes, problem.budget, problem.family
        mean = MeanRelease.of(*known, self.record_shape, self.classes or 0)
        return BoughtRanges(((mean.release, once),), problem.budget, {})

    def paying(self, treatment: Treatment | None) -> PublicFacts:
        """The same facts with the budgets that are left after what clients tell for a treatment."""
        if (told := self.told_before(treatment)) is None:
            return self
        return replace(self, problem=replace(self.problem, budget=told.left_of(self.problem.budget)))

    def thinned(self) -> PublicFacts:
        """The same facts with few clients: of N clients, in order of size, every (N/M)-th.

        M is 500, or as many as a stated cohort wants to be one of them, and 5,000 at most. The mean of M
        uploads is noisier than that of N: a trial shrinks its noise (`Proxy.noise_factor`). As large a share
        of them colludes or is missing.
        """
        problem, n = self.problem, self.problem.n_clients
        most = min(max(MOST_CLIENTS, ceil(n / (self.asked or n))), _MOST_OF_ALL)
        if n <= most:
            return self
        ranks = np.linspace(0, n - 1, most).round().astype(int)
        kept = np.sort(np.argsort(problem.sizes, kind="stable")[ranks])
        epsilon, delta = problem.budget.epsilon[kept], problem.budget.delta[kept]
        few = PrivacyBudget.of(epsilon, delta, most, problem.budget.relation, problem.budget.unit)
        resources, trust = problem.resources and problem.resources.of_some(kept), problem.trust
        # rounded up, so that a trial has no less noise than the federation would
        away = {name: ceil(getattr(trust, name) * most / n) for name in ("colluders", "dropouts")}
        trust = replace(trust, **away)
        fewer = {"sizes": problem.sizes[kept], "budget": few, "resources": resources, "trust": trust}
        return replace(self, problem=replace(problem, **fewer))
