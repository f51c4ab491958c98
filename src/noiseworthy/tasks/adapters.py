"""Models of equinox, flax and haiku as tasks."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import equinox as eqx
import numpy as np

from noiseworthy._jax import jax, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.networks import ModelTask, check_fits, model_task, parted

_KINDS = "an equinox module, a flax module, a haiku transform, or what nw.model_task returns"
_MIXES = (
    "no state beside its parameters, because state mixes records (batch norm) or draws (dropout); use layers "
    "without it, such as group norm, and keep what never changes in a closure"
)
_RECURRENT = "; make an nnx.RNN with rngs=False, and call it with rngs=nnx.Rngs(0), of which it keeps none"


def as_task(model: str, made: Any, shape: tuple[int, ...], classes: int | None, ridge: float) -> Task:
    """A model of one record as a task: softmax over the classes, squared loss where labels are numbers.

    Args:
        model: its name, for complaints.
        made: an equinox or flax module, a haiku transform, or a task.
        shape: of one record.
        classes: number of classes, or None for regression.
        ridge: weight mu of (mu/2)||theta||^2.

    Raises:
        InvalidInput: none of these, one with state, or outputs that do not fit the labels.
    """
    if isinstance(made, Task):
        return replace(cast(Any, made), ridge=ridge) if ridge else made
    apply, params = _function_of(model, made, jnp.zeros(shape, jnp.float32))
    loss = "squared" if classes is None else "softmax"
    task = model_task(apply, params, loss, ridge=ridge, record_shape=shape)
    labels = np.zeros(0, np.float32 if classes is None else np.int32)
    check_fits(f'[task] model = "{model}"', task, np.zeros((0, *shape), np.float32), labels, classes)
    return task


def try_floats(task: Task, shape: tuple[int, ...]) -> None:
    """Trace a network on a record of floats, which trials, probes and predictions have instead of tokens."""
    if isinstance(task, ModelTask):
        given = (jax.ShapeDtypeStruct(one, jnp.float32) for one in ((task.dimension,), (1, *shape)))
        jax.eval_shape(lambda theta, x: task.outputs(theta, task.prepare(x)[0]), *given)


Apply = Callable[[Any, jax.Array], jax.Array]


def _function_of(model: str, made: Any, record: jax.Array) -> tuple[Apply, Any]:
    """A model as a pure function of parameters and one record, with the parameters that it starts from."""
    kind = f"{type(made).__module__}.{type(made).__name__}"
    if isinstance(made, eqx.Module):
        return _equinox(model, made)
    if "flax" in sys.modules:
        import flax.linen
        import flax.nnx

        if isinstance(made, flax.linen.Module):
            return _linen(model, made, record)
        if isinstance(made, flax.nnx.Module):
            return _nnx(model, made)
    if kind.startswith("haiku.") and type(made).__name__ in ("Transformed", "TransformedWithState"):
        return _haiku(model, made, record)
    raise InvalidInput(f'[task] model = "{model}" must return {_KINDS}, got {kind}')


def _equinox(model: str, made: Any) -> tuple[Apply, Any]:
    leaves = jax.tree.leaves(made, is_leaf=lambda leaf: isinstance(leaf, eqx.nn.StateIndex))
    _check_stateless(model, not any(isinstance(leaf, eqx.nn.StateIndex) for leaf in leaves))
    return parted(made)


def _linen(model: str, made: Any, record: jax.Array) -> tuple[Apply, Any]:
    variables = made.init(jax.random.key(0), record)
    _check_stateless(model, set(variables) <= {"params"})
    return lambda params, x: made.apply({"params": params}, x), variables.get("params", {})


def _nnx(model: str, made: Any) -> tuple[Apply, Any]:
    from flax import nnx

    graph, params, rest = nnx.split(made, nnx.Param, ...)
    recurrent = any(isinstance(part, nnx.RNN) for _, part in nnx.iter_graph(made))
    _check_stateless(model, not jax.tree.leaves(rest), _RECURRENT if recurrent else "")
    return lambda params, x: nnx.merge(graph, params, rest)(x), params


def _haiku(model: str, made: Any, record: jax.Array) -> tuple[Apply, Any]:
    _check_stateless(model, type(made).__name__ == "Transformed")
    params = made.init(jax.random.key(0), record)
    if "rng" in inspect.signature(made.apply).parameters:
        return lambda params, x: made.apply(params, None, x), params
    return made.apply, params


def _check_stateless(model: str, fine: bool, remedy: str = "") -> None:
    if not fine:
        raise InvalidInput(f'[task] model = "{model}" must have {_MIXES}{remedy}')
