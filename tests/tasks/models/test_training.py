"""What all networks share: mean and clipped gradients, seeds, one object per setting, and they learn."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.data.embedded import digits
from noiseworthy.data.ixi import synthetic_volumes
from noiseworthy.tasks import (
    fu_cnn,
    group_cnn,
    lenet5,
    lstm,
    ma_cnn,
    paper_cnn,
    resnet20,
    two_layer_cnn,
    unet3d,
    vgg11,
)
from noiseworthy.tasks.batch import Batch

VOLUME = (8, 8, 8)
MAKERS = {
    "paper-cnn": lambda: paper_cnn(10, (8, 8)),
    "fu-cnn": lambda: fu_cnn(10, [8, 8]),
    "two-layer-cnn": lambda: two_layer_cnn(10, (8, 8)),
    "vgg11": lambda: vgg11(10, (8, 8)),
    "ma-cnn": lambda: ma_cnn(10, (8, 8)),
    "lenet5": lambda: lenet5(10, (16, 16)),
    "group-cnn": lambda: group_cnn(10, (16, 16)),
    "resnet20": lambda: resnet20(10, (8, 8)),
    "lstm": lambda: lstm(7, 6, embedding=8, hidden=8),
    "unet3d": lambda: unet3d(VOLUME, channels=4),
}
# steps, step size, records
TRAINING = {
    "paper-cnn": (30, 0.1, 64),
    "fu-cnn": (30, 0.1, 64),
    "two-layer-cnn": (30, 0.3, 64),
    "vgg11": (15, 3e-4, 8),
    "ma-cnn": (60, 0.1, 64),
    "lenet5": (60, 0.1, 64),
    "group-cnn": (30, 0.1, 64),
    "resnet20": (15, 0.1, 20),
    "lstm": (60, 2.0, 32),
    "unet3d": (20, 0.5, 6),
}
SCALED = ("lenet5", "group-cnn")


def compiled(name):
    """`jax.jit`; of group-cnn without optimisation, which rounds what its pools compare in two ways."""
    level = {"xla_backend_optimization_level": 0} if name == "group-cnn" else {}
    return partial(jax.jit, compiler_options=level)


SLOW = ("vgg11", "resnet20", "unet3d")
LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in SLOW]
NETWORKS = pytest.mark.parametrize("name", MAKERS)


@cache
def records(name, n):
    """Real digits, enlarged where 8x8 is too small; a text that counts modulo 7 and ellipsoids in noise."""
    if name == "lstm":
        counting = (np.arange(n)[:, None] + np.arange(7)) % 7
        return counting[:, :-1].astype(np.int32), counting[:, 1:].astype(np.int32)
    if name == "unet3d":
        data = synthetic_volumes(2 * n, VOLUME, contrast=3.0, seed=0)
        return data.x[:n], data.y[:n]
    data = digits()
    side = MAKERS[name]().record_shape[0] // 8 if name in SCALED else 1
    return np.kron(data.x[:n].reshape(n, 8, 8), np.ones((side, side))).reshape(n, -1), data.y[:n]


def make_batch(name, n):
    x, y = records(name, n)
    return Batch(MAKERS[name]().prepare(x), jnp.asarray(y), jnp.ones(n))


@pytest.mark.full
@pytest.mark.parametrize("name", ["two-layer-cnn", "group-cnn", "lstm", *LARGE])
def test_gradients_are_those_of_the_records(name):
    """Mean of all and clipped sum, against single gradients of the loss, one of three records masked."""
    task, batch = MAKERS[name](), make_batch(name, 3)
    theta = task.initial(jax.random.key(0))
    single = compiled(name)(jax.grad(lambda theta, x, y: task.loss.value(task.outputs(theta, x), y)))
    gradients = np.array([single(theta, x, y) for x, y in zip(batch.x[:2], batch.y[:2], strict=True)])
    batch = batch._replace(mask=jnp.array([1.0, 1.0, 0.0]))
    mean = compiled(name)(task.gradient)(theta, batch)
    sizes = np.linalg.norm(gradients.astype(np.float64), axis=1)
    clip_norm = sizes.mean()
    expected = (gradients * np.minimum(1, clip_norm / sizes)[:, None]).sum(axis=0)
    total = compiled(name)(task.clipped_gradient_sum, static_argnums=3)(theta, batch, clip_norm, "l2")
    for mine, exact in ((mean, gradients.mean(axis=0)), (total, expected)):
        assert np.linalg.norm(mine - exact) <= 1e-3 * np.linalg.norm(exact)


@pytest.mark.full
@pytest.mark.parametrize(
    "name", ["paper-cnn", "fu-cnn", "two-layer-cnn", "ma-cnn", "lenet5", "group-cnn", "lstm", *LARGE]
)
def test_local_steps_learn(name):
    """Full-batch gradient steps on a few records; the loss falls by a third at least."""
    steps, step_size, n = TRAINING[name]
    task, batch = MAKERS[name](), make_batch(name, n)

    @compiled(name)
    def train(theta):
        def step(theta, _):
            return theta - step_size * task.gradient(theta, batch), None

        return jax.lax.scan(step, theta, None, length=steps)[0]

    theta = task.initial(jax.random.key(0))
    score = compiled(name)(task.score)
    before, after = (score(t, batch.x, batch.y) for t in (theta, train(theta)))
    assert float(after.loss) < 2 / 3 * float(before.loss)
    assert float(after.accuracy) > float(before.accuracy)


@pytest.mark.full
@NETWORKS
def test_one_setting_is_one_object_and_the_key_alone_makes_the_start(name):
    task = MAKERS[name]()
    assert task is MAKERS[name]()
    first, same, other = (task.initial(jax.random.key(seed)) for seed in (0, 0, 1))
    assert first.shape == (task.dimension,)
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)
    assert np.all(np.isfinite(first))
