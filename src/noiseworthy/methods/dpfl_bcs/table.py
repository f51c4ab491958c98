"""The `[algorithm]` keys of Ma et al."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from noiseworthy._tables import Auto, Count, Momentum, Positive, Share, Steps
from noiseworthy.methods.table import AlgorithmTable


class SelectionTable(AlgorithmTable):
    """`[algorithm]` of Ma et al.: rounds and clients per round are stated, who is asked is planned."""

    name: Literal["dpfl-bcs"]
    rounds: Count = 200
    clients_per_round: Count
    estimation_rounds: Annotated[Steps, Field(ge=0)] | Auto = "auto"
    loss_cap: Positive | Auto = "auto"
    step_size: Positive | Auto = "auto"
    step_decay: Positive | Literal["none"] = "none"
    momentum: Momentum | Auto = "auto"
    averaging: Share | Auto = "auto"


TABLE = SelectionTable
