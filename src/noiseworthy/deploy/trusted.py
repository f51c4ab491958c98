"""A server that owners trust: it adds the noise of a sum to uploads that carry none, before anything else.

Its noise is that of the whole cohort whoever is missing, so that nobody's record is hidden by less. Nothing
of an upload is kept: what the round makes of the noised sum is kept before any owner is asked again.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.gateway.messages import Uploaded
from noiseworthy.deploy.gateway.unnoised import noise_of_sum
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
    family = asking.plan.problem.family
    noised = noise_of_sum(family, asking.noise_of_sum(t), grid).added_to(total)
    # noise of the whole cohort over the weights of those who are there: who is missing makes it larger
    there = float(asking.plan.weights[[*uploads]].sum())
    return grid.spacing * noised / check.positive("weights", there)
