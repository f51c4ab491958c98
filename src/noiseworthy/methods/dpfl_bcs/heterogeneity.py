"""How much each client differs from the rest, Gamma_n, from noised losses that clients released in stage 1.

Nothing here reads data: it is post-processing of values that the ledger has charged for
(docs/theory/ma.md#stages, docs/theory/ma.md#estimation).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput

Whole = NDArray[np.integer]
_LEAST_NOISE = 1e-4
"""Noise that exact reports are taken to have, as a part of their range; keeps the fit regular."""
_NO_BETTER = 1e-6
"""Gain in -2 log likelihood that says nothing; clients that never meet in a round leave rounding alone."""


@dataclass(frozen=True)
class ReportedLosses:
    """Noised losses that clients released in stage 1, one report for each client and round asked.

    Attributes:
        clients: who reported, in order of release, shape (m,).
        rounds: round t of each report, 0 to T0 - 1, shape (m,).
        before: noised F_n(w^t) at the model that was sent, shape (m,).
        after: noised F_n(w_n) at the client's own noised step, shape (m,).
        noise_std: standard deviation of the noise on each single loss of client n, shape (N,); of Laplace
            noise sqrt(2) times its scale. Infinite only for clients that did not report.
        cap: Theta, at which every record's loss was clipped; infinite if unknown.

    Raises:
        InvalidInput: no reports, lengths that differ, values that are not finite, a client beyond N, noise
            that is negative.

    Example:
        >>> told = [0, 2], [0, 0], [2.0, 2.4], [1.9, 2.2], [0.1, np.inf, 0.1]
        >>> len(ReportedLosses(*map(np.array, told)).clients)
        2
    """

    clients: Whole
    rounds: Whole
    before: Real
    after: Real
    noise_std: Real
    cap: float = np.inf

    def __post_init__(self):
        reports = len(check.counts("clients", self.clients, least=0))
        rounds = len(check.counts("rounds", self.rounds, least=0))
        lengths = (reports, rounds, np.size(self.before), np.size(self.after))
        if len(set(lengths)) > 1:
            raise InvalidInput(
                f"clients, rounds, before and after must have one entry per report, got lengths {lengths}"
            )
        if np.max(self.clients) >= len(self.noise_std):
            raise InvalidInput(
                f"clients must be below {len(self.noise_std)}, the length of noise_std, "
                f"got {np.max(self.clients)}; give the noise of every client"
            )
        if not (np.all(np.isfinite(self.before)) and np.all(np.isfinite(self.after))):
            raise InvalidInput("reported losses must be finite, got NaN or infinity; clip losses first")
        check.non_negative("noise_std of a client that reported", self.noise_std[self.clients])
        if not self.cap > 0:
            raise InvalidInput(f"cap must be above 0, got {self.cap}; records are clipped to it")


@dataclass(frozen=True)
class Heterogeneity:
    """What noised losses tell of Gamma_n.

    Attributes:
        value: Gamma_n for the planner, at least 0, shape (N,).
        raw: the same without shrinking, shape (N,); NaN for clients that never reported.
        shrinkage: weight of a client's own reports against the mean of all, in [0, 1], shape (N,).
        spread: standard deviation of Gamma_n between clients, as estimated; 0 where the reports differ by no
            more than their noise.
    """

    value: Real
    raw: Real
    shrinkage: Real
    spread: float


# The product's estimate -------------------------------------------------------------------------------


def estimated(reports: ReportedLosses, clients: int) -> Heterogeneity:
    """Gamma_n of every client: its loss at the common model, shrunk towards the mean by its noise.

        F^_n(w^t) = level_t + deviation_n + noise,    noise of known variance v_n
        Gamma_n   = max(0, last level + s_n deviation_n),    s_n = spread^2 / (spread^2 + v_n / reports of n)

    With min F_n = 0, its lower bound, Gamma_n is the loss of client n at the last model. The common part
    falls from round to round, so levels and deviations are fitted together, by generalised least squares in
    which deviations vary between clients by `spread`: s_n deviation_n is then the best linear prediction.
    `spread` is the restricted maximum likelihood estimate, 0 at the least; its equation compares second
    moments with their means, so that Laplace noise is as welcome as Gaussian. (Moments weighted by 1/v_n
    alone would listen to the few clients of least noise only.) Losses within [0, Theta] deviate by at most
    Theta / 2, and noise does not count beyond.

    `after` is not used: it is a loss at another model for each client, one step of noise away.

    Args:
        reports: of stage 1.
        clients: N.

    Returns:
        `Heterogeneity`; a client that never reported has the mean of all, with shrinkage 0.

    Raises:
        InvalidInput: another number of clients than the reports know the noise of.

    Guarantee: post-processing; costs no privacy beyond the reports.

    Example:
        >>> who, when = np.array([0, 1, 0, 1, 2]), np.array([0, 0, 1, 1, 1])
        >>> losses = np.array([2.0, 3.0, 1.0, 2.0, 1.5])  # a level that falls by 1, client 1 higher by 1
        >>> found = estimated(ReportedLosses(who, when, losses, losses, np.full(4, 0.01)), 4)
        >>> found.value.round(2), found.shrinkage.round(2)
        (array([1. , 2. , 1.5, 1.5]), array([1., 1., 1., 0.]))

    Source: docs/theory/ma.md#estimation; Henderson 1975 for the prediction, Patterson and Thompson 1971 for
        the spread.
    """
    if check.count("clients", clients) != len(reports.noise_std):
        raise InvalidInput(
            f"clients must be {len(reports.noise_std)}, the length of the reports' noise_std, got {clients}"
        )
    table = _tabulated(reports)
    spread = _spread(table, min(float(np.ptp(reports.before)), reports.cap / 2))
    fit, raw, shrinkage = _fit(table, spread), np.full(clients, np.nan), np.zeros(clients)
    level = min(table.centre + fit.levels[-1], reports.cap)
    raw[table.clients], shrinkage[table.clients] = level + fit.deviations, fit.shrinkage
    shrunk = level + shrinkage * np.nan_to_num(raw - level)
    return Heterogeneity(np.clip(shrunk, 0.0, reports.cap), raw, shrinkage, spread)


class _Table(NamedTuple):
    """Reports of those who reported, (S,), by round, (S, R); losses counted from their mean, `centre`."""

    clients: Whole
    variance: Real
    reports: Real
    sums: Real
    centre: float


class _Fit(NamedTuple):
    """Levels (R,), deviations (S,) and their weights (S,); misfit is -2 log restricted likelihood."""

    levels: Real
    deviations: Real
    shrinkage: Real
    misfit: float


def _tabulated(reports: ReportedLosses) -> _Table:
    """The sums that a fit needs."""
    clients, who = np.unique(reports.clients, return_inverse=True)
    rounds, when = np.unique(reports.rounds, return_inverse=True)
    number, total = np.zeros((2, len(clients), len(rounds)))
    centre, span = float(np.mean(reports.before)), float(np.ptp(reports.before)) or 1.0
    np.add.at(number, (who, when), 1.0)
    np.add.at(total, (who, when), reports.before - centre)
    noise = np.maximum(reports.noise_std[clients], _LEAST_NOISE * span)
    return _Table(clients, np.square(noise), number, total, centre)


def _fit(table: _Table, spread: float) -> _Fit:
    """Generalised least squares for the levels, with a variance spread^2 that a client's reports share."""
    each, total = table.reports.sum(axis=1), table.sums.sum(axis=1)
    ratio = each * spread**2 / table.variance
    shrinkage = ratio / (1 + ratio)
    # k reports of a client covary as v I + spread^2 1 1^T, whose inverse is (I - s_n 1 1^T/k)/v by Sherman
    # and Morrison: no matrix of all reports is formed
    weight, pull = 1 / table.variance, shrinkage / (table.variance * each)
    normal = np.diag(weight @ table.reports) - table.reports.T @ (pull[:, None] * table.reports)
    right = weight @ table.sums - (pull * total) @ table.reports
    levels = np.linalg.solve(normal, right)
    explained = right @ levels + np.sum(pull * total**2)
    # the second term makes the likelihood restricted: it makes up for the levels, whose fit to the same
    # reports takes away some of the spread
    misfit = np.sum(np.log1p(ratio)) + np.linalg.slogdet(normal)[1] - explained
    return _Fit(levels, (total - table.reports @ levels) / each, shrinkage, float(misfit))


def _spread(table: _Table, most: float) -> float:
    """The standard deviation between clients under which the reports are likeliest, of those up to `most`."""
    grid = most * np.append(0.0, np.geomspace(_LEAST_NOISE, 1, 13))
    misfits = [_fit(table, float(one)).misfit for one in grid]
    best = int(np.argmin(misfits))
    if misfits[0] - misfits[best] < _NO_BETTER:
        return 0.0
    ends = (grid[best - 1], grid[min(best + 1, len(grid) - 1)])
    from scipy.optimize import minimize_scalar  # here, because it is slow to load

    found = minimize_scalar(
        lambda one: _fit(table, one).misfit, bounds=ends, method="bounded", options={"xatol": 1e-4 * ends[1]}
    )
    return float(found.x)  # pyright: ignore[reportAttributeAccessIssue]


# As printed -------------------------------------------------------------------------------------------


def as_printed(reports: ReportedLosses, clients: int) -> Real:
    """Gamma_n as Ma et al. estimate it: the least change of a client's loss in one step of its own.

        Gamma_n = min over the rounds of n of |F^_n(w^t) - F^_n(w_n)|; the mean of these for the unseen

    For comparison only. One step does not reach the client's least loss, and the least of absolute noisy
    differences falls towards 0 the more often a client reports: what it measures is the number of reports and
    the noise (docs/theory/ma.md#estimated-heterogeneity).

    Args:
        reports: of stage 1.
        clients: N.

    Returns:
        shape (N,).

    Example:
        >>> told = [0, 0, 1], [0, 1, 1], [2.0, 1.5, 2.0], [1.5, 1.4, 2.3], [0.1, 0.1, 0.1]
        >>> as_printed(ReportedLosses(*map(np.array, told)), 3).round(2)
        array([0.1, 0.3, 0.2])

    Source: Ma et al., eq. (8).
    """
    least = np.full(clients, np.inf)
    np.minimum.at(least, reports.clients, np.abs(reports.before - reports.after))
    seen = np.isfinite(least)
    return np.where(seen, least, least[seen].mean())
