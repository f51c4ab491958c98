"""What an owner can be asked to compute, by the wires of the methods; each is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, SerializeAsAny, ValidationError
from pydantic_core import InitErrorDetails, PydanticKnownError

from noiseworthy._tables import among
from noiseworthy.errors import UnsoundClaim
from noiseworthy.methods.wire import WIRES, Job, Work, wire
from noiseworthy.privacy.mechanisms import law_of

if TYPE_CHECKING:
    from noiseworthy.deploy.gateway.messages import Request
    from noiseworthy.tasks.base import Task

AlgorithmName = Annotated[str, among(lambda: [*WIRES])]
"""The name of a work."""


def _read(work: Any) -> Any:
    """The table of a work as the wire that it names checks it; what is no table is left to the field."""
    if not isinstance(work, dict):
        return work
    if "name" not in work:
        raise PydanticKnownError("union_tag_not_found", {"discriminator": "'name'"})
    name = str(work["name"]).encode(errors="replace").decode()  # pydantic tells no half of a character
    if name not in WIRES:
        expected = ", ".join(map(repr, WIRES))
        raise PydanticKnownError(
            "union_tag_invalid", {"discriminator": "'name'", "tag": name, "expected_tags": expected}
        )
    try:
        return wire(name).table.model_validate(work)
    except ValidationError as error:
        wrong = [  # each place within the name of the work
            InitErrorDetails(
                type=one["type"], loc=(name, *one["loc"]), input=one["input"], ctx=one.get("ctx", {})
            )
            for one in error.errors(include_url=False)
        ]
        raise ValidationError.from_exception_data(error.title, wrong) from None


AnyWork = Annotated[SerializeAsAny[Work], BeforeValidator(_read)]
"""A work of a request: a table that names it."""


def job_of(request: Request, task: Task, records: int) -> Job:
    """The job that a request describes.

    Args:
        request: with finite parameters.
        task: of the request, for the owner's records.
        records: n of the owner.

    Raises:
        InvalidInput: numbers out of range, or a clip that does not fit the noise.
        UnsoundClaim: local steps whose clip does not bound the update, or noise of another kind than the
            algorithm is proved for.

    Guarantee: the sensitivities in `sums` are the owner's own, from its n and the clips that are applied.
    """
    if obstacle := request.algorithm.obstacle(law_of(request.mechanism)):
        raise UnsoundClaim(obstacle)
    return wire(request.algorithm.name).job(request, request.algorithm, task, records)
