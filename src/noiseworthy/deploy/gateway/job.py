"""What a job of a gateway is: which noised sums it draws, and what it makes of an owner's records by them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.messages import Derived
from noiseworthy.deploy.gateway.sums import NoisedSum, RehearsedSum
from noiseworthy.methods.algorithm import Memory
from noiseworthy.privacy.uploads import Upload
from noiseworthy.tasks import Batch, Task

Vector: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Job(ABC):
    """One release as the owner understands it.

    Attributes:
        task: the model, for the owner's records.
        theta: the parameters that were sent, shape (p,).
    """

    task: Task
    theta: Vector

    @property
    @abstractmethod
    def sums(self) -> tuple[NoisedSum, ...]:
        """All noised sums that `upload` draws: what is paid for."""

    @property
    def fresh_memory(self) -> Memory:
        """What the owner remembers before the first release of a run; () if nothing, ever."""
        return ()

    def rehearse(self, batch: Batch) -> None:
        """Run `upload` without noise, so that its programs are compiled before a release is paid for.

        Args:
            batch: zeros in the shapes of the owner's records.
        """
        sums = {
            field.name: RehearsedSum(**vars(value))
            for field in fields(self)
            if isinstance(value := getattr(self, field.name), NoisedSum)
        }
        replace(self, **sums).upload(batch, self.fresh_memory)

    @abstractmethod
    def made(self, upload: Upload | Derived) -> bool:
        """Whether something may be an upload of this job, as far as public numbers tell; of `upload`."""

    @abstractmethod
    def upload(self, batch: Batch, memory: Memory) -> tuple[Upload | Derived, Memory]:
        """What leaves, and what the owner remembers.

        Args:
            batch: the owner's records, as the task wants them.
            memory: after the last release of the run.

        Guarantee: both depend on the records through the noised sums in `sums` alone, each drawn as often
        as it says; but for memory that whole updates are made with, whose own clip bounds them.
        """
