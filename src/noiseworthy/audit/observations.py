"""What an attacker saw of watched trainings: every upload, beside its mean in both worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax
from noiseworthy.audit.canaries import ABSENT, PRESENT, Twin
from noiseworthy.audit.watched import watched
from noiseworthy.engines.simulation import Checkpoint, simulate
from noiseworthy.privacy.releases import Release


@dataclass(frozen=True)
class Observations:
    """Uploads of S trainings, T rounds and cohorts of b clients.

    Attributes:
        uploads: shape (S, T, b, width).
        means: without noise, in the absent and in the present world, shape (2, S, T, b, width).
        noise: planned size of the noise on each number, shape (T, b, width).
        clients: who was asked, ascending in each round, shape (T, b).
        worlds: which world each client of each training was in, shape (S, N).
        raw: uploads before their noise, where coins decide what is in them, shape (S, T, b, width); None
            where these are the means.
    """

    uploads: NDArray[np.float64]
    means: NDArray[np.float64]
    noise: NDArray[np.float64]
    clients: NDArray[np.int64]
    worlds: NDArray[np.int64]
    raw: NDArray[np.float64] | None = None

    @property
    def shifts(self) -> NDArray[np.float64]:
        """How far the worlds lie apart in each number, in units of the planned noise, (S, T, b, width)."""
        return (self.means[PRESENT] - self.means[ABSENT]) / self.noise

    @property
    def residuals(self) -> NDArray[np.float64]:
        """Noise that was drawn, in units of what was planned, shape (S, T, b, width)."""
        if self.raw is not None:
            return (self.uploads - self.raw) / self.noise
        present = self.worlds[:, self.clients, None] == PRESENT
        return (self.uploads - np.where(present, self.means[PRESENT], self.means[ABSENT])) / self.noise

    def in_sums(self, release: Release, fewest: int) -> Observations:
        """What is seen of each upload where sums are: it, with the noise of the others that are left.

        The attacker knows all that those others upload but their noise, so that a sum shows one upload and
        the noise of `fewest`, its own among them: the others are those with the least. Each upload is looked
        at by itself; two of a round share noise.

        Args:
            release: whose noise adds up in sums.
            fewest: uploads of each cohort that are left, its attacked one among them.
        """
        if release.sharing is None:
            return self
        weights = release.sharing.weights[self.clients][..., None]
        drawn = weights * self.noise * self.residuals
        order = np.argsort((release.sharing.weights * release.mechanism.size)[self.clients], axis=1)
        places = np.argsort(order, axis=1)[..., None]
        others = np.take_along_axis(drawn, order[None, :, :fewest, None], axis=2)
        among, least = others.sum(axis=2, keepdims=True), others[:, :, :-1].sum(axis=2, keepdims=True)
        seen = np.where(places < fewest, among, drawn + least) / weights
        noise = self.noise * (release.hiding / release.mechanism.size)[self.clients][..., None]
        return replace(self, uploads=self.uploads - self.noise * self.residuals + seen, noise=noise)


def observe(
    twin: Twin, worlds: NDArray[np.int64], seeds: Sequence[int], *, broken_at: int | None = None
) -> Observations:
    """Train a twin under watch, by the product's own engine.

    Args:
        twin: what is trained.
        worlds: which data set each client holds in each training, 0 or 1, shape (S, N).
        seeds: of start, batches and noise, one training each, all different.
        broken_at: round after which trainings stop, to go on from their checkpoint; None for no break.
    """
    plan, width, tossed = twin.target.plan, twin.noise.shape[2], twin.target.release.sampling_rate < 1
    first, *others = worlds.astype(np.int32)
    leaves, shape = jax.tree.flatten(watched(twin.algorithm, first, width, tossed))
    each = ([world if leaf is first else leaf for leaf in leaves] for world in (first, *others))
    algorithms = [*map(shape.unflatten, each)]
    clients = np.sort(np.asarray(twin.algorithm.cohorts, np.int64), axis=1)
    asked = np.bincount(clients.ravel(), minlength=twin.clients)
    reached: list[Checkpoint] = []
    for end in (plan.rounds,) if broken_at is None else (broken_at, plan.rounds):
        simulate(
            algorithms, asked, twin.shards, np.array([end]), seeds,
            resume=reached[-1] if reached else None, on_segment=reached.append,
        )  # fmt: skip
    seen = reached[-1].server[-1].astype(np.float64)
    noise = np.take_along_axis(twin.noise, clients[:, :, None], axis=1)
    means, raw = np.moveaxis(seen[..., 1:3, :], 3, 0), seen[..., 3, :] if tossed else None
    return Observations(seen[..., 0, :], means, noise, clients, worlds, raw)
