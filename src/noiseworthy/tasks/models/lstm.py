"""The language model of Hou et al.: a two-layer LSTM that predicts the next token at every position."""

from functools import cache, partial

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.models import layers as nn
from noiseworthy.tasks.networks import ModelTask

_CHUNK = 32
"""On two cores a step on 64 records takes two thirds of the time it takes in one go."""


def lstm(
    vocabulary: int, length: int = 10, *, embedding: int = 256, hidden: int = 256, ridge: float = 0.0
) -> ModelTask:
    """Embedding, two LSTM layers, and a dense layer that scores every token at every position.

        i, f, g, o = x_t W + h_{t-1} U + b,  c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g),
        h_t = sigmoid(o) tanh(c_t),          z_t = h_t V + v

    For sizes 256 and V tokens: 513 V + 1,050,624 parameters. A gate has one bias; the two that PyTorch adds
    up are the same function. Equal arguments give the same object, so compiled programs are reused.

    Args:
        vocabulary: number of tokens V, at least 2; tokens are 0..V-1.
        length: tokens per record L, at least 1.
        embedding: numbers per token.
        hidden: size of the hidden state of both layers.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.

    Returns:
        A `ModelTask` for records of whole numbers (L,) with the next tokens as labels (L,). The loss is the
        mean cross entropy over positions, the quality the share of right tokens. Its start is drawn from the
        key: the embedding standard normal, all else uniform within 1 / sqrt(fan-in).

    Raises:
        InvalidInput: a size below its range, a negative ridge; from `prepare`, records that are not whole
            numbers or have another length.

    Example:
        >>> lstm(96).dimension
        1099872

    Source: Hochreiter and Schmidhuber (1997); Hou et al., experiments; docs/theory/hou.md#experiments.
    """
    check.count("vocabulary", vocabulary, least=2)
    for name, size in (("length", length), ("embedding", embedding), ("hidden", hidden)):
        check.count(name, size)
    return _lstm(vocabulary, length, embedding, hidden, ridge)


@cache
def _lstm(vocabulary: int, length: int, embedding: int, hidden: int, ridge: float) -> ModelTask:
    return nn.network(
        partial(_initial, sizes=(vocabulary, embedding, hidden)), _apply, "tokens", ridge=ridge, chunk=_CHUNK,
        form=partial(_tokens, length=length), record_shape=(length,), vocabulary=vocabulary,
    )  # fmt: skip


def _initial(key: Array, sizes: tuple[int, int, int]) -> dict[str, nn.Layer]:
    vocabulary, embedding, hidden = sizes
    keys = jax.random.split(key, 4)
    return {
        "embedding": {"weight": jax.random.normal(keys[0], (vocabulary, embedding), jnp.float32)},
        "lstm1": _recurrent(keys[1], embedding, hidden),
        "lstm2": _recurrent(keys[2], hidden, hidden),
        "dense": nn.uniform_start(keys[3], (hidden, vocabulary)),
    }


def _recurrent(key: Array, inputs: int, hidden: int) -> nn.Layer:
    """The matrices W and U, and the bias, of the four gates."""
    shapes = {"weight": (inputs, 4 * hidden), "state": (hidden, 4 * hidden), "bias": (4 * hidden,)}
    keys = jax.random.split(key, len(shapes))
    return {
        name: nn.uniform(key, shape, hidden**-0.5)
        for key, (name, shape) in zip(keys, shapes.items(), strict=True)
    }


def _apply(params: dict[str, nn.Layer], x: Array) -> Array:
    states = _states(params["lstm1"], params["embedding"]["weight"][x])
    return nn.dense(params["dense"], _states(params["lstm2"], states))


def _states(layer: nn.Layer, x: Array) -> Array:
    """h_1, ..., h_L, shape (L, hidden). W meets all positions at once; only U has to wait for its turn."""
    inputs = nn.dense(layer, x)

    def step(state: tuple[Array, Array], inputs: Array) -> tuple[tuple[Array, Array], Array]:
        h, c = state
        i, f, g, o = jnp.split(inputs + h @ layer["state"], 4)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros(layer["state"].shape[0], jnp.float32)
    return jax.lax.scan(step, (zero, zero), inputs)[1]


def _tokens(x: Array, length: int) -> Array:
    if not jnp.issubdtype(x.dtype, jnp.integer):
        raise InvalidInput(f"lstm needs tokens, whole numbers of type int32, got {x.dtype}; encode the text")
    if x.shape[1:] != (length,):
        raise InvalidInput(f"lstm was made for {length} tokens per record, got {x.shape[1:]}")
    return x.astype(jnp.int32)
