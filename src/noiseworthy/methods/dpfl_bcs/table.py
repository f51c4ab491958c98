"""The `[algorithm]` keys of Ma et al."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Positive, Steps
from noiseworthy.methods.table import (
    AlgorithmTable,
    Asked,
    Averaging,
    Rounds,
    ServerMomentum,
    StepDecay,
    StepSize,
)


class SelectionTable(AlgorithmTable):
    """`[algorithm]` of Ma et al.: rounds and clients per round are stated, who is asked is planned."""

    name: Literal["dpfl-bcs"]
    rounds: Rounds = 200
    clients_per_round: Asked
    estimation_rounds: Steps | Auto = "auto"
    """Rounds of a first stage that estimates heterogeneity from noised losses; 0 for none."""
    loss_cap: Positive | Auto = "auto"
    """What reported losses are clipped at; `auto` is ln(classes)."""
    step_size: StepSize = "auto"
    step_decay: StepDecay = "none"
    momentum: ServerMomentum = "auto"
    averaging: Averaging = "auto"


TABLE = SelectionTable
