"""The `[algorithm]` keys of Hu et al."""

from typing import Literal

from noiseworthy._tables import Auto, Count
from noiseworthy.methods.table import AlgorithmTable, Averaging, BatchSize, StepSize

LossShape = Literal["general", "convex", "quadratic"]


class AveragingTable(AlgorithmTable):
    """`[algorithm]` of Hu et al.: noise at every local step, periodic averaging."""

    name: Literal["dp-pasgd"]
    total_iterations: Count | Auto = "auto"
    """Local steps of the whole training."""
    local_steps: Count | Auto = "auto"
    """Steps between two averages."""
    max_iterations: Count = 100_000
    """Most that `total_iterations` may be planned as."""
    batch_size: BatchSize = "full"
    loss_shape: LossShape | Auto = "auto"
    """What is known of the loss; the more, the tighter the bound."""
    step_size: StepSize = "auto"
    averaging: Averaging = "auto"


TABLE = AveragingTable
