"""What a method is at the owners: the request it sends, and the job that this is there; and the list of all.

A wire is loaded apart from its method, so that a gateway holds no planner, bound or study table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from noiseworthy import _validate as check
from noiseworthy._tables import Table
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Derived, Upload

if TYPE_CHECKING:
    from noiseworthy.methods.local import Memory
    from noiseworthy.privacy.mechanisms import Law
    from noiseworthy.tasks.base import Task
    from noiseworthy.tasks.batch import Batch

_ROOM = "noiseworthy.methods"
WIRES: dict[str, str] = {
    "fedsgd-dpc": f"{_ROOM}.fedsgd_dpc.wire",
    "dp-fedavg": f"{_ROOM}.dp_fedavg.wire",
    "dp-scaffnew": f"{_ROOM}.dp_scaffnew.wire",
    "dp-pasgd": f"{_ROOM}.dp_pasgd.wire",
    "privatefl": f"{_ROOM}.rivals.wire",
    "dpfl-bcs": f"{_ROOM}.dpfl_bcs.wire",
    "mr-mtl": f"{_ROOM}.mr_mtl.wire",
    "moments": f"{_ROOM}.moments.wire",
    "mean": f"{_ROOM}.mean.wire",
    "label-mean": f"{_ROOM}.label_mean.wire",
    "score": f"{_ROOM}.score.wire",
}
"""What owners compute, by names in requests: the module whose `WIRE` each is.

A method of one file names it here and in `registry.py`; one that asks for what is here needs no row."""
Vector: TypeAlias = NDArray[np.float32]
Size = Annotated[float, Field(gt=1e-30, lt=1e30)]
"""A number that float32 holds."""


def _positive(steps: np.ndarray) -> np.ndarray:
    if steps.dtype != np.float64 or steps.ndim != 1 or not len(steps):
        raise ValueError("step sizes must be a list of float64")
    if not np.all((steps > 1e-30) & (steps < 1e30)):
        raise ValueError("step sizes must be above 0 and within float32")
    return steps


StepSizes = Annotated[np.ndarray, AfterValidator(_positive)]
"""Of local steps, in their order: float64, shape (steps,)."""


class Work(Table):
    """What an owner is asked to compute, with the numbers of the request that it takes: an heir per wire."""

    name: Any

    @property
    def steps(self) -> int:
        """Local steps that it takes, of which the owner's file allows so many; one is a gradient."""
        return 1

    @classmethod
    def obstacle(cls, law: Law) -> str:
        """Why it has no proof for noise of a law; empty for sums of what is clipped alone, which have one."""
        return ""


class Asked(Protocol):
    """What a job takes of a request, whatever its work; the request of a gateway says what each is."""

    theta: Vector
    mechanism: str
    clip_norm: float
    noise: float


@dataclass(frozen=True)
class Job(ABC):
    """One release as the owner understands it: its noised sums, and what it makes of records by them.

    Attributes:
        task: the model, for the owner's records.
        theta: the parameters that were sent, shape (p,).
        remembers_noised: whether an owner remembers what its noised sums say, which must hide all by
            themselves then.
    """

    remembers_noised: ClassVar[bool] = False
    task: Task
    theta: Vector

    @property
    def sums(self) -> tuple[NoisedSum, ...]:
        """All noised sums that `upload` draws: what is paid for."""
        return tuple(self._sums.values())

    @property
    def fresh_memory(self) -> Memory:
        """What the owner remembers before the first release of a run; () if nothing, ever."""
        return ()

    def rehearse(self, batch: Batch) -> None:
        """Run `upload` without noise, so that its programs are compiled before a release is paid for.

        Args:
            batch: zeros in the shapes of the owner's records.
        """
        silent = {name: one.silenced() for name, one in self._sums.items()}
        replace(self, **silent).upload(batch, self.fresh_memory)

    @property
    def _sums(self) -> dict[str, NoisedSum]:
        return {name: one for name, one in vars(self).items() if isinstance(one, NoisedSum)}

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


W = TypeVar("W", bound=Work)


@dataclass(frozen=True, kw_only=True)
class Wire(Generic[W]):
    """A method at the owners.

    Attributes:
        table: of its work in a request.
        work: what a client computes in a round: of a plan, or of a first stage; client; t.
        job: what a request makes an owner compute: request, its work, the model for the owner's records, n.
        first: of the stage before the plan, in which clients report more, where there is one.

    Guarantee: sensitivities in a job's `sums` are the owner's own, from its n and the clips that are applied.
    """

    table: type[W]
    work: Callable[[Any, int, int], W]
    job: Callable[[Asked, W, Task, int], Job]
    first: Wire[Any] | None = None

    @property
    def name(self) -> str:
        """Of its work, as owners allow it and requests say it."""
        return self.table.model_fields["name"].default


def wire(name: str) -> Wire[Any]:
    """What owners compute by its name in a request; nothing else of a method is loaded.

    Raises:
        InvalidInput: an unknown name.

    Example:
        >>> wire("dp-pasgd").table.__name__
        'PasgdWork'
    """
    return import_module(WIRES[check.one_of("algorithm", name, WIRES.keys())]).WIRE
