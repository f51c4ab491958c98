"""PFA: noisy replies are projected onto what the replies of clients with large budgets span.

Liu et al., "Projected federated averaging with heterogeneous differential privacy" (2021); theory 6. Clients
are split into those of large budgets, called public although they are not, and the others, called private.
With V the top left singular vectors of the matrix of a round's public uploads,

    Delta = (sum_pub epsilon_n upload_n + V V^T sum_priv epsilon_n upload_n) / sum_{S_t} epsilon_n
    v    <- m v + Delta + ridge theta,    theta <- theta - eta_t v

and Delta is WeiAvg's where a round lacks one of the two. All of it is post-processing of noised uploads: it
costs no privacy. The split reads budgets only and is made before training.

V is found from the Gram matrix of the uploads, |S_t| x |S_t|, and not from a p x p one: the paper calls PFA
prohibitive for networks, and this is not.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from noiseworthy.algorithms.base import Numbers, ServerState
from noiseworthy.algorithms.making import as_float
from noiseworthy.algorithms.replies import exact_replies
from noiseworthy.algorithms.weiavg import WeiAvg
from noiseworthy.planning.plan import Plan
from noiseworthy.tasks.base import Task

DIRECTIONS = 1
"""Singular vectors k that are kept. A round has few public uploads, and noise fills all directions alike: past
the first, which holds what they have in common, the next ones are mostly noise (theory 6)."""


class PFA(WeiAvg):
    """The numbers of one planned training; a pytree, so trainings can be stacked and mapped.

    Attributes:
        public: 1 for clients of large budgets and 0 for the others, shape (N,).
    """

    public: Numbers

    @property
    def reads_uploads(self) -> bool:
        """What public uploads span depends on each of them."""
        return True

    def combine(self, state: ServerState, cohort: Array, uploads: Array) -> Array:
        """The sum of epsilon_n upload_n, of private clients within the span of the public uploads."""
        public = self.public[cohort]
        shared, noisy = (weights @ uploads for weights in self._split(cohort, public))
        span = top_directions(public[:, None] * uploads, DIRECTIONS)
        kept = jnp.where(jnp.any(public > 0), (noisy @ span.T) @ span, noisy)
        return shared + kept
