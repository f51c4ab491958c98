"""The `[algorithm]` keys of Hu et al."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Count, Positive, Share
from noiseworthy.methods.table import AlgorithmTable

LossShape = Literal["general", "convex", "quadratic"]


class AveragingTable(AlgorithmTable):
    """`[algorithm]` of Hu et al.: noise at every local step, periodic averaging."""

    name: Literal["dp-pasgd"]
    total_iterations: Count | Auto = "auto"
    local_steps: Count | Auto = "auto"
    max_iterations: Count = 100_000
    batch_size: Count | Literal["full"] = "full"
    loss_shape: LossShape | Auto = "auto"
    step_size: Positive | Auto = "auto"
    averaging: Share | Auto = "auto"


TABLE = AveragingTable
