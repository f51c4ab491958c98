"""The `[algorithm]` keys of Hou et al."""

from typing import Literal

from noiseworthy._tables import Auto, Chance, Count, Seed
from noiseworthy.methods.table import AlgorithmTable, Averaging, BatchSize, StepSize


class ScaffNewTable(AlgorithmTable):
    """`[algorithm]` of Hou et al.: control variates, and communication when a public coin falls."""

    name: Literal["dp-scaffnew"]
    rule: Literal["joint", "paper"] = "joint"
    """How counts are planned: all together, or as the paper does."""
    iterations: Count | Auto = "auto"
    """Local steps of the whole training."""
    communication_probability: Chance | Auto = "auto"
    """Chance that a step is followed by a communication."""
    max_iterations: Count = 10_000
    """Most that `iterations` may be planned as."""
    coin_seed: Seed = 0
    """Of the public coins that decide when to communicate."""
    batch_size: BatchSize = "full"
    step_size: StepSize = "auto"
    averaging: Averaging = "auto"


TABLE = ScaffNewTable
