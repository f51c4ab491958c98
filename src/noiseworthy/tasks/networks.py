"""Any model as a task: gradients of records by autodiff, a chunk at a time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import equinox as eqx
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.tree_util import keystr, tree_leaves_with_path
from jax.typing import ArrayLike

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy.errors import InvalidInput, UserError
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch, Score
from noiseworthy.tasks.chunks import by_parts, chunks, formed_sum, room, without_padding
from noiseworthy.tasks.convolutions import as_windows, quick
from noiseworthy.tasks.ghost import Ghost
from noiseworthy.tasks.programs import array_of
from noiseworthy.tasks.structured_losses import LOSSES, Loss

PyTree = Any
CHUNK = 50
"""Gradients of records that are held at once."""

_CACHED = 2**22
"""Numbers of a block of records; the next level of memory is slower."""

_FEWEST = 4 * (os.cpu_count() or 1)
"""Records of a block that fits no cache: of CNNs 4 to 8 are the fastest on one core, 8 to 16 on two."""

_TIMES = 25
"""What the records of a block hold over parameters, which each block reads once and adds to once."""


def as_numbers(x: Array) -> Array:
    """Records as float32, and as int32 if they are whole numbers, such as tokens."""
    return x.astype(jnp.int32 if jnp.issubdtype(x.dtype, jnp.integer) else jnp.float32)


@dataclass(frozen=True, eq=False)
class ModelTask:
    """A model given as functions of the flat theta. Use `model_task` or `equinox_task` to make one.

    It is equal to itself only: compiled programs are reused for the same object, not for a twin.

    Attributes:
        outputs: (theta, record) -> z, of the shape that the loss takes; convolutions and pools as they come
            (`convolutions.quick`).
        start: key -> theta_0, shape (p,).
        dimension: number of parameters p.
        loss: loss of one record, and the quality that a score reports.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.
        chunk: gradients of records that are held at once, at most. Blocks of records hold no more numbers and
            fit a cache, or on a device that is no CPU a sixteenth of its memory; where few fit, four for
            each core, or more where parameters are many beside what a record holds.
        form: records (n, *shape) -> records as `outputs` takes them; each record on its own.
        record_shape: shape of one record after `prepare`, or None where nobody said.
        one_by_one: whether single gradients are computed one after the other, never in a batch.
        names: of the parameters, each with how many numbers they are, in the order of theta.
        vocabulary: number of tokens V where records hold tokens 0..V-1; None where nobody said.
    """

    outputs: Callable[[Array, Array], Array]
    start: Callable[[Array], Array]
    dimension: int
    loss: Loss
    ridge: float = 0.0
    chunk: int = CHUNK
    form: Callable[[Array], Array] = as_numbers
    record_shape: tuple[int, ...] | None = None
    names: tuple[tuple[str, int], ...] = ()
    one_by_one: bool = False
    vocabulary: int | None = None

    def __post_init__(self) -> None:
        check.count("dimension", self.dimension, remedy="give the model at least one parameter")
        check.non_negative("ridge", self.ridge)
        check.count("chunk", self.chunk)

    def initial(self, key: Array) -> Array:
        """Public start theta_0, shape (p,)."""
        return self.start(key)

    def prepare(self, x: Array) -> Array:
        """The records in the form that the model takes; float32, or int32 if they are whole numbers."""
        return self.form(jnp.asarray(x))

    def clipped_gradient_sum(self, theta: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """Sum of the records' gradients, each clipped to C; chunks in sequence, records of a chunk at once.

        Gradients of products, convolutions and lookups are formed for single records only where that is
        cheaper than to measure and add them without (`ghost`).

        Args:
            theta: parameters, shape (p,).
            batch: records, labels, and a mask that is 0 on padding.
            clip_norm: C above 0, bound on the norm of one record's gradient without the ridge.
            norm: the norm in which C holds.

        Returns:
            Shape (p,).

        Guarantee: each summand has norm at most C, float32 rounding included (`upper_norm`, `clip`).
        A record contributes zero if its gradient is not finite or its squared norm overflows.
        """
        if len(batch.mask) == 1:
            return formed_sum(self._loss, theta, chunks(batch, 1), clip_norm, norm)
        ghost = self._ghost(batch.x[0], batch.y[0], norm)
        if not ghost.layers:
            parts = chunks(batch, self._at_once(max(ghost.numbers, self.dimension)))
            return formed_sum(self._loss, theta, parts, clip_norm, norm)
        return ghost.clipped_sum(theta, chunks(batch, self._at_once(ghost.numbers)), clip_norm, norm)

    def formed(self, x: ArrayLike, y: ArrayLike, norm: Norm = "l2") -> dict[str, str]:
        """Parameters whose gradients are formed for every record because their use is not understood.

        Clipping then takes memory and time for records times parameters. For products, convolutions and
        lookups it does not, where that is cheaper.

        Args:
            x: one record, from `prepare`.
            y: its label.
            norm: that bounds gradients.

        Returns:
            Why, by name; small parameters are left out.

        Example:
            >>> task = model_task(lambda w, x: x @ w @ w, jnp.ones((40, 40)))
            >>> task.formed(jnp.ones(40), 0)
            {'theta': 'is read 2 times'}
        """
        starts = np.cumsum([0, *(size for _, size in self.names)])
        names = list(zip(self.names, starts, strict=False)) or [(("theta", self.dimension), 0)]
        return {
            name: why
            for part, why in self._ghost(jnp.asarray(x), jnp.asarray(y), norm).obstacles
            for (name, size), start in names
            if start < part.stop and part.start < start + size
        }

    def _ghost(self, x: Array, y: Array, norm: Norm) -> Ghost:
        theta = jax.ShapeDtypeStruct((self.dimension,), jnp.float32)
        return Ghost.of(self._loss, theta, x, y, norm)

    def _at_once(self, numbers: int) -> int:
        """How many records of so many numbers are worked on at once."""
        most = min(self.chunk * self.dimension, _CACHED)
        fewest = min(self.chunk, max(_FEWEST, _TIMES * self.dimension // numbers))
        return max(fewest, (most if self.one_by_one else room(most)) // numbers)

    def gradient(self, theta: Array, batch: Batch) -> Array:
        """Mean of the records' gradients, unclipped and without the ridge; chunks in sequence."""

        def total_loss(parts: list[Array], chunk: Batch) -> Array:
            losses = self._losses(jnp.concatenate(parts), chunk.x, chunk.y)
            return jnp.vdot((chunk.mask > 0).astype(losses.dtype), losses)

        def add(totals: list[Array], chunk: Batch) -> tuple[list[Array], None]:
            return jax.tree.map(jnp.add, totals, jax.grad(total_loss)(parts, chunk)), None

        # parameter by parameter: in a loop XLA on CPU is slow to put numbers in a row
        parts = jnp.split(theta, np.cumsum([size for _, size in self.names])[:-1])
        few = len(batch.mask) <= min(self.chunk, _FEWEST)
        at_once = self.chunk if few else self._at_once(self._ghost(batch.x[0], batch.y[0], "l2").numbers)
        empty = jax.tree.map(jnp.zeros_like, parts)
        totals = jax.lax.scan(add, empty, chunks(without_padding(batch), at_once))[0]
        return jnp.where(batch.size > 0, jnp.concatenate(totals) / batch.divisor, 0.0)

    def losses(self, theta: Array, batch: Batch) -> Array:
        """Loss of each record without the ridge; chunks in sequence, records of a chunk at once."""
        return by_parts(partial(self._losses, theta), (batch.x, batch.y), self._answered(theta, batch.x))

    def answers(self, theta: Array, x: Array) -> Array:
        """Outputs z of prepared records, shape (n, ...); chunks in sequence."""
        return by_parts(partial(self._together, theta), (x,), self._answered(theta, x))

    def score(self, theta: Array, x: Array, y: Array) -> Score:
        """Mean loss without the ridge, and accuracy (R^2 for squared loss, NaN for a loss of the user)."""
        outputs = self.answers(theta, x)
        return Score(jnp.mean(jax.vmap(self.loss.value)(outputs, y)), self.loss.quality(outputs, y))

    def _answered(self, theta: Array, x: Array) -> int:
        """Records whose outputs are computed at once: `chunk`, or more where there is room beyond caches."""
        if self.one_by_one or not (most := room(0)):
            return self.chunk
        made = jax.make_jaxpr(self.outputs)(theta, x[0]).jaxpr.eqns
        return max(self.chunk, most // max(1, sum(array_of(var).size for eqn in made for var in eqn.outvars)))

    def _loss(self, theta: Array, x: Array, y: Array) -> Array:
        return self.loss.value(as_windows(self.outputs)(theta, x), y)

    def _losses(self, theta: Array, x: Array, y: Array) -> Array:
        return jax.vmap(self.loss.value)(self._together(theta, x), y)

    def _together(self, theta: Array, x: Array) -> Array:
        """Outputs of records side by side."""
        return quick(jax.vmap(self.outputs, (None, 0)))(theta, x)


def model_task(
    apply: Callable[[PyTree, Array], Array], params: PyTree,
    loss: str | Callable[[Array, Array], Array] = "softmax", *, ridge: float = 0.0, chunk: int = CHUNK,
    record_shape: tuple[int, ...] | None = None,
) -> ModelTask:  # fmt: skip
    """A task from a pure function of parameters and one record.

    Args:
        apply: (params, record) -> outputs z, shape (K,) for softmax, (L, V) for tokens, that of the mask
            for dice, () or (1,) otherwise. No state that mixes records (batch norm): one record must not
            reach another one's gradient.
        params: pytree of arrays, all of them trained; also the public start.
        loss: `softmax`, `logistic`, `squared`, `tokens`, `dice`, or a function (z, y) -> loss of one record.
        ridge: weight mu of (mu/2)||theta||^2, at least 0.
        chunk: most records whose gradients are held at once.
        record_shape: shape of one record; a personal input transform needs it.

    Returns:
        A `ModelTask` whose theta is `params`, flat.

    Raises:
        InvalidInput: an unknown loss, no parameters, complex ones or some that are not finite, a negative
            ridge, a chunk below 1.

    Example:
        >>> task = model_task(lambda w, x: x @ w["w"] + w["b"], {"w": jnp.zeros((3, 2)), "b": jnp.zeros(2)})
        >>> batch = Batch(jnp.ones((4, 3)), jnp.zeros(4, int), jnp.ones(4))
        >>> total = task.clipped_gradient_sum(task.initial(jax.random.key(0)), batch, 1.0, "l2")
        >>> [round(float(value), 2) for value in total[:2]]
        [-1.41, 1.41]
    """
    if any(map(jnp.iscomplexobj, jax.tree.leaves(params))):
        raise InvalidInput("parameters must be real, got complex ones; train their two parts as arrays")
    theta, unflatten = ravel_pytree(jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float32), params))
    named = [(keystr(path) or "theta", leaf) for path, leaf in tree_leaves_with_path(params)]
    if bad := [name for name, leaf in named if not np.all(np.isfinite(np.asarray(leaf, np.float32)))]:
        raise InvalidInput(f"parameters must be finite, got NaN or infinity in {bad[0]}; start at numbers")
    return ModelTask(
        outputs=lambda theta, x: apply(unflatten(theta), x), start=lambda key: theta, dimension=theta.size,
        loss=_loss_of(loss), ridge=ridge, chunk=chunk, record_shape=record_shape,
        names=tuple((name, jnp.size(leaf)) for name, leaf in named),
    )  # fmt: skip


def equinox_task(
    module: Callable[[Array], Array], loss: str | Callable[[Array, Array], Array] = "softmax", *,
    ridge: float = 0.0, chunk: int = CHUNK, record_shape: tuple[int, ...] | None = None,
) -> ModelTask:  # fmt: skip
    """A task from an equinox module that maps one record to its outputs; every float array is trained.

    Arguments, result and errors are those of `model_task`.

    Example:
        >>> equinox_task(eqx.nn.Linear(3, 2, key=jax.random.key(0))).dimension
        8
    """
    return model_task(*parted(module), loss, ridge=ridge, chunk=chunk, record_shape=record_shape)


def parted(module: Callable[[Array], Array]) -> tuple[Callable[[PyTree, Array], Array], PyTree]:
    """An equinox module as a pure function of its float arrays and one record, with these arrays."""
    params, rest = eqx.partition(module, eqx.is_inexact_array)
    return lambda params, x: eqx.combine(params, rest)(x), params


def check_fits(who: str, task: Any, x: Any, y: Any, classes: int | None) -> None:
    """Refuse a network that has no loss for records and labels of these shapes, by InvalidInput."""
    if not isinstance(task, ModelTask):
        return
    one = [(), (1,)]
    known = {"softmax": [(classes,)], "squared": one * (classes is None), "logistic": one * (classes == 2)}
    known |= {"tokens": [(*y.shape[1:], classes)], "dice": [y.shape[1:]]}
    wanted = next(((name, fit) for name, fit in known.items() if task.loss == LOSSES[name]), None)

    def loss(theta: Array, record: Array, label: Array) -> Array:
        z = task.outputs(theta, task.prepare(record[None])[0])
        shape: Any = getattr(z, "shape", None)
        if wanted and shape not in wanted[1]:
            fit = next(iter(wanted[1]), (classes,))
            said = f"shape {fit}" + ", a number for each class" * (fit[-1:] == (classes,))
            said = "one number" if classes is None or fit == () else said
            found = f"a {type(z).__name__}" if shape is None else f"shape {shape}"
            raise InvalidInput(
                f"{who} must return {said} for one record of shape {record.shape}, got {found} and the loss "
                f"{wanted[0]}{'' if wanted[1] else '; take squared' if classes is None else '; take softmax'}"
            )
        return task.loss.value(z, label)

    shapes = (((task.dimension,), jnp.float32), (x.shape[1:], x.dtype), (y.shape[1:], y.dtype))
    try:
        jax.eval_shape(jax.grad(loss), *(jax.ShapeDtypeStruct(*one) for one in shapes))
    except UserError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InvalidInput(f"{who} has no loss for a record of shape {x.shape[1:]}: {said}") from error


def _loss_of(loss: str | Callable[[Array, Array], Array]) -> Loss:
    if callable(loss):
        return Loss(loss, lambda z, y: jnp.full((), jnp.nan))  # only its user knows what it is worth
    return LOSSES[check.one_of("loss", loss, tuple(LOSSES), remedy="or a function of (outputs, label)")]
