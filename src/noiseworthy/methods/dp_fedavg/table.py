"""The `[algorithm]` keys of Fu et al."""

from typing import Annotated, Literal

from pydantic import Field

from noiseworthy._tables import Auto, Count
from noiseworthy.methods.table import AlgorithmTable, AskedOrPlanned, Averaging, BatchSize, Decay, StepSize
from noiseworthy.privacy.clipping import GradientMode


class FedAvgTable(AlgorithmTable):
    """`[algorithm]` of Fu et al.: local steps before every reply; also DP-FedAvg of Hou et al."""

    name: Literal["dp-fedavg"]
    clipping_mode: GradientMode | Auto = "auto"
    """What is clipped, and so whether a record or a client is protected; `auto` is the tightest proof."""
    clients_per_round: AskedOrPlanned = "auto"
    total_iterations: Count | Auto = "auto"
    """Local steps of the whole training."""
    local_steps: Count | Auto = "auto"
    """Steps between two replies."""
    max_iterations: Annotated[Count, Field(le=20_000, json_schema_extra={"maximum": 20_000})] = 500
    """Most that `total_iterations` may be planned as."""
    batch_size: BatchSize = "full"
    step_size: StepSize = "auto"
    step_decay: Decay = "none"
    averaging: Averaging = "auto"


TABLE = FedAvgTable
