"""A server that owners trust: it adds the noise of a sum to uploads that carry none, before anything else.

Its noise is that of the whole cohort whoever is missing, so that nobody's record is hidden by less. Nothing
of an upload is kept: what the round makes of the noised sum is kept before any owner is asked again.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.gateway.messages import Uploaded
from noiseworthy.deploy.gateway.summands import MORE
from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.uploads import Upload


def noised_mean(asking: Asking, t: int, uploads: Mapping[int, Uploaded]) -> NDArray[np.float64]:
    """The weighted mean of the uploads of a round, with the noise of the planned sum.

        (sum_i w_i u_i + noise) / sum_i w_i        over those who are there

    Args:
        asking: the requests of the run.
        t: the round.
        uploads: by client, without noise, on one grid.

    Returns:
        shape (p,).

    Guarantee: each w_i u_i was truncated on the grid by its owner, whole numbers add exactly, and the noise
    is the last thing that happens before the sum is read as numbers; it is drawn once.
    """
    sums = [one.upload for one in uploads.values() if isinstance(one.upload, Upload)]
    (grid,) = {one.grid for one in sums}
    total = np.stack([one.steps for one in sums]).sum(axis=0)
    noised = _noise(asking, t, grid.spacing).added_to(total)
    there = float(asking.plan.weights[[*uploads]].sum())
    return grid.spacing * noised / check.positive("weights", there)


def _noise(asking: Asking, t: int, spacing: float) -> DeployedNoise:
    """Of the sum, as every owner's release was paid for by it."""
    plan, release = asking.plan, asking.plan.release
    if release is None or release.sharing is None:
        raise UnsoundClaim(
            "a server adds noise to what was planned for sums alone; plan again, with that trust"
        )
    size = float(np.max(plan.weights * release.hiding) * plan.upload_scale[t])
    return DeployedNoise(plan.problem.family, size * MORE / spacing)
