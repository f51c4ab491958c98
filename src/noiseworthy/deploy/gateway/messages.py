"""What is asked of a gateway and what it answers, as messages of `gateway.wire`."""

from __future__ import annotations

import hashlib
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field, InstanceOf, ValidationError, model_validator

from noiseworthy._tables import Part, Positive, Table
from noiseworthy.data.terms import OwnerTerms
from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.framing import LARGEST
from noiseworthy.deploy.gateway.work import AnyWork
from noiseworthy.errors import WireError
from noiseworthy.methods.wire import WIRES, Size
from noiseworthy.privacy.durable.chain import HEAD
from noiseworthy.privacy.mechanisms.fields import DeployedMechanism
from noiseworthy.privacy.uploads import Derived, Grid, Upload
from noiseworthy.tasks.table import TaskTable

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.models import ModelOffer
    from noiseworthy.deploy.gateway.sums import Summed, SumRequest

Reason: TypeAlias = Literal[
    "malformed", "not-allowed", "floor", "deadline", "conflict", "budget", "leased", "records", "ledger",
    "fault", "lost", "failed", "void",
]  # fmt: skip
"""Why nothing is sent: `lost` and `failed` were paid for, a `void` round of a secure sum may have been, all
others cost nothing."""

RunName = Annotated[str, Field(min_length=1, max_length=100)]
Release = Annotated[int, Field(ge=0, lt=2**62)]
"""A number of a release; 0 stands for none."""
HeadText = Annotated[str, Field(pattern=f"^{HEAD}$")]
"""The end of a ledger's chain, as `str` of a `Head` makes it."""


def _finite(axes: int) -> AfterValidator:
    def checked(values: np.ndarray) -> np.ndarray:
        if values.dtype != np.float32 or values.ndim != axes or not np.all(np.isfinite(values)):
            raise ValueError(f"numbers must be finite float32 with {axes} axes")
        return values

    return AfterValidator(checked)


Vector = Annotated[np.ndarray, _finite(axes=1)]
Rows = Annotated[np.ndarray, _finite(axes=2)]
Scales = Annotated[Vector | None, Field(exclude_if=lambda numbers: numbers is None)]


class Seen(Table):
    """What records are seen against, by value: an owner opens no data that a server names.

        z = (x - center)/spread,    seen = z/|z| - mean,    projected = directions seen

    Attributes:
        mean: subtracted from every record of norm 1, float32, shape (d,), finite.
        directions: that a projection keeps, float32, shape (projection, d), finite; (0, d) without one.
        center: subtracted from features, as the mean; None with spread where nothing is standardised.
        spread: what features are divided by, above 0.

    Guarantee: whatever a server chooses, the numbers are fixed before a record is read for the release, and
    the map that they make treats each record alone. So a neighbour changes one prepared record, and the
    clip, which follows the map, bounds what that changes.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    mean: Vector
    directions: Rows
    center: Scales = None
    spread: Scales = None

    @model_validator(mode="after")
    def _one_size(self) -> Seen:
        if self.directions.shape[1] != len(self.mean):
            raise ValueError("directions must have as many numbers as the mean")
        scales = [0 if one is None else len(one) for one in (self.center, self.spread)]
        positive = self.spread is None or self.spread.min() > 0
        if scales not in ([0, 0], 2 * [len(self.mean)]) or not positive:
            told = "center and spread, where there are any, must be as long as the mean, spread above 0"
            raise ValueError(told)
        return self


class Into(Table):
    """The sum that a release enters without noise, where the owner trusts the server to add it.

    Attributes:
        weight: of the upload in the sum, public.
        exponent: of the grid of the sum, whose steps are 2^exponent.
    """

    weight: Size
    exponent: Annotated[int, Field(ge=-1000, le=1000)]


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
        noise: standard deviation or Laplace scale of each coordinate of the upload; of one that enters a sum
            without noise, what the server promises to add, in units of the upload.
        deadline: seconds since 1970, past which nothing is spent.
        head: of the owner's ledger, as the last reply told; None before the first.
        received: last release of the run whose upload arrived and is kept.
        seen: numbers of the reference that `task` names; None where it names none.
        into: the sum that a trusted server adds the noise to; None where the owner draws it.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    FREE: ClassVar = frozenset({"deadline", "head", "received"})

    run: RunName
    release: Annotated[int, Field(ge=1, lt=2**62)]
    algorithm: AnyWork
    task: TaskTable
    theta: Vector
    mechanism: DeployedMechanism
    clip_norm: Size
    noise: Size
    deadline: Positive
    head: HeadText | None = None
    received: Release = 0
    seen: Seen | None = None
    into: Annotated[Into | None, Field(exclude_if=lambda into: into is None)] = None

    @property
    def digest(self) -> str:
        """Of all that the upload depends on: a release is asked again with the same, or it is another."""
        return hashlib.sha256(wire.pack(self.model_dump(exclude=set(self.FREE)))).hexdigest()

    @property
    def program(self) -> str:
        """Digest of all that decides which programs compute it: two that agree need no new ones."""
        work = {
            name: len(part) if isinstance(part, np.ndarray) else part
            for name, part in self.algorithm.model_dump().items()
            if not (isinstance(part, float) and part)
        }
        fields = self.model_dump(include={"task", "seen", "mechanism"})
        shape = {"parameters": len(self.theta), "algorithm": work}
        return hashlib.sha256(wire.pack(fields | shape)).hexdigest()


class Refused(Table):
    """An answer without an upload; its message is made of public things alone.

    Attributes:
        reason: of a fixed list.
        message: the reason in words, with its remedy.
        next: number of the release that may be asked for instead, where this one never can be made.
    """

    reason: Reason
    message: str
    next: Release | None = None


class Uploaded(Table):
    """An upload as it left its owner.

    Attributes:
        run: that asked for it.
        release: its number there.
        client: whose it is.
        request: digest of the request that it answers.
        upload: whole numbers on a grid and what reads them, or what was derived from such; either has
            `values`, as the algorithm's `combine` takes them.
        head: of the owner's ledger once the release was paid for; the next request carries it.
    """

    run: RunName
    release: Annotated[int, Field(ge=1, lt=2**62)]
    client: str
    request: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    upload: InstanceOf[Upload] | InstanceOf[Derived]
    head: HeadText


class About(OwnerTerms):
    """What an owner tells everybody: its terms, and how much of its budget is spent. Telling costs nothing.

    Attributes:
        head: of the ledger.
        spent: part of the lifetime budget that is spent, from 0 to 1.
        leased: part of it that is held for runs and not spent yet.
        scored: part of what held-out records have as their own that is spent.
    """

    head: HeadText
    spent: Part
    leased: Part = 0.0
    scored: Annotated[Part, Field(exclude_if=lambda scored: not scored)] = 0.0


class Receipt(Table):
    """Uploads that arrived and are kept, where no further request of the run will say so.

    Attributes:
        run: by name.
        received: last release of the run whose upload arrived.
        scored: the same of records that are held out; left out where none did.
        ended: whether the run is over: what is held for it and not spent goes back to the budget.
    """

    run: RunName
    received: Release = 0
    scored: Annotated[Release, Field(exclude_if=lambda scored: not scored)] = 0
    ended: bool = False


class LeaseRequest(Table):
    """The whole price of a run, which is to be held for it before its first release.

    Attributes:
        run: by name.
        epsilon: of all its releases.
        delta: of all its releases; 0 with Laplace noise.
        head: of the owner's ledger as it told it last; None if it never did.
    """

    run: RunName
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)]
    head: HeadText | None = None


class Received(Table):
    """The answer to a receipt, a lease or a model, which are noted; `head` is that of the owner's ledger."""

    head: HeadText


Message: TypeAlias = "Request | SumRequest | Receipt | LeaseRequest | ModelOffer | Literal['about']"
"""What may be asked of a gateway."""
Reply: TypeAlias = "Uploaded | Summed | Refused | About | Received"


def read_message(data: bytes) -> Message:
    """What is asked.

    Raises:
        WireError: anything else; the sentence is fixed, or names the version or an unknown algorithm.
    """
    fields = wire.unpack(data, most=LARGEST)
    kind = fields.pop("kind", None) if isinstance(fields, dict) else None
    if isinstance(kind, str) and kind == "about" and not fields:
        return "about"
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"this is no request; its kind must be one of {', '.join(KINDS)} or about")
    module, name = KINDS[kind]
    return _validated(getattr(import_module(f"noiseworthy.deploy.gateway.{module}"), name), fields)


KINDS = {
    "release": ("messages", "Request"),
    "receipt": ("messages", "Receipt"),
    "lease": ("messages", "LeaseRequest"),
    "model": ("models", "ModelOffer"),
    "sum": ("sums", "SumRequest"),
}
"""Messages by module and name; a module is loaded with the first message that needs it."""


def _validated(kind: Any, fields: dict[str, Any]) -> Message:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["type"] == "union_tag_invalid":
            name = str(first.get("ctx", {}).get("tag"))[:40]
            raise WireError(f"a gateway does not compute {name!r}; ask for {', '.join(WIRES)}") from None
        place = ".".join(str(part)[:40] for part in first["loc"]) or "a field"
        raise WireError(f"this is no request; {place} is missing, unknown or out of range") from None


def pack_reply(reply: Reply) -> bytes:
    """A reply as bytes; equal replies are equal bytes."""
    if not isinstance(reply, Uploaded):
        return wire.pack({"kind": type(reply).__name__.lower(), **reply.model_dump()})
    fields = reply.model_dump(exclude={"upload"})
    return wire.pack({"kind": "upload", **fields, "upload": _parts(reply.upload)}, most=LARGEST)


def _parts(upload: Upload | Derived) -> dict[str, Any]:
    if isinstance(upload, Derived):
        return {"values": upload.values, "assurance": upload.assurance}
    on_grid = {"steps": upload.steps, "exponent": upload.grid.exponent}
    return on_grid | {"divisor": upload.divisor, "assurance": upload.assurance}


def _whole(parts: dict[str, Any]) -> Upload | Derived:
    if "values" in parts:
        return Derived(**parts)
    return Upload(parts["steps"], Grid(parts["exponent"]), parts["divisor"], parts["assurance"])


_PLAIN_REPLIES = {"refused": Refused, "about": About, "received": Received}


def read_reply(data: bytes) -> Reply:
    """The reply of a message.

    Raises:
        WireError: bytes that are no reply.
    """
    fields = wire.unpack(data, most=LARGEST)
    try:
        if (kind := fields.pop("kind")) == "summed":
            return import_module("noiseworthy.deploy.gateway.sums").Summed.model_validate(fields)
        if kind in _PLAIN_REPLIES:
            return _PLAIN_REPLIES[kind].model_validate(fields)
        return Uploaded(**fields | {"upload": _whole(fields["upload"])})
    except (LookupError, TypeError, AttributeError, ValueError, OverflowError):
        raise WireError("this is no reply of a gateway; ask one over its socket") from None
