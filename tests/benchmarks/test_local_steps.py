"""The ways in which a round of local steps may run come to the same sum."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from local_steps import Workload, images, mapped, scanned
from noiseworthy.tasks import LinearModel


@pytest.mark.parametrize("batch", [None, 4])
def test_clients_mapped_and_scanned_move_alike(batch):
    work = Workload(LinearModel(3, 10, "softmax"), images(2, 6, 3), 2, batch)
    theta, keys = work.task.initial(jax.random.key(0)), jax.random.split(jax.random.key(1), 2)
    one, other = (way(work, theta, work.shards, keys) for way in (mapped, scanned))
    assert np.any(one != 0)
    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
