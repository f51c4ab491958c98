"""A plan as plain values of JSON that read back to an equal plan.

Dataclasses become objects whose `kind` names their class, arrays carry their dtype, and numbers keep their
last bit, because JSON writes a float by the shortest digits that tell it from all others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cache
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import PlanError
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.plans.local_work import Coins, LocalSteps, NoisySteps
from noiseworthy.plans.moments import SecondMoments
from noiseworthy.plans.plan import Plan, Prediction, Steering, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.resources import Resources
from noiseworthy.plans.stages import BoughtRanges, Pilot
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import law_of, names
from noiseworthy.privacy.releases import LEFT_OUT_IF_DEFAULT, Release
from noiseworthy.privacy.sensitivity import Sensitivity
from noiseworthy.privacy.trust import Sharing, Trust
from noiseworthy.studies.plan_text import canonical

_KIND, _ARRAY, _FLOAT = "kind", "array", "float"
_CLASSES: tuple[type, ...] = (
    Plan, Problem, Constant, PrivacyBudget, Resources, Release, Sensitivity, StepSize, Steering,
    Prediction, LocalSteps, NoisySteps, Coins, Pilot, BoughtRanges, SecondMoments, Trust, Sharing,
)  # fmt: skip
CLASSES = {one.__name__: one for one in _CLASSES}
"""What any plan file may hold, by the name it has there; see `class_of` for the rest."""
_DTYPES = ("int64", "int32", "float64", "float32", "bool")
_SCALARS = (bool, int, float, str)
_NOT_FINITE = ("inf", "-inf", "nan")
T = TypeVar("T")


def class_of(kind: str) -> type | None:
    """What a kind in a plan file names: a part of all plans, noise of a mechanism, or a stage of a method.

    Example:
        >>> class_of("Gaussian"), class_of("FirstStage"), class_of("Path")
        (<class '...Gaussian'>, <class '...FirstStage'>, None)
    """
    if kind in CLASSES:
        return CLASSES[kind]
    noises = (type(law_of(name).noise(np.ones(1))) for name in names())
    stages = (stage for name in METHODS for stage in method(name).stages)
    return next((one for one in chain(noises, stages) if one.__name__ == kind), None)


def encoded(value: Any) -> Any:
    """A plan, or a part of one, as plain values of JSON.

    Args:
        value: dataclasses that `class_of` knows, arrays, numbers, words, and containers of them.

    Raises:
        PlanError: a value of another class.

    Example:
        >>> encoded(StepSize(0.1, float("inf")))
        {'kind': 'StepSize', 'initial': 0.1, 'decay_rounds': {'kind': 'float', 'value': 'inf'}}
        >>> encoded(np.array([1, 2]))
        {'kind': 'array', 'dtype': 'int64', 'values': [1, 2]}
    """
    if dataclasses.is_dataclass(value) and class_of(type(value).__name__) is type(value):
        fields = {one.name: encoded(getattr(value, one.name)) for one in dataclasses.fields(value)}
        absent = {name for name, usual in _optional(type(value)).items() if getattr(value, name) == usual}
        return {_KIND: type(value).__name__, **{k: v for k, v in fields.items() if k not in absent}}
    if isinstance(value, np.ndarray) and value.ndim and value.dtype.name in _DTYPES:
        return {_KIND: _ARRAY, "dtype": value.dtype.name, "values": _listed(value)}
    if isinstance(value, np.generic | np.ndarray) and not np.ndim(value):
        return encoded(value.item())
    if isinstance(value, dict) and _KIND not in value and all(isinstance(key, str) for key in value):
        return {key: encoded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(part) for part in value]
    if isinstance(value, float) and not np.isfinite(value):
        return {_KIND: _FLOAT, "value": str(value)}
    if value is None or isinstance(value, _SCALARS):
        return value
    raise PlanError(f"a plan file cannot hold {type(value).__name__}, got {value!r:.60}")


def decoded(content: Any, kind: type[T], where: str = "plan") -> T:
    """What `encoded` was given.

    Args:
        content: plain values.
        kind: class that they must be of.
        where: they lie, for complaints.

    Raises:
        PlanError: values of other types than the fields of the class, or that the class refuses.

    Example:
        >>> decoded(encoded(StepSize(0.1)), StepSize)
        StepSize(initial=0.1, decay_rounds=50.0)
        >>> decoded({"kind": "StepSize", "initial": "0.1", "decay_rounds": 50.0}, StepSize, "step")
        Traceback (most recent call last):
        ...
        noiseworthy.errors.PlanError: step.initial cannot be '0.1' in a plan file
    """
    return _read(content, kind, where)


def same(one: Any, other: Any) -> bool:
    """Whether two plans, or parts of plans, agree to the last bit."""
    return canonical(encoded(one)) == canonical(encoded(other))


# Writing ------------------------------------------------------------------------------------------------


def _listed(values: NDArray[Any]) -> list[Any]:
    """Nested lists of plain numbers, those that are not finite as words."""
    if values.ndim > 1:
        return [_listed(row) for row in values]
    return [number if np.isfinite(number) else str(number) for number in values.tolist()]


# Reading ------------------------------------------------------------------------------------------------

_NO = object()
"""What content comes to under a type that it is not of."""


def _read(content: Any, hint: Any, where: str) -> Any:
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for option in options:
        if (found := _as(content, option, where)) is not _NO:
            return found
    shown = content[_KIND] if isinstance(content, dict) and _KIND in content else content
    raise PlanError(f"{where} cannot be {shown!r:.60} in a plan file")


def _as(content: Any, option: Any, where: str) -> Any:
    """Content under one type, `_NO` if it is not of it."""
    origin = get_origin(option)
    if origin is get_origin(NDArray[Any]):  # an alias of np.ndarray from NumPy 2.5 on
        return _array(content, option, where)
    if origin is Literal:
        return content if content in get_args(option) else _NO
    if origin is tuple and isinstance(content, list):
        return _tuple(content, get_args(option), where)
    if origin is dict and isinstance(content, dict):
        of = get_args(option)[1]
        return {key: _read(part, of, f"{where}.{key}") for key, part in content.items()}
    if option is Any:
        return _plain(content, where)
    if option in (None, NoneType, *_SCALARS):
        return _scalar(content, option)
    return _instance(content, option, where)


def _scalar(content: Any, option: Any) -> Any:
    """Numbers stay whole where they were written whole, and a truth is no number."""
    if content is None or isinstance(content, bool):
        return content if option in ((None, NoneType) if content is None else (bool,)) else _NO
    if option is float and isinstance(content, dict) and content.get(_KIND) == _FLOAT:
        return float(content["value"]) if content.get("value") in _NOT_FINITE else _NO
    allowed = (int, float) if option is float else option if option in (int, str) else ()
    huge = isinstance(content, int) and abs(content) >= 2**63  # which no array holds
    return content if isinstance(content, allowed) and not huge else _NO


def _plain(content: Any, where: str) -> Any:
    """Content whose types nobody stated."""
    if isinstance(content, list):
        return [_plain(part, where) for part in content]
    if not isinstance(content, dict):
        return content
    if (kind := content.get(_KIND)) is not None:
        plain = {_ARRAY: NDArray[Any], _FLOAT: float}
        return _read(content, plain.get(str(kind)) or class_of(str(kind)) or NoneType, where)
    return {key: _plain(part, f"{where}.{key}") for key, part in content.items()}


def _array(content: Any, option: Any, where: str) -> Any:
    if not isinstance(content, dict) or content.get(_KIND) != _ARRAY or content.get("dtype") not in _DTYPES:
        return _NO
    given = get_args(option)  # shape and dtype of the stated scalar, or from NumPy 2.5 on that scalar
    dtype, (stated,) = np.dtype(content["dtype"]), get_args(given[-1]) or given
    if stated is not Any and not np.issubdtype(dtype, stated) and dtype.kind != np.dtype(stated).kind:
        return _NO
    try:
        if not isinstance(content["values"], list):
            raise TypeError("its values are no list")
        exact = np.array(content["values"], np.float64 if dtype.kind == "f" else None)
        return exact.astype(dtype, casting="same_kind") if exact.size else exact.astype(dtype)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise PlanError(f"{where} is no array of {dtype.name} in a plan file: {error}") from None


def _tuple(content: list[Any], of: Sequence[Any], where: str) -> Any:
    if len(of) == 2 and of[1] is Ellipsis:
        of = [of[0]] * len(content)
    if len(of) != len(content):
        return _NO
    pairs = enumerate(zip(content, of, strict=True))
    return tuple(_read(part, one, f"{where}[{i}]") for i, (part, one) in pairs)


def _instance(content: Any, option: Any, where: str) -> Any:
    """A dataclass of the class that is asked for or one below it."""
    named = isinstance(content, dict) and isinstance(option, type)  # and no tuple of a class
    kind = class_of(str(content.get(_KIND))) if named else None
    if kind is None or not issubclass(kind, option):
        return _NO
    hints, fields = _hints(kind), {one.name for one in dataclasses.fields(kind)}
    fields -= _optional(kind).keys() - content.keys()
    if odd := sorted(fields ^ (content.keys() - {_KIND})):
        raise PlanError(f"{where}.{odd[0]} is {'missing' if odd[0] in fields else 'unknown'} in a plan file")
    try:
        return kind(**{name: _read(content[name], hints[name], f"{where}.{name}") for name in fields})
    except PlanError:
        raise
    except ValueError as error:
        raise PlanError(f"{where} does not hold together in a plan file: {error}") from None


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, localns=CLASSES)


@cache
def _optional(kind: type) -> dict[str, Any]:
    """Fields of a dataclass that plan files lack where they have their default, which is beside them."""
    return {one.name: one.default for one in dataclasses.fields(kind) if one.metadata == LEFT_OUT_IF_DEFAULT}
