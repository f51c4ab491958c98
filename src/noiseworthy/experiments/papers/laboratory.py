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
from noiseworthy.algorithms.base import Algorithm
from noiseworthy.algorithms.making import aligned
from noiseworthy.algorithms.registry import make
from noiseworthy.data import EMBEDDED, Federation, federate, load_records
from noiseworthy.data.files import data_folder
from noiseworthy.data.records import Records
from noiseworthy.engines.records import Trajectory, evaluation_rounds
from noiseworthy.engines.simulation import Checkpoint, Shards, simulate
from noiseworthy.experiments.papers.devices import Split, trained_on
from noiseworthy.experiments.papers.noise_shares import noise_share
from noiseworthy.experiments.papers.settings import Setting
from noiseworthy.experiments.papers.spec import NO_NOISE, Arm, Bench
from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.resources import Resources
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.tasks import Task, make_task
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.proxies import Proxy, make_proxies

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


@dataclass(frozen=True)
class Laboratory:
    """A bench at a scale.

    Attributes:
        bench: data, clients and model.
        data_dir: folder of data files.
        scale: share of the paper's repeats, and of the records of a miniature.
        repeats: the paper's number of repeats.
        notes: what planners measured here once, by name.
    """

    bench: Bench
    data_dir: str | Path | None
    scale: float
    repeats: int = 10
    _shards: dict[tuple[float, bool], Shards] = field(default_factory=dict, repr=False)
    notes: dict[str, Any] = field(default_factory=dict, repr=False)
    _trained: dict[tuple[Training, float], Curves] = field(default_factory=dict, repr=False)

    @property
    def seeds(self) -> list[int]:
        """At least two, so that there are error bars."""
        return list(range(max(2, round(self.repeats * self.scale))))

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
        return federate(
            records, clients=bench.clients, partition=bench.partition, seed=0,
            labels_per_client=bench.labels_per_client, records_per_client=bench.records_per_client,
        )  # fmt: skip

    @cached_property
    def task(self) -> Task:
        """The bench's model on its records."""
        federation, bench = self.federation, self.bench
        options = dict(bench.task)
        return make_task(bench.model, federation.record_shape, federation.classes, bias=bench.bias, **options)

    def sizes(self, fraction: float) -> np.ndarray:
        """Records per client that the noise is made for."""
        return np.maximum(1, np.floor(self.federation.sizes * fraction + 1e-9)).astype(int)

    def problem(self, arm: Arm, epsilon: float, fraction: float, clip_norm: float) -> Problem:
        """The planner's problem under one budget; where that is infinite, under some finite one."""
        sizes, unit = self.sizes(fraction), unit_of(arm.clipping)
        finite = 1.0 if epsilon == NO_NOISE else epsilon
        budget = PrivacyBudget.of(finite, arm.delta, len(sizes), unit=unit)
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
        plans = [self.plan(training, epsilon) for epsilon in epsilons]
        algorithms = [
            self._adapted(make(plan, self.task, seed), training, epsilon)
            for plan, epsilon in zip(plans, epsilons, strict=True)
            for seed in self.seeds
        ]
        longest = make(self.plan(self._longest(training), epsilons[0]), self.task, 0)
        every, (*padded, _) = self.seeds * len(plans), aligned([*algorithms, longest])
        rounds = evaluation_rounds(plans[0].rounds, training.evaluations)
        shards = self.shards(training.fraction, condensed=longest.condensed)
        models: list[Checkpoint] = []
        run = simulate(padded, plans[0].uploads, shards, rounds, every, on_segment=models.append)
        loss, accuracy = self._scores(run, models)
        seconds = (time.monotonic() - started) / len(plans)
        rows = np.arange(len(every)).reshape(len(plans), -1)
        return {
            epsilon: {
                "at": run.rounds.tolist(), "losses": loss[row].tolist(),
                "accuracies": accuracy[row].tolist(), "seconds": seconds,
                **({"validation": self._validation(run, row)} if self.bench.by_device else {}),
            }
            for epsilon, row in zip(epsilons, rows, strict=True)
        }  # fmt: skip

    def _scores(self, run: Trajectory, models: Sequence[Checkpoint]) -> tuple[np.ndarray, np.ndarray]:
        """Test losses and accuracies, shape (trainings, scored rounds): pooled, or mean over devices."""
        if not self.bench.by_device:
            return run.loss, run.accuracy
        scores = [self.split.test.score(self.task, model.theta) for model in models]
        return np.stack([s.loss for s in scores], axis=1), np.stack([s.accuracy for s in scores], axis=1)

    def _validation(self, run: Trajectory, row: np.ndarray) -> float:
        """Mean accuracy of final models on what devices hold out to choose by."""
        return float(np.mean(self.split.validation.score(self.task, run.theta[row]).accuracy))

    def plan(self, training: Training, epsilon: float) -> Plan:
        """A setting with the noise that a budget needs for it here."""
        problem = self.problem(training.arm, epsilon, training.fraction, training.clip_norm)
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

    @cached_property
    def proxies(self) -> list[Proxy]:
        """Public stand-ins for planning by trial."""
        arm = Arm("none", (), 0.0, 1.0, StepSize(1.0), ())
        return make_proxies(self.facts(arm, 1.0, 1.0), self.public, self.data_dir)

    def facts(self, arm: Arm, epsilon: float, fraction: float) -> PublicFacts:
        """What planning by trial may know."""
        bench, federation = self.bench, self.federation
        settings = {"labels_per_client": bench.labels_per_client} if bench.labels_per_client else {}
        rule = bench.partition if settings else "iid"
        return PublicFacts(
            self.problem(arm, epsilon, fraction, 1.0), federation.record_shape, federation.classes or 2,
            lambda shape, classes: make_task(bench.model, shape, classes), self.source, rule, settings,
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

    def _adapted(self, algorithm: Algorithm, training: Training, epsilon: float) -> Algorithm:
        """The same algorithm on the records that clients hold here, with its share of the sound noise."""
        share = noise_share(
            training.arm, epsilon, training.setting, self.federation.n_clients, self.bench.noise_of,
            printed=training.printed,
        )  # fmt: skip
        averaged: Any = (
            algorithm if self.bench.by_device else _averaging_over(algorithm, self.held(training.fraction))
        )
        return averaged if share == 1 else eqx.tree_at(lambda a: a.noise, averaged, averaged.noise * share)

    def _records(self) -> Records:
        made = self.bench.made if self.source == self.bench.source else None
        return made(self.data_dir) if made else load_records(self.source, data_dir=self.data_dir)

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
    return eqx.tree_at(lambda a: a.sizes, algorithm, records.astype(np.int32))
