"""How should one round of local steps run: clients mapped, scanned, or threaded over the cores?

Each of N clients runs E steps of minibatch SGD from the same theta (full-batch steps for the linear models),
and their changes are summed. Ways to run it:

- mapped: `vmap` over clients, one program;
- scanned: `lax.scan` over clients, one program;
- threaded clients: a program per client, called from one Python thread per core;
- threaded halves: a program per half of the clients, one Python thread for each;
- two devices: `shard_map` over two XLA host devices, half of the clients on each.

A half is scanned, or mapped where mapping won. Two processes, with one and two host devices, take turns, so
that what else the machine does hits all ways alike; the best of the repeats counts.

Answer: scan networks. That is within 1.2 of the fastest, because XLA already runs their matrix products on
both cores; mapping costs 1.5 to 1.8, because clients with different weights make them slow batched
products. Map models of a few parameters, whose scan is mostly loop.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import NamedSharding, PartitionSpec

from noiseworthy.methods.local import mean_gradient
from noiseworthy.tasks import LinearModel, Task, lstm, paper_cnn, two_layer_cnn
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import Moments

CORES, REPEATS, LEAST_SECONDS, STEP_SIZE = 2, 5, 0.05, 0.01
DEVICES = "--xla_force_host_platform_device_count={}"


class Workload(NamedTuple):
    """A task, what N clients hold (leaves (N, ...)), E steps, their batch, and whether halves are mapped."""

    task: Task
    shards: Any
    steps: int
    batch: int | None
    mapped_halves: bool = False


def images(clients: int, records: int, *shape: int) -> Batch:
    rng = np.random.default_rng(0)
    x = rng.random((clients, records, *shape), dtype=np.float32)
    y = rng.integers(0, 10, (clients, records))
    return Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones((clients, records)))


def tokens(clients: int, records: int, length: int, vocabulary: int) -> Batch:
    words = np.random.default_rng(0).integers(0, vocabulary, (clients, records, length + 1), np.int32)
    return Batch(jnp.asarray(words[..., :-1]), jnp.asarray(words[..., 1:]), jnp.ones((clients, records)))


def moments(clients: int, width: int) -> Moments:
    rows = np.random.default_rng(0).normal(size=(clients, 80, width)).astype(np.float32)
    gram = np.einsum("nki,nkj->nij", rows, rows) / 80
    return Moments(jnp.asarray(gram), jnp.asarray(rows.mean(axis=1)))


WORKLOADS: dict[str, Callable[[], Workload]] = {
    "cnn 28x28, m = 16": lambda: Workload(paper_cnn(10), images(6, 100, 28, 28), 2, 16),
    "cnn 28x28, m = 64": lambda: Workload(paper_cnn(10), images(6, 100, 28, 28), 1, 64),
    "cnn 32x32x3, m = 16": lambda: Workload(two_layer_cnn(10, (32, 32, 3)), images(6, 100, 32, 32, 3), 1, 16),
    "lstm, m = 64": lambda: Workload(lstm(96), tokens(6, 100, 10, 96), 1, 64),
    "softmax, 100 clients": lambda: Workload(LinearModel(784, 10, "softmax"), images(100, 200, 784), 5, None),
    "moments, 500 clients": lambda: Workload(LinearModel(11, 1, "squared"), moments(500, 11), 10, None, True),
}


def local_change(work: Workload, theta: Array, shard: Any, key: Array) -> Array:
    """What E local steps change at one client."""

    def step(e: Array, theta: Array) -> Array:
        own = jax.random.fold_in(key, e)
        return theta - STEP_SIZE * mean_gradient(work.task, theta, shard, work.batch, own)

    return lax.fori_loop(0, work.steps, step, theta) - theta


def mapped(work: Workload, theta: Array, shards: Any, keys: Array) -> Array:
    return jnp.sum(jax.vmap(partial(local_change, work, theta))(shards, keys), axis=0)


def scanned(work: Workload, theta: Array, shards: Any, keys: Array) -> Array:
    def add(total: Array, client: tuple[Any, Array]) -> tuple[Array, None]:
        return total + local_change(work, theta, *client), None

    return lax.scan(add, jnp.zeros_like(theta), (shards, keys))[0]


def threaded(
    pool: ThreadPoolExecutor, program: Callable, parts: list[tuple[Any, Array]], theta: Array
) -> Array:
    changes = pool.map(lambda part: jax.block_until_ready(program(theta, *part)), parts)
    return sum(changes, start=jnp.zeros_like(theta))


def ways_on_one_device(work: Workload, theta: Array, shards: Any, keys: Array) -> dict[str, Callable]:
    def part(chosen: Any) -> tuple[Any, Array]:
        return jax.tree.map(lambda leaf: leaf[chosen], shards), keys[chosen]

    half, inside = len(keys) // 2, mapped if work.mapped_halves else scanned
    pool = ThreadPoolExecutor(CORES)
    halves, clients = [part(slice(half)), part(slice(half, None))], [part(i) for i in range(len(keys))]
    return {
        "mapped": partial(jax.jit(partial(mapped, work)), theta, shards, keys),
        "scanned": partial(jax.jit(partial(scanned, work)), theta, shards, keys),
        "threaded clients": partial(threaded, pool, jax.jit(partial(local_change, work)), clients, theta),
        "threaded halves": partial(threaded, pool, jax.jit(partial(inside, work)), halves, theta),
    }


def ways_on_two_devices(work: Workload, theta: Array, shards: Any, keys: Array) -> dict[str, Callable]:
    mesh, split, whole = jax.make_mesh((CORES,), ("cores",)), PartitionSpec("cores"), PartitionSpec()
    inside = mapped if work.mapped_halves else scanned

    def half(theta: Array, shards: Any, keys: Array) -> Array:
        return lax.psum(inside(work, theta, shards, keys), "cores")

    program = jax.shard_map(half, mesh=mesh, in_specs=(whole, split, split), out_specs=whole, check_vma=False)
    placed = jax.device_put((shards, keys), NamedSharding(mesh, split))
    theta = jax.device_put(theta, NamedSharding(mesh, whole))
    return {"two devices": partial(jax.jit(program), theta, *placed)}


def serve(connection: Connection, devices: int) -> None:
    """Receive the name of a workload, answer with its ways; then time the ways that are asked for."""
    ways_of = ways_on_one_device if devices == 1 else ways_on_two_devices
    ways: dict[str, Callable] = {}
    for command, *about in iter(connection.recv, None):
        if command == "load":
            work = WORKLOADS[about[0]]()
            theta = work.task.initial(jax.random.key(0))
            keys = jax.random.split(jax.random.key(1), len(work.shards[0]))
            ways = ways_of(work, theta, work.shards, keys)
            connection.send({name: np.asarray(way()) for name, way in ways.items()})
        else:
            connection.send(timed(ways[about[0]]))


def timed(way: Callable) -> tuple[float, float]:
    """Seconds of one call, and cores in use meanwhile."""
    calls, start, busy = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - start < LEAST_SECONDS:
        jax.block_until_ready(way())
        calls += 1
    seconds = time.perf_counter() - start
    return seconds / calls, (time.process_time() - busy) / seconds


def process(devices: int) -> Connection:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    os.environ["XLA_FLAGS"] = DEVICES.format(devices)
    context.Process(target=serve, args=(there, devices), daemon=True).start()
    return here


def ask(connection: Connection, *request: str) -> Any:
    connection.send(request)
    return connection.recv()


def compare(name: str, processes: list[Connection]) -> dict[str, tuple[float, float]]:
    """Best (seconds, cores) of each way; all ways must agree on the sum."""
    sums = [(connection, ask(connection, "load", name)) for connection in processes]
    places = {way: connection for connection, ways in sums for way in ways}
    reference = sums[0][1]["scanned"]
    for total in (total for _, ways in sums for total in ways.values()):
        np.testing.assert_allclose(total, reference, rtol=1e-3, atol=1e-5 * np.max(np.abs(reference)) + 1e-7)
    rounds = [{way: ask(at, "time", way) for way, at in places.items()} for _ in range(REPEATS)]
    return {way: min(times[way] for times in rounds) for way in places}


def main() -> None:
    processes = [process(1), process(CORES)]
    print("seconds of a round over those of the fastest way, and cores in use")
    for name in WORKLOADS:
        best = compare(name, processes)
        fastest = min(seconds for seconds, _ in best.values())
        print(f"{name} (fastest {1000 * fastest:.1f} ms)")
        for way, (seconds, cores) in best.items():
            print(f"    {way:17} {seconds / fastest:5.2f}   {cores:.1f}", flush=True)
    for connection in processes:
        connection.send(None)


if __name__ == "__main__":
    main()
