"""Layers whose gradients need not be formed: products with a matrix, and lookups of its rows.

A layer z_t = A_t W, t = 1..T (positions of a record), gets the slopes S_t = dloss/dz_t. A record's gradient
in W is A^T S, and

    |A^T S|_2^2 = sum_tu (A A^T)_tu (S S^T)_tu,    |A^T S| = |A_1| |S_1| in L1 and L2 where T = 1.

In a lookup A_t is 1 at the row that is taken and 0 elsewhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from jax.extend.core import JaxprEqn
from jax.lax import GatherScatterMode

from noiseworthy._jax import Array, jnp, lax
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.clipping import upper_norm_of_long
from noiseworthy.tasks.programs import array_of

_ROUNDING = 2.0**-24
_SMALLEST = 2.0**-126
_BLOCK = 128
_FORMED = 4
"""A number of a gradient that is formed, measured and added costs about as much as so many products."""


@dataclass(frozen=True)
class Product:
    """`dot_general` of a record's rows and W, without axes that go along in both.

    Attributes:
        contracted: axes of W that are summed over.
        shape: of W.
        others: axes of the other factor that are summed over, in the order of `contracted`.
        rows_shape: of the other factor.
        first: whether W is the first factor.
    """

    contracted: tuple[int, ...]
    shape: tuple[int, ...]
    others: tuple[int, ...]
    rows_shape: tuple[int, ...]
    first: bool

    @property
    def inputs(self) -> int:
        """Numbers d of A_t."""
        return math.prod(self.shape[axis] for axis in self.contracted)

    @property
    def outputs(self) -> int:
        """Numbers k of z_t."""
        return math.prod(self.shape) // self.inputs

    @property
    def positions(self) -> int:
        """T."""
        return math.prod(self.rows_shape) // self.inputs

    def is_cheap(self, norm: Norm) -> bool:
        """Whether the norm from products of positions is known in `norm`, and cheaper than the gradient."""
        if self.positions == 1:
            return True
        dearer = self.positions**2 * (self.inputs + self.outputs) > _FORMED * self.inputs * self.outputs
        return norm == "l2" and not dearer

    def rows(self, given: Array) -> Array:
        """The other factor of n records as A, shape (n, T, d)."""
        kept = [axis for axis in range(len(self.rows_shape)) if axis not in self.others]
        moved = jnp.transpose(given, (0, *(axis + 1 for axis in (*kept, *self.others))))
        return moved.reshape(len(given), self.positions, self.inputs)

    def slopes(self, back: Array) -> Array:
        """dloss/dz of n records as S, shape (n, T, k)."""
        if not self.first:
            return back.reshape(len(back), self.positions, self.outputs)
        return back.reshape(len(back), self.outputs, self.positions).swapaxes(1, 2)

    def sizes(self, rows: Array, slopes: Array, norm: Norm) -> Array:
        """Upper bounds on the norms of the records' gradients, shape (n,)."""
        if self.positions == 1:
            return upper_norm_of_long(rows[:, 0], norm) * upper_norm_of_long(slopes[:, 0], norm)
        grams = _gram(rows) * _gram(slopes)
        steps = _steps(self.inputs) + _steps(self.outputs) + 2 * self.positions
        return _upper_root(grams, steps, upper_norm_of_long(rows, norm), slopes, self.inputs)

    def total(self, rows: Array, slopes: Array) -> Array:
        """Sum of the gradients of all records and positions, shape of W."""
        long, wide = rows.reshape(-1, self.inputs), slopes.reshape(-1, self.outputs)
        total = jnp.matmul(long.T, wide, precision="highest")
        kept = [axis for axis in range(len(self.shape)) if axis not in self.contracted]
        order = [*self.contracted, *kept]
        places = [order.index(axis) for axis in range(len(order))]
        return jnp.transpose(total.reshape([self.shape[axis] for axis in order]), places)


@dataclass(frozen=True)
class Lookup:
    """`gather` of whole rows of a matrix, one for each of T indices.

    Attributes:
        shape: of the matrix, (V, k).
        positions: T.
        along: axes of the result that run along a row.
        clipped: whether indices beyond the matrix mean its nearest row, not none.
    """

    shape: tuple[int, int]
    positions: int
    along: tuple[int, ...]
    clipped: bool

    def is_cheap(self, norm: Norm) -> bool:
        """Whether the norm from products of positions is known in `norm`, and cheaper than the gradient."""
        return self.positions == 1 or (norm == "l2" and self.positions**2 <= _FORMED * self.shape[0])

    def rows(self, given: Array) -> Array:
        """The row taken at each position, shape (n, T); the number of rows V where none is."""
        rows = self.shape[0]
        # not as they are given: V may be no number of a narrow type, 256 would be 0 among bytes
        index = given[..., 0].astype(jnp.int32).reshape(len(given), self.positions)
        if self.clipped:
            return jnp.clip(index, 0, rows - 1)
        return jnp.where((index >= 0) & (index < rows), index, rows)

    def slopes(self, back: Array) -> Array:
        """dloss/dz of n records as S, shape (n, T, k)."""
        moved = jnp.moveaxis(back, [axis + 1 for axis in self.along], range(-len(self.along), 0))
        return moved.reshape(len(back), self.positions, self.shape[1])

    def sizes(self, rows: Array, slopes: Array, norm: Norm) -> Array:
        """Upper bounds on the norms of the records' gradients, shape (n,)."""
        taken = rows < self.shape[0]
        if self.positions == 1:
            return jnp.where(taken[:, 0], upper_norm_of_long(slopes[:, 0], norm), 0.0)
        same = (rows[:, :, None] == rows[:, None, :]) & taken[:, :, None]
        steps = _steps(self.shape[1]) + 2 * self.positions
        return _upper_root(jnp.where(same, _gram(slopes), 0.0), steps, taken.astype(slopes.dtype), slopes, 1)

    def total(self, rows: Array, slopes: Array) -> Array:
        """Sum of the gradients of all records and positions, shape (V, k)."""
        empty = jnp.zeros(self.shape, slopes.dtype)
        return empty.at[rows.reshape(-1)].add(slopes.reshape(-1, self.shape[1]), mode="drop")


Layer = Product | Lookup


def layer_of(equation: JaxprEqn, place: int) -> Layer | None:
    """What an equation does with the parameters that are its argument number `place`, if that is known."""
    # the roundings below are those of float32
    if any(array_of(var).dtype != jnp.float32 for var in (equation.invars[place], equation.outvars[0])):
        return None
    if equation.primitive.name == "dot_general":
        return _product(equation, place)
    if equation.primitive.name == "gather" and place == 0:
        return _lookup(equation)
    return None


def _product(equation: JaxprEqn, place: int) -> Product | None:
    contracted, along = equation.params["dimension_numbers"]
    if any(along):
        return None
    mine, its = (tuple(contracted[at]) for at in (place, 1 - place))
    weight, other = (array_of(equation.invars[at]) for at in (place, 1 - place))
    if other.dtype != jnp.float32 or 0 in (weight.size, other.size):
        return None
    return Product(mine, weight.shape, its, other.shape, place == 0)


def _lookup(equation: JaxprEqn) -> Lookup | None:
    matrix, index = (array_of(var) for var in equation.invars)
    numbers, mode = equation.params["dimension_numbers"], equation.params["mode"]
    if matrix.ndim != 2 or equation.params["slice_sizes"] != (1, matrix.shape[1]) or 0 in matrix.shape:
        return None
    if numbers.operand_batching_dims or numbers.start_indices_batching_dims:
        return None
    clipped = mode == GatherScatterMode.CLIP
    if numbers.start_index_map != (0,) and not (clipped and numbers.start_index_map == (0, 1)):
        return None  # with CLIP a start within a row can only be 0
    if not np.can_cast(index.dtype, np.int32):
        return None
    positions = math.prod(index.shape[:-1])
    return Lookup(matrix.shape, positions, tuple(numbers.offset_dims), clipped) if positions else None


def _gram(rows: Array) -> Array:
    """Products of all pairs of positions, (n, T, d) to (n, T, T), in blocks so that few roundings add up."""
    n, positions, width = rows.shape
    block = min(_BLOCK, width)
    blocks = jnp.pad(rows, ((0, 0), (0, 0), (0, -width % block))).reshape(n, positions, -1, block)
    return jnp.sum(jnp.einsum("ntbw,nubw->nbtu", blocks, blocks, precision="highest"), axis=1)


def _steps(width: int) -> int:
    """Roundings in a sum of so many products by `_gram`."""
    return min(_BLOCK, width) + -(-width // _BLOCK)


def _upper_root(terms: Array, steps: int, reach: Array, slopes: Array, inputs: int) -> Array:
    """Root of an upper bound on sums over pairs of positions that may cancel, shape (n,).

    With P = sum_t |A_t| |S_t|, a sum of products that were summed themselves is off by at most

        (steps + 8) 2^-24 P^2 + 2^-126 (d (sum_t |S_t|)^2 + k (sum_t |A_t|)^2 + T^2)

    Args:
        terms: shape (n, T, T).
        steps: roundings that follow each other.
        reach: |A_t|, from above, shape (n, T).
        slopes: S, shape (n, T, k).
        inputs: d.

    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    back = upper_norm_of_long(slopes, "l2")
    along, most = jnp.sum(reach * back, axis=1), terms.shape[1] ** 2
    tiny = inputs * jnp.sum(back, axis=1) ** 2 + slopes.shape[2] * jnp.sum(reach, axis=1) ** 2 + most
    rounding = (steps + 8) * _ROUNDING * jnp.square(along) + _SMALLEST * tiny
    # `steps` counts the roundings of two sums over T terms each; without a barrier between them XLA makes one
    # over T^2 terms, which it may add one by one: at T = 31 that lost five times the margin of a clip
    total = jnp.sum(lax.optimization_barrier(jnp.sum(terms, axis=2)), axis=1)
    return jnp.sqrt(jnp.maximum(total, 0.0) + rounding)
