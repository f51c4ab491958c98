"""The LSTM against a plain NumPy loop, and what it may look at."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from noiseworthy.data import load_records
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import lstm
from noiseworthy.tasks.batch import Batch

VOCABULARY, EMBEDDING, HIDDEN, LENGTH = 6, 4, 3, 5


def small():
    return lstm(VOCABULARY, LENGTH, embedding=EMBEDDING, hidden=HIDDEN)


def parameters(theta):
    """The arrays of flat theta, float64, by the order of their names."""
    shapes = {
        "dense b": (VOCABULARY,), "dense W": (HIDDEN, VOCABULARY), "embedding": (VOCABULARY, EMBEDDING),
        "b1": (4 * HIDDEN,), "U1": (HIDDEN, 4 * HIDDEN), "W1": (EMBEDDING, 4 * HIDDEN),
        "b2": (4 * HIDDEN,), "U2": (HIDDEN, 4 * HIDDEN), "W2": (HIDDEN, 4 * HIDDEN),
    }  # fmt: skip
    cuts = np.cumsum([np.prod(shape) for shape in shapes.values()])
    parts = np.split(np.asarray(theta, np.float64), cuts[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}


def by_hand(theta, tokens):
    p = parameters(theta)
    states = [(np.zeros(HIDDEN), np.zeros(HIDDEN))] * 2
    outputs = []
    for token in np.asarray(tokens):
        x = p["embedding"][token]
        for layer in (0, 1):
            h, c = states[layer]
            gates = x @ p[f"W{layer + 1}"] + h @ p[f"U{layer + 1}"] + p[f"b{layer + 1}"]
            i, f, g, o = gates.reshape(4, HIDDEN)
            c = expit(f) * c + expit(i) * np.tanh(g)
            x = expit(o) * np.tanh(c)
            states[layer] = (x, c)
        outputs.append(x @ p["dense W"] + p["dense b"])
    return np.array(outputs)


@pytest.mark.full
def test_the_network_is_the_textbook_lstm():
    task, tokens = small(), jnp.array([0, 5, 2, 2, 1])
    theta = 3 * task.initial(jax.random.key(0))
    np.testing.assert_allclose(task.outputs(theta, tokens), by_hand(theta, tokens), rtol=1e-4, atol=1e-5)


def test_one_layer_is_the_cell_of_equinox():
    theta, x = small().initial(jax.random.key(1)), jax.random.normal(jax.random.key(2), (EMBEDDING,))
    p = {name: jnp.asarray(value, jnp.float32) for name, value in parameters(theta).items()}
    cell = eqx.nn.LSTMCell(EMBEDDING, HIDDEN, key=jax.random.key(0))
    arrays = (p["W1"].T, p["U1"].T, p["b1"])
    cell = eqx.tree_at(lambda c: (c.weight_ih, c.weight_hh, c.bias), cell, arrays)
    h, _ = cell(x, (jnp.zeros(HIDDEN), jnp.zeros(HIDDEN)))
    i, _, g, o = np.split(np.asarray(x @ p["W1"] + p["b1"]), 4)
    np.testing.assert_allclose(h, expit(o) * np.tanh(expit(i) * np.tanh(g)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("vocabulary", [96, 10_000])
def test_the_sizes_of_the_paper(vocabulary):
    assert lstm(vocabulary).dimension == 513 * vocabulary + 1_050_624


def test_no_output_sees_a_later_token():
    task, tokens = small(), jnp.array([0, 5, 2, 2, 1])
    theta = task.initial(jax.random.key(0))
    before, after = (task.outputs(theta, t) for t in (tokens, tokens.at[3].set(4)))
    np.testing.assert_array_equal(before[:3], after[:3])
    assert np.all(np.any(np.asarray(before != after)[3:], axis=1))


def test_prepare_keeps_tokens_whole_and_refuses_what_is_none():
    task = small()
    assert task.prepare(np.zeros((3, LENGTH), np.int64)).dtype == jnp.int32
    with pytest.raises(InvalidInput, match="lstm needs tokens, whole numbers of type int32, got float32"):
        task.prepare(np.zeros((3, LENGTH), np.float32))
    with pytest.raises(InvalidInput, match=r"lstm was made for 5 tokens per record, got \(4,\)"):
        task.prepare(np.zeros((3, 4), np.int32))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"vocabulary": 1}, "vocabulary must be at least 2"),
        ({"length": 0}, "length must be at least 1"),
        ({"hidden": 0}, "hidden must be at least 1"),
        ({"embedding": 2.5}, "embedding must be a whole number"),
        ({"ridge": -1.0}, "ridge must be finite and at least 0"),
    ],
)
def test_bad_sizes_are_refused_by_name(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        lstm(**{"vocabulary": 5, **arguments})


@pytest.mark.full
@pytest.mark.data
def test_it_learns_to_write_like_shakespeare(data_dir):
    """Better than the letter frequencies of the same windows, which is what knowing no context gives."""
    records = load_records("shakespeare", data_dir=data_dir)
    x, y = records.x[:256], records.y[:256]
    task = lstm(records.classes, embedding=32, hidden=32)
    batch = Batch(task.prepare(x), jnp.asarray(y), jnp.ones(len(x)))

    def step(state, _):
        theta, speed = state
        speed = 0.9 * speed - 0.5 * task.gradient(theta, batch)
        return (theta + speed, speed), None

    theta = task.initial(jax.random.key(0))
    (theta, _), _ = jax.jit(lambda s: jax.lax.scan(step, s, None, length=150))((theta, 0 * theta))
    shares = np.bincount(y.ravel(), minlength=records.classes) / y.size
    entropy = -np.sum(shares[shares > 0] * np.log(shares[shares > 0]))
    assert float(task.score(theta, batch.x, batch.y).loss) < entropy - 0.1
