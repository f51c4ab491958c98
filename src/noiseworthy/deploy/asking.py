"""What the server asks of owners: requests made of a plan alone, in the plan's own double precision."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.messages import Into, Request, Seen
from noiseworthy.deploy.gateway.unnoised import unnoised
from noiseworthy.deploy.gateway.work import job_of
from noiseworthy.errors import UnsoundClaim
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.registry import method
from noiseworthy.methods.wire import Job, Work
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.grid_mechanism import REACH
from noiseworthy.privacy.uploads import Grid
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.table import TaskTable


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
        job = job_of(request, self.model, int(self.plan.problem.sizes[client]))
        return job if request.into is None else unnoised(job, request, request.into)

    def work(self, client: int, t: int) -> Work:
        """What a client computes in a round."""
        return work_of(self.plan, client, t, self.first)

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
        plan, release = self.plan, self.plan.release
        if release is None or not release.mechanism.law.noisy:
            raise UnsoundClaim("owners are asked for noised releases alone; plan with gaussian or laplace")
        shares = release.mechanism.size if plan.problem.trust.owners_add else release.hiding
        return Request(
            run=self.run, release=int(self.releases(t)[client]) + 1 + ahead, algorithm=self.work(client, t),
            task=self.task, theta=theta, mechanism=release.mechanism.family,
            clip_norm=float(plan.problem.clip_norm), noise=float(shares[client] * plan.upload_scale[t]),
            deadline=deadline, head=head, received=received, seen=self.seen,
            into=None if plan.problem.trust.owners_add else self._into(client, t),
        )  # fmt: skip

    def noise_of_sum(self, t: int) -> float:
        """Size of the noise that a trusted server adds to the sum of round t: as every owner is promised it.

        Raises:
            UnsoundClaim: a plan whose uploads are seen one by one.
        """
        release = self.plan.release
        if release is None or release.sharing is None:
            told = "a server adds noise to what was planned for sums alone; plan again, with that trust"
            raise UnsoundClaim(told)
        return float(np.max(release.sharing.weights * release.hiding) * self.plan.upload_scale[t])

    def _into(self, client: int, t: int) -> Into:
        """The sum that a trusted server noises, on the finest grid that has room for all of it."""
        clip = float(self.plan.problem.clip_norm * self.plan.upload_scale[t])
        reach = clip + REACH * self.noise_of_sum(t)
        return Into(weight=float(self.plan.weights[client]), exponent=Grid.finest(reach).exponent)


def seen_of(task: Task) -> Seen | None:
    """What a task's records are seen against, with the directions that its projection keeps, or None.

    Args:
        task: the server's own, whose reference was made of public records.
    """
    if not isinstance(task, LinearModel) or task.preparation.reference is None:
        return None
    return Seen.model_validate(task.preparation.reference.arrays(task.preparation.projection))


def work_of(plan: Plan, client: int, t: int, first: FirstStage | None = None) -> Work:
    """What a client computes in round t of a plan, or of the stage before it.

    Raises:
        UnsoundClaim: work that gateways do not compute, by name.
    """
    if plan.problem.sampling_rate < 1:
        raise UnsoundClaim("gateways take all records of an owner; state [privacy] sampling_rate = 1")
    if plan.local is not None and plan.local.batch_size is not None:
        raise UnsoundClaim("gateways take all records of an owner in a step; leave batch_size out")
    wire = method(plan.algorithm).wire()
    if first is None:
        return wire.work(plan, client, t)
    if wire.first is None:
        raise UnsoundClaim(f"no gateway computes a stage before {plan.algorithm}; plan one stage")
    return wire.first.work(first, client, t)
