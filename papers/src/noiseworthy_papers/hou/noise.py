"""How much noise the budgets of Hou et al. need, beside what a client may send; nothing is trained."""

from __future__ import annotations

import numpy as np

from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.tasks import make_task
from noiseworthy_papers.hou.benches import EPSILONS, EXPERIMENTS, Experiment
from noiseworthy_papers.noise_shares import printed_share, spent_as_printed
from noiseworthy_papers.spec import Reproduction, Table

DELTA = 1e-5
QUIET = 1e-8
"""The constant v of quiet noise. The paper names none; with v = 1 nothing can be learnt."""
SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "CIFAR-10": ((32, 32, 3), 10),
    "FEMNIST": ((28, 28), 10),
    "Reddit": ((10,), 96),
    "Fed-IXI": ((48, 60, 48), 2),
    "Messidor": ((28, 28), 2),
}
"""Record shape and classes of our data in place of the paper's."""
_NOTE = (
    "A mean update has norm C at most. Each of R uploads needs √R times the noise of a single one, so that "
    "the noise that adds up over a training is R times the table's, while the updates add up to R C at most: "
    "the ratio is never better than the table's, whatever C is. To bring it to 1 for sound noise at ε = 3.3 "
    "takes more than six clients per parameter. It is why all trainings of figure 2 end at chance."
)


def noise_to_clip(dimension: int, clients: int, epsilon: float, constant: float | None = None) -> float:
    """||noise of the mean update|| / C when everybody uploads once: 2 s(epsilon, delta) sqrt(d/N).

    Args:
        dimension: number of parameters d.
        clients: N.
        epsilon: of the budget.
        constant: v for noise as printed, sqrt(v ln(1/delta) d/N)/epsilon; None for sound noise.

    Example:
        >>> round(noise_to_clip(94_666, 5, 3.3)), round(noise_to_clip(94_666, 5, 3.3, 1.0))
        (352, 141)

    Source: docs/theory/hou.md#algorithm, docs/theory/hou.md#sensitivity.
    """
    sound = 2 / gaussian_mu(epsilon, DELTA) * np.sqrt(dimension / clients)
    share = 1.0 if constant is None else printed_share("gaussian", epsilon, DELTA) * constant**0.5
    return float(share * sound)


def noise(scale: float) -> Reproduction:
    """The table of `noise_to_clip` for every experiment, and what noise as printed really spends."""
    rows = [_row(name, one, epsilon) for name, one in EXPERIMENTS.items() for epsilon in (3.3, 0.5)]
    header = ["experiment", "d", "N", "ε", "sound", "as printed (v = 1)", "quiet (v = 1e-8)"]
    spent = [[f"{epsilon:g}", *(_spent(epsilon, v) for v in (1.0, QUIET))] for epsilon in EPSILONS]
    return Reproduction(
        paper="hou",
        item="noise",
        title="Noise: what the paper's budgets need",
        data="no data",
        scale=scale,
        tables=[
            Table(
                header, rows, "Norm of the noise in the mean update over the clip C, with one upload in all"
            ),
            Table(["ε printed", "v = 1", "v = 1e-8"], spent, "The ε that noise as printed really spends"),
        ],
        notes=[_NOTE],
    )


def _row(name: str, experiment: Experiment, epsilon: float) -> list[str]:
    d, n = make_task(experiment.bench.model, *SHAPES[name]).dimension, experiment.clients
    ratios = [noise_to_clip(d, n, epsilon, v) for v in (None, 1.0, QUIET)]
    return [name, f"{d:,}", str(n), f"{epsilon:g}", *(f"{ratio:.3g}" for ratio in ratios)]


def _spent(epsilon: float, constant: float) -> str:
    return f"{spent_as_printed('gaussian', epsilon, DELTA, constant):.3g}"
