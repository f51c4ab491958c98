"""Whom a method is held against: entrants that share all but what they differ by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.privacy.mechanisms import Family


@dataclass(frozen=True)
class Entrant:
    """Somebody in a contest.

    Attributes:
        told: its `[algorithm]` table, from that of the study.
        kind: the same for entrants whose rounds do the same, of which one is timed for all.
    """

    told: Callable[[AlgorithmTable], AlgorithmTable]
    kind: str


Entrants: TypeAlias = Callable[[Family], dict[str, Entrant]]
"""Who enters under a mechanism, by name: last the one that all others are rivals of; without noise only the
one that all are measured by."""
