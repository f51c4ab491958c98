"""The `[algorithm]` keys of Zhou et al."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Momentum, Part, Positive, Share, Size, Steps
from noiseworthy.methods.table import AlgorithmTable


class FedSGDTable(AlgorithmTable):
    """`[algorithm]` of Zhou et al.: one gradient per reply."""

    name: Literal["fedsgd-dpc"] = "fedsgd-dpc"
    rounds: Steps | Auto = "auto"
    clients_per_round: Size | Auto = "auto"
    max_rounds: Steps = 500
    step_size: Positive | Auto = "auto"
    step_decay: Positive | Literal["none"] = 50.0
    momentum: Momentum | Auto = "auto"
    averaging: Share | Auto = "auto"
    weighting: Part | Auto = "auto"


TABLE = FedSGDTable
