"""What every theory asks of the constants that it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.plans.problem import Constant


def stated_values(constants: Mapping[str, Constant], required: Sequence[str]) -> dict[str, float]:
    """The values of all constants, none of the required ones missing, and a loss no more convex than smooth.

    Raises:
        InvalidInput: a constant that is missing; a smoothness or strong convexity out of range.
    """
    if missing := [name for name in required if name not in constants]:
        raise InvalidInput(
            f"the bound needs the constants {', '.join(missing)}; state them under [constants]"
        )
    value = {name: float(constant.value) for name, constant in constants.items()}
    smoothness = check.positive("smoothness", value["smoothness"]).item()
    mu = check.positive("strong_convexity", value["strong_convexity"], remedy="add a ridge term").item()
    if mu > smoothness:
        raise InvalidInput(
            f"strong_convexity must be at most smoothness = {smoothness:g}, got {mu:g}; no function is more "
            "convex than smooth"
        )
    return value
