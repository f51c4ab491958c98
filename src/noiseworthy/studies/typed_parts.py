"""What every part of a typed record is made of."""

import math
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

Number = float | None
"""A number, or None in the place of one that is not finite."""
Curve = list[Number]
OrInfinite = Annotated[float, BeforeValidator(lambda value: math.inf if value is None else value)]
"""A number, infinite where None stands in its place."""
Quantity = Literal["loss", "accuracy"]
Json = Any
"""What only one page reads, and as it was written."""


class Part(BaseModel):
    """A part of a record: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @cached_property
    def written(self) -> dict[str, Any]:
        """The part as it is written, for the words of methods: keys that were not there are not."""
        return self.model_dump(exclude_unset=True)

    @classmethod
    def view(cls, record: dict[str, Any] | Self) -> Self:
        """A record with its type, for those who show it; one that has it as it is.

        Raises:
            ValidationError: what is no record.
        """
        return record if isinstance(record, cls) else cls.model_validate(record)
