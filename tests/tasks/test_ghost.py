"""Clipping without a gradient per record: the same sums, by which layers, and what is not understood."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache, partial

import equinox as eqx
import flax.linen as linen
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.tasks import Batch, model_task
from noiseworthy.tasks.factory import make_task
from noiseworthy.tasks.ghost_layers import Lookup, Product

N, CLASSES, ORDER = 7, 3, {"l1": 1, "l2": 2}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def numbers(rng, *shape):
    return jnp.asarray(rng.normal(size=shape) / np.sqrt(shape[0]), jnp.float32)


def dense(rng):
    """Two products of one position, one of them by the left, with biases."""
    params = {"a": numbers(rng, 5, 6), "b": numbers(rng, 6), "c": numbers(rng, CLASSES, 6)}
    return model_task(lambda p, x: p["c"] @ jnp.tanh(x @ p["a"] + p["b"]), params), (5,)


def positions(rng):
    """Products at every position, along several axes at once, a scale and a mean; a column of positions."""
    params = {"a": numbers(rng, 6, 2, 5), "s": numbers(rng, 2, 5), "c": numbers(rng, 2, 5, CLASSES * 4),
              "d": numbers(rng, 4 * CLASSES, CLASSES)}  # fmt: skip

    def apply(p, x):
        hidden = jnp.tanh(jnp.einsum("td,dhk->hkt", x, p["a"])) * p["s"][..., None]
        return jnp.mean(jnp.tanh(jnp.einsum("hkt,hko->ot", hidden, p["c"])).T @ p["d"], axis=0)

    return model_task(apply, params), (3, 6)


def lookups(rng):
    """Tokens of a table, some of them twice in a record, beside a table that is indexed one by one."""
    params = {"a": numbers(rng, 11, 6), "e": numbers(rng, 11, 6), "c": numbers(rng, 6, CLASSES)}

    def apply(p, x):
        embed = eqx.nn.Embedding(weight=p["e"])
        return jnp.tanh(jnp.mean(p["a"][x] + jax.vmap(embed)(x) ** 2, axis=0)) @ p["c"]

    return model_task(apply, params), (4,)


def flax_network(rng):
    class Network(linen.Module):
        @linen.compact
        def __call__(self, x):
            x = linen.GroupNorm(2)(linen.Conv(4, (3, 3), strides=2)(x))
            x = linen.relu(linen.Conv(6, (2, 2), padding="VALID")(x))
            return linen.Dense(CLASSES)(linen.LayerNorm()(x.ravel()))

    network = Network()
    params = network.init(jax.random.key(0), jnp.zeros((6, 6, 2)))
    return model_task(network.apply, params), (6, 6, 2)


def haiku_network(rng):
    network = hk.without_apply_rng(
        hk.transform(lambda x: hk.Linear(CLASSES)(jnp.tanh(hk.Linear(8)(x.ravel()))))
    )
    return model_task(network.apply, network.init(jax.random.key(0), jnp.zeros((2, 3)))), (2, 3)


def shared(rng):
    """Matrices used twice, in part, in a loop, squared, two as their product, and one that is idle."""
    sizes = {
        "a": (40, 40),
        "l": (40, 40),
        "q": (40, 40),
        "h": (50, 40),
        "m": (40, 30),
        "n": (30, 40),
        "u": (2000,),
        "v": (40,),
        "w": (40,),
    }
    params = {name: numbers(rng, *size) for name, size in sizes.items()} | {"c": numbers(rng, 40, CLASSES)}

    def apply(p, x):
        x = jnp.tanh(jnp.tanh(x @ p["a"]) @ p["a"] + x @ p["h"][5:45])
        x = jax.lax.scan(lambda h, _: (jnp.tanh(h @ p["l"]), None), x, None, length=2)[0]
        x = jnp.tanh((x @ p["q"] ** 2) @ (p["m"] @ p["n"])) * (1 + p["v"] @ p["w"])
        return x @ p["c"]

    return model_task(apply, params), (40,)


def branches(rng):
    """Matrices in a branch, behind a custom derivative, computed twice, in groups, or for show."""
    params = {name: numbers(rng, 40, 40) for name in "abdp"}
    params |= {"g": numbers(rng, 4, 10, 30), "c": numbers(rng, 120, CLASSES)}

    @jax.custom_vjp
    def double(w, x):
        return x @ w

    double.defvjp(lambda w, x: (x @ w, (w, x)), lambda kept, g: (2 * jnp.outer(kept[1], g), kept[0] @ g))

    def apply(p, x):
        jax.debug.callback(lambda value: None, p["p"])
        x = jax.lax.cond(x[0] > 0, lambda x: x @ p["a"], lambda x: jnp.tanh(x) @ p["a"].T, x)
        x = jnp.tanh(jax.checkpoint(lambda x: jnp.tanh(x @ p["b"]))(double(p["d"], x)))
        return jnp.einsum("gi,gio->go", x.reshape(4, 10), p["g"]).ravel() @ p["c"]

    return model_task(apply, params), (40,)


def images(rng):
    """Convolutions whose slopes in what goes in are one for all records, with axes in either order."""
    sizes = {"a": (3, 3, 2, 16), "b": (16, 16, 3, 3), "d": (3, 3, 16, 16), "s": (16,), "c": (256, CLASSES)}
    params = {name: numbers(rng, *size) for name, size in sizes.items()}
    axes = ("NHWC", "HWIO", "NHWC")

    def apply(p, x):
        x = jax.lax.conv_general_dilated(x[None], p["a"], (1, 1), "SAME", dimension_numbers=axes)
        x = jax.lax.conv(jnp.tanh(x + p["s"]).transpose(0, 3, 1, 2), p["b"], (1, 1), "VALID")
        x = linen.relu(x.transpose(0, 2, 3, 1) * (1 + jax.lax.stop_gradient(p["s"]) ** 2))
        x = jax.lax.conv_general_dilated(x, p["d"], (1, 1), ((1, 0), (0, 1)), dimension_numbers=axes)
        return x.ravel() @ p["c"]

    return model_task(apply, params), (7, 7, 2)


NETWORKS = (dense, positions, lookups, flax_network, haiku_network, shared, branches, images)


@cache
def made(name):
    """A task, its records and every record's gradient by autodiff."""
    task, shape = next(network for network in NETWORKS if network.__name__ == name)(np.random.default_rng(1))
    rng = np.random.default_rng(2)
    x = rng.integers(0, 5, (N, *shape)) if name == "lookups" else rng.normal(size=(N, *shape))
    batch = Batch(task.prepare(jnp.asarray(x)), jnp.asarray(rng.integers(0, CLASSES, N)), jnp.ones(N))
    theta = task.initial(jax.random.key(0)) + 0.05 * jax.random.normal(jax.random.key(1), (task.dimension,))

    def plainly(theta, x, y):
        return task.loss.value(task.outputs(theta, x), y)

    gradients = jax.jit(jax.vmap(jax.grad(plainly), (None, 0, 0)))(theta, batch.x, batch.y)
    return task, theta, batch, np.asarray(gradients, np.float64)


@pytest.mark.full
@pytest.mark.parametrize("norm", ORDER)
@pytest.mark.parametrize("name", [network.__name__ for network in NETWORKS])
def test_sums_are_those_of_gradients_that_were_formed_and_clipped(name, norm):
    task, theta, batch, gradients = made(name)
    sizes = np.linalg.norm(gradients, ORDER[norm], axis=1)
    clip_norm = np.median(sizes)
    weights = np.minimum(1, clip_norm / sizes) * np.array([0.0, 1, 1, 2, 1, 1, 1])
    batch = batch._replace(mask=jnp.array([0.0, 1, 1, 2, 1, 1, 1]))
    result = jax.jit(task.clipped_gradient_sum, static_argnums=3)(theta, batch, clip_norm, norm)
    np.testing.assert_allclose(result, weights @ gradients, atol=2e-5 * clip_norm)


T, D = 4, 6
BLOCKS = {
    "each": lambda p, x: x @ p(D, D) + p(D),
    "across": lambda p, x: p(T, T) @ x,
    "whole": lambda p, x: (x.ravel() @ p(T * D, T * D)).reshape(T, D),
    "heads": lambda p, x: jnp.einsum("td,hdk->thk", x, p(2, D, D // 2)).reshape(T, D) + x,
    "norm": lambda p, x: (x - x.mean(1, keepdims=True)) / (1 + x.std(1, keepdims=True)) * p(D) + p(T, D),
    "convolution": lambda p, x: jax.lax.conv_general_dilated(
        x[None], p(3, D, D), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC")
    )[0],
    "depthwise": lambda p, x: jax.lax.conv_general_dilated(
        x[None], p(2, 1, D), (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=D
    )[0],
    "pool": lambda p, x: jnp.repeat(linen.max_pool(x, (2,), (2,)), 2, axis=0) * p(1),
    "lookup": lambda p, x: x + p(9, D)[jnp.argmax(x, axis=1)],
    "tied": lambda p, x: (lambda w: jnp.tanh(x @ w) @ w.T)(p(D, D)),
    "loop": lambda p, x: (lambda w: jax.lax.fori_loop(0, 2, lambda i, x: jnp.tanh(x @ w), x))(p(D, D)),
    "gate": lambda p, x: jax.nn.sigmoid(jnp.where(x > 0, x, p(1) * x)) * x,
}


@pytest.mark.full
@pytest.mark.parametrize("seed", range(6))
def test_networks_of_any_blocks_are_clipped_as_by_formed_gradients(seed):
    """Four blocks drawn at random that read parts of one vector, the last of them changed before its use."""
    rng = np.random.default_rng(seed)
    names = rng.choice(list(BLOCKS), 4, replace=False)

    def apply(given, x):
        flat, place = given["flat"], 0

        def p(*shape):
            nonlocal place
            place += math.prod(shape)
            return flat[place - math.prod(shape) : place].reshape(shape)

        def changed(*shape):
            return 2 * p(*shape)

        for i, name in enumerate(names):
            x = jnp.tanh(BLOCKS[name](changed if i == 3 else p, x))
        return jnp.mean(x, axis=0) @ given["last"]

    task = model_task(apply, {"flat": numbers(rng, 2500), "last": numbers(rng, D, CLASSES)})
    theta = task.initial(jax.random.key(0)) * 10
    x = jnp.asarray(rng.normal(size=(N, T, D)), jnp.float32)
    batch = Batch(x, jnp.asarray(rng.integers(0, CLASSES, N)), jnp.ones(N))
    gradients = np.asarray(jax.jit(jax.vmap(jax.grad(task._loss), (None, 0, 0)))(theta, *batch[:2]), float)
    sizes = np.linalg.norm(gradients, axis=1)
    result = jax.jit(lambda b: task.clipped_gradient_sum(theta, b, np.median(sizes), "l2"))(batch)
    expected = np.minimum(1, np.median(sizes) / sizes) @ gradients
    np.testing.assert_allclose(result, expected, atol=1e-5 * np.median(sizes), err_msg=str(names))


FORMED = {
    "dense": {},
    "positions": {},
    "lookups": {},
    "flax_network": {},
    "haiku_network": {},
    "shared": {
        "['a']": "is read 2 times",
        "['h']": "goes through slice before it meets the record",
        "['l']": "is read by scan",
        "['q']": "goes through integer_pow before it meets the record",
        "['m']": "goes through dot_general before it meets the record",
        "['n']": "goes through dot_general before it meets the record",
    },
    "branches": {
        "['a']": "is read by cond",
        "['b']": "is read by remat2",
        "['d']": "is read by custom_vjp_call",
        "['g']": "is read by dot_general",
        "['p']": "leaves the program",
    },
}


@pytest.mark.parametrize("name", FORMED)
def test_parameters_whose_use_is_not_understood_are_named_with_why(name):
    task, _, batch, _ = made(name)
    assert task.formed(batch.x[0], batch.y[0]) == FORMED[name]


@pytest.mark.parametrize(
    ("name", "norm", "layers"),
    [
        *[("dense", norm, {"Product": 2}) for norm in ORDER],
        ("positions", "l2", {"Product": 3}),
        ("positions", "l1", {}),
        ("lookups", "l2", {"Lookup": 2, "Product": 1}),
        ("lookups", "l1", {"Product": 1}),
        ("flax_network", "l2", {"Product": 2}),
        ("haiku_network", "l2", {"Product": 2}),
        ("shared", "l2", {"Product": 1}),
        ("branches", "l2", {"Product": 1}),
    ],
)
def test_layers_are_found_wherever_the_network_comes_from(name, norm, layers):
    """The convolution of flax that has few positions, and not the one that has many."""
    task, _, batch, _ = made(name)
    found = [
        type(layer).__name__ for _, _, layer in task._ghost(batch.x[0], batch.y[0], norm).layers.values()
    ]
    assert {kind: found.count(kind) for kind in found} == layers


@pytest.mark.parametrize("scale", [1e-25, 1e-3, 1.0, 1e3, 1e12])
@pytest.mark.parametrize(
    ("name", "norm"), [("dense", "l1"), ("dense", "l2"), ("positions", "l2"), ("lookups", "l2")]
)
def test_no_record_exceeds_the_clip(name, norm, scale):
    """Of a batch in which it alone counts; slopes are scaled, so that norms round and underflow."""
    result = one_by_one(name, norm)
    for record in range(N):
        for clip_norm in (np.float32(1e-27), np.float32(1e-4), np.float32(0.3)):
            total = np.asarray(result(jnp.arange(N) == record, scale, clip_norm), np.float64)
            assert np.linalg.norm(total, ORDER[norm]) <= clip_norm


@cache
def one_by_one(name, norm):
    task, theta, batch, _ = made(name)

    @jax.jit
    def total(mask, scale, clip_norm):
        loss = task.loss._replace(value=lambda z, y: scale * task.loss.value(z, y))
        marked = batch._replace(mask=mask.astype(jnp.float32))
        return replace(task, loss=loss).clipped_gradient_sum(theta, marked, clip_norm, norm)

    return total


@pytest.mark.parametrize("kind", ["product", "lookup"])
def test_norms_of_positions_that_cancel_are_bounded_from_above(kind):
    """Of a gradient a millionth as large as its terms; their rounding is a thousandth."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.normal(size=(200, 1, 300)), 8, axis=1).astype(np.float32)
    slopes = rng.normal(size=(200, 8, 5)).astype(np.float32)
    slopes[:, 4:] = -slopes[:, :4] * np.float32(1 + 1e-6)
    layer: Product | Lookup = Product((0,), (300, 5), (1,), (8, 300), first=False)
    if kind == "lookup":
        layer, rows = Lookup((300, 5), 8, (1,), clipped=True), np.full((200, 8), 7)
        exact = np.linalg.norm(slopes.sum(axis=1, dtype=np.float64), axis=1)
    else:
        exact = np.linalg.norm(np.einsum("ntd,ntk->ndk", rows.astype(float), slopes), axis=(1, 2))
    sizes = np.asarray(layer.sizes(jnp.asarray(rows), jnp.asarray(slopes), "l2"), np.float64)
    assert np.all(sizes >= exact)
    reach = np.linalg.norm(rows, axis=2) if kind == "product" else 1.0
    assert np.all(sizes < 1e-2 * np.sum(reach * np.linalg.norm(slopes, axis=2), axis=1))


@pytest.mark.parametrize("clients", [False, True])
def test_sums_over_pairs_of_positions_round_no_more_often_than_is_bounded(clients):
    """Of 961 equal products, which added one by one lose five times what the margin of a clip covers."""
    layer, slope = Lookup((4000, 1), 31, (1,), clipped=True), np.float32(1.0030014514923096)
    rows, slopes = np.zeros((4, 31), np.int32), np.full((4, 31, 1), slope)
    sizes = partial(layer.sizes, norm="l2")
    if clients:
        sizes, rows, slopes = jax.vmap(sizes), rows[None], slopes[None]
    assert np.all(np.asarray(jax.jit(sizes)(rows, slopes), np.float64) >= 31 * np.float64(slope))


def test_a_clipped_record_wastes_no_more_than_a_few_roundings():
    """Of positions whose terms nearly cancel the bound is at most 0.01 % too large."""
    for name, waste in (("dense", 4 * 2.0**-20), ("positions", 1e-4), ("lookups", 1e-4)):
        for record in range(N):
            total = np.asarray(one_by_one(name, "l2")(jnp.arange(N) == record, 1.0, 1e-4), np.float64)
            assert 1 - waste <= np.linalg.norm(total) / np.float64(np.float32(1e-4)) <= 1 - 2.0**-21


@pytest.mark.parametrize("bad", [np.nan, np.inf, 3e38])
def test_a_record_whose_gradient_is_not_finite_contributes_zero(bad):
    task, theta, batch, _ = made("positions")
    total = jax.jit(lambda batch: task.clipped_gradient_sum(theta, batch, 0.1, "l2"))
    without = total(batch._replace(mask=batch.mask.at[4].set(0.0)))
    np.testing.assert_allclose(total(batch._replace(x=batch.x.at[4].set(bad))), without, atol=1e-6)


@pytest.mark.full
def test_ranges_that_overlap_are_formed_as_one():
    task = model_task(lambda w, x: jnp.stack([x @ w[3:9], x @ w[:6] ** 2, x @ w[8:14]]), jnp.arange(1.0, 17))
    x, theta = jnp.arange(12.0).reshape(2, 6) / 7, task.start(jax.random.key(0))
    batch = Batch(x, jnp.arange(2), jnp.ones(2))
    assert [part[:2] for part in task._ghost(x[0], batch.y[0], "l2").rest] == [(0, 14)]
    formed = jax.vmap(jax.grad(task._loss), (None, 0, 0))(theta, x, batch.y)
    result = task.clipped_gradient_sum(theta, batch, 1e3, "l2")
    np.testing.assert_allclose(result, formed.sum(axis=0), atol=1e-4)


def test_a_token_beyond_the_table_is_treated_as_the_model_does():
    """Read one by one (clipped) it is the last row; as an array (filled) a number that is none."""
    rng = np.random.default_rng(0)
    tables = {"e": numbers(rng, 300, 2), "c": numbers(rng, 2, CLASSES)}
    one = model_task(lambda p, x: jnp.mean(jax.vmap(eqx.nn.Embedding(weight=p["e"]))(x), 0) @ p["c"], tables)
    all_ = model_task(lambda p, x: jnp.mean(jnp.take(p["e"], x, axis=0), 0) @ p["c"], tables)
    batch = Batch(jnp.array([[0, 299], [7, 999], [3, -1]]), jnp.arange(3), jnp.ones(3))
    for task in (one, all_):
        formed = jax.vmap(jax.grad(task._loss), (None, 0, 0))(task.start(jax.random.key(0)), batch.x, batch.y)
        sizes = jnp.linalg.norm(formed, axis=1, keepdims=True)
        expected = jnp.sum(jnp.nan_to_num(formed * jnp.minimum(1, 0.1 / sizes)), axis=0)
        result = task.clipped_gradient_sum(task.start(jax.random.key(0)), batch, 0.1, "l2")
        np.testing.assert_allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize(
    ("rows", "kind", "mode", "norm"),
    [
        (256, "uint8", "fill", "l2"), (256, "uint8", "clip", "l2"), (256, "uint8", "fill", "l1"),
        (300, "uint8", "fill", "l2"), (300, "uint8", "clip", "l2"), (65_536, "uint16", "fill", "l2"),
        (128, "int8", "fill", "l1"), (256, "uint32", "fill", "l2"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tokens", [1, 4])
def test_no_record_exceeds_the_clip_where_tokens_are_of_a_narrow_type(rows, kind, mode, norm, tokens):
    """In their type 256 rows are none: each token fell upon row 0, and its gradient counted as nothing."""
    rng = np.random.default_rng(0)
    tables = {"e": 5 * numbers(rng, rows, 4) * np.sqrt(rows), "c": numbers(rng, 4, CLASSES)}
    task = model_task(
        lambda p, x: jnp.take(p["e"], x.astype(kind), axis=0, mode=mode).sum(0) @ p["c"], tables
    )
    # by products, as JAX's own gradient of a lookup drops tokens of a narrow type, too
    plain = model_task(lambda p, x: (jax.nn.one_hot(x, rows) @ p["e"]).sum(0) @ p["c"], tables)
    theta, x = task.start(jax.random.key(0)), rng.integers(60, 127, (3, tokens))
    batch = Batch(jnp.asarray(x), jnp.arange(3), jnp.ones(3))
    np.testing.assert_allclose(task.losses(theta, batch), plain.losses(theta, batch), rtol=1e-5)
    formed = np.asarray(jax.vmap(jax.grad(plain._loss), (None, 0, 0))(theta, batch.x, batch.y))
    sizes = np.linalg.norm(formed, ORDER[norm], axis=1, keepdims=True)
    total = jax.jit(lambda batch, clip_norm: task.clipped_gradient_sum(theta, batch, clip_norm, norm))
    for clip_norm in (0.01, 1.0, 100.0):
        expected = np.sum(formed * np.minimum(1, clip_norm / sizes), axis=0)
        np.testing.assert_allclose(total(batch, clip_norm), expected, atol=2e-5 * clip_norm)
        alone = batch._replace(mask=jnp.array([1.0, 0.0, 0.0]))
        own = np.asarray(total(alone, clip_norm), np.float64)
        assert np.linalg.norm(own, ORDER[norm]) <= clip_norm


def test_no_gradient_of_a_record_is_formed_for_dense_layers():
    """What the compiled program holds at once stays far below records times parameters."""
    width, records = 256, 64
    params = {"a": jnp.ones((width, width)), "b": jnp.ones(width), "c": jnp.ones((width, CLASSES))}
    task = model_task(lambda p, x: jnp.tanh(x @ p["a"] + p["b"]) @ p["c"], params)
    batch = Batch(jnp.ones((records, width)), jnp.zeros(records, jnp.int32), jnp.ones(records))
    total = jax.jit(lambda theta, batch: task.clipped_gradient_sum(theta, batch, 1.0, "l2"))
    compiled = total.lower(jnp.ones(task.dimension), batch).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4 * records * task.dimension / 8


@pytest.mark.full
def test_networks_of_the_papers_are_understood():
    """All but the matrix that waits for its turn in an LSTM."""
    for name in ("cnn", "group-cnn", "resnet20", "vgg11"):
        task = make_task(name, (28, 28), 10)
        x = jax.ShapeDtypeStruct(task.record_shape, jnp.float32)
        assert not task._ghost(x, jax.ShapeDtypeStruct((), jnp.int32), "l2").obstacles
    lstm = make_task("lstm", (10,), 96)
    tokens = jax.ShapeDtypeStruct((10,), jnp.int32)
    ghost = lstm._ghost(tokens, tokens, "l2")
    assert [why for _, why in ghost.obstacles] == ["is read by scan"] * 2
    assert sum(part.stop - part.start for part, _, _ in ghost.layers.values()) == 96 * 512 + 2 * 256 * 1024
