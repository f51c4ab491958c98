"""Networks at a gateway: what a record does to a release is bounded as for linear models, to the last bit."""

from __future__ import annotations

from typing import get_args

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.owner import ModelName
from noiseworthy.deploy.gateway.work import job_of
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.rows import gradient_rows

from .conftest import request

CLIP = 0.5
NETWORKS = [name for name in get_args(ModelName) if "cnn" in name or name == "lenet5"]
SLOWER = [pytest.param(name, marks=() if name == "cnn" else pytest.mark.slow) for name in NETWORKS]


@pytest.fixture(scope="module")
def digits() -> Holding:
    """72 digits of 8 x 8."""
    return Holding.load(FederationTable(data="digits", clients=20), "client 1")


def framed(held: Holding) -> Holding:
    """The same digits within 16 x 16, which some networks want."""
    return Holding(np.pad(held.x, [(0, 0), (4, 4), (4, 4)]), held.y, held.classes)


def job_for(digits, name, **changed):
    """What a request for a network makes an owner compute."""
    table = request(task={"model": name}).task
    task = digits.task(table)
    theta = np.asarray(task.initial(jax.random.key(0)))
    wanted = request(task=table, theta=theta, clip_norm=CLIP, noise=0.1, **changed)
    return job_of(wanted, task, digits.size)


@pytest.mark.parametrize("name", SLOWER)
def test_one_record_changes_its_own_row_alone_and_rows_add_up_to_the_simulated_gradient(digits, name):
    digits = framed(digits) if name in ("lenet5", "group-cnn") else digits
    job = job_for(digits, name)
    batch = digits.batch(job.task)
    changed = batch._replace(x=batch.x.at[3].set(1.7 * batch.x[4]), y=batch.y.at[3].set(5))
    before, after = (
        np.concatenate(list(gradient_rows(job.task, job.theta, one, job.total))) for one in (batch, changed)
    )
    same = [np.array_equal(a, b) for a, b in zip(before, after, strict=True)]
    assert [place for place, fine in enumerate(same) if not fine] == [3]
    assert np.linalg.norm(before, axis=1).max() <= CLIP
    simulated = np.asarray(job.task.clipped_gradient_sum(job.theta, batch, jnp.float32(CLIP), "l2"))
    rows = before.sum(axis=0)
    scale = rows @ simulated / (simulated @ simulated)
    assert abs(scale - 1) < 2e-5  # norms are bounded from above, by sums in different orders
    assert np.abs(rows - scale * simulated).max() < 2e-6 * np.abs(simulated).max()


@pytest.mark.slow
def test_a_network_behind_a_transform_and_its_whole_update_are_computed(digits, silent):
    """Of the same network: q + p rows of records, and one row of two local steps."""
    private = job_for(digits, "cnn", algorithm=PrivateFLWork(personal_step=0.1))
    batch = digits.batch(private.task)
    shared, transform = private.upload(batch, private.fresh_memory)
    assert len(shared.values) == private.task.dimension
    assert np.abs(transform - private.fresh_memory).max() > 0
    whole = job_for(digits, "cnn", algorithm=FedAvgWork(clipping="D", step_sizes=np.full(2, 0.1)))
    update, _ = whole.upload(batch, ())
    moved = np.asarray(whole.theta)
    for _ in range(2):
        moved = moved - 0.1 * np.asarray(whole.task.gradient(jnp.asarray(moved), batch))
    moved = moved - whole.theta
    expected = moved * min(1, CLIP / np.linalg.norm(moved))
    assert np.abs(update.values - expected).max() < 1e-4 * np.abs(expected).max()
