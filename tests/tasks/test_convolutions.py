"""Convolutions and pools of users' networks as windows and products: the same outputs and gradients."""

from __future__ import annotations

import re

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from noiseworthy.tasks import equinox_task, model_task
from noiseworthy.tasks.convolutions import as_windows, quick

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def plainly(x, weight, space, **options):
    axes = "DHW"[3 - space :]
    numbers = (f"N{axes}C", f"{axes}IO", f"N{axes}C")
    strides = options.pop("window_strides", (1,) * space)
    padding = options.pop("padding", "SAME")
    return lax.conv_general_dilated(x, weight, strides, padding, dimension_numbers=numbers, **options)


def pooled(x, window=2, strides=2, padding="VALID"):
    return linen.max_pool(x, (window, window), (strides, strides), padding)


PLAIN = ("conv_general_dilated", "reduce_window")
CASES = {
    "same": ((1, 6, 5, 3), (3, 3, 3, 4), lambda x, w: plainly(x, w, 2)),
    "strides and margins": (
        (1, 7, 8, 2), (3, 2, 2, 4),
        lambda x, w: plainly(x, w, 2, window_strides=(2, 3), padding=((2, 0), (1, 1))),
    ),
    "cut and dilated": (
        (2, 9, 9, 2), (3, 2, 2, 4),
        lambda x, w: plainly(x, w, 2, rhs_dilation=(2, 3), padding=((-1, 0), (0, 2))),
    ),
    "channels first": ((1, 2, 6, 6), (4, 2, 3, 3), lambda x, w: lax.conv(x, w, (1, 2), "VALID")),
    "channels between": (
        (6, 1, 2, 5), (3, 4, 2, 3),
        lambda x, w: lax.conv_general_dilated(
            x, w, (1, 1), "SAME", dimension_numbers=("HNCW", "HOIW", "WCHN")
        ),
    ),
    "one axis": ((1, 9, 2), (4, 2, 3), lambda x, w: plainly(x, w, 1)),
    "wide windows": (
        (2, 7, 6, 12), (3, 3, 12, 4),
        lambda x, w: plainly(x, w, 2, window_strides=(2, 1), rhs_dilation=(1, 2), padding=((1, 0), (-1, 3))),
    ),
    "volumes": (
        (1, 5, 4, 6, 2), (3, 3, 2, 2, 3),
        lambda x, w: plainly(x, w, 3, window_strides=(2, 1, 2), rhs_dilation=(1, 2, 1)),
    ),
    "pools": ((1, 7, 6, 2), (1,), lambda x, w: w * pooled(pooled(x), 3, 3, "SAME")),
}  # fmt: skip
LEFT = {
    "groups": ((1, 6, 5, 4), (3, 3, 2, 4), lambda x, w: plainly(x, w, 2, feature_group_count=2)),
    "stretched records": (
        (1, 6, 5, 2), (3, 3, 2, 4),
        lambda x, w: plainly(x, w, 2, lhs_dilation=(2, 2), padding=((1, 1), (1, 1))),
    ),
    "large kernels": ((1, 12, 12, 1), (12, 12, 1, 1), lambda x, w: plainly(x, w, 2)),
    "pools that overlap": ((1, 7, 7, 1), (1,), lambda x, w: w * pooled(x, 3, 2)),
}  # fmt: skip


def given(case):
    *shapes, function = {**CASES, **LEFT}[case]
    rng = np.random.default_rng(0)
    return function, [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_outputs_and_gradients_are_those_of_the_plain_ones(case):
    """To 1e-5 in float64, or as near as the plain ones in float32, which err by 3e-5 on some processors."""
    function, arguments = given(case)

    def value(function):
        return lambda *given: jnp.sum(jnp.sin(function(*given)))

    def both(made, *given):
        return jax.jit(lambda *given: (made(*given), jax.grad(value(made), (0, 1))(*given)))(*given)

    with jax.enable_x64(True):
        exact = jax.tree.map(np.asarray, both(function, *(np.asarray(one, np.float64) for one in arguments)))

    def check(got, plain, wanted):
        assert wanted.dtype == np.float64
        np.testing.assert_allclose(got, wanted, atol=max(1e-5, np.max(np.abs(plain - wanted))))

    jax.tree.map(check, both(as_windows(function), *arguments), both(function, *arguments), exact)
    program = str(jax.make_jaxpr(as_windows(function))(*arguments))
    assert not any(name in program for name in PLAIN)


@pytest.mark.parametrize("case", LEFT)
def test_what_is_not_supported_stays_as_it_is(case):
    function, arguments = given(case)
    program = str(jax.make_jaxpr(as_windows(function))(*arguments))
    assert any(name in program for name in PLAIN)
    np.testing.assert_array_equal(as_windows(function)(*arguments), function(*arguments))


def test_other_devices_have_their_own_convolutions(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    function, arguments = given("same")
    assert "conv_general_dilated" in str(jax.make_jaxpr(quick(function))(*arguments))


def test_networks_of_users_are_rewritten():
    class Network(linen.Module):
        @linen.compact
        def __call__(self, x):
            return linen.Dense(2)(pooled(linen.Conv(3, (3, 3))(x)).ravel())

    params = Network().init(jax.random.key(0), jnp.ones((8, 8, 1)))
    keys = jax.random.split(jax.random.key(0))
    layers = [eqx.nn.Conv2d(1, 3, 3, key=keys[0]), eqx.nn.MaxPool2d(2, 2), eqx.nn.Lambda(jnp.ravel)]
    network = eqx.nn.Sequential([*layers, eqx.nn.Linear(27, 2, key=keys[1])])
    for task, shape in ((model_task(Network().apply, params), (8, 8, 1)), (equinox_task(network), (1, 8, 8))):
        record = jnp.ones(task.dimension), jnp.ones(shape), 0
        program = str(jax.make_jaxpr(task._loss)(*record))
        assert not any(name in program for name in PLAIN)
    x = jax.random.normal(keys[0], (1, 8, 8))
    np.testing.assert_allclose(task.outputs(task.initial(keys[0]), x), network(x), atol=1e-5)


SIDE_BY_SIDE = {
    "same": lambda x, w: plainly(x, w, 2),
    "uneven margins": lambda x, w: plainly(x, w, 2, padding=((2, 0), (1, 1))),
    "channels first": lambda x, w: lax.conv(
        x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), (1, 1), "VALID"
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("case", SIDE_BY_SIDE)
def test_convolutions_of_many_records_keep_their_values_and_an_order_that_loops_are_quick_in(case):
    """XLA on CPU computes others in a loop number by number."""
    function, rng = SIDE_BY_SIDE[case], np.random.default_rng(1)
    x, weights = (jnp.asarray(rng.normal(size=s), jnp.float32) for s in ((5, 6, 7, 16), (2, 3, 3, 16, 16)))

    def stepped(made):
        value = lambda x, weight: jnp.mean(jnp.sin(made(jnp.cos(x), weight)))  # noqa: E731
        step = lambda _, held: jax.tree.map(jnp.add, held, jax.grad(value, (0, 1))(*held))  # noqa: E731
        return jax.jit(lambda x, weight: lax.fori_loop(0, 2, step, (x, weight)))

    mine, plain = stepped(as_windows(function)), stepped(function)
    jax.tree.map(
        lambda got, wanted: np.testing.assert_allclose(got, wanted, atol=1e-5),
        [mine(x, weights[0]), jax.vmap(mine, (None, 0))(x, weights)],
        [plain(x, weights[0]), jax.vmap(plain, (None, 0))(x, weights)],
    )
    orders = set(re.findall(r"dim_labels=(\S+?)[,\s]", str(mine.lower(x, weights[0]).compile().as_text())))
    assert orders == {"b01f_01io->b01f"}


@pytest.mark.full
@pytest.mark.parametrize("case", SIDE_BY_SIDE)
def test_slopes_in_single_records_are_one_convolution_of_all_that_share_a_weight(case):
    """Gradients of every record of two clients with weights of their own: values, and how many there are."""
    function, rng = SIDE_BY_SIDE[case], np.random.default_rng(2)
    shapes = (2, 5, 6, 7, 16), (2, 3, 3, 16, 17)
    x, weights = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes)

    def gradients(made):
        value = lambda x, weight: jnp.mean(jnp.sin(made(jnp.cos(x)[None], weight)))  # noqa: E731
        return jax.vmap(jax.grad(value, (0, 1)), (0, None))

    mine, plain = gradients(as_windows(function)), gradients(function)
    jax.tree.map(
        lambda got, wanted: np.testing.assert_allclose(got, wanted, atol=1e-6),
        [
            mine(x[0], weights[0]),
            jax.jit(jax.vmap(mine))(x, weights),
            jax.vmap(mine, (None, 0))(x[0], weights),
        ],
        [plain(x[0], weights[0]), jax.vmap(plain)(x, weights), jax.vmap(plain, (None, 0))(x[0], weights)],
    )
    program = str(jax.make_jaxpr(mine)(x[0], weights[0]))
    assert program.count("conv_general_dilated[") == 1


def test_elsewhere_than_on_a_cpu_slopes_in_single_records_are_products_too(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    value = lambda x, w: jnp.sum(as_windows(SIDE_BY_SIDE["same"])(x[None], w))  # noqa: E731
    program = jax.make_jaxpr(jax.grad(value))(jnp.ones((6, 7, 16)), jnp.ones((3, 3, 16, 16)))
    assert "conv_general_dilated" not in str(program)


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        pytest.param((5, 2, 2, 3), (3, 3, 3, 16), id="images smaller than the kernel"),
        pytest.param((5, 6, 6, 3), (3, 3, 3, 8), id="few outputs"),
        pytest.param((5, 6, 6, 15), (3, 3, 15, 31), id="few inputs and outputs"),
    ],
)
def test_what_xla_is_slow_at_are_products_of_patches(x, weight):
    """XLA's own convolution of an image smaller than its kernel takes 100 times as long."""
    program = jax.make_jaxpr(as_windows(lambda x, w: plainly(x, w, 2)))(jnp.ones(x), jnp.ones(weight))
    assert "conv_general_dilated" not in str(program)


@pytest.mark.parametrize(("inputs", "pieces"), [(10, [3, 2]), (11, [6])])
def test_narrow_windows_are_gathered_axis_by_axis_and_wide_ones_at_once(inputs, pieces):
    program = jax.make_jaxpr(as_windows(lambda x, w: plainly(x, w, 2)))
    made = program(jnp.ones((1, 6, 6, inputs)), jnp.ones((2, 3, inputs, 4)))
    assert [len(e.invars) for e in made.jaxpr.eqns if e.primitive.name == "concatenate"] == pieces


def test_a_weight_of_more_outputs_than_positions_is_not_turned():
    """It takes longer than what is gained: vgg11's clipped sums took 1.4 times as long."""
    value = lambda x, w: jnp.sum(as_windows(SIDE_BY_SIDE["same"])(x[None], w))  # noqa: E731
    for outputs, turned in ((16, True), (17, False)):
        program = jax.make_jaxpr(jax.grad(value))(jnp.ones((4, 4, 16)), jnp.ones((3, 3, 16, outputs)))
        assert ("conv_general_dilated" in str(program)) == turned
