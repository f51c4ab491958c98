"""Planning by trial: choose clip and step on public data, fit the bound there, and plan with the fit.

Nothing private enters: proxies are public, and the noise follows from public sizes and budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.queries_replies import plan as plan_replies
from noiseworthy.planning.queries_replies import uploads
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.fitted_bound import TrialPoint, fit_replies_bound
from noiseworthy.trials.landscape import GradientScale, Setting, gradient_scale, trial_losses
from noiseworthy.trials.proxies import Proxy

PASSES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
CLIPS = (1.0, 1 / 3, 1 / 10, 1 / 30)
"""Clips to try, in units of the typical gradient norm of a public record at the start."""
GAINS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Step sizes to try, as the first-order fall of a typical record's loss in one round without noise."""
_FIRST_SEEDS, _FINALISTS = 2, 12
SPREAD_WARNING = 0.1


@dataclass(frozen=True)
class Choice:
    """What is fixed by the user; None is free to plan."""

    rounds: int | None
    clients_per_round: int | None
    max_rounds: int
    step_size: float | None
    decay_rounds: float
    clip_norm: float | None


@dataclass(frozen=True)
class TrialPlan:
    """A plan by trial with the evidence it rests on.

    Attributes:
        plan: the decision.
        points: trial losses at the chosen clip and step, in units of the study's loss.
        spread: lost gain of the choice on the proxy it suits least.
    """

    plan: Plan
    points: list[TrialPoint]
    spread: float


def plan_by_trial(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    seeds: int = 5,
    on_progress: Callable[[float], None] = lambda done: None,
) -> TrialPlan:
    """Plan rounds, clients, clip and step by simulated trainings on public data.

    First all free (clip, step) pairs race over the number of passes with two noise seeds; the best
    dozen run again with `seeds` fresh ones, and the pair with the least mean lost gain over the proxies
    wins. Then the bound is fitted to trials over (T, b) at that pair, and its integer optimum is the plan.

    Args:
        facts: public facts of the private federation.
        proxies: public stand-ins.
        choice: what the user has fixed.
        seeds: noise seeds per cell.
        on_progress: told the share of the work that is done.

    Returns:
        A `TrialPlan`, a function of public inputs alone.
    """
    setting, spread = _race(facts, proxies, choice, seeds, lambda done: on_progress(0.6 * done))
    problem = replace(facts.problem, clip_norm=setting.clip_norm)
    points = _landscape(facts, proxies, choice, setting, seeds, lambda done: on_progress(0.6 + 0.4 * done))
    untrained = float(np.log(facts.classes))
    bound, error = fit_replies_bound(points, untrained)
    names = ", ".join(proxy.name for proxy in proxies)
    fitted = f"fitted to trials on {names}"
    values = {"gamma": bound.gamma, "sampling": bound.sampling, "rest": bound.rest,
              "noise_weight": bound.noise_weight, "offset": bound.offset}  # fmt: skip
    plan = plan_replies(
        problem,
        bound,
        {name: Constant(value, fitted) for name, value in values.items()},
        rounds=choice.rounds,
        clients_per_round=choice.clients_per_round,
        max_rounds=choice.max_rounds,
        step=setting.step,
        notes=_notes(names, error, spread),
    )
    return TrialPlan(plan, [replace(p, loss=p.loss * untrained) for p in points], spread)


def _notes(names: str, error: float, spread: float) -> tuple[str, ...]:
    notes = [f"Planned by trial on public data ({names}); no private record was read. Fit error {error:.1%}."]
    if spread > SPREAD_WARNING:
        notes.append(
            f"Warning: the public data sets disagree; on one of them this choice loses {spread:.0%} of the "
            "attainable gain. Name public data closer to yours under [planning] public."
        )
    return tuple(notes)


# Clip and step ----------------------------------------------------------------------------------------


def _settings(choice: Choice, scale: GradientScale) -> list[Setting]:
    clips = [scale.clip * c for c in CLIPS] if choice.clip_norm is None else [choice.clip_norm]

    def steps(clip: float) -> list[float]:
        kept = min(1.0, clip / scale.clip)
        return (
            [gain / (kept * scale.l2**2) for gain in GAINS]
            if choice.step_size is None
            else [choice.step_size]
        )

    pairs = [(step, clip) for clip in clips for step in steps(clip)]
    return [Setting(StepSize(step, choice.decay_rounds), clip) for step, clip in pairs]


def _race(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    seeds: int,
    on_progress: Callable[[float], None],
) -> tuple[Setting, float]:
    """The setting with the least mean lost gain over the proxies, and its worst."""
    settings = _settings(choice, gradient_scale(proxies, facts.problem.norm))
    if len(settings) == 1:
        return settings[0], 0.0
    fresh = range(_FIRST_SEEDS)
    first = np.stack([_race_losses(facts, proxy, choice, settings, list(fresh)) for proxy in proxies])
    on_progress(0.5)
    gains = _lost_gain(first).mean(axis=0)
    cells = [np.unravel_index(i, gains.shape) for i in np.argsort(gains, axis=None)[:_FINALISTS]]
    kept = sorted({int(setting) for _, setting in cells})
    again = list(range(_FIRST_SEEDS, _FIRST_SEEDS + seeds))
    second = np.stack([_race_losses(facts, p, choice, [settings[i] for i in kept], again) for p in proxies])
    lost = _lost_gain(second)
    _, winner = np.unravel_index(np.argmin(lost.mean(axis=0)), lost.shape[1:])
    best_passes = int(np.argmin(lost.mean(axis=0)[:, winner]))
    return settings[kept[int(winner)]], float(lost[:, best_passes, winner].max())


def _race_losses(
    facts: PublicFacts, proxy: Proxy, choice: Choice, settings: Sequence[Setting], seeds: list[int]
) -> NDArray[np.float64]:
    """Mean losses over seeds, shape (rounds, settings); longer races stop once they only get worse."""
    cohort = _cohort(facts.problem, proxy, choice.clients_per_round or facts.problem.n_clients)
    grid = [choice.rounds] if choice.rounds else _round_grid(proxy, cohort, choice.max_rounds)
    losses = np.full((len(grid), len(settings)), np.inf)
    for i, rounds in enumerate(grid):
        losses[i] = trial_losses(facts, proxy, rounds, cohort, settings, seeds, grid[-1]).mean(axis=1)
        best = losses[: i + 1].min(axis=1)
        if i >= 2 and best[-1] > best[-2] > best[-3] and best[-1] > 1.1 * best.min():
            break
    return losses


def _lost_gain(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """(L - best) / (untrained - best) per proxy, losses in shares of the untrained one; capped at 2."""
    best = losses.min(axis=(1, 2), keepdims=True)
    return np.minimum((losses - best) / np.maximum(1 - best, 1e-9), 2.0)


# Rounds and clients -----------------------------------------------------------------------------------


def _landscape(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    setting: Setting,
    seeds: int,
    on_progress: Callable[[float], None],
) -> list[TrialPoint]:
    """Mean losses over proxies and seeds for a grid of (T, b), as points for the fit."""
    cohorts = _cohort_grid(facts.problem, proxies[0], choice)
    cells = [(b, t) for b in cohorts for t in _round_grid(proxies[0], b, choice.max_rounds, choice.rounds)]
    horizon = max(t for _, t in cells)
    problem = replace(facts.problem, clip_norm=setting.clip_norm)
    fresh = list(range(100, 100 + seeds))
    totals: dict[tuple[int, int], list[float]] = {cell: [] for cell in cells}
    for done, (proxy, (b, t)) in enumerate(product(proxies, cells)):
        totals[b, t].append(float(trial_losses(facts, proxy, t, b, [setting], fresh, horizon).mean()))
        on_progress((done + 1) / (len(proxies) * len(cells)))
    return [
        _point(problem, proxies[0].clients, t, b, float(np.mean(losses))) for (b, t), losses in totals.items()
    ]


def _point(problem: Problem, clients: int, rounds: int, cohort: int, loss: float) -> TrialPoint:
    """A trial cell in the private federation's terms: the proxy's cohort is the same share of all clients."""
    planned = np.array([int(uploads(rounds, cohort, clients))])
    share, n = cohort / clients, problem.n_clients
    b = share * n
    asked = (n - b) / (max(n - 1, 1) * b)
    return TrialPoint(rounds, asked, float(problem.weighted_noise(planned)[0]) / share, loss)


def _cohort_grid(problem: Problem, proxy: Proxy, choice: Choice) -> list[int]:
    if choice.clients_per_round is not None:
        return [_cohort(problem, proxy, choice.clients_per_round)]
    return sorted({1, max(1, round(np.sqrt(proxy.clients))), proxy.clients})


def _cohort(problem: Problem, proxy: Proxy, clients_per_round: int) -> int:
    """The same share of the proxy's clients, at least one."""
    return max(1, round(clients_per_round * proxy.clients / problem.n_clients))


def _round_grid(proxy: Proxy, cohort: int, most: int, also: int | None = None) -> list[int]:
    """Rounds that make whole passes over the clients, up to `most`, and fractions of the first pass."""
    passes = {-(-k * proxy.clients // cohort) for k in PASSES}
    begun = {max(1, proxy.clients // (2 * cohort)), max(1, proxy.clients // (5 * cohort))}
    grid = {t for t in passes | begun if t <= most} | {min(most, max(passes))}
    return sorted(grid | ({also} if also else set()))
