"""The `[algorithm]` keys of MR-MTL."""

from __future__ import annotations

from typing import Literal

from noiseworthy._tables import Auto, Count, NonNegative
from noiseworthy.methods.table import AlgorithmTable, Averaging, Decay, StepSize

PULL = 0.01
"""Lambda where a study states none: docs/at_home.md says what was measured."""


class MrMtlTable(AlgorithmTable):
    """`[algorithm]` of Liu et al.: own models with a ridge towards their mean."""

    name: Literal["mr-mtl"]
    rounds: Count | Auto = "auto"
    """Rounds of the training, in each of which everybody replies."""
    max_rounds: Count = 500
    """Most that `rounds` may be planned as."""
    pull: NonNegative = PULL
    """Strength of the ridge that draws every owner's model towards the mean; 0 trains each alone."""
    step_size: StepSize = "auto"
    step_decay: Decay = "none"
    averaging: Averaging = "auto"


TABLE = MrMtlTable
