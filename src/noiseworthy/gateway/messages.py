"""What is asked of a gateway and what it answers, as messages of `gateway.wire`."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
from pydantic import ConfigDict, Field, InstanceOf, ValidationError, field_validator

from noiseworthy.config.tables import Count, Part, Positive, Table, TaskTable
from noiseworthy.errors import WireError
from noiseworthy.gateway import wire
from noiseworthy.privacy.budget import Unit
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
RunName = Annotated[str, Field(min_length=1, max_length=100)]
Release = Annotated[int, Field(ge=0, lt=2**62)]
"""A number of a release; 0 stands for none."""


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

    run: RunName
    release: Annotated[int, Field(ge=1, lt=2**62)]
    algorithm: Work
    task: TaskTable
    theta: np.ndarray
    mechanism: Literal["gaussian", "laplace"]
    clip_norm: Size
    noise: Size
    deadline: Positive
    head: Annotated[str, Field(pattern=r"^[0-9]{1,18}:[0-9a-f]{64}$")] | None = None
    received: Release = 0

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


class About(Table):
    """What an owner tells everybody: its terms, and how much of its budget is spent. Telling costs nothing.

    Attributes:
        client: name of the owner.
        data_set: name that the lifetime budget is kept under.
        records: n, public under replace-one neighbours.
        record_shape: of one record.
        classes: number of classes; None for regression.
        mechanism: of the noise.
        epsilon: of the lifetime budget.
        delta: of the lifetime budget.
        unit: whose change is hidden.
        noise_floor: least noise, in units of what a neighbour changes.
        algorithms: that may be asked.
        models: that may be asked.
        most_releases: of one run.
        most_parameters: of a model.
        most_local_steps: of one release.
        head: of the ledger.
        spent: part of the lifetime budget that is spent, from 0 to 1.
    """

    client: str
    data_set: str
    records: Count
    record_shape: tuple[int, ...]
    classes: int | None
    mechanism: Literal["gaussian", "laplace"]
    epsilon: float
    delta: float
    unit: Unit
    noise_floor: float
    algorithms: list[AlgorithmName]
    models: list[str]
    most_releases: int
    most_parameters: int
    most_local_steps: int
    head: str
    spent: Part


class Receipt(Table):
    """Uploads that arrived and are kept, where no further request of the run will say so.

    Attributes:
        run: by name.
        received: last release of the run whose upload arrived.
    """

    run: RunName
    received: Release = 0


class Received(Table):
    """The answer to a receipt; `head` is that of the owner's ledger, which has noted it."""

    head: str


Message: TypeAlias = Request | Receipt | Literal["about"]
"""What may be asked of a gateway."""
Reply: TypeAlias = Uploaded | Refused | About | Received


def pack_about() -> bytes:
    """The question for an owner's terms."""
    return wire.pack({"kind": "about"})


def pack_receipt(receipt: Receipt) -> bytes:
    """A receipt as bytes."""
    return wire.pack({"kind": "receipt", **receipt.model_dump()})


def pack_request(request: Request) -> bytes:
    """A request as bytes.

    Raises:
        WireError: parameters that no message can carry.
    """
    return wire.pack({"kind": "release", **request.model_dump()}, most=LARGEST)


def read_message(data: bytes) -> Message:
    """What is asked.

    Raises:
        WireError: anything else; the sentence is fixed, or names the version or an unknown algorithm.
    """
    fields = wire.unpack(data, most=LARGEST)
    kind = fields.pop("kind", None) if isinstance(fields, dict) else None
    if kind == "about" and not fields:
        return "about"
    if kind not in ("release", "receipt"):
        raise WireError("this is no request; its kind must be 'release', 'receipt' or 'about'")
    return _validated(Request if kind == "release" else Receipt, fields)


def _validated(kind: type[Request] | type[Receipt], fields: dict[str, Any]) -> Request | Receipt:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "union_tag_invalid":
            name = str(first.get("ctx", {}).get("tag"))[:40]
            raise WireError(f"a gateway does not compute {name!r}; ask for {', '.join(COMPUTED)}") from None
        place = _place(first["loc"])
        raise WireError(f"this is no request; {place} is missing, unknown or out of range") from None


def pack_reply(reply: Reply) -> bytes:
    """A reply as bytes; equal replies are equal bytes."""
    if not isinstance(reply, Uploaded):
        return wire.pack({"kind": type(reply).__name__.lower(), **reply.model_dump()})
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


_PLAIN_REPLIES: dict[str, type[Refused] | type[About] | type[Received]] = {
    "refused": Refused,
    "about": About,
    "received": Received,
}


def read_reply(data: bytes) -> Reply:
    """The reply of a message.

    Raises:
        WireError: bytes that are no reply.
    """
    fields = wire.unpack(data, most=LARGEST)
    try:
        plain = _PLAIN_REPLIES.get(fields.pop("kind"))
        if plain is not None:
            return plain.model_validate(fields)
        parts = fields.pop("upload")
        upload = Upload(parts["steps"], Grid(parts["exponent"]), parts["divisor"], parts["assurance"])
        return Uploaded(**fields, upload=upload)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise WireError("this is no reply of a gateway; ask one over its socket") from None


def _place(location: tuple[int | str, ...]) -> str:
    """The field that is wrong, by the names that a request may have."""
    return ".".join(str(part)[:40] for part in location) or "a field"
