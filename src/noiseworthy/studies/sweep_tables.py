"""The tables of a study file that say what to hold a plan against: other settings, budgets and rivals."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from noiseworthy._tables import Auto, Chance, Count, Listed, Positive, Seed, Table
from noiseworthy.privacy.mechanisms.fields import NoisyMechanism


def _differing(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise PydanticCustomError("repeated", "all different, for one that repeats trains the same again")
    return seeds


Seeds = Annotated[
    Listed[Seed], Field(min_length=1, json_schema_extra={"uniqueItems": True}), AfterValidator(_differing)
]


class CompareTable(Table):
    """`[compare]`: the grid of fixed settings; clip and step are the plan's unless given.

    Beside the grid stand usual settings with clips and steps of their own, which no key changes.

    FedSGD-DPC varies rounds and clients, DP-FedAvg iterations and local steps, DP-ScaffNew iterations and the
    probability of communication, DP-PASGD rounds and local steps, DPFL-BCS and its rivals clients and rounds
    of a training that asks all clients alike.
    """

    rounds: Annotated[Listed[Count], Field(min_length=1)] | Auto = "auto"
    """Values of the grid, where a reply is one gradient."""
    clients_per_round: Annotated[Listed[Count], Field(min_length=1)] | Auto = "auto"
    """Values of the grid."""
    iterations: Annotated[Listed[Count], Field(min_length=1)] | Auto = "auto"
    """Values of the grid, for methods of local steps."""
    local_steps: Annotated[Listed[Count], Field(min_length=1)] | Auto = "auto"
    """Values of the grid, for methods of local steps."""
    communication_probability: Annotated[Listed[Chance], Field(min_length=1)] | Auto = "auto"
    """Values of the grid, for `dp-scaffnew`."""
    clip_norm: Positive | None = None
    """Clip of all settings; left out, the plan's."""
    step_size: Positive | None = None
    """Step size of all settings; left out, the plan's."""
    seeds: Seeds = Field(default=[100, 101, 102])
    """One training of every setting each."""

    @property
    def wanted(self) -> dict[str, list[float] | None]:
        """Values of each axis, each once; None leaves them to the method."""
        stated = self.model_dump(exclude={"clip_norm", "step_size", "seeds"})
        return {axis: None if of == "auto" else [*dict.fromkeys(of)] for axis, of in stated.items()}


class TradeoffTable(Table):
    """`[tradeoff]`: privacy and resource budgets to plan and train for, every pair of them.

    A budget that the study states as one number is varied as that number; one that it states per client is
    varied as a whole, and the values here are factors of the clients' numbers. "auto" takes a quarter to four
    times the study's own epsilon, and a quarter to twice its own resources.
    """

    epsilon: Annotated[Listed[Positive], Field(min_length=1)] | Auto = "auto"
    """Values of epsilon to plan for, or factors of the clients' own."""
    budget: Annotated[Listed[Positive], Field(min_length=1)] | Auto = "auto"
    """Values of the resource budget, or factors of the clients' own."""
    seeds: Seeds = Field(default=[200, 201, 202])
    """One training of every pair each."""
    trust: bool = Field(default=False, exclude_if=lambda wanted: not wanted)
    """Whether each `[privacy] trust` is planned and trained for too, with the study's own resources."""


class RivalsTable(Table):
    """`[rivals]`: what DPFL-BCS and the algorithms that it is held against are trained under.

    One thing is varied at a time, all else being the study's own: the noise, the upper end of the range that
    epsilon is drawn from, and the concentration of the Dirichlet partition. "auto" takes the study's noise.
    """

    mechanisms: Annotated[list[NoisyMechanism], Field(min_length=1)] | Auto = "auto"
    """Kinds of noise to train under; `auto` takes the study's."""
    epsilon_max: Listed[Positive] = Field(default=[])
    """Upper ends of the range that epsilon is drawn from."""
    alpha: Listed[Positive] = Field(default=[])
    """Concentrations of the Dirichlet partition."""
    seeds: Seeds = Field(default=[0, 1, 2, 3, 4])
    """One training of everybody each."""
