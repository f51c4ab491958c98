"""L, mu and gamma of Ma et al.: by P2 from several starts, by P2', and as Table III prints them."""

from __future__ import annotations

from typing import Any

import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs.bound import Curvature
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses, as_printed
from noiseworthy.methods.dpfl_bcs.two_stages import stage_before
from noiseworthy.studies.two_stages import Estimation
from noiseworthy.tasks import LinearModel, Task
from noiseworthy_papers.ma.curvature import Course, PrintedStage, PrintedUnknowns, literal, regularised

STARTS = (0.1, 10.0, 1000.0)
"""gamma and L where P2 starts; mu at half of it, ||w^0 - w*||^2 at 1, sigma^2 at 0."""
LOG_SPREAD = 1.0
"""By how much P2' lets ln L and ln mu stray from their public values."""
_LOANS = Curvature(2.5, 0.47)
"""Both ends of the spectrum of the second moments of loans, as their preparation leaves it."""


def constants_of(stage: Estimation, public: Curvature) -> dict[str, Any]:
    """What P2 and P2' make of the losses of a stage 1, as plain values."""
    first = printed_stage(stage)
    fits = [literal(first, PrintedUnknowns(1.0, one, 0.0, one, one / 2)) for one in STARTS]
    fitted = regularised(_course(stage), public, LOG_SPREAD)
    return {
        "loss": first.loss,
        "rho_min": first.rho_min,
        "p2": [{**vars(fit.unknowns), "residual": fit.residual} for fit in fits],
        "regularised": vars(fitted.curvature) | {"gamma": fitted.curvature.gamma},
        "public": vars(public) | {"gamma": public.gamma},
    }


def public_curvature(task: Task) -> Curvature:
    """L and mu that are known without records: of pixels in [0, 1] and the ridge.

    Example:
        >>> public_curvature(LinearModel(784, 10, "softmax", ridge=0.01)).gamma
        313608.0
    """
    if isinstance(task, LinearModel) and task.loss == "softmax":
        return Curvature(task.features / 2 + task.ridge, task.ridge)
    return _LOANS


def printed_stage(stage: Estimation) -> PrintedStage:
    """All that eq. (10) knows of the first T0 - 1 rounds, with the noise that was added in them."""
    reports, plan = stage.reports, stage_before(stage.plan).plan
    clients, k = plan.problem.n_clients, plan.clients_per_round
    last = int(np.max(reports.rounds))
    ending = reports.rounds == last
    asked = np.bincount(reports.clients[~ending], minlength=clients)
    gamma = as_printed(reports, clients)
    return PrintedStage(
        loss=float(np.mean(reports.before[ending])),
        noise=float(asked @ _upload_variance(stage)),
        bias=float(asked @ gamma),
        mean_heterogeneity=float(np.mean(gamma)),
        rho_min=rho_min_printed(reports, clients, k),
        rounds=last,
        clients_per_round=k,
    )


def rho_min_printed(reports: ReportedLosses, clients: int, clients_per_round: int) -> float:
    """rho_min as Ma et al. estimate it: the mean loss by participation, over that of the last cohort.

        rho_min = sum_n C_n F_n / (K (T0 - 1) F),    F = (1/K) sum of F^_n(w^(T0-1)) over the last cohort

    C_n counts the reports of client n before the last round; F_n is F^_n(w^(T0-1)) for the last cohort and F
    for all others. For comparison only: as a constant it drops out of P1, and values above 1, which most
    printed ones are, contradict its definition (docs/theory/ma.md#selection-skew).

    Args:
        reports: of stage 1, of two rounds at least.
        clients: N.
        clients_per_round: K.

    Raises:
        InvalidInput: reports of one round only.

    Example:
        >>> reports = ReportedLosses(
        ...     np.array([0, 1]),
        ...     np.array([0, 1]),
        ...     np.array([2.0, 1.0]),
        ...     np.array([1.5, 0.8]),
        ...     np.full(2, 0.1),
        ... )
        >>> rho_min_printed(reports, 2, 1)  # client 0 before, the loss of client 1 for both
        1.0

    Source: Ma et al., eq. (9).
    """
    last = int(np.max(reports.rounds))
    if last == 0:
        raise InvalidInput("rho_min compares the last cohort with earlier ones, got reports of one round")
    ending = reports.rounds == last
    mean = reports.before[ending].sum() / clients_per_round
    loss = np.full(clients, mean)
    loss[reports.clients[ending]] = reports.before[ending]
    before = np.bincount(reports.clients[~ending], minlength=clients)
    return float(before @ loss / (clients_per_round * last * mean))


def _course(stage: Estimation) -> Course:
    return Course.of(stage.reports, _upload_variance(stage), stage.found.value)


def _upload_variance(stage: Estimation) -> np.ndarray:
    """E||w_n||^2 of each upload of stage 1, shape (N,)."""
    first = stage_before(stage.plan)
    gradients, _ = first.parts[0]
    return first.plan.problem.dimension * gradients.mechanism.variance
