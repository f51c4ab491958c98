"""A training by a deployment's plan, over an exchange with its owners, in a run folder like the simulation's.

The plan, the algorithms and the report are those of a simulated training. What differs is who holds records
and ledgers: the server asks, and every owner decides. A run that was broken off goes on from its folder: a
round that was asked for and not kept is asked for again, and owners answer it by the same bytes for nothing.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._json import strict_json
from noiseworthy.data.federation import Federation
from noiseworthy.deploy.asking import Asking, seen_of
from noiseworthy.deploy.correspondence import Correspondence, confirmed, leased, released
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.exchange import Exchange
from noiseworthy.deploy.gateway.messages import About, LeaseRequest, Receipt, Seen
from noiseworthy.deploy.gateway.models import ModelOffer
from noiseworthy.deploy.gathering import DRAWN
from noiseworthy.deploy.known_ledgers import KnownLedgers
from noiseworthy.deploy.remote import BEFORE, SCORING, Round, Terms, at_start, train_remotely
from noiseworthy.deploy.run_state import RunState
from noiseworthy.deploy.scoring import check_scored, scorers, told_score
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.deploy.telling import told_mean
from noiseworthy.engines.records import Trajectory, evaluation_rounds
from noiseworthy.engines.simulation import Checkpoint, check_start
from noiseworthy.errors import ConfigError, GatewayError, InvalidInput, NoMoreReplies, ResumeError
from noiseworthy.methods.algorithm import Algorithm, start_of
from noiseworthy.methods.dpfl_bcs import loss_reports
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage, stage_before
from noiseworthy.methods.registry import make
from noiseworthy.model.folder import Kept
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.checkpoints import load_checkpoint, save_checkpoint
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.flags import class_prior, flags
from noiseworthy.studies.plan_file import keep_stages
from noiseworthy.studies.record import Record, with_training
from noiseworthy.studies.run_folder import check_unused
from noiseworthy.studies.training import Run
from noiseworthy.studies.two_stages import estimation_of, joined, onward, seeds_of_stage_2
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Score

PATIENCE = 120.0
"""Seconds that a round waits for replies."""
OnRound = Callable[[float, Round | None], None]


@dataclass(frozen=True)
class DeployedRun:
    """A training over a network, with what its owners told.

    Attributes:
        deployment: as it was trained, with what owners told before.
        trained: as of a simulation.
        told: by owners.
        untold: owners who could not be told that the run is over, and may hold a part of their budget for it.
    """

    deployment: Deployment
    trained: Run
    told: RunState
    untold: frozenset[str] = frozenset()


def train(
    deployment: Deployment, exchange: Exchange, folder: Path, *, resume: bool = False,
    patience: float = PATIENCE, known: KnownLedgers | None = None, roster: Roster | None = None,
    on_round: OnRound = lambda done, round: None,
) -> DeployedRun:  # fmt: skip
    """Train by the plan of a deployment, kept in a run folder after every round.

    Args:
        deployment: study and plan.
        exchange: with the owners.
        folder: of the run.
        resume: go on from the folder's checkpoint, under the same name at the owners.
        patience: seconds that a round waits for replies.
        known: what the server knows of owners' ledgers from other runs, which this one adds to.
        roster: of the owners, where the plan lets them sum before anybody sees an upload.
        on_round: told the share of rounds done, and what came of the last one.

    Raises:
        TooFewReplies: a round that cannot be made; go on later with `resume`.
        NoMoreReplies: no model can come of this run any more.
        ResumeError: a folder of another study, or without a checkpoint; without `resume`, one that holds a
            training or a study.
        GatewayError: an owner that does not hold the price of the run for it.
        ConfigError: owners who are to sum, and no roster that holds them all; a score that nobody could tell.
        InvalidInput: a test loss that is nan before training, or a model that ran out of float32.
    """
    check_roster(deployment, roster)
    check_scored(deployment)
    if not resume:
        check_unused(folder)
        federation, task = deployment.federation, deployment.task
        if len(federation.test_y):
            check_start(_score_by(federation, task)(start_of(task, jax.random.key(deployment.seed))).loss)
    start = _going_on(folder, deployment.mark) if resume else None
    told = RunState.kept_in(folder) if resume else RunState.nothing()
    told.heads |= {} if known is None else known.heads()
    mark = deployment.mark
    session = _Session(deployment, exchange, folder, patience, on_round, told, known, roster, mark=mark)
    try:
        done = session.whole(start)
        session.score(done)
    except (NoMoreReplies, InvalidInput):
        session.end()
        raise
    return replace(done, untold=session.end())


def check_roster(deployment: Deployment, roster: Roster | None) -> None:
    """Refuse to let owners sum without a roster that holds them all.

    Raises:
        ConfigError: none, or one without an owner of the study.
    """
    if not deployment.plan.problem.trust.sums_itself:
        return
    listed = set() if roster is None else roster.keys.keys()
    if missing := [name for name in deployment.federation.clients if name not in listed]:
        raise ConfigError(
            f"the roster of the deployment lacks {', '.join(missing)}, whose upload no sum could hide; "
            "noiseworthy deploy up writes it on one machine, noiseworthy deploy roster on several"
        )


def check_approved(roster: Roster | None, abouts: Sequence[About]) -> None:
    """Refuse to begin where an owner approved another roster than that of the deployment.

    Args:
        roster: of the deployment; None where owners do not sum.
        abouts: what owners tell.

    Raises:
        GatewayError: the first one, with both digests.
    """
    if roster is None:
        return
    for about in abouts:
        if about.sums is not None and about.sums[0] != roster.digest:
            raise GatewayError(
                f"{about.client} approved a roster with the digest {about.sums[0]}, and the deployment "
                f"has {roster.digest}; send it this one, or take the one that all approved"
            )


def has_begun(folder: Path, mark: str) -> bool:
    """Whether a run that is to go on has made a round, so that owners may be missing from then on.

    Raises:
        ResumeError: as `train` with `resume`.
    """
    _going_on(folder, mark)
    return bool(RunState.kept_in(folder).rounds)


def _going_on(folder: Path, mark: str) -> Checkpoint:
    """The checkpoint of a run over a network.

    Raises:
        ResumeError: as `load_checkpoint`, or a model that no request can carry, as earlier versions kept it.
    """
    start = load_checkpoint(folder, mark)
    if not np.all(np.isfinite(start.theta)):
        raise ResumeError(
            f"the checkpoint of {folder} holds a model that is not finite, and no round can go on from it; "
            "start anew in another folder with --out, what owners paid stays spent"
        )
    return start


@dataclass
class _Session:
    """A run under way: what its stages share."""

    deployment: Deployment
    exchange: Exchange
    folder: Path
    patience: float
    on_round: OnRound
    told: RunState
    known: KnownLedgers | None
    roster: Roster | None
    mark: str
    holds: bool = False

    def whole(self, start: Checkpoint | None) -> DeployedRun:
        """All rounds of the plan, from its start or from a checkpoint."""
        if (before := self.deployment.plan.ranges) is not None and before.pending:
            start = start if self.told.found else None
            self.deployment = self.deployment.having_told(self.told.found or self.found())
            keep_stages(self.folder, [self.deployment.plan], [self.deployment.seed])
        plan, deployment = self.deployment.plan, self.deployment
        if plan.pilot is not None and plan.pilot.pending:
            return self.in_two_stages(stage_before(plan), start)
        run = self.stage(make(plan, deployment.task, deployment.seed), plan, start)
        return DeployedRun(deployment, Run.of(run, [plan]), self.told)

    def found(self) -> dict[str, Any]:
        """What owners tell before round 1; a run that is broken off meanwhile asks for the same again."""
        deployment, letters, started = self.deployment, self.letters(), time.monotonic()
        theta = start_of(deployment.task, jax.random.key(deployment.seed))
        start = make(deployment.plan, deployment.task, deployment.seed).init(theta)
        self.keep(at_start(start, deployment.federation.n_clients))
        self.begin()
        self.told.found, answers = told_mean(deployment, self.told.run, letters, self.patience)
        self.on_round(0.0, Round(BEFORE, answers, time.monotonic() - started))
        self.told.late = letters.late
        return self.told.found

    def score(self, done: DeployedRun) -> None:
        """Have owners tell how good the model is, where the study asks them; who is silent ends nothing."""
        if not scorers(done.deployment):
            return
        letters, theta = Correspondence(self.exchange, self.told.heads), done.trained.theta[0]
        started = time.monotonic()
        self.told.score, answers = told_score(done.deployment, self.told.run, theta, letters, self.patience)
        self.on_round(1.0, Round(SCORING, answers, time.monotonic() - started))

    def letters(self) -> Correspondence:
        """What is known of the owners, for a stage to go on with."""
        told = self.told
        return Correspondence(
            self.exchange, told.heads, told.received, told.late, ahead=told.ahead, sums=told.sums
        )

    def keep(self, reached: Checkpoint) -> None:
        """Keep where the run is, and what owners told in it."""
        save_checkpoint(self.folder, reached, self.mark, self.told.as_json())

    def begin(self) -> None:
        """Have every owner hold the price of the run for it: before round 1 all of them or none.

        A run that goes on has paid for a part already: who does not hold the rest answers for itself, in
        the rounds.

        Raises:
            GatewayError: owners that refuse or are silent; the others were told to let go.
        """
        if self.holds:
            return
        self.holds, seconds = True, self.patience
        wanted = {name: self._lease(name) for name in self.deployment.federation.clients}
        missing = leased(self.exchange, wanted, seconds)
        if missing and not self.told.rounds:
            self.end()
            reasons = "; ".join(f"{name}: {why}" for name, why in missing.items())
            raise GatewayError(
                f"not all owners hold the price of this training for it ({reasons}); the others were told to "
                "let go and nothing was asked, see to it and go on with --resume"
            )

    def end(self) -> frozenset[str]:
        """Have owners let go of what they hold for the run; returns those who could not be told."""
        last, told = self.told.received, {one["client"] for one in self.told.score.get("owners", ())}
        receipts = {
            name: Receipt(run=self.told.run, received=last.get(name, 0), scored=int(name in told), ended=True)
            for name in self.deployment.federation.clients
        }
        return frozenset(released(self.exchange, receipts, self.patience / 4))

    def _lease(self, name: str) -> LeaseRequest:
        demand = self.deployment.demand_of(name)
        return LeaseRequest(
            run=self.told.run, epsilon=demand.epsilon, delta=demand.delta, head=self.told.heads.get(name)
        )

    def in_two_stages(self, first: FirstStage, start: Checkpoint | None) -> DeployedRun:
        """Rounds with reported losses, then those of the plan that they make."""
        plan, task, seed = self.deployment.plan, self.deployment.task, self.deployment.seed
        reporting = loss_reports.make(first, task, seed)
        if self.told.opening is None:
            reached: list[Checkpoint] = []
            self.stage(reporting, first.plan, start, first=first, on_end=reached.append)
            self.told.opening = reached[-1]
            start = onward(self.told.opening, averaged=plan.averaging > 0)
        losses = self.told.opening.server[-1][0]
        stage = estimation_of(plan, np.asarray(reporting.cohorts), losses)
        keep_stages(self.folder, [stage.plan], [seed])
        (later,) = seeds_of_stage_2([seed])
        run = self.stage(make(stage.plan, task, later), stage.plan, start, before=first)
        whole = joined(self.told.opening, run, first.rounds)
        return DeployedRun(self.deployment, Run.of(whole, [stage.plan], [stage]), self.told)

    def stage(
        self, algorithm: Algorithm, plan: Plan, start: Checkpoint | None, *, first: FirstStage | None = None,
        before: FirstStage | None = None, on_end: Callable[[Checkpoint], None] = lambda reached: None,
    ) -> Trajectory:  # fmt: skip
        """The rounds of a plan, from its start or from a checkpoint."""
        deployment, told, letters = self.deployment, self.told, self.letters()
        made = np.zeros(deployment.federation.n_clients, np.int64) if before is None else before.uploads
        made = made if deployment.plan.ranges is None else made + deployment.plan.ranges.uploads
        cohorts = np.asarray(algorithm.cohorts)
        table, seen = task_table(deployment.prepared), seen_of(deployment.task)
        asking = Asking(told.run, plan, table, deployment.task, cohorts, made, first, seen)
        total, done_before = deployment.plan.all_rounds, 0 if before is None else before.rounds

        def keep(reached: Checkpoint, done: Round | None) -> None:
            told.late, told.sums = letters.late, letters.sums
            told.rounds += [] if done is None else [done._replace(number=done_before + done.number)]
            if self.known is not None:
                self.known.keep(told.heads)
            self.keep(reached)
            on_end(reached)
            self.on_round((done_before + reached.round) / total, done)

        terms = _terms(deployment, self._scored_in(plan, done_before), self.patience, self.roster)
        run, told.ended = train_remotely(
            algorithm, asking, letters, terms, resume=start, on_round=keep, before_rounds=self.begin
        )
        confirmed(letters, told.run, self.patience / 4)
        return run

    def _scored_in(self, plan: Plan, before: int) -> NDArray[np.int64]:
        """Rounds of a stage to score at: its start, its end, and those between of the whole training."""
        plan_of_all, training = self.deployment.plan, self.deployment.prepared.study.training
        scored = evaluation_rounds(plan_of_all.all_rounds, training.evaluations) - before
        within = scored[(scored > 0) & (scored < plan.rounds)]
        return np.concatenate([[0], within, [plan.rounds]])


def final_model(run: str, kept: Kept) -> ModelOffer:
    """A model as the owners of a run are sent it."""
    seen = None
    if kept.reference is not None:
        seen = Seen.model_validate(kept.reference.arrays(kept.description.task.projection))
    return ModelOffer(run=run, description=kept.description.plain, theta=kept.theta, seen=seen)


def with_network(record: Record, done: DeployedRun, abouts: list[About], seconds: float) -> Record:
    """The record of a training over a network: as of a simulated one, with what owners did and told.

    Args:
        record: of the plan.
        done: the training.
        abouts: what owners tell of themselves after it.
        seconds: that it took.
    """
    prior = class_prior(done.deployment.federation)
    record = with_training(record, done.trained, [done.deployment.seed], seconds, prior)
    network = {
        "run": done.told.run,
        "late": done.told.late,
        "ended": done.told.ended,
        "rounds": [one._asdict() for one in done.told.rounds],
        "owners": [about.model_dump(mode="json") for about in abouts],
        **({"score": done.told.score} if done.told.score else {}),
    }
    record = {**record, "network": strict_json(network)}
    training = {**record["training"], "assurance": DRAWN}
    return {**record, "training": {**training, "flags": flags(record, training)}}


def _terms(deployment: Deployment, at: NDArray[np.int64], patience: float, roster: Roster | None) -> Terms:
    return Terms(
        clients=deployment.federation.clients, score=_score_by(deployment.federation, deployment.task),
        evaluate_at=at, patience=patience, seed=deployment.seed, roster=roster,
    )  # fmt: skip


def _score_by(federation: Federation, task: Task) -> Callable[[Array], Score]:
    """Test loss and score of parameters; no numbers where the server has no test records."""
    if not len(federation.test_y):
        nothing = Score(jnp.array(jnp.nan), jnp.array(jnp.nan))
        return lambda theta: nothing
    x, y = task.prepare(jnp.asarray(federation.test_x)), jnp.asarray(federation.test_y)
    return lambda theta: task.score(theta, x, y)
