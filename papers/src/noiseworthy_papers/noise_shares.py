"""Noise that is not what a plan calibrates: none, as a paper prints it, or that of a larger federation."""

from __future__ import annotations

import numpy as np

from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.budgets import bound_share, spent_by_bound
from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.settings import Averaging, Setting
from noiseworthy_papers.spec import Arm, Federated


def printed_share(mechanism: Family, epsilon: float, delta: float) -> float:
    """Noise as Fu et al. and Hou et al. take it, over the noise that their guarantee needs; not private.

    Both take the clip C for the sensitivity, which is 2C (Fu et al. do not say how the sensitivity of their
    Laplace noise follows from the clip; we read it so), and for Gaussian noise sqrt(k ln(1/delta))/epsilon
    for sqrt(k) s(epsilon, delta): Laplace 1/2, Gaussian sqrt(ln(1/delta))/(2 epsilon s).

    Example:
        >>> printed_share("laplace", 1.0, 0.0), round(printed_share("gaussian", 10.0, 1e-4), 3)
        (0.5, 0.333)

    Source: docs/theory/accounting.md#constant-c2, docs/theory/fu.md#errata, docs/theory/hou.md#sensitivity.
    """
    if mechanism == "laplace":
        return 0.5
    return float(bound_share(epsilon, delta)) / 2


def spent_as_printed(mechanism: Family, epsilon: float, delta: float, constant: float = 1.0) -> float:
    """The epsilon that noise as printed really spends, for Gaussian noise with the constant v.

    Example:
        >>> spent_as_printed("laplace", 1.0, 0.0), round(spent_as_printed("gaussian", 10.0, 1e-4), 1)
        (2.0, 45.4)
    """
    if mechanism == "laplace":
        return 2 * epsilon
    return float(spent_by_bound(2 * epsilon / constant**0.5, delta))


def averaging_share(epsilon: float, delta: float) -> float:
    """Noise as Hu et al. take it, with the wrong root of their (23), over what its guarantee needs.

    Example:
        >>> [round(1 / averaging_share(epsilon, 1e-4), 1) for epsilon in (1.0, 10.0)]
        [28.1, 4.8]

    Source: docs/theory/hu.md#wrong-root.
    """
    log = -np.log(delta)
    root = epsilon + 2 * log + 2 * np.sqrt(log**2 + epsilon * log)
    return float(gaussian_mu(epsilon, delta) / np.sqrt(2 * root))


def _printed(arm: Arm, epsilon: float, setting: Setting) -> float:
    if isinstance(setting, Averaging):
        return averaging_share(epsilon, arm.delta)
    return printed_share(arm.mechanism, epsilon, arm.delta) * arm.constant**0.5


def noise_share(
    arm: Arm, epsilon: float, setting: Setting, clients: int, noise_of: Federated | None, *, printed: bool
) -> float:
    """Factor on the noise that a budget needs in the simulated federation of N clients.

    0 without a budget; `printed_share` for noise as printed; where the noise of a larger federation is
    wanted, that of the mean of its b' uploads, each paying for its own number k', over that of b uploads:
    (k'/k)^(z/2) sqrt(b/b').
    """
    if epsilon == NO_NOISE:
        return 0.0
    share = _printed(arm, epsilon, setting) if printed else 1.0
    if noise_of is None:
        return share
    k, full = (
        int(uploads(setting.rounds, b, n))
        for b, n in ((setting.clients_per_round, clients), (noise_of.clients_per_round, noise_of.clients))
    )
    power = 1.0 if arm.mechanism == "laplace" else 0.5
    return share * (full / k) ** power * (setting.clients_per_round / noise_of.clients_per_round) ** 0.5
