"""The `[algorithm]` keys of Fu et al."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from noiseworthy._tables import Auto, Count, Positive, Share, Size
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.privacy.clipping import ClippingMode


class FedAvgTable(AlgorithmTable):
    """`[algorithm]` of Fu et al.: local steps before every reply; also DP-FedAvg of Hou et al."""

    name: Literal["dp-fedavg"]
    clipping_mode: ClippingMode | Auto = "auto"
    clients_per_round: Size | Auto = "auto"
    total_iterations: Count | Auto = "auto"
    local_steps: Count | Auto = "auto"
    max_iterations: Annotated[Count, Field(le=20_000)] = 500
    batch_size: Count | Literal["full"] = "full"
    step_size: Positive | Auto = "auto"
    step_decay: Positive | Literal["none"] = "none"
    averaging: Share | Auto = "auto"


TABLE = FedAvgTable
