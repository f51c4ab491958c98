"""`[algorithm]`: what the tables of all methods are heirs of, and keys that several of them have."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from noiseworthy._tables import Auto, Count, Positive, Share, Size, Table


class AlgorithmTable(Table):
    """The table `[algorithm]` of a study: one heir for every method, which names it."""

    name: Any
    """Of the method."""


Rounds = Annotated[Count, Field(description="Rounds of the training; left out, trials choose them.")]
Asked = Annotated[Count, Field(description="Clients that are asked in a round.")]
AskedOrPlanned = Annotated[Size | Auto, Field(description="Clients that are asked in a round.")]
BatchSize = Annotated[
    Count | Literal["full"], Field(description="Records in a local step; `full` takes all of them.")
]
StepSize = Annotated[Positive | Auto, Field(description="Step size; `auto` is planned.")]
Decay = Annotated[
    Positive | Literal["none"],
    Field(description="Rounds (of local steps: iterations) after which the step size is halved."),
]
ServerMomentum = Annotated[
    Share | Auto, Field(description="Part of the last noised mean that the server carries on.")
]
Steering = Annotated[
    Share | Auto, Field(description="Gain with which the server scales the steps by what noised uploads say.")
]
Averaging = Annotated[
    Share | Auto, Field(description="Part of the rounds, the last ones, whose models are averaged.")
]


class StatedRoundsTable(AlgorithmTable):
    """Keys of methods whose rounds and clients per round are stated, and whose steps may be planned."""

    rounds: Rounds = 200
    clients_per_round: Asked
    step_size: StepSize = "auto"
    step_decay: Decay = "none"
    momentum: ServerMomentum = "auto"
    averaging: Averaging = "auto"
