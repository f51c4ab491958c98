"""The `[algorithm]` keys of one upload."""

from typing import Literal

from noiseworthy._tables import Auto, Part, Positive
from noiseworthy.methods.table import AlgorithmTable, StepSize


class MomentsTable(AlgorithmTable):
    """`[algorithm]` of one upload: second moments of all clients, solved at the server."""

    name: Literal["moments"]
    shrinkage: Positive | Auto = "auto"
    """Ridge of the solution, in spectral norms of the noise in the mean of x x'."""
    step_size: StepSize = "auto"
    label_weight: Positive | Auto = "auto"
    """Weight of the label beside the features, between which the noise is shared out."""
    weighting: Part | Auto = "auto"
    """Weighs uploads by records (0), by their precision (1), or between."""


TABLE = MomentsTable
