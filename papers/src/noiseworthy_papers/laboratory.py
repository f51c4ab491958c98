"""Where a figure is measured: one bench opened at a scale, trainings on it side by side."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np

from noiseworthy._keys import Purpose, named_key
from noiseworthy.data import EMBEDDED, Federation, federate, load_records
from noiseworthy.data.files import data_folder
from noiseworthy.data.partitions import partition
from noiseworthy.data.records import Records
from noiseworthy.engines.records import Trajectory, evaluation_rounds
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.making import aligned
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.studies import two_stages
from noiseworthy.studies.training import Pace, pace_of
from noiseworthy.tasks import Task, make_task
from noiseworthy.trials.facts import PublicFacts
from noiseworthy_papers.budgets import bound_share
from noiseworthy_papers.devices import Split, trained_on
from noiseworthy_papers.noise_shares import noise_share
from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.selections import Selection
from noiseworthy_papers.settings import Setting
from noiseworthy_papers.spec import Arm, Bench

_MINIATURE_TEST = 1000
Curves = dict[str, Any]


class Training(NamedTuple):
    """What one training needs besides its budget and seed.

    Attributes:
        arm: mechanism, delta and clipping mode.
        setting: what to train.
        clip_norm: C.
        step: step sizes.
        fraction: share of the records.
        printed: whether the noise is the paper's own, which is not private.
        evaluations: how often to score.
    """

    arm: Arm
    setting: Setting
    clip_norm: float
    step: StepSize
    fraction: float = 1.0
    printed: bool = False
    evaluations: int = 12


class _Rows(NamedTuple):
    """Trainings side by side, a row for each epsilon and seed: what the engine takes."""

    plans: list[Plan]
    algorithms: list[Algorithm]
    shards: Shards
    seeds: list[int]

    @property
    def uploads(self) -> np.ndarray:
        """Uploads that are paid for, shape (S, N)."""
        return np.stack([plan.uploads for plan in self.plans])


@dataclass(frozen=True)
class Laboratory:
    """A bench at a scale.

    Attributes:
        bench: data, clients and model.
        data_dir: folder of data files.
        scale: share of the paper's repeats, and of the records of a miniature.
        repeats: the paper's number of repeats.
        least_seeds: fewest trainings of each setting, whatever the scale.
        notes: what planners measured here once, by name.
    """

    bench: Bench
    data_dir: str | Path | None
    scale: float
    repeats: int = 10
    least_seeds: int = 2
    _shards: dict[tuple[float, bool], Shards] = field(default_factory=dict, repr=False)
    notes: dict[str, Any] = field(default_factory=dict, repr=False)
    _trained: dict[tuple[Training, float], Curves] = field(default_factory=dict, repr=False)
    _loaded: dict[str, Records] = field(default_factory=dict, repr=False)

    def dealt(self, alpha: float | None) -> Laboratory:
        """The same records under another concentration of their Dirichlet partition."""
        if alpha == self.bench.alpha:
            return self
        bench = replace(self.bench, alpha=alpha)
        return Laboratory(
            bench, self.data_dir, self.scale, self.repeats, self.least_seeds, _loaded=self._loaded
        )

    @property
    def seeds(self) -> list[int]:
        """At least two, so that there are error bars."""
        return list(range(max(self.least_seeds, round(self.repeats * self.scale))))

    @cached_property
    def source(self) -> str:
        """The preferred source if its folder is among the data, else the bench's own."""
        preferred = self.bench.preferred
        return preferred if preferred and self._present(preferred) else self.bench.source

    @cached_property
    def federation(self) -> Federation:
        """All clients with the records that they train on."""
        return trained_on(self._whole) if self.bench.by_device else self._whole

    @cached_property
    def split(self) -> Split:
        """The clients with what each holds out, for benches that score by device."""
        return Split.of(self._whole, self.task)

    @cached_property
    def _whole(self) -> Federation:
        """All clients with all their records; flat images get their two axes back for a CNN."""
        records, bench = self._records(), self.bench
        if bench.model.endswith("cnn") and len(records.record_shape) == 1:
            side = round(records.record_shape[0] ** 0.5)
            square = [x.reshape(len(x), side, side) for x in (records.x, records.test_x)]
            records = replace(records, x=square[0], test_x=square[1])
        if bench.strata is not None:
            return federate(self._owned(records, bench.strata), clients=bench.clients, seed=0)
        return federate(
            records, clients=bench.clients, partition=bench.partition, seed=0, alpha=bench.alpha,
            labels_per_client=bench.labels_per_client, records_per_client=bench.records_per_client,
        )  # fmt: skip

    def _owned(self, records: Records, strata: int) -> Records:
        """The records with owners, dealt out by quantiles of their targets as if these were classes."""
        bench, owners = self.bench, np.empty(len(records), int)
        inner = np.quantile(records.y, np.arange(1, strata) / strata)
        classes = np.searchsorted(inner, records.y, side="right")
        parts = partition(bench.partition, classes, bench.clients or 1, 0, alpha=bench.alpha)
        for client, part in enumerate(parts):
            owners[part] = client
        return replace(records, client_ids=owners)

    @cached_property
    def task(self) -> Task:
        """The bench's model on its records."""
        federation, bench = self.federation, self.bench
        options = dict(bench.task)
        return make_task(bench.model, federation.record_shape, federation.classes, bias=bench.bias, **options)

    def sizes(self, fraction: float) -> np.ndarray:
        """Records per client that the noise is made for."""
        return np.maximum(1, np.floor(self.federation.sizes * fraction + 1e-9)).astype(int)

    def problem(self, arm: Arm, epsilon: float, fraction: float, clip_norm: float, seed: int = 0) -> Problem:
        """The planner's problem under one budget; where that is infinite, under some finite one.

        Where clients draw their own budgets, those that they draw with a seed.
        """
        sizes, unit = self.sizes(fraction), unit_of(arm.clipping)
        finite, delta = 1.0 if epsilon == NO_NOISE else epsilon, arm.delta
        if arm.budgets is not None:
            finite, delta = arm.budgets.drawn(finite, len(sizes), seed)
        budget = PrivacyBudget.of(finite, delta, len(sizes), unit=unit)
        resources = None if arm.costs is None else Resources.of(*arm.costs, clients=len(sizes))
        return Problem(
            sizes, self.task.dimension, budget, arm.mechanism, clip_norm, clipping=arm.clipping,
            resources=resources,
        )  # fmt: skip

    def shards(self, fraction: float, *, condensed: bool = False) -> Shards:
        """The records that are trained on: a share of all, and of a miniature only `scale` of those."""
        key = (fraction, condensed)
        if key not in self._shards:
            self._shards[key] = Shards.load(self._held(fraction), self.task, condensed=condensed)
        return self._shards[key]

    def held(self, fraction: float) -> np.ndarray:
        """Records that each client trains on, shape (N,)."""
        return self._shrunk(self.federation.take(fraction).sizes)

    def train(self, training: Training, epsilons: Sequence[float]) -> dict[float, Curves]:
        """Train a setting under several budgets and all seeds side by side; curves by epsilon.

        The noise of a miniature belongs to all records of a client, not to the few that are trained on.
        """
        training = training._replace(arm=replace(training.arm, costs=None, series=()))
        missing = [epsilon for epsilon in epsilons if (training, epsilon) not in self._trained]
        if missing:
            found = self._train(training, missing)
            self._trained.update({(training, epsilon): curves for epsilon, curves in found.items()})
        return {epsilon: self._trained[training, epsilon] for epsilon in epsilons}

    def _train(self, training: Training, epsilons: Sequence[float]) -> dict[float, Curves]:
        started = time.monotonic()
        run, models = self._run(training, epsilons)
        loss, accuracy = self._scores(run, models)
        seconds = (time.monotonic() - started) / len(epsilons)
        rows = np.arange(len(loss)).reshape(len(epsilons), -1)
        return {
            epsilon: {
                "at": run.rounds.tolist(), "losses": loss[row].tolist(),
                "accuracies": accuracy[row].tolist(), "seconds": seconds,
                **({"validation": self._validation(run, row)} if self.bench.by_device else {}),
            }
            for epsilon, row in zip(epsilons, rows, strict=True)
        }  # fmt: skip

    def _run(self, training: Training, epsilons: Sequence[float]) -> tuple[Trajectory, list[Checkpoint]]:
        """Every training of a setting, and its models where it is scored."""
        models: list[Checkpoint] = []
        if isinstance(training.setting, Selection) and training.setting.estimating:
            return self._run_in_stages(training, epsilons), models
        rows = self._rows(training, epsilons)
        rounds = evaluation_rounds(rows.plans[0].rounds, training.evaluations)
        run = simulate(
            rows.algorithms, rows.uploads, rows.shards, rounds, rows.seeds, on_segment=models.append
        )
        return run, models

    def _rows(self, training: Training, epsilons: Sequence[float]) -> _Rows:
        plans = [plan for epsilon in epsilons for plan in self._plans(training, epsilon)]
        of_plans, seeds = np.repeat(epsilons, len(self.seeds)), self.seeds * len(epsilons)
        algorithms = [
            self._adapted(make(plan, self.task, seed), training, float(epsilon), plan)
            for plan, epsilon, seed in zip(plans, of_plans, seeds, strict=True)
        ]
        longest = make(self.plan(self._longest(training), epsilons[0]), self.task, 0)
        *padded, _ = aligned([*algorithms, longest])
        return _Rows(plans, padded, self.shards(training.fraction, condensed=longest.condensed), seeds)

    def _run_in_stages(self, training: Training, epsilons: Sequence[float]) -> Trajectory:
        plans = [plan for epsilon in epsilons for plan in self._plans(training, epsilon)]
        run, _ = two_stages.run(
            plans, self.shards(training.fraction), self.task, self.seeds * len(epsilons),
            evaluation_rounds(plans[0].all_rounds, training.evaluations),
            adapted=lambda a: self._on_held(a, training.fraction),
        )  # fmt: skip
        return run

    def _plans(self, training: Training, epsilon: float) -> list[Plan]:
        """The plan of every seed; the same where clients draw no budgets."""
        if training.arm.budgets is None:
            return [self.plan(training, epsilon)] * len(self.seeds)
        return [self.plan(training, epsilon, seed) for seed in self.seeds]

    def pace(self, training: Training, epsilons: Sequence[float]) -> Pace:
        """How fast a setting trains here, for all budgets and seeds side by side."""
        rows = self._rows(training, epsilons)
        return pace_of(rows.algorithms, rows.uploads, rows.shards, rows.seeds)

    def _scores(self, run: Trajectory, models: Sequence[Checkpoint]) -> tuple[np.ndarray, np.ndarray]:
        """Test losses and accuracies, shape (trainings, scored rounds): pooled, or mean over devices."""
        if not self.bench.by_device:
            return run.loss, run.accuracy
        scores = [self.split.test.score(self.task, model.theta) for model in models]
        return np.stack([s.loss for s in scores], axis=1), np.stack([s.accuracy for s in scores], axis=1)

    def _validation(self, run: Trajectory, row: np.ndarray) -> float:
        """Mean accuracy of final models on what devices hold out to choose by."""
        return float(np.mean(self.split.validation.score(self.task, run.theta[row]).accuracy))

    def plan(self, training: Training, epsilon: float, seed: int = 0) -> Plan:
        """A setting with the noise that a budget, or those drawn with a seed, need for it here."""
        problem = self.problem(training.arm, epsilon, training.fraction, training.clip_norm, seed)
        return training.setting.plan(problem, training.step, self.bench.batch_size)

    def untrained(self, fraction: float) -> Curves:
        """The curves of not training."""
        shards = self.shards(fraction)
        start = self.task.initial(named_key(jax.random.key(0), Purpose.START))
        if self.bench.by_device:
            score = self.split.test.score(self.task, start[None])
        else:
            score = self.task.score(start, shards.test_x, shards.test_y)
        loss, accuracy = ([[float(np.squeeze(value))]] * len(self.seeds) for value in score)
        return {"at": [0], "losses": loss, "accuracies": accuracy, "seconds": 0.0}

    @property
    def public(self) -> list[str]:
        """Data to plan by trial on, those whose files are there."""
        return [name for name in self.bench.public if self._present(name)]

    def facts(self, arm: Arm, epsilon: float, fraction: float) -> PublicFacts:
        """What planning by trial may know."""
        bench, federation = self.bench, self.federation
        settings = {"labels_per_client": bench.labels_per_client} if bench.labels_per_client else {}
        rule = bench.partition if settings else "iid"
        return PublicFacts(
            self.problem(arm, epsilon, fraction, 1.0), federation.record_shape, federation.classes or 2,
            lambda shape, classes, *_: make_task(bench.model, shape, classes), self.source, rule, settings,
        )  # fmt: skip

    def _held(self, fraction: float) -> Federation:
        federation = self.federation.take(fraction).take_records(self.held(fraction))
        most = _MINIATURE_TEST if self._reduced else self.bench.test_records
        if most is None:
            return federation
        kept = np.random.default_rng(0).permutation(len(federation.test_x))[:most]
        return replace(federation, test_x=federation.test_x[kept], test_y=federation.test_y[kept])

    @property
    def _reduced(self) -> bool:
        return self.bench.miniature and self.scale < 1

    def _shrunk(self, sizes: np.ndarray) -> np.ndarray:
        return np.maximum(1, np.floor(sizes * self.scale + 1e-9)).astype(int) if self._reduced else sizes

    def _longest(self, training: Training) -> Training:
        return training._replace(setting=training.setting.longest(self.bench.horizon))

    def _adapted(self, algorithm: Algorithm, training: Training, epsilon: float, plan: Plan) -> Algorithm:
        """The same algorithm on the records that clients hold here, with its share of the sound noise."""
        share = self._noise_share(training, epsilon, plan)
        averaged = self._on_held(algorithm, training.fraction)
        noisier = lambda a: eqx.tree_at(lambda a: a.noise, a, a.noise * share)  # noqa: E731
        return averaged if np.all(share == 1) else noisier(averaged)

    def _noise_share(self, training: Training, epsilon: float, plan: Plan) -> Any:
        """Factor on the sound noise, one for all clients or shape (N,)."""
        if training.printed and isinstance(training.setting, Selection):
            return bound_share(plan.problem.budget.epsilon, plan.problem.budget.delta)
        return noise_share(
            training.arm, epsilon, training.setting, self.federation.n_clients, self.bench.noise_of,
            printed=training.printed,
        )  # fmt: skip

    def _on_held(self, algorithm: Any, fraction: float) -> Any:
        return algorithm if self.bench.by_device else _averaging_over(algorithm, self.held(fraction))

    def _records(self) -> Records:
        """Loaded once, however often they are dealt out."""
        if self.source not in self._loaded:
            made = self.bench.made if self.source == self.bench.source else None
            loaded = made(self.data_dir) if made else load_records(self.source, data_dir=self.data_dir)
            self._loaded[self.source] = loaded
        return self._loaded[self.source]

    def _present(self, source: str) -> bool:
        """Whether a source ships with the product or has its folder among the data."""
        if source in EMBEDDED:
            return True
        root = data_folder(self.data_dir)
        return root is not None and (root / source.rpartition(":")[2]).is_dir()


def _averaging_over(algorithm: Any, records: np.ndarray) -> Any:
    """The same algorithm where a client's mean is over the records it holds here."""
    if hasattr(algorithm, "divisors"):
        return eqx.tree_at(lambda a: a.divisors, algorithm, records.astype(np.float32))
    if hasattr(algorithm, "sizes"):
        return eqx.tree_at(lambda a: a.sizes, algorithm, records.astype(np.int32))
    return algorithm
