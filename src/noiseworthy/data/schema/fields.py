"""Values that a column may state: numbers, days, and values in the writing by which they are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator

from noiseworthy._tables import Number, Table
from noiseworthy.data.schema.values import key


def _as_key(value: Any) -> str:
    if not isinstance(value, str | int | float) or not (text := key(value)):
        raise ValueError(f"values must be text, numbers, true or false, got {value!r}")
    return text


def _as_day(value: Any) -> Any:
    if isinstance(value, date):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError):
        raise ValueError(f"days must be written like 2024-12-31, got {value!r}") from None


def _pair(kind: dict[str, Any]) -> WithJsonSchema:
    return WithJsonSchema({"type": "array", "items": kind, "minItems": 2, "maxItems": 2})


_KEY = {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}]}
_KEYS = {"type": "array", "items": _KEY}
_CLASSES = {"type": "object", "additionalProperties": {"anyOf": [_KEY, _KEYS]}}
Real = Annotated[Number, Field(allow_inf_nan=False)]
Key = Annotated[str, BeforeValidator(_as_key), WithJsonSchema(_KEY)]
"""A value in the writing by which values are compared: 1, "1" and 1.0 are one."""
Day = Annotated[date, BeforeValidator(_as_day)]
Keys = Annotated[tuple[Key, ...], Field(strict=False)]
Classes = Annotated[Keys, WithJsonSchema({"anyOf": [_KEYS, _CLASSES]})]
Ends = Annotated[tuple[Real, Real], Field(strict=False), _pair({"type": "number"})]
Days = Annotated[tuple[Day, Day], Field(strict=False), _pair({"type": "string", "format": "date"})]


class BoughtRange(Table):
    """A range that nobody knows: owners release noised quantiles, and their medians are its ends."""

    buy: Ends
    """Least and greatest value that can be thought of, public; the range is bought within them."""
    quantiles: Ends = (0.05, 0.95)
    """Shares of each owner's values below the ends of the range, in (0, 1)."""
    share: Annotated[Number, Field(gt=0, lt=1)] = 0.05
    """Share of every budget that the range costs, above 0, below 1."""

    @model_validator(mode="after")
    def _fits(self) -> BoughtRange:
        if not 0 < self.quantiles[0] < self.quantiles[1] < 1:
            raise ValueError(f"quantiles must be two shares in (0, 1), least first, got {[*self.quantiles]}")
        return self


Range = Annotated[
    Annotated[Ends, Tag("stated")] | Annotated[BoughtRange, Tag("bought")],
    Discriminator(lambda value: "bought" if isinstance(value, dict | BoughtRange) else "stated"),
]
"""Ends that are stated, or to be bought."""


def check_distinct(what: str, values: Sequence[str], least: int) -> None:
    """Refuse values that are too few, or of which one is stated twice.

    Raises:
        ValueError: with the value.
    """
    if twice := [value for value, times in Counter(values).items() if times > 1]:
        raise ValueError(f"{what} must be different, got {twice[0]!r} twice")
    if len(values) < least:
        raise ValueError(f"{what} must be at least {least}, got {[*values]}")


def check_ordered(first: float, last: float, stated: Sequence[Any]) -> None:
    """Refuse a range that does not lead upwards.

    Raises:
        ValueError: with the range.
    """
    if not first < last:
        raise ValueError(f"range must be [least, most], got [{', '.join(map(str, stated))}]")
