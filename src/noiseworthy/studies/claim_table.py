"""`[claim]` of a study: what a training is for, who answers for it, and until when its claim holds."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from noiseworthy._tables import Table


def _a_date(value: Any) -> Any:
    """A date of TOML, or as it is written in a record."""
    try:
        return date.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"[claim] valid_until must be a date like 2027-01-01, got {value!r}") from None


class ClaimTable(Table):
    """`[claim]`: what a training is for and who answers for it, for the claim card; it changes no number."""

    purpose: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """What the model is trained for."""
    responsible: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """Who answers for the training: a person or an office, and how to reach them."""
    valid_until: Annotated[date, BeforeValidator(_a_date)] | None = None
    """The last day on which the claim may be relied on, like 2027-01-01."""
