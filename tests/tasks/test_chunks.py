"""How many records are worked on at once: what caches hold on a CPU, what memory holds on other devices."""

from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import ClosedJaxpr

from noiseworthy.tasks import Batch, ModelTask, model_task
from noiseworthy.tasks import chunks as rooms
from noiseworthy.tasks.chunks import room
from noiseworthy.tasks.models import cnn

N = 40
TASK = cnn.paper_cnn(3, (8, 8))


@pytest.fixture
def accelerator(monkeypatch):
    """A device that is no CPU, of which a sixteenth holds 2^20 numbers; it computes as the CPU does."""
    device = SimpleNamespace(memory_stats=lambda: {"bytes_limit": 2**26})
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    monkeypatch.setattr(rooms.jax, "local_devices", lambda: [device])
    return device


def batch() -> Batch:
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(N, 8, 8)), jnp.float32)
    return Batch(x, jnp.asarray(rng.integers(0, 3, N)), jnp.ones(N).at[7].set(0))


WAYS = {
    "clipped": lambda task, theta, held: task.clipped_gradient_sum(theta, held, 0.1, "l2"),
    "plain": lambda task, theta, held: task.gradient(theta, held),
    "losses": lambda task, theta, held: task.losses(theta, held),
    "answers": lambda task, theta, held: task.answers(theta, held.x),
}


def made_by(task: ModelTask, way: str) -> tuple[ClosedJaxpr, np.ndarray]:
    """The program of a way, and what it gives."""
    theta, held = task.initial(jax.random.key(0)), batch()
    program = jax.make_jaxpr(lambda theta: WAYS[way](task, theta, held))(theta)
    return program, np.asarray(jax.jit(lambda theta: WAYS[way](task, theta, held))(theta))


def parts_of(program: ClosedJaxpr) -> int:
    """Parts of the records, one after the other."""
    (length,) = [e.params["length"] for e in program.jaxpr.eqns if e.primitive.name == "scan"]
    return length


def test_a_cpu_works_on_what_its_caches_hold():
    assert (room(50_000), room(50_000, 8), room(0)) == (50_000, 50_000, 0)


def test_other_devices_work_on_a_sixteenth_of_their_memory_whoever_shares_it(accelerator):
    assert (room(50_000), room(50_000, 8), room(0)) == (2**20, 2**17, 2**20)
    accelerator.memory_stats = lambda: None
    assert (room(50_000), room(50_000, 8)) == (50_000, 50_000), "memory that nobody knows"


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_records_fill_a_device_and_give_what_they_give_on_a_cpu(way, accelerator, monkeypatch):
    small, accelerator.memory_stats = replace(TASK, chunk=3), lambda: {"bytes_limit": 2**28}
    many, there = made_by(small, way)
    assert parts_of(many) == 1
    accelerator.memory_stats = lambda: {"bytes_limit": 2**24}
    assert 1 < parts_of(made_by(small, way)[0]) <= 14
    monkeypatch.undo()
    few, here = made_by(small, way)
    assert parts_of(few) == 14
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("way", WAYS)
def test_what_is_to_be_worked_on_one_by_one_is_so_on_every_device(way, accelerator):
    alone = replace(TASK, chunk=1, one_by_one=True)
    assert parts_of(made_by(alone, way)[0]) == N


def test_gradients_that_are_formed_count(accelerator):
    """Of 200 x 200 parameters, of which each is read twice."""

    def apply(w, x):
        return (x.ravel() @ w[:64] + x.ravel() @ w[1:65])[:3]

    task = model_task(apply, jnp.ones((200, 200)), chunk=2)
    ghost = task._ghost(*(part[0] for part in batch()[:2]), "l2")
    assert not ghost.layers
    assert ghost.numbers >= 40_000
    assert parts_of(made_by(task, "clipped")[0]) == -(-N // (2**20 // ghost.numbers))


def test_records_that_fill_a_cache_are_worked_on_by_few_unless_parameters_are_many(monkeypatch):
    """Parameters are read and added to once for each part of the records, so that few records waste it."""
    monkeypatch.setattr("noiseworthy.tasks.networks._FEWEST", 8)
    hold, chunk = 2**22, 50
    small = model_task(lambda w, x: x.ravel()[:100] @ w, jnp.ones((100, 3)), chunk=chunk)
    large = replace(small, dimension=2 * hold)
    assert small._at_once(hold) == 8
    assert large._at_once(hold) == 50, "25 x 2 records would hold 25 times the parameters"
    assert replace(large, dimension=hold // 2)._at_once(hold) == 12
    assert replace(large, chunk=3)._at_once(hold) == 3, "as many gradients as are held at most"
    assert large._at_once(1000) == hold // 1000, "records that are small fill the cache"
