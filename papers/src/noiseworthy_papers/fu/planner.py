"""Local steps planned by the bound of Fu et al., from constants measured on the simulated federation.

Measuring reads every record, so that such a plan is not private; it shows what the bound is worth where its
constants are known.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.dp_fedavg.bound import local_bound
from noiseworthy.methods.dp_fedavg.planner import plan
from noiseworthy.plans.local_work import LocalSteps
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Constant
from noiseworthy_papers.laboratory import Laboratory
from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.settings import FedAvg
from noiseworthy_papers.spec import Arm, Planned, Planner

MEASURED = "measured on the simulated federation, not private"
"""Provenance of the constants."""


def by_bound(clients_per_round: int, max_iterations: int, *, iterations: int | None = None) -> Planner:
    """Plans T and E, or E for a given T.

    A given T is trained even where the bound advises not to.
    """

    def decide(
        laboratory: Laboratory, arm: Arm, epsilon: float, fraction: float, tell: Callable[[float], None]
    ) -> Planned:
        problem = laboratory.problem(arm, epsilon, fraction, arm.clip_norm)
        if epsilon == NO_NOISE:
            problem = replace(problem, family="none")
        constants = measured_constants(*_moments(laboratory, fraction))
        made = plan(
            problem, local_bound(constants), constants, clients_per_round=clients_per_round,
            total_iterations=iterations, max_iterations=max_iterations,
        )  # fmt: skip
        setting = _setting(made, iterations, clients_per_round)
        return Planned(setting, arm.clip_norm, arm.step)

    return decide


def _setting(made: Plan, iterations: int | None, clients_per_round: int) -> FedAvg | None:
    if not isinstance(made.local, LocalSteps) or not (made.train or iterations):
        return None
    return FedAvg(iterations or made.rounds * made.local.steps, made.local.steps, clients_per_round)


def measured_constants(
    gram: NDArray[np.float64], cross: NDArray[np.float64], labels_sq: NDArray[np.float64]
) -> dict[str, Constant]:
    """Constants of least squares from the clients' moments, for equal clients and the start theta = 0.

    L and mu are the ends of the spectrum of the pooled Gram matrix; single clients have fewer records than
    it takes to be strongly convex. G is the root mean square of the clients' gradients at the optimum, where
    most of the training is spent; Gamma = F* - mean of f_l*; Y_0 = ||theta*||^2.

    Args:
        gram: X^T X/n of each client, shape (N, q, q).
        cross: X^T y/n, shape (N, q).
        labels_sq: mean of y^2, shape (N,).

    Returns:
        The constants that `local_bound` takes.

    Example:
        >>> gram = np.stack([np.eye(2), np.diag([1.0, 3.0])])
        >>> constants = measured_constants(gram, np.array([[1.0, 0.0], [1.0, 2.0]]), np.array([1.0, 4.0]))
        >>> {name: round(constant.value, 3) for name, constant in constants.items()}
        {'smoothness': 2.0, 'strong_convexity': 1.0, 'gradient_bound': 0.5, 'heterogeneity': 0.083, \
'initial_distance_sq': 1.25}
    """
    pooled = np.linalg.eigvalsh(gram.mean(axis=0))
    optimum = np.linalg.solve(gram.mean(axis=0), cross.mean(axis=0))
    gradients = gram @ optimum - cross
    values = {
        "smoothness": pooled[-1],
        "strong_convexity": pooled[0],
        "gradient_bound": np.sqrt(np.mean(np.sum(np.square(gradients), axis=1))),
        "heterogeneity": float(np.mean(labels_sq) - cross.mean(axis=0) @ optimum) / 2
        - float(np.mean(_least_losses(gram, cross, labels_sq))),
        "initial_distance_sq": optimum @ optimum,
    }
    return {name: Constant(float(value), MEASURED) for name, value in values.items()}


def _least_losses(
    gram: NDArray[np.float64], cross: NDArray[np.float64], labels_sq: NDArray[np.float64]
) -> NDArray[np.float64]:
    """f_l* of each client, shape (N,); 0 where rounding makes it negative."""
    explained = np.einsum("ni,nij,nj->n", cross, np.linalg.pinv(gram, rcond=1e-6, hermitian=True), cross)
    return np.maximum(labels_sq - explained, 0) / 2


def _moments(laboratory: Laboratory, fraction: float) -> tuple[NDArray[np.float64], ...]:
    moments, federation = laboratory.shards(fraction, condensed=True).train, laboratory.federation
    labels_sq = np.sum(np.square(federation.y, dtype=float), axis=1) / federation.sizes
    return np.asarray(moments.gram, float), np.asarray(moments.cross, float), labels_sq
