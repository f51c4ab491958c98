"""What uploads with deployed noise have cost in all, the grid surcharge included."""

from __future__ import annotations

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.deployed_noise import DeployedNoise, grid_surcharge
from noiseworthy.privacy.releases import Release


def deployed_epsilon(
    release: Release, client: int, releases: int, delta: float, noise: DeployedNoise, dimension: int
) -> float:
    """Epsilon of a client after its uploads with deployed noise, the grid surcharge included.

    The least epsilon that the accountant gives at delta - (1 + e^epsilon) T p eta.

    Args:
        release: what one upload is, with noise as drawn (`grid_mechanism.as_drawn`).
        client: whose.
        releases: T.
        delta: of the claim; 0 for pure epsilon.
        noise: as drawn.
        dimension: coordinates p of one release.

    Returns:
        epsilon, never below that of continuous noise.

    Raises:
        UnsoundClaim: a surcharge that leaves nothing of delta.

    Example:
        >>> import numpy as np
        >>> from noiseworthy.privacy.deployed_noise import STEPS
        >>> from noiseworthy.privacy.mechanisms import Gaussian
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> upload = Release(Gaussian(np.array([0.4])), of_mean_gradient(5.0, [100], "l2"))
        >>> noise = DeployedNoise("gaussian", STEPS)
        >>> continuous = float(spent_epsilon(upload, 3, 1e-5)[0])
        >>> 0 <= deployed_epsilon(upload, 0, 3, 1e-5, noise, 7850) - continuous < 1e-8
        True
    """
    epsilon = float(spent_epsilon(release, releases, delta)[client])
    if delta == 0:
        return epsilon
    # The surcharge grows with epsilon, and epsilon with it: from below, the first fixed point is the least.
    for _ in range(50):
        left = delta - grid_surcharge(noise, epsilon, releases, dimension)
        if left <= 0:
            break
        charged = float(spent_epsilon(release, releases, left)[client])
        if charged <= epsilon * (1 + 1e-12):
            return max(charged, epsilon)
        epsilon = charged
    raise UnsoundClaim(
        f"the grid surcharge leaves nothing of delta {delta:g} at epsilon {epsilon:g}; take a finer grid, "
        "a larger delta or more noise"
    )
