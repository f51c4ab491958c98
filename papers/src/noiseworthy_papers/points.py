"""What was measured: trainings of a setting, or other numbers by seed, as claims are judged on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

import numpy as np

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.samples import Sample
from noiseworthy_papers.settings import named

Role = Literal["paper", "fixed", "grid", "planned rounds", "planned", "as printed"]
"""Whose setting it is: the paper's optimum, another setting it names, its grid, this product's plan at the
paper's clip and step, its plan of everything, or a setting under the paper's own noise: not private."""
Score = str
"""`loss`, `accuracy`, `error`, `rise` of the loss over its least, a quantity of a setting, or a statistic."""
NO_NOISE = float("inf")
"""The epsilon of a training without noise."""


class Measurement(Protocol):
    """What claims are judged on."""

    @property
    def series(self) -> str:
        """Label of the setting."""
        ...

    @property
    def role(self) -> Role:
        """Whose setting it is."""
        ...

    @property
    def mechanism(self) -> str:
        """Kind of noise; empty where none is compared."""
        ...

    @property
    def algorithm(self) -> str:
        """Its name."""
        ...

    @property
    def epsilon(self) -> float:
        """Budget."""
        ...

    @property
    def fraction(self) -> float:
        """Share of the records."""
        ...

    @property
    def budget(self) -> float:
        """Resource budget."""
        ...

    @property
    def alpha(self) -> float | None:
        """Of a Dirichlet partition."""
        ...

    def quantity(self, name: str) -> float:
        """Something to choose or order by."""
        ...

    def sample(self, score: Score) -> Sample:
        """A score over seeds."""
        ...

    def start(self, score: Score) -> Sample | None:
        """The same score without training, if it is known."""
        ...


class Recalled(NamedTuple):
    """Final scores of which only mean and deviation were kept; a deviation that was not is NaN."""

    seeds: int
    loss: float
    loss_std: float
    accuracy: float
    accuracy_std: float


@dataclass(frozen=True)
class Statistic:
    """Numbers by seed that are no final scores of a training, such as how good an estimate is.

    Attributes:
        series: what they are of.
        values: by name; all seeds, or mean, deviation and number of seeds where no more was kept.
        recalled: whether the values are these three.
    """

    series: str
    values: Mapping[str, list[float]]
    recalled: bool = False
    role: Role = "fixed"
    mechanism: str = ""
    algorithm: str = ""
    epsilon: float = 1.0
    fraction: float = 1.0
    budget: float = float("inf")
    alpha: float | None = None

    def quantity(self, name: str) -> float:
        """An attribute."""
        return getattr(self, name)

    def sample(self, score: Score) -> Sample:
        """The numbers of a name."""
        values = self.values[score]
        return Sample(values[0], values[1], int(values[2])) if self.recalled else Sample.of(values)

    def start(self, score: Score) -> Sample | None:
        """There is none."""
        return None


@dataclass(frozen=True)
class Point:
    """Trainings of one setting under one budget: curves of test loss and accuracy for each seed.

    Attributes:
        mechanism: kind of noise.
        epsilon: budget, or the largest where clients draw their own; infinite without noise.
        fraction: share of the records.
        series: label of the setting.
        role: whose setting it is.
        algorithm: its name.
        setting: its quantities; all are 0 where the plan was not to train, and curves then hold the
            untrained model.
        clip_norm: C.
        step_size: the first one.
        at: rounds that were scored.
        losses: in the unit of the bench, shape (seeds, rounds scored).
        accuracies: of the same shape; R^2 for regression.
        seconds: of training and planning.
        budget: resource budget of every client; infinite where only privacy is scarce.
        cost: what the training spends of it.
        alpha: of the Dirichlet partition, if there is one.
        recalled: final scores, where curves were not kept and are empty.
    """

    mechanism: Family
    epsilon: float
    fraction: float
    series: str
    role: Role
    algorithm: str
    setting: dict[str, float]
    clip_norm: float
    step_size: float
    at: list[int]
    losses: list[list[float]]
    accuracies: list[list[float]]
    seconds: float
    budget: float = float("inf")
    cost: float = 0.0
    alpha: float | None = None
    recalled: Recalled | None = None

    @property
    def rounds(self) -> int:
        """T, or T_g for local algorithms; 0 if nothing was trained."""
        return int(self.setting["rounds"])

    @property
    def name(self) -> str:
        """The setting in words."""
        return named(self.algorithm, self.setting)

    @property
    def noise(self) -> str:
        """Whether the noise keeps its promise, in words."""
        return "as printed (not private)" if self.role == "as printed" else "sound noise"

    def quantity(self, name: str) -> float:
        """Something to draw or judge along: of the setting, or of the point."""
        return self.setting[name] if name in self.setting else getattr(self, name)

    @property
    def noise_epsilon(self) -> float:
        """The budget times the share of the records, on which the noise of a mean depends."""
        return self.epsilon * self.fraction

    @property
    def loss(self) -> float:
        """Mean final loss over seeds; infinite where a training diverged."""
        mean = self.sample("loss").mean
        return mean if np.isfinite(mean) else float("inf")

    @property
    def accuracy(self) -> float:
        """Mean final accuracy over seeds."""
        return self.sample("accuracy").mean

    @property
    def local_steps(self) -> float:
        """Local steps per upload; 0 if nothing was trained."""
        return self.setting["local_steps"]

    @property
    def error(self) -> float:
        """1 - accuracy."""
        return 1 - self.accuracy

    def sample(self, score: Score) -> Sample:
        """A final score over seeds, the final loss over its least on the way (`rise`), or a quantity."""
        if score not in ("loss", "accuracy", "error", "rise"):
            return Sample.number(self.quantity(score))
        if self.recalled is not None:
            return self._recalled(score)
        if score == "rise":
            curves = self.curves("loss")
            return Sample.of(curves[:, -1] / curves[:, curves.mean(axis=0).argmin()])
        final = self.curves(score)[:, -1]
        return Sample.of(final) if self.rounds else Sample.number(final[0])

    def start(self, score: Score) -> Sample | None:
        """The score of the untrained model; None where it was not kept."""
        if self.recalled is not None or self.at[0] != 0:
            return None
        return Sample.of(self.curves(score)[:, 0])

    def _recalled(self, score: Score) -> Sample:
        kept = self.recalled
        if kept is None or score == "rise":
            return Sample(float("nan"), float("nan"), 0)
        if score == "loss":
            return Sample(kept.loss, kept.loss_std, kept.seeds, exact=not self.rounds)
        mean = kept.accuracy if score == "accuracy" else 1 - kept.accuracy
        return Sample(mean, kept.accuracy_std, kept.seeds, exact=not self.rounds)

    def curves(self, score: Score) -> np.ndarray:
        """A score while training, shape (seeds, rounds scored)."""
        if score == "loss":
            return np.array(self.losses)
        accuracies = np.array(self.accuracies)
        return 1 - accuracies if score == "error" else accuracies

    def std(self, score: Score) -> float:
        """Standard deviation over seeds of a final score."""
        return self.sample(score).std
