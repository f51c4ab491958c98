"""Watching changes nothing: the audited training is the product's own, upload by upload."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.audit.canaries import ABSENT, PRESENT, twin_of
from noiseworthy.audit.observations import observe, watched
from noiseworthy.audit.targets import targets_of
from noiseworthy.engines.debug import debug
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate


def twin(plan, **how):
    (target,) = targets_of(plan)
    chosen = {"dimension": 2, "direction": "spread", "model": "linear", "ridge": 0.05, "seed": 3, **how}
    return twin_of(target, **chosen)


def held(shards: Shards, world: int) -> Shards:
    """The federation of one world."""
    return shards._replace(train=type(shards.train)(*(leaf[:, world] for leaf in shards.train)))


@pytest.mark.parametrize("name", ["fedsgd-dpc gaussian", "dp-scaffnew gaussian", "pfa"])
@pytest.mark.parametrize("world", [ABSENT, PRESENT])
def test_a_watched_training_ends_where_the_same_training_ends(plans, name, world):
    made = twin(plans[name]())
    plan, at = made.target.plan, np.array([made.target.plan.rounds])
    worlds = np.full(made.clients, world, np.int32)
    seen = simulate([watched(made.algorithm, worlds, 2)], plan.uploads, made.shards, at, [7])
    alone = simulate([made.algorithm], plan.uploads, held(made.shards, world), at, [7], single_uploads=True)
    assert np.any(alone.theta != 0)
    np.testing.assert_allclose(seen.theta, alone.theta, rtol=2e-5, atol=1e-6)


def test_the_debug_engine_sees_the_same_uploads(plans):
    """Where everybody is asked, the simulation orders a round by client, the schedule does not."""
    made = twin(plans["fedsgd-dpc asks everybody"]())
    worlds = np.arange(made.clients) % 2
    by_loop = debug(
        watched(made.algorithm, worlds.astype(np.int32), 2), made.target.plan.uploads, made.shards,
        np.array([made.target.plan.rounds]), 7,
    )  # fmt: skip
    compiled = simulate(
        [watched(made.algorithm, worlds.astype(np.int32), 2)], made.target.plan.uploads, made.shards,
        np.array([made.target.plan.rounds]), [7],
    )  # fmt: skip
    np.testing.assert_allclose(by_loop.theta, compiled.theta, rtol=2e-5, atol=1e-6)


def test_uploads_are_told_apart_by_client_where_everybody_is_asked(plans):
    """The canary of client i moves the uploads of client i, by 2 C / n_i."""
    made = twin(plans["fedsgd-dpc asks everybody"]())
    seen = observe(made, np.array([[ABSENT, PRESENT] * 3]), [5])
    sizes, clip = made.target.plan.problem.sizes, made.target.plan.problem.clip_norm
    moved = np.linalg.norm(seen.means[PRESENT] - seen.means[ABSENT], axis=3)[0]
    np.testing.assert_allclose(moved, np.broadcast_to(2 * clip / sizes, moved.shape), rtol=1e-4)
    assert np.abs(seen.residuals).max() < 6


def test_a_broken_run_sees_what_an_unbroken_one_sees(plans):
    made = twin(plans["dp-scaffnew gaussian"]())
    worlds = np.array([[ABSENT, PRESENT] * 3])
    whole, broken = (observe(made, worlds, [5], broken_at=at) for at in (None, 4))
    np.testing.assert_allclose(broken.uploads, whole.uploads, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(broken.means, whole.means, rtol=1e-5, atol=1e-6)
