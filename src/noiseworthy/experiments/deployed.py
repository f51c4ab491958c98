"""A study trained over a network of owners: what they are offered, and a run folder like the simulation's.

The plan, the algorithms and the report are those of a simulated training. What differs is who holds records
and ledgers: the server asks, and every owner decides. A run that was broken off goes on from its folder: a
round that was asked for and not kept is asked for again, and owners answer it by the same bytes for nothing.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from noiseworthy import _validate as check
from noiseworthy.algorithms.registry import make
from noiseworthy.data import Federation
from noiseworthy.engines.asking import Asking, work_of
from noiseworthy.engines.correspondence import Correspondence
from noiseworthy.engines.exchange import Exchange
from noiseworthy.engines.records import evaluation_rounds
from noiseworthy.engines.remote import Round, Terms, train_remotely
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import ConfigError, GatewayError, ResumeError, UnsoundClaim
from noiseworthy.experiments.checkpoints import fingerprint, load_checkpoint, load_told, save_checkpoint
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.experiments.record import Record, with_training
from noiseworthy.experiments.training import Trained
from noiseworthy.gateway.messages import About
from noiseworthy.planning.plan import Plan
from noiseworthy.planning.two_stages import FirstStage
from noiseworthy.tasks import Task

PATIENCE = 120.0
"""Seconds that a round waits for replies."""


@dataclass(frozen=True)
class Deployment:
    """A study whose clients are owners at the end of a network.

    Attributes:
        prepared: the study, with the model that the plan trains.
        plan: what every owner is asked for.
        seed: of the public start and schedule, the first of `[training] seeds`.
    """

    prepared: Prepared
    plan: Plan
    seed: int

    @classmethod
    def of(cls, prepared: Prepared, plan: Plan) -> Deployment:
        """A study and its plan.

        Raises:
            ConfigError: a study without data, or a plan that does not train.
            UnsoundClaim: a plan that owners cannot follow, by name.
        """
        prepared.trained()
        if not plan.train:
            raise ConfigError(f"there is nothing to deploy: {plan.outcome}")
        if plan.pilot is not None and not isinstance(plan.pilot, FirstStage):
            raise UnsoundClaim(
                "constants that are bought from records are not deployed; state them under [planning], or "
                'plan with source = "trial" on public data'
            )
        if plan.release is None or plan.problem.family == "none":
            raise ConfigError("a plan without noise is not deployed; state a mechanism and a budget")
        work_of(plan, 0)
        return cls(prepared, plan, prepared.study.training.seeds[0])

    @property
    def federation(self) -> Federation:
        """The study's clients, by name and size, and its test set."""
        return self.prepared.trained()[0]

    @property
    def task(self) -> Task:
        """Model and loss."""
        return self.prepared.trained()[1]

    @property
    def mark(self) -> str:
        """`fingerprint` of the training."""
        belongs_to = self.prepared.study.model_dump_json(include={"federation", "task"})
        return fingerprint(self.plan, [self.seed], "deployed" + belongs_to)

    def check_owners(self, abouts: list[About]) -> None:
        """Refuse to begin while an owner's terms do not fit the plan; asking costs nobody anything.

        Raises:
            GatewayError: clients that are missing, or hold other numbers of records than were planned for.
        """
        there = {about.client: about for about in abouts}
        missing = [name for name in self.federation.clients if name not in there]
        if missing:
            raise GatewayError(f"no gateway answers for {', '.join(missing)}; start it, then ask again")
        for name, size in zip(self.federation.clients, self.federation.sizes.tolist(), strict=True):
            if there[name].records != size:
                raise GatewayError(
                    f"{name} holds {there[name].records} records, the plan was made for {size}; plan again, "
                    "because noise depends on them"
                )


@dataclass
class Correspondents:
    """What a run keeps of its owners, beside checkpoints.

    Attributes:
        run: its name at the owners.
        rounds: what came of each.
        late: releases that arrived too late to be used.
    """

    run: str
    rounds: list[Round] = field(default_factory=list)
    late: int = 0


@dataclass(frozen=True)
class DeployedRun:
    """A training over a network, with what came of every round."""

    trained: Trained
    network: Correspondents


def train(
    deployment: Deployment,
    exchange: Exchange,
    folder: Path,
    *,
    resume: bool = False,
    patience: float = PATIENCE,
    on_round: Callable[[float, Round | None], None] = lambda done, round: None,
) -> DeployedRun:
    """Train by the plan of a deployment, kept in a run folder after every round.

    Args:
        deployment: study and plan.
        exchange: with the owners.
        folder: of the run.
        resume: go on from the folder's checkpoint, under the same name at the owners.
        patience: seconds that a round waits for replies.
        on_round: told the share of rounds done, and what came of the last one.

    Raises:
        TooFewReplies: a round that cannot be made; go on later with `resume`.
        ResumeError: a folder of another study, or without a checkpoint.
        UnsoundClaim: work that no gateway computes.
    """
    plan, mark = deployment.plan, deployment.mark
    start, told = (load_checkpoint(folder, mark), _told(folder)) if resume else (None, _nothing_told())
    algorithm = make(plan, deployment.task, deployment.seed)
    network = Correspondents(told["run"], [Round(*one) for one in told["rounds"]])
    letters = Correspondence(exchange, told["heads"], told["received"], told["late"])
    cohorts = np.asarray(algorithm.cohorts)
    none_before = np.zeros(deployment.federation.n_clients, np.int64)
    asking = Asking(network.run, plan, _task_table(deployment.prepared), cohorts, none_before)

    def keep(reached: Checkpoint, done: Round | None) -> None:
        network.late = letters.late
        network.rounds += [] if done is None else [done]
        save_checkpoint(folder, reached, mark, json.dumps(_telling(network, letters)))
        on_round(reached.round / plan.rounds, done)

    run = train_remotely(
        algorithm, asking, letters, _terms(deployment, plan.rounds, patience), resume=start, on_round=keep
    )
    return DeployedRun(Trained(run, (plan,)), network)


def with_network(
    record: Record, deployment: Deployment, done: DeployedRun, abouts: list[About], seconds: float
) -> Record:
    """The record of a training over a network: as of a simulated one, with what owners did and told.

    Args:
        record: of the plan.
        deployment: study and plan.
        done: the training.
        abouts: what owners tell of themselves after it.
        seconds: that it took.
    """
    record = with_training(record, done.trained, [deployment.seed], seconds)
    training = {**record["training"], "assurance": "grid-csprng"}
    network = {
        "run": done.network.run,
        "late": done.network.late,
        "rounds": [one._asdict() for one in done.network.rounds],
        "owners": [about.model_dump(mode="json") for about in abouts],
    }
    return {**record, "training": training, "network": check.strict_json(network)}


def _terms(deployment: Deployment, rounds: int, patience: float) -> Terms:
    federation, task = deployment.federation, deployment.task
    test_x, test_y = task.prepare(jnp.asarray(federation.test_x)), jnp.asarray(federation.test_y)
    return Terms(
        clients=federation.clients,
        score=lambda theta: task.score(theta, test_x, test_y),
        evaluate_at=evaluation_rounds(rounds, deployment.prepared.study.training.evaluations),
        patience=patience,
        seed=deployment.seed,
    )


def _telling(network: Correspondents, letters: Correspondence) -> dict[str, Any]:
    return {
        "run": network.run,
        "heads": letters.heads,
        "received": letters.received,
        "late": letters.late,
        "rounds": network.rounds,
    }


def _nothing_told() -> dict[str, Any]:
    """A run that no owner has heard of."""
    return {"run": f"run {secrets.token_hex(6)}", "heads": {}, "received": {}, "late": 0, "rounds": []}


def _told(folder: Path) -> dict[str, Any]:
    try:
        return json.loads(load_told(folder))
    except ValueError:
        raise ResumeError(
            f"{folder} holds no training over a network; run without --resume to start anew"
        ) from None


def _task_table(prepared: Prepared) -> Any:
    return prepared.study.task.model_copy(update={"model": model_of(prepared), "dimension": None})


def model_of(prepared: Prepared) -> str:
    """The model by name, the default one written out."""
    federation, _ = prepared.trained()
    return prepared.study.task.model or ("linear" if federation.classes is None else "softmax")
