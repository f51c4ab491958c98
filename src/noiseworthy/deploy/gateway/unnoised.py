"""A release that leaves without noise, for a server that its owner trusts to add that of the whole sum.

The owner's file must say so (`[allowed] server_adds_noise`). What the release is priced and held against the
owner's floor by is the noise that the server promises, as the owner would draw it: discrete, on the grid of
the sum, a millionth more than planned. Such an upload leaves once: asked again it is refused, because noise
that is drawn anew over the same numbers is another release of them. Source: docs/theory/trust.md, Central.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.messages import Into, Request
from noiseworthy.deploy.gateway.owner import AllowedTable
from noiseworthy.deploy.gateway.summands import MORE, entering, only_sum
from noiseworthy.deploy.gateway.terms import Declined
from noiseworthy.methods.wire import Job
from noiseworthy.privacy.deployed_noise import STEPS, DeployedNoise
from noiseworthy.privacy.mechanisms import Family
from noiseworthy.privacy.uploads import LIMIT, Assurance, Grid, releasable

OWN_NOISE = "the owner lets no upload leave without noise ([allowed] server_adds_noise); nothing was spent"


@dataclass(frozen=True)
class Awaited:
    """Noise that is not here: the server adds it to the sum."""

    @property
    def assurance(self) -> Assurance:
        """The stamp of uploads without noise."""
        return "awaited"

    def added_to(self, total: NDArray[np.int64]) -> NDArray[np.int64]:
        """The total as it is."""
        return releasable(total)


def noise_of_sum(family: Family, size: float, grid: Grid) -> DeployedNoise:
    """What a server draws for a sum, once: what owners pay by, and what they are promised.

    Args:
        family: of the noise.
        size: in the sum, as planned.
        grid: of the sum.

    Raises:
        InvalidInput: less than a step, or OpenDP not installed.
    """
    return DeployedNoise(family, size * MORE / grid.spacing)


def allowed(table: AllowedTable, job: Job, request: Request, into: Into) -> Job:
    """`unnoised`, where the owner's file allows it.

    Raises:
        Declined: the owner trusts no server, or as `unnoised`.
    """
    if not table.server_adds_noise:
        raise Declined("not-allowed", OWN_NOISE)
    return unnoised(job, request, into)


def unnoised(job: Job, request: Request, into: Into) -> Job:
    """A job whose upload enters a sum without noise, paid for by the noise of the sum.

    Args:
        job: as the owner would noise it itself.
        request: of the release.
        into: the sum.

    Raises:
        Declined: work of more than one noised sum, or a grid without room for it or its noise.
        InvalidInput: noise or a clip of less than a step.
    """
    grid = Grid(into.exponent)
    name, one = only_sum(job, request.algorithm.name)
    noise = noise_of_sum(request.mechanism, into.weight * request.noise, grid)
    most = into.weight * one.mechanism.clip_norm / grid.spacing
    if noise.scale < STEPS or not most <= LIMIT:
        raise Declined("not-allowed", "the grid of the sum has no room for this release and its noise")
    return entering(job, name, into.weight, grid, noise, Awaited())
