"""Paragraphs of a privacy statement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["claim", "limit", "warning"]


@dataclass(frozen=True)
class Clause:
    """A paragraph of the statement.

    Attributes:
        title: what it is about.
        text: what it says.
        points: further points, one line each.
        kind: a claim, a limit of the claims, or a warning that must be seen.
    """

    title: str
    text: str
    points: tuple[str, ...] = ()
    kind: Kind = "claim"
