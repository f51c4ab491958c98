"""A release as it enters a sum: its rows on the grid of the sum, times its weight.

Every row is clipped, scaled by w / n and truncated on that grid before it is added, so that the sum of all
owners is one sum of whole numbers, and noise is the last thing that happens to it. Who draws the noise is a
matter of whom owners trust: each its share (`shares_of_noise`), or a server all of it (`unnoised`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.terms import Declined
from noiseworthy.methods.wire import Job
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.sums import NoisedSum
from noiseworthy.privacy.uploads import Grid, Noise, Upload

MORE = 1 + 2.0**-20
"""Noise beyond the planned, of everybody: what pays for the grid."""
LESS = 1 - 2.0**-45
"""More than the roundings between a promised number and what is computed with it."""


@dataclass(frozen=True, kw_only=True)
class Summand(NoisedSum):
    """Rows that are clipped on the grid of a sum, times a weight, with the noise that their owner draws.

    Attributes:
        weight: of the mean of the rows in the sum.
        grid: of the sum.
        drawn: noise of the owner's own, in its steps.
    """

    weight: float
    grid: Grid
    drawn: Noise

    def of(self, parts: Iterable[NDArray[np.floating]]) -> Upload:
        """The weighted total with the owner's noise; `steps` are those that enter the sum."""
        one, total = self.mechanism, np.zeros(self.dimension, np.int64)
        factor = self.weight / one.records
        for rows in parts:
            scaled = np.asarray(rows, np.float64) * factor
            total += clipped_sum(scaled, one.clip_norm * factor, one.norm, self.grid)
        return Upload(self.drawn.added_to(total), self.grid, self.weight, self.drawn.assurance)

    def drew(self, upload: object, dimension: int | None = None) -> bool:
        """Whether something may have left as this summand, as far as public numbers tell."""
        return (
            isinstance(upload, Upload)
            and upload.grid == self.grid
            and upload.divisor == self.weight
            and len(upload.steps) == (self.dimension if dimension is None else dimension)
            and self.reaches(upload.values)
        )


def only_sum(job: Job, work: str) -> tuple[str, NoisedSum]:
    """The one noised sum of rows that leaves as it was drawn, by its name in the job.

    Args:
        job: of a release.
        work: what it is called.

    Raises:
        Declined: work of several sums, or from which something else is computed, to be sent or remembered.
    """
    ((name, one), *more) = job._sums.items()
    if more or job.remembers_noised or one.times > 1 or not (_replaces(one) and leaves_as_drawn(job, one)):
        raise Declined(
            "not-allowed",
            f"{work} does not upload one noised sum of any rows as it was drawn, or an owner computes on "
            "with it; it enters no sum whose noise is drawn elsewhere",
        )
    return name, one


def entering(
    job: Job, name: str, weight: float, grid: Grid, paid: DeployedNoise, drawn: Noise | None = None
) -> Job:
    """A job whose one noised sum enters a sum.

    Args:
        job: of the release.
        name: of its noised sum.
        weight: in the sum.
        grid: of the sum.
        paid: the noise on that grid that the release is paid for by.
        drawn: what the owner draws of it; None for all.

    Raises:
        Declined: a grid on which truncated rows may be further apart than the release accounts for.
        InvalidInput: a clip that is less than a step of it once divided by the rows.
    """
    one = job._sums[name]
    factor = weight / one.mechanism.records
    # of no rows, for its refusal of a clip below one step: later it would come after the payment
    clipped_sum(np.zeros((0, 1)), one.mechanism.clip_norm * factor, one.mechanism.norm, grid)
    if not one.stays_apart(grid.spacing / factor):
        raise Declined("not-allowed", "the grid of the sum is too coarse for these rows; nothing was spent")
    noised = replace(one, mechanism=replace(one.mechanism, noise=paid))
    return replace(job, **{name: Summand(**noised.plain, weight=weight, grid=grid, drawn=drawn or paid)})


def leaves_as_drawn(job: Job, one: NoisedSum) -> bool:
    """Whether what leaves is the noised sum itself, and nothing that was computed from it."""
    return job.made(one._upload(np.zeros(one.dimension, np.int64)))


def _replaces(one: NoisedSum) -> bool:
    """Whether a release is accounted for rows that may be replaced by any other that can be made."""
    change = one.apart * one.mechanism.clip_norm / one.mechanism.records
    return float(one.release.sensitivity.value[0]) >= LESS * change
