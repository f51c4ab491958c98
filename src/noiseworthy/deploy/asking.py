"""What the server asks of owners: requests made of a plan alone, in the plan's own double precision."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.job import Job
from noiseworthy.deploy.gateway.jobs import job_of
from noiseworthy.deploy.gateway.messages import Request, Seen
from noiseworthy.deploy.gateway.work import (
    FedAvgWork,
    FedSGDWork,
    LossReportWork,
    PasgdWork,
    PrivateFLWork,
    ScaffNewWork,
    Work,
)
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.plans.local_work import Coins, LocalSteps, NoisySteps
from noiseworthy.plans.plan import Plan
from noiseworthy.studies.records import TaskTable
from noiseworthy.tasks import LinearModel, Task


@dataclass(frozen=True)
class Asking:
    """The requests of one run.

    Attributes:
        run: a name that no other run has.
        plan: what is asked for, and with how much noise.
        task: the model, by name.
        model: the same, for one record.
        cohorts: whom to ask in each round, shape (T, b).
        made: releases of each client in the run before, shape (N,).
        first: the stage in which clients report losses, where the plan is that stage's.
        seen: what records are seen against, where `task` names a reference.
    """

    run: str
    plan: Plan
    task: TaskTable
    model: Task
    cohorts: NDArray[np.int32]
    made: NDArray[np.int64]
    first: FirstStage | None = None
    seen: Seen | None = None

    def releases(self, t: int) -> NDArray[np.int64]:
        """Releases of each client before round t, shape (N,)."""
        return self.made + np.bincount(self.cohorts[:t].ravel(), minlength=len(self.made))

    @property
    def planned(self) -> NDArray[np.int64]:
        """Releases that clients have planned until the end of this plan, shape (N,); none is asked beyond."""
        return self.made + self.plan.uploads

    def job(self, client: int, request: Request) -> Job:
        """What a request makes a client compute, as its gateway understands it."""
        return job_of(request, self.model, int(self.plan.problem.sizes[client]))

    def request(
        self,
        client: int,
        t: int,
        theta: NDArray[np.float32],
        *,
        deadline: float,
        head: str | None,
        received: int,
        ahead: int = 0,
    ) -> Request:
        """The request to a client in a round; asked again it differs in what a release does not depend on.

        Args:
            client: one of the cohort.
            t: the round.
            theta: the model, shape (p,).
            deadline: seconds since 1970.
            head: of the owner's ledger, as it told last.
            received: its last release that arrived.
            ahead: by how much the numbers of its releases are ahead of the schedule.
        """
        release = self.plan.release
        if release is None or not release.mechanism.law.noisy:
            raise UnsoundClaim("owners are asked for noised releases alone; plan with gaussian or laplace")
        return Request(
            run=self.run,
            release=int(self.releases(t)[client]) + 1 + ahead,
            algorithm=work_of(self.plan, t) if self.first is None else reports_of(self.first, client, t),
            task=self.task,
            theta=theta,
            mechanism=release.mechanism.family,
            clip_norm=float(self.plan.problem.clip_norm),
            noise=float(release.mechanism.size[client] * self.plan.upload_scale[t]),
            deadline=deadline,
            head=head,
            received=received,
            seen=self.seen,
        )


def seen_of(task: Task) -> Seen | None:
    """What a task's records are seen against, with the directions that its projection keeps, or None.

    Args:
        task: the server's own, whose reference was made of public records.
    """
    if not isinstance(task, LinearModel) or task.preparation.reference is None:
        return None
    reference, kept = task.preparation.reference, task.preparation.projection or 0
    return Seen(mean=reference.mean, directions=reference.directions[:kept])


def work_of(plan: Plan, t: int) -> Work:
    """What clients compute in round t of a plan.

    Raises:
        UnsoundClaim: work that gateways do not compute, by name.
    """
    local, mode = plan.local, plan.problem.clipping
    _check_computed(plan)
    if local is None:
        private = plan.algorithm == "privatefl"
        return PrivateFLWork(personal_step=plan.personal_step) if private else FedSGDWork()
    if isinstance(local, NoisySteps):
        return PasgdWork(step_sizes=plan.local_step_sizes[t * local.steps :][: local.steps])
    if isinstance(local, Coins):
        step, count = float(plan.local_step_sizes[0]), int(local.counts(plan.rounds)[t])
        return ScaffNewWork(step_size=step, probability=local.probability, local_steps=count)
    if isinstance(local, LocalSteps) and mode in ("C", "D"):
        return FedAvgWork(clipping=mode, step_sizes=plan.local_step_sizes[t * local.steps :][: local.steps])
    raise UnsoundClaim(f"no gateway computes {plan.algorithm} in clipping mode {mode}; use mode C or D")


def reports_of(first: FirstStage, client: int, t: int) -> LossReportWork:
    """What a client reports in round t of a stage that estimates."""
    if first.plan.step is None:
        raise InvalidInput("stage 1 has no step size; state [algorithm] step_size")
    return LossReportWork(
        loss_cap=float(first.loss_cap),
        loss_noise=float(first.losses.mechanism.size[client]),
        step_size=float(first.plan.step.at(np.array(t))),
    )


def _check_computed(plan: Plan) -> None:
    if plan.problem.sampling_rate < 1:
        raise UnsoundClaim("gateways take all records of an owner; state [privacy] sampling_rate = 1")
    if getattr(plan.local, "batch_size", None) is not None:
        raise UnsoundClaim("gateways take all records of an owner in a step; leave batch_size out")
