"""What tables of TOML files are made of: kinds of values, and tables that refuse unknown keys."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError, PydanticKnownError
from pydantic_core.core_schema import no_info_before_validator_function

from noiseworthy.errors import ConfigError


def _within(least: float, most: float) -> Callable[[float], float]:
    """A check that a number other than 0 has a size that can be computed with; its sign is checked later."""

    def checked(value: float) -> float:
        if value and not least <= abs(value) <= most and value == value:
            real = isinstance(value, float)
            said = f"between {least:g} and {most:g} in size" if real else f"at most {most:,}"
            raise PydanticCustomError("out_of_limits", said)  # pyright: ignore[reportArgumentType]
        return value

    return checked


def _most(value: int) -> Any:
    """What editors are told of a greatest value that a check of our own has words for."""
    return Field(json_schema_extra={"maximum": value})


LEAST, MOST = 1e-15, 1e15
"""Sizes of what a study states: squares of them, and quotients of these, are well within a float64."""
LEAST_DELTA = 1e-100
MOST_STEPS, MOST_RECORDS, MOST_LISTED = 1_000_000, 10**12, 1000
Auto = Literal["auto"]
Number = Annotated[float, AfterValidator(_within(LEAST, MOST))]
Delta = Annotated[float, AfterValidator(_within(LEAST_DELTA, MOST))]
PerClient = Number | list[Number]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False), AfterValidator(_within(LEAST, MOST))]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_within(LEAST, MOST))]
Share = Annotated[float, Field(ge=0, lt=1)]
Part = Annotated[float, Field(ge=0, le=1)]
Chance = Annotated[float, Field(gt=0, le=1), AfterValidator(_within(LEAST, 1))]
Steps = Annotated[int, Field(ge=0), _most(MOST_STEPS), AfterValidator(_within(1, MOST_STEPS))]
"""Rounds, iterations and what else is worked through one by one."""
Count = Annotated[int, Field(ge=1), _most(MOST_STEPS), AfterValidator(_within(1, MOST_STEPS))]
Size = Annotated[int, Field(ge=1), _most(MOST_RECORDS), AfterValidator(_within(1, MOST_RECORDS))]
"""Records, clients or parameters: numbers that arrays are not made for."""
Named = Annotated[str, AfterValidator(str.strip)]
T = TypeVar("T")
Listed = Annotated[list[T], Field(max_length=MOST_LISTED)]
"""What is planned or trained one by one."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]


class among:
    """A check that a text is one of some names, or of a form; complained of and told to editors like one."""

    def __init__(self, allowed: Callable[[], Sequence[str]], also: re.Pattern[str] | None = None):
        self.allowed, self.also = allowed, also

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return no_info_before_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> Any:
        forms: list[Any] = [{"enum": [*self.allowed()]}]
        forms += [{"type": "string", "pattern": f"^{self.also.pattern}$"}] if self.also else []
        return handler(schema) | ({"anyOf": forms} if self.also else forms[0])

    def _checked(self, value: Any) -> Any:
        choices = self.allowed()
        if isinstance(value, str) and (value in choices or (self.also and self.also.fullmatch(value))):
            return value
        *first, last = map(repr, choices)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})


class Table(BaseModel):
    """A table of a study file: immutable, no unknown keys; what a key means is said below it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The tables of a TOML file.

    Args:
        path: of the file.
        what: it is, for complaints: "study file".

    Raises:
        ConfigError: a missing file, or one that is no TOML.
    """
    try:
        text = path.read_text("utf-8-sig")  # some editors put a mark before the first line
    except FileNotFoundError:
        raise ConfigError(f"{what} {path} does not exist; give the path of a TOML file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{what} {path} cannot be read as TOML, which is text in UTF-8: {error}") from None
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        from noiseworthy._mistakes import reads  # here, because few files have a mistake

        says = f"{error}{reads(error, text)}"
        raise ConfigError(f"{what} {path} cannot be read as TOML: {says}") from None


Read = TypeVar("Read", bound=BaseModel)


def checked(model: type[Read], raw: dict[str, Any], what: str, remedy: str = "") -> Read:
    """The tables of a file, checked.

    Args:
        model: of the file.
        raw: its tables.
        what: it is called, for what is missing in it: "the study file".
        remedy: what ends every complaint.

    Raises:
        ConfigError: everything that is wrong.
    """
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        from noiseworthy._mistakes import told  # here, as above

        raise ConfigError(*(one + remedy for one in told(error, model, what))) from None
