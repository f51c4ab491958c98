"""What clipping and users' own networks cost beside plain gradients and the built-in layers, on one core.

Run it as `.venv/bin/python benchmarks/own_models.py`; a minute. CPU seconds, the least of several calls that
take turns, so that another process slows all of them alike.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flax import linen
from jax import Array

from noiseworthy.tasks import Batch, ModelTask, equinox_task, model_task
from noiseworthy.tasks.chunks import chunks, formed_sum
from noiseworthy.tasks.models.cnn import paper_cnn

RECORDS, CALLS, CLASSES = 200, 9, 10


class Equinox(eqx.Module):
    """`paper_cnn` in layers of equinox."""

    first: eqx.nn.Conv2d
    second: eqx.nn.Conv2d
    dense: eqx.nn.Linear
    pool: eqx.nn.MaxPool2d = eqx.nn.MaxPool2d(2, 2)

    def __call__(self, x: Array) -> Array:
        hidden = jax.nn.relu(self.pool(self.first(x[None])))
        return self.dense(jax.nn.relu(self.pool(self.second(hidden))).ravel())

    @classmethod
    def drawn(cls) -> Equinox:
        keys = jax.random.split(jax.random.key(0), 3)
        first, second = (
            eqx.nn.Conv2d(i, o, 5, padding=2, key=key) for i, o, key in ((1, 16, keys[0]), (16, 32, keys[1]))
        )
        return cls(first, second, eqx.nn.Linear(32 * 49, CLASSES, key=keys[2]))


class Flax(linen.Module):
    """`paper_cnn` in layers of flax."""

    @linen.compact
    def __call__(self, x: Array) -> Array:
        x = x[..., None]
        for channels in (16, 32):
            x = linen.relu(linen.max_pool(linen.Conv(channels, (5, 5))(x), (2, 2), strides=(2, 2)))
        return linen.Dense(CLASSES)(x.ravel())


def dense() -> ModelTask:
    """Three dense layers of 10^6 parameters."""
    rng, sizes = np.random.default_rng(0), (500, 1000, 500, CLASSES)
    shapes = itertools.pairwise(sizes)
    params = [{"w": rng.normal(size=(i, o)) / i**0.5, "b": np.zeros(o)} for i, o in shapes]

    def apply(params: list[dict[str, Array]], x: Array) -> Array:
        for layer in params[:-1]:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return x @ params[-1]["w"] + params[-1]["b"]

    return model_task(apply, params)


def clipped(task: ModelTask) -> Callable[[Array, Batch], Array]:
    return lambda theta, batch: task.clipped_gradient_sum(theta, batch, 1.0, "l2")


def formed(task: ModelTask) -> Callable[[Array, Batch], Array]:
    return lambda theta, batch: formed_sum(task._loss, theta, chunks(batch, task.chunk), 1.0, "l2")


def plain(task: ModelTask) -> Callable[[Array, Batch], Array]:
    """The gradient of the mean loss of all records at once."""
    loss = jax.vmap(task._loss, (None, 0, 0))
    return jax.grad(lambda theta, batch: jnp.mean(loss(theta, batch.x, batch.y)))


def steps(task: ModelTask) -> Callable[[Array, Batch], Array]:
    """Two local steps."""
    return lambda theta, batch: jax.lax.fori_loop(
        0, 2, lambda _, theta: theta - 0.01 * task.gradient(theta, batch), theta
    )


def compare(title: str, shape: tuple[int, ...], ways: dict[str, tuple[ModelTask, Callable]]) -> None:
    """Print seconds of each way and its ratio to the first."""
    rng = np.random.default_rng(0)
    x, y = jnp.asarray(rng.normal(size=(RECORDS, *shape)), jnp.float32), rng.integers(0, CLASSES, RECORDS)
    batch = Batch(x, jnp.asarray(y), jnp.ones(RECORDS))
    calls = {
        name: (jax.jit(make(task)), task.initial(jax.random.key(0))) for name, (task, make) in ways.items()
    }
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(CALLS + 1):
        for name, (call, theta) in calls.items():
            start = time.process_time()
            jax.block_until_ready(call(theta, batch))
            if turn:
                spent[name].append(time.process_time() - start)
    first = min(next(iter(spent.values())))
    told = ", ".join(f"{name} {1e3 * min(s):.1f} ms ({min(s) / first:.2f})" for name, s in spent.items())
    print(f"{title}: {told}", flush=True)


def main() -> None:
    task = dense()
    compare(
        f"dense, {task.dimension:,} parameters, {RECORDS} records",
        (500,),
        {"plain gradient": (task, plain), "clipped": (task, clipped), "clipped, formed": (task, formed)},
    )
    flax = Flax()
    params = flax.init(jax.random.key(0), jnp.zeros((28, 28)))
    networks = {
        "built-in": paper_cnn(CLASSES),
        "equinox": equinox_task(Equinox.drawn()),
        "flax": model_task(lambda p, x: flax.apply(p, x), params),
    }
    compare("cnn, clipped", (28, 28), {name: (task, clipped) for name, task in networks.items()})
    compare("cnn, clipped, formed", (28, 28), {name: (task, formed) for name, task in networks.items()})
    compare("cnn, two local steps", (28, 28), {name: (task, steps) for name, task in networks.items()})


if __name__ == "__main__":
    main()
