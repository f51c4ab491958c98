"""PFA: noisy replies are projected onto what the replies of clients with large budgets span.

Liu et al., "Projected federated averaging with heterogeneous differential privacy" (2021);
docs/theory/baselines.md#pfa. Clients are split into those of large budgets, called public although they are
not, and the others, called private. With V the top left singular vectors of the matrix of a round's public
uploads,

    Delta = (sum_pub epsilon_n upload_n + V V^T sum_priv epsilon_n upload_n) / sum_{S_t} epsilon_n
    v    <- m v + Delta + ridge theta,    theta <- theta - eta_t v

and Delta is WeiAvg's where a round lacks one of the two. All of it is post-processing of noised uploads: it
costs no privacy. The split reads budgets only and is made before training.

V is found from the Gram matrix of the uploads, |S_t| x |S_t|, and not from a p x p one: the paper calls PFA
prohibitive for networks, and this is not.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._jax import Array, jnp
from noiseworthy.methods.algorithm import ServerState
from noiseworthy.methods.eigen import eigh
from noiseworthy.methods.fedsgd_dpc.algorithm import exact_replies
from noiseworthy.methods.local import Numbers
from noiseworthy.methods.making import as_float
from noiseworthy.methods.rivals.alike import WeiAvg
from noiseworthy.methods.rivals.planner import check_fits
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task

DIRECTIONS = 1
"""Singular vectors k that are kept. What a round's few public uploads have in common is in the first; noise
is alike in all directions, so that each further one lets mostly noise through
(docs/theory/baselines.md#pfa)."""


class PFA(WeiAvg):
    """The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        public: 1 for clients of large budgets and 0 for the others, shape (N,).
    """

    reads_uploads = True
    """What public uploads span depends on each of them."""

    public: Numbers

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """The sum of epsilon_n upload_n, of private clients within the span of the public uploads."""
        weights, public = self.weights[cohort], self.public[cohort]
        shared = _product(weights * public, uploads)
        noisy = _product(weights * (1 - public), uploads)
        # Zeros in the place of private uploads leave the span alone, and shapes are the same in all rounds.
        span = top_directions(public[:, None] * uploads, DIRECTIONS)
        projected = _product(_product(span, noisy), span)
        return shared + jnp.where(jnp.any(public > 0), projected, noisy)


def make(plan: Plan, task: Task, seed: int) -> PFA:
    """The algorithm of a plan: its schedule drawn from `seed`, its numbers from the plan alone.

    Arguments, errors and guarantee are those of `exact_replies`; noise that it must not have, and
    Poisson batches, are refused by name.
    """
    check_fits("pfa", plan.problem)
    epsilon = plan.problem.budget.epsilon
    return exact_replies(PFA, plan, task, seed, epsilon, public=as_float(public_clients(epsilon)))


def public_clients(epsilon: ArrayLike) -> NDArray[np.bool_]:
    """Clients in the upper of two groups of ln epsilon, split so that squares within groups are least.

    The split is exact: on a line, one of N - 1 cuts of the sorted values is the best.

    Args:
        epsilon: budgets above 0, shape (N,).

    Returns:
        shape (N,). Everybody where all budgets are equal.

    Example:
        >>> public_clients([0.1, 5.0, 0.2, 4.0])
        array([False,  True, False,  True])
    """
    level = np.log(np.asarray(epsilon, float))
    if np.ptp(level) == 0:
        return np.ones(level.shape, bool)
    ascending, below = np.sort(level), np.arange(1, level.size)
    lower, total = np.cumsum(ascending)[:-1], ascending.sum()
    gap = (total - lower) / (level.size - below) - lower / below
    between = below * (level.size - below) * gap**2
    # By value and not by place, so that equal budgets are never told apart.
    return level > ascending[np.argmax(between)]


def top_directions(rows: Array, count: int) -> Array:
    """Singular vectors of the largest singular values of a matrix, on the side of its long axis.

    With R R^T = A diag(lambda) A^T they are R^T a / sqrt(lambda), so that nothing of size p x p is formed.

    Args:
        rows: R, shape (b, p) with b far below p.
        count: how many, at most b.

    Returns:
        shape (count, p), orthonormal rows. A row is 0 where its singular value is: zeros span nothing.

    Example:
        >>> top = top_directions(jnp.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0]]), 1)
        >>> np.abs(top).round(3)
        array([[0.6, 0.8, 0. ]], dtype=float32)
    """
    values, vectors = eigh(_product(rows, rows.T))
    largest = values[-count:, None]
    # Below the rounding of products an eigenvalue is nothing but rounding, which its root would blow up.
    real = largest > len(rows) * jnp.finfo(values.dtype).eps * values[-1]
    directions = _product(vectors[:, -count:].T, rows)
    return jnp.where(real, directions / jnp.sqrt(jnp.where(real, largest, 1.0)), 0.0)


def _product(a: Array, b: Array) -> Array:
    return jnp.matmul(a, b, precision="highest")
