"""What is asked of a gateway and what it answers, as messages of `gateway.wire`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from pydantic import ConfigDict, Field, InstanceOf, ValidationError, field_validator

from noiseworthy.config.tables import Count, Positive, Table, TaskTable
from noiseworthy.errors import WireError
from noiseworthy.gateway import wire
from noiseworthy.privacy.uploads import Grid, Upload

LARGEST = 2**28
"""Bytes of a message to or from a gateway."""

Reason: TypeAlias = Literal[
    "malformed", "not-allowed", "floor", "deadline", "conflict", "budget", "ledger", "fault", "lost", "failed"
]
"""Why nothing is sent: `lost` and `failed` were paid for, all others cost nothing."""


AlgorithmName: TypeAlias = Literal["fedsgd-dpc", "dp-fedavg", "dp-scaffnew"]
COMPUTED: tuple[AlgorithmName, ...] = get_args(AlgorithmName)
"""Algorithms that a gateway computes."""


Size = Annotated[float, Field(gt=1e-30, lt=1e30)]
"""A number that float32 holds."""


class FedSGDWork(Table):
    """The mean of clipped gradients of records, at the model that was sent."""

    name: Literal["fedsgd-dpc"] = "fedsgd-dpc"


class FedAvgWork(Table):
    """Local steps on all records: the clip holds for each gradient (C) or for the update (D)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Literal["dp-fedavg"] = "dp-fedavg"
    clipping: Literal["C", "D"]
    step_sizes: np.ndarray

    @field_validator("step_sizes")
    @classmethod
    def _positive(cls, steps: np.ndarray) -> np.ndarray:
        if steps.dtype != np.float64 or steps.ndim != 1 or not len(steps):
            raise ValueError("step sizes must be a list of float64")
        if not np.all((steps > 1e-30) & (steps < 1e30)):
            raise ValueError("step sizes must be above 0 and within float32")
        return steps


class ScaffNewWork(Table):
    """Local steps with a control variate that the owner keeps, the update clipped."""

    name: Literal["dp-scaffnew"] = "dp-scaffnew"
    step_size: Size
    probability: Annotated[float, Field(gt=0, le=1)]
    local_steps: Count


Work = Annotated[FedSGDWork | FedAvgWork | ScaffNewWork, Field(discriminator="name")]


class Request(Table):
    """One release that is asked for.

    Attributes:
        run: a name that no other run has.
        release: counted from 1 within the run.
        algorithm: what to compute.
        task: the model, as `[task]` of a study states it.
        theta: parameters that were sent, float32, shape (p,), finite.
        mechanism: of the noise.
        clip_norm: C, of each record's gradient or of what `algorithm` clips.
        noise: standard deviation or Laplace scale of each coordinate of the upload.
        deadline: seconds since 1970, past which nothing is spent.
        head: of the owner's ledger, as the last reply told; None before the first.
        received: last release of the run whose upload arrived and is kept.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    FREE: ClassVar = frozenset({"deadline", "head", "received"})

    run: Annotated[str, Field(min_length=1, max_length=100)]
    release: Annotated[int, Field(ge=1, lt=2**62)]
    algorithm: Work
    task: TaskTable
    theta: np.ndarray
    mechanism: Literal["gaussian", "laplace"]
    clip_norm: Size
    noise: Size
    deadline: Positive
    head: Annotated[str, Field(pattern=r"^[0-9]{1,18}:[0-9a-f]{64}$")] | None = None
    received: Annotated[int, Field(ge=0, lt=2**62)] = 0

    @field_validator("theta")
    @classmethod
    def _vector(cls, theta: np.ndarray) -> np.ndarray:
        if theta.dtype != np.float32 or theta.ndim != 1 or not np.all(np.isfinite(theta)):
            raise ValueError("parameters must be a list of finite float32")
        return theta

    @property
    def digest(self) -> str:
        """Of all that the upload depends on: a release is asked again with the same, or it is another."""
        return hashlib.sha256(wire.pack(self.model_dump(exclude=set(self.FREE)))).hexdigest()


class Refused(Table):
    """An answer without an upload; its message is made of public things alone."""

    reason: Reason
    message: str


class Uploaded(Table):
    """An upload as it left its owner.

    Attributes:
        run: that asked for it.
        release: its number there.
        client: whose it is.
        request: digest of the request that it answers.
        upload: whole numbers on a grid, and what reads them.
        head: of the owner's ledger once the release was paid for; the next request carries it.
    """

    run: str
    release: int
    client: str
    request: str
    upload: InstanceOf[Upload]
    head: str


Reply: TypeAlias = Uploaded | Refused


def pack_request(request: Request) -> bytes:
    """A request as bytes.

    Raises:
        WireError: parameters that no message can carry.
    """
    return wire.pack({"kind": "release", **request.model_dump()}, most=LARGEST)


def read_request(data: bytes) -> Request:
    """The request of a message.

    Raises:
        WireError: anything else; the sentence is fixed, or names the version or an unknown algorithm.
    """
    fields = _fields(data, "release")
    try:
        return Request.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "union_tag_invalid":
            name = str(first.get("ctx", {}).get("tag"))[:40]
            raise WireError(f"a gateway does not compute {name!r}; ask for {', '.join(COMPUTED)}") from None
        place = _place(first["loc"])
        raise WireError(f"this is no request; {place} is missing, unknown or out of range") from None


def pack_reply(reply: Reply) -> bytes:
    """A reply as bytes; equal replies are equal bytes."""
    if isinstance(reply, Refused):
        return wire.pack({"kind": "refused", **reply.model_dump()})
    upload = reply.upload
    parts = {
        "steps": upload.steps,
        "exponent": upload.grid.exponent,
        "divisor": upload.divisor,
        "assurance": upload.assurance,
    }
    return wire.pack(
        {"kind": "upload", **reply.model_dump(exclude={"upload"}), "upload": parts}, most=LARGEST
    )


def read_reply(data: bytes) -> Reply:
    """The reply of a message.

    Raises:
        WireError: bytes that are no reply.
    """
    fields = wire.unpack(data, most=LARGEST)
    try:
        if fields.pop("kind") == "refused":
            return Refused.model_validate(fields)
        parts = fields.pop("upload")
        upload = Upload(parts["steps"], Grid(parts["exponent"]), parts["divisor"], parts["assurance"])
        return Uploaded(**fields, upload=upload)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise WireError("this is no reply of a gateway; ask one over its socket") from None


def _fields(data: bytes, kind: str) -> dict[str, Any]:
    fields = wire.unpack(data, most=LARGEST)
    if not isinstance(fields, dict) or fields.pop("kind", None) != kind:
        raise WireError(f"this is no request; its kind must be {kind!r}")
    return fields


def _place(location: tuple[int | str, ...]) -> str:
    """The field that is wrong, by the names that a request may have."""
    return ".".join(str(part)[:40] for part in location) or "a field"
