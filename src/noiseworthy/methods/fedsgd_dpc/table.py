"""The `[algorithm]` keys of Zhou et al."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Count, Part
from noiseworthy.methods.table import (
    AlgorithmTable,
    AskedOrPlanned,
    Averaging,
    Decay,
    ServerMomentum,
    Steering,
    StepSize,
)


class FedSGDTable(AlgorithmTable):
    """`[algorithm]` of Zhou et al.: one gradient per reply."""

    name: Literal["fedsgd-dpc"] = "fedsgd-dpc"
    rounds: Count | Auto = "auto"
    """Rounds of the training."""
    clients_per_round: AskedOrPlanned = "auto"
    max_rounds: Count = 500
    """Most that `rounds` may be planned as."""
    step_size: StepSize = "auto"
    step_decay: Decay = 50.0
    momentum: ServerMomentum = "auto"
    averaging: Averaging = "auto"
    steering: Steering = "auto"
    weighting: Part | Auto = "auto"
    """Weighs uploads by records (0), by their precision (1), or between."""


TABLE = FedSGDTable
