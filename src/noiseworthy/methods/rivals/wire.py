"""PrivateFL at owners: a gradient through a transform that stays there, which moves by its noised part."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from noiseworthy._jax import jnp
from noiseworthy.methods.local import Memory
from noiseworthy.methods.rows import gradient_rows, gradient_sum
from noiseworthy.methods.wire import Asked, Job, Wire, Work
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Derived, Upload
from noiseworthy.tasks.batch import Batch

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.personal import Personal


class PrivateFLWork(Work):
    """A gradient through the owner's own transform of its records, which moves with its noised part."""

    name: Literal["privatefl"] = "privatefl"
    personal_step: Annotated[float, Field(ge=0, lt=1e30)]


@dataclass(frozen=True)
class PersonalGradient(Job):
    """PrivateFL: one clipped gradient of transform and model, of which the transform's part stays.

        phi <- phi - eta_phi g_hat_phi

    Both parts carry noise: a transform that was moved without it would have read all records, and one of
    them would move the gradients of all others.

    Attributes:
        both: the noised sum of q + p coordinates.
        personal: the model behind a transform of its records.
        step: eta_phi.
    """

    remembers_noised: ClassVar[bool] = True
    both: NoisedSum
    personal: Personal
    step: float

    def made(self, upload: Upload | Derived) -> bool:
        """Whether it may be the shared part of the noised gradient."""
        return self.both.drew(upload, len(self.theta))

    @property
    def fresh_memory(self) -> Memory:
        """The transform that changes nothing, shape (q,)."""
        return self.personal.identity()

    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload, Memory]:
        """The shared part, and the transform after its own noised part."""
        phi = np.concatenate([np.asarray(memory), self.theta])
        noised, own = self.both.of(gradient_rows(self.personal, phi, batch, self.both)), len(memory)
        moved = np.asarray(memory) - self.step * noised.values[:own]
        return replace(noised, steps=noised.steps[own:]), jnp.asarray(moved, jnp.float32)


def _job(request: Asked, work: PrivateFLWork, task: Task, records: int) -> Job:
    from noiseworthy.tasks.personal import personalised  # here, because no other request needs it

    personal = personalised(task)
    both = gradient_sum(request, records, personal.dimension)
    return PersonalGradient(task, request.theta, both, personal, work.personal_step)


WIRE = Wire(
    table=PrivateFLWork, work=lambda plan, *_: PrivateFLWork(personal_step=plan.personal_step), job=_job
)
