"""Where a figure is measured: one bench opened at a scale, trainings and plans on it, each done once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from noiseworthy._keys import Purpose, named_key
from noiseworthy.algorithms.fedsgd_dpc import FedSGDDPC, make
from noiseworthy.data import EMBEDDED, Federation, federate, load_records
from noiseworthy.data.files import data_folder
from noiseworthy.engines.records import evaluation_rounds
from noiseworthy.engines.simulation import Shards, simulate
from noiseworthy.experiments.papers.spec import Arm, Bench, Cell
from noiseworthy.planning.plan import StepSize
from noiseworthy.planning.problem import Problem
from noiseworthy.planning.queries_replies import stated
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import Task, make_task
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.proxies import Proxy, make_proxies
from noiseworthy.trials.search import Choice, plan_by_trial

HORIZON = 500
"""Most rounds of any setting; arrays are padded to it, so that all settings share compiled programs."""
_EVALUATIONS = 12
_MINIATURE_TEST = 1000
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Laboratory:
    """A bench at a scale.

    Attributes:
        bench: data, clients and model.
        data_dir: folder of data files.
        scale: share of the paper's repeats, and of the records of a miniature.
        repeats: the paper's number of repeats.
    """

    bench: Bench
    data_dir: str | Path | None
    scale: float
    repeats: int = 10
    _shards: dict[float, Shards] = field(default_factory=dict, repr=False)

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
        """All clients with all their records; flat images get their two axes back for a CNN."""
        records, bench = load_records(self.source, data_dir=self.data_dir), self.bench
        if bench.model == "cnn" and len(records.record_shape) == 1:
            side = round(records.record_shape[0] ** 0.5)
            square = [x.reshape(len(x), side, side) for x in (records.x, records.test_x)]
            records = replace(records, x=square[0], test_x=square[1])
        return federate(
            records, clients=bench.clients, partition=bench.partition, seed=0,
            labels_per_client=bench.labels_per_client,
        )  # fmt: skip

    @cached_property
    def task(self) -> Task:
        """The bench's model on its records."""
        return make_task(self.bench.model, self.federation.record_shape, self.federation.classes)

    def sizes(self, fraction: float) -> np.ndarray:
        """Records per client that the noise is made for."""
        return np.maximum(1, np.floor(self.federation.sizes * fraction + 1e-9)).astype(int)

    def problem(self, arm: Arm, epsilon: float, fraction: float, clip_norm: float) -> Problem:
        """The planner's problem under one budget."""
        budget = PrivacyBudget.of(epsilon, arm.delta, self.bench.clients)
        return Problem(self.sizes(fraction), self.task.dimension, budget, arm.mechanism, clip_norm)

    def shards(self, fraction: float) -> Shards:
        """The records that are trained on: a share of all, and of a miniature only `scale` of those."""
        if fraction not in self._shards:
            federation = self.federation.take(fraction)
            if self.bench.miniature and self.scale < 1:
                kept = np.random.default_rng(0).permutation(len(federation.test_x))[:_MINIATURE_TEST]
                test = {"test_x": federation.test_x[kept], "test_y": federation.test_y[kept]}
                federation = replace(federation.take(self.scale), **test)
            self._shards[fraction] = Shards.load(federation, self.task)
        return self._shards[fraction]

    def train(
        self,
        arm: Arm,
        cell: Cell,
        epsilons: Sequence[float],
        fraction: float,
        clip_norm: float,
        step: StepSize,
    ) -> dict[float, dict[str, Any]]:
        """Train one (T, b) under several budgets and all seeds side by side; curves by epsilon.

        The noise of a miniature belongs to all records of a client, not to the few that are trained on.
        """
        (rounds, b), shards, started = cell, self.shards(fraction), time.monotonic()
        held = jnp.sum(shards.train.mask, axis=1)
        plans = [stated(self.problem(arm, e, fraction, clip_norm), rounds, b, step) for e in epsilons]
        algorithms = [
            _averaging_over(make(plan, self.task, seed, horizon=max(rounds, HORIZON)), held)
            for plan in plans
            for seed in self.seeds
        ]
        every = self.seeds * len(plans)
        run = simulate(algorithms, plans[0].releases, shards, evaluation_rounds(rounds, _EVALUATIONS), every)
        seconds = (time.monotonic() - started) / len(plans)
        rows = np.arange(len(every)).reshape(len(plans), -1)
        return {
            epsilon: {
                "at": run.rounds.tolist(), "losses": run.loss[row].tolist(),
                "accuracies": run.accuracy[row].tolist(), "seconds": seconds,
            }
            for epsilon, row in zip(epsilons, rows, strict=True)
        }  # fmt: skip

    @property
    def public(self) -> list[str]:
        """Data to plan by trial on, those whose files are there."""
        return [name for name in self.bench.public if self._present(name)]

    @cached_property
    def proxies(self) -> list[Proxy]:
        """Public stand-ins for planning by trial."""
        arm = Arm("none", (), 0.0, 1.0, StepSize(1.0), ())
        return make_proxies(self._facts(arm, 1.0, 1.0), self.public, self.data_dir)

    def plan(
        self, arm: Arm, epsilon: float, fraction: float, *, everything: bool, on_progress: Progress
    ) -> dict[str, Any]:
        """Plan (T, b) by trial on public data at the published clip and step, or plan those too."""
        started = time.monotonic()
        clip, step = (None, None) if everything else (arm.clip_norm, arm.step.initial)
        choice = Choice(None, None, HORIZON, step, arm.step.decay_rounds, clip)
        facts = self._facts(arm, epsilon, fraction)
        plan = plan_by_trial(facts, self.proxies, choice, on_progress=on_progress).plan
        return {
            "cell": [plan.rounds, plan.clients_per_round], "clip_norm": plan.problem.clip_norm,
            "step_size": plan.step.initial if plan.step else 0.0, "seconds": time.monotonic() - started,
        }  # fmt: skip

    def untrained(self, fraction: float) -> dict[str, Any]:
        """The curves of not training."""
        shards = self.shards(fraction)
        start = self.task.initial(named_key(jax.random.key(0), Purpose.START))
        score = self.task.score(start, shards.test_x, shards.test_y)
        loss, accuracy = ([[float(value)]] * len(self.seeds) for value in score)
        return {"at": [0], "losses": loss, "accuracies": accuracy, "seconds": 0.0}

    def _facts(self, arm: Arm, epsilon: float, fraction: float) -> PublicFacts:
        bench, federation = self.bench, self.federation
        settings = {"labels_per_client": bench.labels_per_client} if bench.labels_per_client else {}
        rule = bench.partition if settings else "iid"
        return PublicFacts(
            self.problem(arm, epsilon, fraction, 1.0), federation.record_shape, federation.classes or 2,
            lambda shape, classes: make_task(bench.model, shape, classes), self.source, rule, settings,
        )  # fmt: skip

    def _present(self, source: str) -> bool:
        """Whether a source ships with the product or has its folder among the data."""
        if source in EMBEDDED:
            return True
        root = data_folder(self.data_dir)
        return root is not None and (root / source.removeprefix("leaf:")).is_dir()


def _averaging_over(algorithm: FedSGDDPC, records: Any) -> FedSGDDPC:
    """The same algorithm where a client's mean is over the records it holds here."""
    return eqx.tree_at(lambda a: a.divisors, algorithm, records.astype(jnp.float32))
