"""Clipped gradients without a gradient per record: norms from what goes into a layer and what comes back.

Layers are found in the traced program of one record's loss: a product or a lookup that reads parameters which
nothing else reads. One pass back gives the slopes of all layers, from them the norms (`ghost_layers`), and

    sum_i w_i A_i^T S_i = A^T (w S)

is a product over all records and positions side by side. All other parameters have a gradient per record by
autodiff, whatever is done with them, and so have layers whose norms would be dearer so: biases, scales and
shifts, convolutions of many positions, what loops and branches read.

Source: Goodfellow, Efficient per-example gradient computations (2015); Li et al., Large language models can
be strong differentially private learners (2022); Bu et al., Differentially private optimization on large
model at small cost (2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import Any, NamedTuple

from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var, jaxprs_in_params

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip_factor, flushed, upper_norm, upper_norm_of_long
from noiseworthy.tasks.ghost_layers import Layer, layer_of
from noiseworthy.tasks.programs import applied, array_of, read, traced

_SHAPING = ("reshape", "transpose", "squeeze", "broadcast_in_dim", "copy")
_LARGE = 1024
"""Gradients of fewer numbers are nothing to speak of, however they are made."""


class Part(NamedTuple):
    """A range of the parameters, and the equations that bring it into the shape in which it is used."""

    start: int
    stop: int
    shaping: tuple[JaxprEqn, ...] = ()

    def meets(self, other: Part) -> bool:
        """Whether they share a number."""
        return self.start < other.stop and other.start < self.stop

    def shaped(self, numbers: Array) -> Array:
        """The range as its use takes it."""
        return reduce(lambda value, equation: applied(equation, [value])[0], self.shaping, numbers)

    def flat(self, shaped: Array) -> Array:
        """A gradient in the shape of the use as one in the range."""
        empty = jax.ShapeDtypeStruct((self.stop - self.start,), shaped.dtype)
        return jax.linear_transpose(self.shaped, empty)(shaped)[0]


class Use(NamedTuple):
    """A part as an argument of an equation; of none where it leaves the program.

    Attributes:
        part: of theta.
        equation: the equation.
        place: which argument.
        meets_record: whether another argument follows from the record or its label.
    """

    part: Part
    equation: JaxprEqn | None
    place: int
    meets_record: bool = False

    @property
    def obstacle(self) -> str | None:
        """Why a gradient in the part has to be formed although it is larger than what comes out, if so."""
        if self.equation is None:
            return "leaves the program"
        name, out = self.equation.primitive.name, array_of(self.equation.outvars[0])
        if any(True for _ in jaxprs_in_params(self.equation.params)) or name.startswith("conv_"):
            return f"is read by {name}"
        if not self.meets_record and name != "broadcast_in_dim":
            return f"goes through {name} before it meets the record"
        return None if out.size >= self.part.stop - self.part.start else f"is read by {name}"


@dataclass(frozen=True)
class Ghost:
    """The program of one record's loss, with what is known of its layers.

    Attributes:
        program: of (theta, x, y), without calls.
        parts: what variables of the program are of theta.
        layers: products and lookups whose gradients are not formed, by the place of their equation.
        rest: ranges of the other parameters that are read, apart from each other, ascending; one that is
            used once is shaped for it.
        obstacles: why gradients of large ranges are formed, other than that it is cheaper.
    """

    program: ClosedJaxpr
    parts: dict[Var, Part]
    layers: dict[int, tuple[Part, int, Layer]]
    rest: tuple[Part, ...]
    obstacles: tuple[tuple[Part, str], ...]

    @classmethod
    def of(cls, loss: Callable[..., Array], theta: Any, x: Any, y: Any, norm: Norm) -> Ghost:
        """What is known of a loss from shapes alone.

        Args:
            loss: (theta, record, label) -> loss of one record.
            theta: parameters, shape (p,), or their shape; so are the others.
            x: one record.
            y: its label.
            norm: that bounds gradients.
        """
        program = traced(loss, theta, x, y)
        parts, uses = _uses(program)
        layers, others, obstacles = {}, [], []
        for use in uses:
            # used twice, a part has a sum for its gradient, whose norm does not follow from those of both
            times = sum(use.part.meets(other.part) for other in uses)
            layer = layer_of(use.equation, use.place) if use.equation and use.meets_record else None
            if times == 1 and layer is not None and layer.is_cheap(norm):
                layers[program.jaxpr.eqns.index(use.equation)] = (use.part, use.place, layer)
                continue
            others.append(use.part)
            why = f"is read {times} times" if times > 1 else use.obstacle if layer is None else None
            if layer is not None and times == 1 and norm == "l1":
                why = "has an L1 norm that needs it"
            if why is not None and use.part.stop - use.part.start >= _LARGE:
                obstacles.append((use.part, why))
        return cls(program, parts, layers, _united(others), tuple(obstacles))

    @property
    def numbers(self) -> int:
        """Numbers that are held for one record: what the program computes, and gradients that are formed."""
        made = (var for eqn in self.program.jaxpr.eqns for var in eqn.outvars if var not in self.parts)
        formed = sum(part.stop - part.start for part in self.rest)
        return max(1, formed + sum(array_of(var).size for var in made))

    def clipped_sum(self, theta: Array, chunks: Batch, clip_norm: Array | float, norm: Norm) -> Array:
        """Sum of the records' gradients, each clipped to C; chunks in sequence, records of a chunk at once.

        Arguments, result and guarantee are those of `ModelTask.clipped_gradient_sum`, with records in chunks.
        """

        def add(totals: list[Array], chunk: Batch) -> tuple[list[Array], None]:
            return jax.tree.map(jnp.add, totals, self._sums(theta, chunk, clip_norm, norm)), None

        parts = [part for part, *_ in self.layers.values()] + list(self.rest)
        # as they are used, not as theta: in a loop XLA on CPU is slow to put numbers in a row
        empty = [jnp.zeros_like(part.shaped(theta[part.start : part.stop])) for part in parts]
        totals = jax.lax.scan(add, empty, chunks)[0]
        return _joined({part: part.flat(total) for part, total in zip(parts, totals, strict=True)}, theta)

    def _sums(self, theta: Array, batch: Batch, clip_norm: Array | float, norm: Norm) -> list[Array]:
        """The sums in layers and in the rest, in the shapes in which these are used."""
        record = jax.vmap(self._slopes, in_axes=(None, 0, 0))
        inputs, (formed, back) = record(theta, batch.x, batch.y)
        known = [
            (part, layer, layer.rows(given), layer.slopes(slopes))
            for (part, _, layer), given, slopes in zip(self.layers.values(), inputs, back, strict=True)
        ]
        sizes = [layer.sizes(rows, slopes, norm) for _, layer, rows, slopes in known]
        sizes += [upper_norm_of_long(_flat(gradients), norm) for gradients in formed]
        size = upper_norm(jnp.stack(sizes, axis=-1), norm)
        # a weight of 0 would not do alone: times an infinite slope it is NaN, in a product over all records
        fine = jnp.isfinite(size) & (batch.mask > 0)
        weight = jnp.where(fine, batch.mask.astype(theta.dtype) * clip_factor(size, clip_norm), 0.0)
        sums = []
        for _, layer, rows, slopes in known:
            kept = flushed(_where(fine, slopes) * weight[:, None, None])
            sums.append(layer.total(_where(fine, rows), kept))
        for gradients in formed:
            total = jnp.matmul(weight, _where(fine, _flat(gradients)), precision="highest")
            sums.append(total.reshape(gradients.shape[1:]))
        return sums

    def _slopes(self, theta: Array, x: Array, y: Array) -> tuple[list[Array], tuple[list[Array], ...]]:
        """What goes into each layer; gradients in the rest and in what comes out of each layer."""
        outs = [array_of(self.program.jaxpr.eqns[place].outvars[0]) for place in self.layers]
        # what is added to a layer's output has the slopes in that output for its gradient
        taps = [jnp.zeros(out.shape, out.dtype) for out in outs]
        rest = [part.shaped(theta[part.start : part.stop]) for part in self.rest]

        def loss(rest: list[Array], taps: list[Array]) -> tuple[Array, list[Array]]:
            return self._run(theta, rest, taps, x, y)

        slopes, inputs = jax.grad(loss, argnums=(0, 1), has_aux=True)(rest, taps)
        return inputs, slopes

    def _run(
        self, theta: Array, rest: list[Array], taps: list[Array], x: Array, y: Array
    ) -> tuple[Array, list[Array]]:
        """The loss of one record with `taps` added to what comes out of layers, and what goes into them."""
        jaxpr = self.program.jaxpr
        values: dict[Var, Any] = dict(zip(jaxpr.constvars, self.program.consts, strict=True))
        values.update(zip(jaxpr.invars[1:], (x, y), strict=True))

        def value(atom: Var | Literal) -> Any:
            part = None if isinstance(atom, Literal) else self.parts.get(atom)
            return read(values, atom) if part is None else self._value(part, theta, rest)

        left, inputs = iter(taps), []
        for place, equation in enumerate(jaxpr.eqns):
            if not self.parts.keys().isdisjoint(equation.outvars):
                continue
            given = [value(atom) for atom in equation.invars]
            made = applied(equation, given)
            if place in self.layers:
                inputs.append(given[1 - self.layers[place][1]])
                made = [made[0] + next(left)]
            values.update(zip(equation.outvars, made, strict=True))
        return value(jaxpr.outvars[0]), inputs

    def _value(self, part: Part, theta: Array, rest: list[Array]) -> Array:
        """A part as it is used: of the rest, in which gradients are formed, or of theta."""
        for whole, numbers in zip(self.rest, rest, strict=True):
            if part == whole:
                return numbers
            if part.meets(whole) and not whole.shaping:
                return part.shaped(numbers[part.start - whole.start : part.stop - whole.start])
        return part.shaped(theta[part.start : part.stop])


def _uses(program: ClosedJaxpr) -> tuple[dict[Var, Part], list[Use]]:
    """What variables are of theta, and where these are used other than to take parts or shapes of them."""
    theta, *record = program.jaxpr.invars
    parts, uses, of_record = {theta: Part(0, array_of(theta).size)}, [], set(record)
    for equation in program.jaxpr.eqns:
        atoms = [None if isinstance(atom, Literal) else atom for atom in equation.invars]
        given = [parts.get(atom) for atom in atoms]
        made = _taken(equation, given[0]) if given and given[0] is not None else None
        if made is not None:
            parts.update(zip(equation.outvars, made, strict=True))
            continue
        meets = not of_record.isdisjoint(atoms)
        of_record.update(equation.outvars if meets else ())
        if equation.primitive.name == "stop_gradient":
            continue  # no gradient comes back this way
        read_by = equation if equation.outvars else None
        uses += [Use(part, read_by, place, meets) for place, part in enumerate(given) if part is not None]
    returned = (parts.get(atom) for atom in program.jaxpr.outvars if not isinstance(atom, Literal))
    return parts, uses + [Use(part, None, 0) for part in returned if part is not None]


def _taken(equation: JaxprEqn, part: Part) -> list[Part] | None:
    """What an equation makes of a part, if these are parts of theta again, each number once."""
    name, params = equation.primitive.name, equation.params
    made = [array_of(var).size for var in equation.outvars]
    if name in _SHAPING and len(equation.invars) == 1 and made[0] == part.stop - part.start:
        return [part._replace(shaping=(*part.shaping, equation))]
    # a slice of a matrix is in general no range of theta, and a part must be one to be told from others
    if part.shaping:
        return None
    if name == "split":
        starts = [part.start + sum(made[:i]) for i in range(len(made))]
        return [Part(start, start + size) for start, size in zip(starts, made, strict=True)]
    if name == "slice" and params["strides"] is None:
        start = part.start + params["start_indices"][0]
        return [Part(start, start + made[0])]
    return None


def _united(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The ranges of parts, those that overlap as one, ascending."""
    apart: list[Part] = []
    for part in sorted(parts, key=lambda part: part[:2]):
        if apart and part.meets(apart[-1]):
            apart[-1] = Part(apart[-1].start, max(part.stop, apart[-1].stop))
        else:
            apart.append(part)
    return tuple(part for part in apart if part.stop > part.start)


def _flat(gradients: Array) -> Array:
    """Gradients of records, each as a vector."""
    return gradients.reshape(len(gradients), -1)


def _where(fine: Array, values: Array) -> Array:
    return jnp.where(fine.reshape(-1, *[1] * (values.ndim - 1)), values, 0)


def _joined(sums: dict[Part, Array], theta: Array) -> Array:
    """Sums in ranges as one vector, zero in between."""
    pieces, reached = [], 0
    for part, numbers in sorted(sums.items(), key=lambda item: item[0].start):
        pieces += [jnp.zeros(part.start - reached, theta.dtype), numbers]
        reached = part.stop
    return jnp.concatenate([*pieces, jnp.zeros(len(theta) - reached, theta.dtype)])
