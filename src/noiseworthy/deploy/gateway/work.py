"""What an owner can be asked to compute, with the numbers of the request that it takes."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, get_args

import numpy as np
from pydantic import AfterValidator, ConfigDict, Field

from noiseworthy._tables import Count, Table

AlgorithmName: TypeAlias = Literal[
    "fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "privatefl", "dpfl-bcs"
]
COMPUTED: tuple[AlgorithmName, ...] = get_args(AlgorithmName)
"""Algorithms that a gateway computes."""
Size = Annotated[float, Field(gt=1e-30, lt=1e30)]
"""A number that float32 holds."""


class FedSGDWork(Table):
    """The mean of clipped gradients of records, at the model that was sent."""

    name: Literal["fedsgd-dpc"] = "fedsgd-dpc"


def _positive(steps: np.ndarray) -> np.ndarray:
    if steps.dtype != np.float64 or steps.ndim != 1 or not len(steps):
        raise ValueError("step sizes must be a list of float64")
    if not np.all((steps > 1e-30) & (steps < 1e30)):
        raise ValueError("step sizes must be above 0 and within float32")
    return steps


StepSizes = Annotated[np.ndarray, AfterValidator(_positive)]
"""Of local steps, in their order: float64, shape (steps,)."""


class FedAvgWork(Table):
    """Local steps on all records: the clip holds for each gradient (C) or for the update (D)."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Literal["dp-fedavg"] = "dp-fedavg"
    clipping: Literal["C", "D"]
    step_sizes: StepSizes


class ScaffNewWork(Table):
    """Local steps with a control variate that the owner keeps, the update clipped."""

    name: Literal["dp-scaffnew"] = "dp-scaffnew"
    step_size: Size
    probability: Annotated[float, Field(gt=0, le=1)]
    local_steps: Count


class PasgdWork(Table):
    """Local steps on all records, each with noise of its own: of the release, for each of its gradients."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    name: Literal["dp-pasgd"] = "dp-pasgd"
    step_sizes: StepSizes


class PrivateFLWork(Table):
    """A gradient through the owner's own transform of its records, which moves with its noised part."""

    name: Literal["privatefl"] = "privatefl"
    personal_step: Annotated[float, Field(ge=0, lt=1e30)]


class LossReportWork(Table):
    """Stage 1 of DPFL-BCS: a gradient, and two noised losses within [0, `loss_cap`].

    `loss_noise` is the size of the noise of one loss, and `step_size` leads to where the second is taken.
    """

    name: Literal["dpfl-bcs"] = "dpfl-bcs"
    loss_cap: Size
    loss_noise: Size
    step_size: Size


Work = Annotated[
    FedSGDWork | FedAvgWork | ScaffNewWork | PasgdWork | PrivateFLWork | LossReportWork,
    Field(discriminator="name"),
]


def local_steps(work: Work) -> int:
    """Steps that a work takes at the owner."""
    if isinstance(work, FedAvgWork | PasgdWork):
        return len(work.step_sizes)
    return work.local_steps if isinstance(work, ScaffNewWork) else 1
