"""The `[algorithm]` keys of Hou et al."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Chance, Count, Positive, Seed, Share
from noiseworthy.methods.table import AlgorithmTable


class ScaffNewTable(AlgorithmTable):
    """`[algorithm]` of Hou et al.: control variates, and communication when a public coin falls."""

    name: Literal["dp-scaffnew"]
    rule: Literal["joint", "paper"] = "joint"
    iterations: Count | Auto = "auto"
    communication_probability: Chance | Auto = "auto"
    max_iterations: Count = 10_000
    coin_seed: Seed = 0
    batch_size: Count | Literal["full"] = "full"
    step_size: Positive | Auto = "auto"
    averaging: Share | Auto = "auto"


TABLE = ScaffNewTable
