"""The `[algorithm]` keys of Ma et al."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Positive, Steps
from noiseworthy.methods.table import StatedRoundsTable


class SelectionTable(StatedRoundsTable):
    """`[algorithm]` of Ma et al.: rounds and clients per round are stated, who is asked is planned."""

    name: Literal["dpfl-bcs"]
    estimation_rounds: Steps | Auto = "auto"
    """Rounds of a first stage that estimates heterogeneity from noised losses; 0 for none."""
    loss_cap: Positive | Auto = "auto"
    """What reported losses are clipped at; `auto` is ln(classes)."""


TABLE = SelectionTable
