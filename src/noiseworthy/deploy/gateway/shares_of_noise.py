"""A release into a secure sum whose noise owners share: what hides it, what it costs, how it is made.

With w the weight of an upload and s the deviation of the owner's own noise in the sum, every honest owner
promises at least nu in the sum (`Terms.share`), and at least m = b - t - d of them are there. So a record of
this owner is hidden by noise of deviation

    sqrt(s^2 + (m - 1) nu^2) / w

in units of its upload. That is what the release is priced and held against the owner's floor by; s alone is
what is drawn. Every row is clipped and truncated on the grid of the round before it is noised, so that the
sum of all owners is one sum of whole numbers plus discrete Gaussians. From 8 steps on a sum of such is one
within a factor that no float64 holds, and the surcharge for the grid is that of the smallest share alone,
m times what the sum of them would need. Source: docs/theory/trust.md.
"""

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.gateway.gateway import Accepted, Gateway
from noiseworthy.deploy.gateway.messages import Request
from noiseworthy.deploy.gateway.price import price_of
from noiseworthy.deploy.gateway.summands import LESS, MORE, entering, only_sum
from noiseworthy.deploy.gateway.terms import Declined
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import InvalidInput, UserError
from noiseworthy.privacy.deployed_noise import STEPS, DeployedNoise
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.uploads import LIMIT, Derived, Grid, Upload


def hidden_by(request: Request, weight: float, terms: Terms) -> Request:
    """The request as if all noise that hides its records were its own: what it is priced and judged by.

    Raises:
        Declined: noise that does not divide into shares, or less of it than the other owners count on.
    """
    if not law_of(request.mechanism).stable:
        raise Declined("not-allowed", f"owners share gaussian noise, got {request.mechanism}")
    share = terms.share * Grid(terms.exponent).spacing / weight
    if not request.noise >= LESS * share:
        raise Declined(
            "not-allowed",
            f"the owners of a round count on noise of {share:g} from each, got {request.noise:g}; nothing "
            "was spent",
        )
    others = int(terms.trust.survivors(len(terms.cohort))) - 1
    noise = LESS * math.sqrt(request.noise**2 + others * share**2)
    return request.model_copy(update={"noise": noise})


def shared(gateway: Gateway, accepted: Accepted, own: float, weight: float, terms: Terms) -> Accepted:
    """A release that was accepted by the noise that hides it, made and priced on the grid of its round.

    Args:
        gateway: of the owner.
        accepted: the release as `hidden_by` has it.
        own: deviation of the owner's noise, in units of its upload.
        weight: of the upload in the sum.
        terms: of the round.

    Raises:
        Declined: work of more than one noised sum, a grid that is too coarse, or terms without room for it.
    """
    name, one = only_sum(accepted.job, accepted.request.algorithm.name)
    grid = Grid(terms.exponent)
    steps, most = weight * own * MORE / grid.spacing, weight * one.mechanism.clip_norm / grid.spacing
    # where each of b owners stays within 1/sqrt(b) of the round's, the squares of all add up to its square
    deviation = steps * math.sqrt(len(terms.cohort))
    if steps < STEPS or not most <= terms.clipped <= LIMIT or deviation > terms.deviation:
        raise Declined("not-allowed", "the grid of the round has no room for this release and its noise")
    try:
        noise = DeployedNoise("gaussian", steps)
        job = entering(accepted.job, name, weight, grid, noise)
        price = price_of(job.sums, gateway.account, gateway.holding.row)
    except UserError as error:
        raise Declined("not-allowed", str(error)) from None
    return replace(accepted, job=job, share=price)


def as_drawn(upload: Upload | Derived) -> NDArray[np.int64]:
    """The steps of a sum whose noise is shared.

    Raises:
        InvalidInput: something that was computed from one.
    """
    if not isinstance(upload, Upload):
        raise InvalidInput("what was computed from a share of noise must not leave; nothing was sent")
    return upload.steps
