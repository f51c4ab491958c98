"""What tables of TOML files are made of: kinds of values, and tables that refuse unknown keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError, PydanticKnownError


def _within(least: float, most: float) -> Callable[[float], float]:
    """A check that a number other than 0 has a size that can be computed with; its sign is checked later."""

    def checked(value: float) -> float:
        if value and not least <= abs(value) <= most and value == value:
            real = isinstance(value, float)
            said = f"between {least:g} and {most:g} in size" if real else f"at most {most:,}"
            raise PydanticCustomError("out_of_limits", said)  # pyright: ignore[reportArgumentType]
        return value

    return checked


LEAST, MOST = 1e-15, 1e15
"""Sizes of what a study states: squares of them, and quotients of these, are well within a float64."""
LEAST_DELTA = 1e-100
MOST_STEPS, MOST_RECORDS, MOST_LISTED = 1_000_000, 10**12, 1000
Auto = Literal["auto"]
Number = Annotated[float, AfterValidator(_within(LEAST, MOST))]
Delta = Annotated[float, AfterValidator(_within(LEAST_DELTA, MOST))]
PerClient = Number | list[Number]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_within(LEAST, MOST))]
Momentum = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, lt=1)]
Part = Annotated[float, Field(ge=0, le=1)]
Chance = Annotated[float, Field(gt=0, le=1), AfterValidator(_within(LEAST, 1))]
Steps = Annotated[int, AfterValidator(_within(1, MOST_STEPS))]
"""Rounds, iterations and what else is worked through one by one."""
Count = Annotated[int, Field(ge=1), AfterValidator(_within(1, MOST_STEPS))]
Size = Annotated[int, AfterValidator(_within(1, MOST_RECORDS))]
"""Records, clients or parameters: numbers that arrays are not made for."""
T = TypeVar("T")
Listed = Annotated[list[T], Field(max_length=MOST_LISTED)]
"""What is planned or trained one by one."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def among(
    allowed: Callable[[], Sequence[str]], also: Callable[[str], bool] = lambda value: False
) -> BeforeValidator:
    """A check that a text is one of some names, or of another form, complained of as a literal is."""

    def checked(value: Any) -> Any:
        choices = allowed()
        if isinstance(value, str) and (value in choices or also(value)):
            return value
        *first, last = map(repr, choices)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})

    return BeforeValidator(checked)


class Table(BaseModel):
    """A table of a study file: immutable, no unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
