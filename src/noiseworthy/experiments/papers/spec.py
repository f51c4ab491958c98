"""What a reproduction is made of: frozen descriptions going in, measured points and verdicts coming out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from noiseworthy.planning.plan import StepSize
from noiseworthy.privacy.mechanisms import Family

Role = Literal["paper", "fixed", "grid", "planned rounds", "planned"]
"""Whose setting it is: the paper's optimum, another setting it names, its grid, or this product's plan of
(T, b) at the paper's clip and step, and of everything."""
Word = Literal["agrees", "partly", "disagrees"]
Cell = tuple[int, int]


# Going in ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bench:
    """Data, clients and model of an experiment.

    Attributes:
        source: name of the data, as in a study file.
        model: name of the model.
        partition: how records are dealt out.
        labels_per_client: of label shards, else None.
        clients: number of clients N.
        miniature: train on `scale` of each client's records with the noise of all of them, because the
            model is too slow for full batches on a CPU.
        preferred: source to take instead where its files are there.
        public: data to plan by trial on, where their files are there; empty if nothing is planned.
        caveat: what a reader must know about the data.
    """

    source: str
    model: str
    partition: str
    labels_per_client: int | None = None
    clients: int = 10
    miniature: bool = False
    preferred: str | None = None
    public: tuple[str, ...] = ()
    caveat: str = ""


@dataclass(frozen=True)
class Series:
    """One setting under every budget: `cell(epsilon, fraction)` gives its (T, b), None has it planned."""

    label: str
    role: Role
    cell: Callable[[float, float], Cell] | None = None


@dataclass(frozen=True)
class Arm:
    """One mechanism with its budgets, its clip and step size as published, and the settings to train."""

    mechanism: Family
    epsilons: tuple[float, ...]
    delta: float
    clip_norm: float
    step: StepSize
    series: tuple[Series, ...]


class Judgement(NamedTuple):
    """A verdict with the measured numbers it rests on."""

    word: Word
    evidence: str


@dataclass(frozen=True)
class Claim:
    """Something that is said, how it is judged, and the reason to offer where we do not fully agree.

    Attributes:
        words: the claim.
        judge: a function of the measured points.
        reason: why we differ, printed unless the verdict is `agrees`.
        ours: whether this product makes the claim, not the paper.
    """

    words: str
    judge: Callable[[Sequence[Point]], Judgement]
    reason: str = ""
    ours: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure of a paper: what to train, what it claims, how to draw it, what else a reader must know."""

    title: str
    layout: Literal["curves", "clients", "epsilon", "data"]
    bench: Bench
    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]
    fractions: tuple[float, ...] = (1.0,)
    note: str = ""


# Coming out -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Point:
    """Trainings of one setting under one budget: curves of test loss and accuracy for each seed.

    `rounds` is 0 where the plan was not to train; curves then hold the untrained model.
    """

    mechanism: str
    epsilon: float
    fraction: float
    series: str
    role: Role
    rounds: int
    clients_per_round: int
    clip_norm: float
    step_size: float
    at: list[int]
    losses: list[list[float]]
    accuracies: list[list[float]]
    seconds: float

    @property
    def loss(self) -> float:
        """Mean final loss over seeds; infinite where a training diverged."""
        final = np.array(self.losses)[:, -1]
        return float(final.mean()) if np.all(np.isfinite(final)) else float("inf")

    @property
    def accuracy(self) -> float:
        """Mean final accuracy over seeds."""
        return float(np.mean(np.array(self.accuracies)[:, -1]))

    def std(self, score: Literal["loss", "accuracy"]) -> float:
        """Standard deviation over seeds of the final loss or accuracy."""
        curves = self.losses if score == "loss" else self.accuracies
        return float(np.std(np.array(curves)[:, -1], ddof=1)) if len(curves) > 1 else float("nan")


@dataclass(frozen=True)
class Verdict:
    """A judged claim."""

    claim: str
    word: Word
    evidence: str
    reason: str
    ours: bool


@dataclass(frozen=True)
class Table:
    """Numbers of the paper beside ours, as text."""

    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Reproduction:
    """A reproduced item: what was run, what came out, and what it says of the paper."""

    paper: str
    item: str
    title: str
    layout: str
    data: str
    scale: float
    seeds: int
    verdicts: list[Verdict]
    points: list[Point]
    tables: list[Table]
    notes: list[str]

    @property
    def seconds(self) -> float:
        """Time spent training and planning, wherever it was spent first."""
        return sum(point.seconds for point in self.points)
