"""Figures 2, 4, 6 and Table IV of Fu et al.: a CNN on handwriting by writer, Gaussian noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noiseworthy.plans.plan import StepSize
from noiseworthy_papers.fu import claims as says
from noiseworthy_papers.fu.tables import TABLE_4, beside
from noiseworthy_papers.judge import Claim
from noiseworthy_papers.points import NO_NOISE
from noiseworthy_papers.series import fixed, with_printed
from noiseworthy_papers.settings import FedAvg
from noiseworthy_papers.spec import Arm, Bench, Federated, Figure, Layout, Series

REPEATS = 20
EPSILONS, DELTA = (10.0, 20.0, 30.0, NO_NOISE), 1e-4
CLIP, STEP = 3.0, StepSize(0.02, float("inf"))
FULL = Federated(3500, 350)
"""Clients of FEMNIST, and how many answer in a round."""
WRITERS, REPLIES, RECORDS = 539, 54, 110
"""Writers of MNIST, a tenth of them, and how many records one has on average."""
_FEW = 1000
_THINNED = 0.2
"""Below this scale figure 4 shows half of the paper's T."""


def writers(scale: float) -> Bench:
    """MNIST by writer; below scale 1 local steps take that share of a writer's records, drawn afresh."""
    batch = None if scale == 1 else max(4, round(scale * RECORDS))
    return Bench(
        source="mnist-writers",
        model="fu-cnn",
        partition="natural",
        clients=None,
        batch_size=batch,
        noise_of=FULL,
        test_records=None if batch is None else _FEW,
        preferred="leaf:femnist",
        caveat=f"MNIST by writer stands in for FEMNIST: {WRITERS} clients, and 10 classes, so that the CNN "
        "has 51,466 parameters where 62 classes give 214,590. The mean of the uploads has the noise of the "
        f"paper's federation, N = {FULL.clients:,} and b = {FULL.clients_per_round}. {_scaled(scale, batch)}"
        "The loss is not convex, so that the bound plans nothing here.",
    )


def replies(scale: float) -> int:
    """Writers per round, at least two."""
    return max(2, round(scale * REPLIES))


def _scaled(scale: float, batch: int | None) -> str:
    if batch is None:
        return ""
    return (
        f"Scaled: {replies(scale)} writers answer in a round for {REPLIES}, local steps take {batch} records "
        f"drawn with replacement for all of a writer's, and {_FEW:,} test records are scored. "
    )


def _arm(*series: Series) -> Arm:
    return Arm("gaussian", EPSILONS, DELTA, CLIP, STEP, series, clipping="C")


def _series(settings: Sequence[tuple[int, int]], scale: float) -> list[Series]:
    return [fixed(f"T={t}, E={e}", "grid", FedAvg(t, e, replies(scale))) for t, e in settings]


def _figure(
    title: str, along: str, arms: tuple[Arm, ...], claims: tuple[Claim, ...], scale: float, log: str = ""
) -> Figure:
    layout = Layout(along, ("accuracy",), log=log)
    return Figure(title, layout, writers(scale), arms, claims, repeats=REPEATS, evaluations=1)


def figure_2(scale: float) -> Figure:
    """Accuracy per iteration."""
    arm = _arm(*_series([(250, 5)], scale))
    title = "accuracy per iteration, T = 250, E = 5"
    return replace(_figure(title, "iteration", (arm,), says.ACCURACY_CURVES, scale), evaluations=25)


def figure_4(scale: float) -> Figure:
    """Accuracy against T; below scale 0.2 at half of the paper's T."""
    lengths = range(50, 501, 50) if scale >= _THINNED else range(50, 501, 100)
    arm = _arm(*_series([(t, 5) for t in lengths], scale))
    return _figure("accuracy against T, E = 5", "iterations", (arm,), says.ACCURACY_BY_ITERATIONS, scale)


def figure_6(scale: float) -> Figure:
    """Accuracy against E; the paper's own noise at three E."""
    arm = _arm(*_series([(240, e) for e in (1, 2, 3, 4, 6, 8, 12, 24)], scale))
    arms = with_printed(arm, _series([(240, e) for e in (1, 6, 24)], scale))
    return _figure("accuracy against E, T = 240", "local_steps", arms, says.ACCURACY_BY_STEPS, scale, "x")


def table_4(scale: float) -> Figure:
    """E* and the accuracy there."""
    tables = beside("E*", "local_steps", "accuracy", TABLE_4, DELTA)
    return replace(
        figure_6(scale), title="E* and the accuracy there", layout=None, claims=says.TABLE_4, tables=tables
    )
