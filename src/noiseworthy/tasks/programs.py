"""Traced programs: run one equation after the other, with others in the place of some."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import jit_p

Rule = Callable[..., list[Any] | None]
"""(equation, *values) -> what it gives, or None where the equation stays as it is."""


def traced(function: Callable[..., Any], *arguments: Any) -> ClosedJaxpr:
    """The program of a function for arguments of these shapes, without calls of compiled functions."""
    program = jax.make_jaxpr(function)(*arguments)
    return jax.make_jaxpr(lambda *values: run(program, values, {}))(*arguments)


def run(program: ClosedJaxpr, arguments: Sequence[Any], rules: Mapping[Any, Rule]) -> list[Any]:
    """The results of a program, in which equations of some primitives follow rules instead.

    Calls of compiled functions are entered. Loops, branches and functions with derivatives of their own are
    one equation each, and stay as they are.

    Args:
        program: from `jax.make_jaxpr`.
        arguments: its flat arguments.
        rules: by primitive.
    """
    values: dict[Var, Any] = dict(zip(program.jaxpr.constvars, program.consts, strict=True))
    values.update(zip(program.jaxpr.invars, arguments, strict=True))
    for equation in program.jaxpr.eqns:
        given = [read(values, atom) for atom in equation.invars]
        made = rules[equation.primitive](equation, *given) if equation.primitive in rules else None
        if made is None and equation.primitive is jit_p:
            made = run(equation.params["jaxpr"], given, rules)
        values.update(zip(equation.outvars, applied(equation, given) if made is None else made, strict=True))
    return [read(values, atom) for atom in program.jaxpr.outvars]


def applied(equation: JaxprEqn, given: Sequence[Any]) -> list[Any]:
    """What an equation gives for these values."""
    bound = equation.primitive.get_bind_params(equation.params)
    functions, params = bound if isinstance(bound, tuple) else ((), bound)
    with equation.ctx.manager:
        made = equation.primitive.bind(*functions, *given, **params)
    return made if equation.primitive.multiple_results else [made]


def read(values: Mapping[Var, Any], atom: Var | Literal) -> Any:
    """The value of a variable, or a literal's own."""
    return atom.val if isinstance(atom, Literal) else values[atom]


def array_of(atom: Var | Literal) -> jax.ShapeDtypeStruct:
    """Shape and type of what a variable or a literal stands for."""
    kind: Any = atom.aval
    return jax.ShapeDtypeStruct(kind.shape, kind.dtype)
