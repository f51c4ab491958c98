"""The five experiments of Hou et al. (Table 1): data, model, step, and what a scale makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from noiseworthy.data.ixi import synthetic_volumes
from noiseworthy.data.records import Records
from noiseworthy.plans.plan import StepSize
from noiseworthy_papers.spec import Bench

LENGTHS = (6, 12, 24, 36, 60, 120, 240, 600, 1260, 2520, 5040)
"""Numbers of iterations with many divisors, for scales at which the published one is too long."""
SMALL = 0.1
"""Scale below which an experiment takes its small values."""
CLIPS, MEDICAL_CLIPS = (10.0, 50.0, 100.0), (10.0, 20.0, 50.0)
EPSILONS = (3.3, 2.0, 1.0, 0.5)


@dataclass(frozen=True)
class Small:
    """What replaces the published values below a scale of 0.1, so that a CPU gets through.

    Attributes:
        step: constant step size, raised because there are few iterations.
        batch_size: records per local step.
        least: iterations without which nothing is learnt.
        grid: how many divisors are tried as local steps.
        epsilons: budgets.
        clips: clips.
    """

    step: float
    batch_size: int
    least: int
    grid: int
    epsilons: tuple[float, ...] = (3.3, 0.5)
    clips: tuple[float, ...] = (10.0,)


@dataclass(frozen=True)
class Experiment:
    """A row of Table 1.

    Attributes:
        bench: data, clients, model and published batch size.
        iterations: T as published.
        step: constant step size as published.
        clips: as published.
        small: what replaces them below a scale of 0.1.
    """

    bench: Bench
    iterations: int
    step: float
    clips: tuple[float, ...]
    small: Small

    @property
    def clients(self) -> int:
        """N, all of them in every round."""
        return self.bench.clients or 0

    def at(self, scale: float) -> Setup:
        """The experiment at a scale.

        Example:
            >>> FEMNIST.at(1.0).iterations, FEMNIST.at(0.005).iterations, FEMNIST.at(0.005).local_steps
            (10000, 60, (1, 3, 6, 20, 60))
        """
        t = shortened(self.iterations, scale, self.small.least)
        if scale >= SMALL:
            steps = divisors(t, 10_000)
            return Setup(self._bench(t, None), t, self.step, steps, EPSILONS, self.clips)
        small = self.small
        bench = self._bench(t, small.batch_size)
        return Setup(bench, t, small.step, divisors(t, small.grid), small.epsilons, small.clips)

    def _bench(self, iterations: int, batch_size: int | None) -> Bench:
        horizon = 4 * iterations
        if batch_size is None:
            return replace(self.bench, horizon=horizon, test_records=None)
        said = (
            f"Scaled: {iterations} iterations for {self.iterations:,}, batches of {batch_size} for "
            f"{self.bench.batch_size}, step {self.small.step:g} for {self.step:g}."
        )
        caveat = f"{self.bench.caveat} {said}"
        return replace(self.bench, horizon=horizon, batch_size=batch_size, caveat=caveat)


@dataclass(frozen=True)
class Setup:
    """An experiment at a scale: bench, iterations T, step, local steps to try, budgets and clips."""

    bench: Bench
    iterations: int
    step_size: float
    local_steps: tuple[int, ...]
    epsilons: tuple[float, ...]
    clips: tuple[float, ...]

    @property
    def clients(self) -> int:
        """N, all of them in every round."""
        return self.bench.clients or 0

    @property
    def step(self) -> StepSize:
        """Constant."""
        return StepSize(self.step_size, float("inf"))


def shortened(iterations: int, scale: float, least: int) -> int:
    """The largest number with many divisors up to `scale` times the published one, and at least `least`.

    Example:
        >>> shortened(10_000, 1.0, 36), shortened(10_000, 0.07, 36), shortened(500, 0.003, 24)
        (10000, 600, 24)
    """
    if scale == 1:
        return iterations
    wanted = max(least, scale * iterations)
    return max(length for length in LENGTHS if length <= wanted)


def divisors(number: int, most: int) -> tuple[int, ...]:
    """Divisors, at most so many, spread evenly on a logarithmic scale from 1 to the number itself.

    Example:
        >>> divisors(36, 6), divisors(12, 99)
        ((1, 2, 4, 9, 18, 36), (1, 2, 3, 4, 6, 12))
    """
    every = np.array([d for d in range(1, number + 1) if number % d == 0])
    if len(every) <= most:
        return tuple(every.tolist())
    wanted = np.linspace(0, np.log(number), most)
    return _distinct([int(every[np.argmin(np.abs(np.log(every) - place))]) for place in wanted])


def _distinct(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(values))


def _volumes(data_dir: str | Path | None) -> Records:
    """Small synthetic volumes, dealt to three owners in turn."""
    records = synthetic_volumes(75, (8, 12, 8), seed=0)
    return replace(records, client_ids=np.arange(len(records)) % 3)


CIFAR10 = Experiment(
    Bench(
        source="cifar10",
        model="two-layer-cnn",
        partition="iid",
        clients=5,
        batch_size=64,
        test_records=500,
        caveat="CIFAR-10, the exact subset: 5 clients of 800 images (the paper: 10,000), dealt at random.",
    ),
    10_000,
    0.01,
    CLIPS,
    Small(step=0.1, batch_size=4, least=120, grid=3),
)
FEMNIST = Experiment(
    Bench(
        source="mnist-writers",
        model="two-layer-cnn",
        partition="natural",
        clients=6,
        batch_size=16,
        test_records=400,
        caveat="MNIST by writer stands in for FEMNIST: 539 writers joined into 6 clients of about 10,000 "
        "images (the paper: 6,129 ± 1,915) and 10 classes, hence 83,466 parameters.",
    ),
    10_000,
    0.01,
    CLIPS,
    Small(step=0.1, batch_size=4, least=60, grid=5, epsilons=(3.3, 1.0, 0.5), clips=CLIPS),
)
REDDIT = Experiment(
    Bench(
        source="shakespeare",
        model="lstm",
        partition="natural",
        clients=3,
        batch_size=64,
        test_records=400,
        caveat="Shakespeare by speaker stands in for Reddit: 141 speakers joined into 3 clients of 21,000 to "
        "32,000 windows (the paper: 28,750); the LSTM predicts the next of 96 characters, not of words.",
    ),
    10_000,
    0.05,
    CLIPS,
    Small(step=1.0, batch_size=8, least=120, grid=3),
)
IXI = Experiment(
    Bench(
        source="synthetic volumes",
        model="unet3d",
        partition="natural",
        clients=3,
        batch_size=1,
        preferred="ixi:ixi",
        made=_volumes,
        caveat="An `ixi` folder in the data folder is taken where it is there. Where not, synthetic volumes "
        "stand in for the brain scans: 60 and 15 to test, of 8×12×8 voxels (the paper: 453 and 114 of "
        "48×60×48), an ellipsoid in white noise. They are data about nobody and say nothing of brain scans.",
    ),
    400,
    0.01,
    MEDICAL_CLIPS,
    Small(step=0.3, batch_size=1, least=12, grid=3),
)
MESSIDOR = Experiment(
    Bench(
        source="pneumoniamnist",
        model="vgg11",
        partition="iid",
        clients=3,
        batch_size=4,
        caveat="PneumoniaMNIST stands in for Messidor: two classes of chest X-rays of 28×28, 3 clients of "
        "810 (the paper: 300 of 224×224), dealt at random, without augmentation.",
    ),
    500,
    0.01,
    MEDICAL_CLIPS,
    Small(step=0.1, batch_size=4, least=60, grid=5, clips=MEDICAL_CLIPS),
)
EXPERIMENTS = {
    "CIFAR-10": CIFAR10,
    "FEMNIST": FEMNIST,
    "Reddit": REDDIT,
    "Fed-IXI": IXI,
    "Messidor": MESSIDOR,
}
