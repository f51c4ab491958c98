"""Planning by trial: choose clip and step on public data, fit the bound there, and plan with the fit.

Nothing private enters: proxies are public, and the noise follows from public sizes and budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from noiseworthy.planning.plan import Plan, StepSize
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.queries_replies import plan as plan_replies
from noiseworthy.planning.replies_bound import RepliesBound, uploads
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.fitted_bound import TrialPoint, fit_replies_bound
from noiseworthy.trials.landscape import GradientScale, Setting, gradient_scale, trial_losses
from noiseworthy.trials.proxies import Proxy

T = TypeVar("T")
PASSES = (1, 2, 5, 10, 20, 50, 100, 200, 500)
CLIPS = (1.0, 1 / 3, 1 / 10, 1 / 30)
"""Clips to try, in units of the typical gradient norm of a public record at the start."""
GAINS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Step sizes to try, as the first-order fall of a typical record's loss in one round without noise."""
_FIRST_SEEDS, _FINALISTS = 2, 6
_TIE = 0.01
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
        bound: the fitted bound.
        points: trial losses at the chosen clip and step, in units of the study's loss.
        spread: lost gain of the choice on the proxy it suits least; None if clip and step were given.
    """

    plan: Plan
    bound: RepliesBound
    points: list[TrialPoint]
    spread: float | None


def plan_by_trial(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    seeds: int = 5,
    on_progress: Callable[[float], None] = lambda done: None,
) -> TrialPlan:
    """Plan rounds, clients, clip and step by simulated trainings on public data.

    First all free (clip, step) pairs race over the number of passes with two noise seeds; the best six
    and their neighbours run again with `seeds` fresh ones, and the pair with the least mean lost gain
    over the proxies wins. Then the bound is fitted to trials over (T, b) at that pair, and its integer
    optimum is the plan, unless a trial cell did better. Rounds and clients whose uploads the resources do not
    pay for are neither tried nor chosen.

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
    trials = _landscape(facts, proxies, choice, setting, seeds, lambda done: on_progress(0.6 + 0.4 * done))
    untrained = float(np.log(facts.classes))
    bound, error = fit_replies_bound([trial.point for trial in trials], untrained)
    if min(trial.point.loss for trial in trials) >= 1:  # nothing was gained anywhere: the fit may not hope
        bound = replace(bound, offset=untrained)
    rounds, clients_per_round = _decide(facts, proxies, choice, setting, seeds, bound, trials)
    names = ", ".join(proxy.name for proxy in proxies)
    values = {"gamma": bound.gamma, "sampling": bound.sampling, "rest": bound.rest,
              "noise_weight": bound.noise_weight, "offset": bound.offset}  # fmt: skip
    plan = plan_replies(
        problem,
        bound,
        {name: Constant(value, f"fitted to trials on {names}") for name, value in values.items()},
        rounds=rounds,
        clients_per_round=clients_per_round,
        max_rounds=choice.max_rounds,
        step=setting.step,
        notes=_notes(names, error, spread),
    )
    return TrialPlan(
        plan, bound, [replace(trial.point, loss=trial.point.loss * untrained) for trial in trials], spread
    )


def _notes(names: str, error: float, spread: float | None) -> tuple[str, ...]:
    notes = [f"Planned by trial on public data ({names}); no private record was read. Fit error {error:.1%}."]
    if spread is not None and spread > SPREAD_WARNING:
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
) -> tuple[Setting, float | None]:
    """The setting with the least mean lost gain over the proxies, and its worst; None if nothing was free."""
    settings = _settings(choice, gradient_scale(proxies, facts.problem.norm))
    if len(settings) == 1:
        return settings[0], None
    first = _all_losses(facts, proxies, choice, settings, range(_FIRST_SEEDS))
    on_progress(0.5)
    finalists = _with_half_steps(_leaders(settings, _lost_gain(first).mean(axis=0)), choice)
    fresh = range(_FIRST_SEEDS, _FIRST_SEEDS + seeds)
    lost = _lost_gain(_all_losses(facts, proxies, choice, finalists, fresh))
    on_progress(1.0)
    passes, winner = np.unravel_index(np.argmin(lost.mean(axis=0)), lost.shape[1:])
    return finalists[int(winner)], float(lost[:, passes, winner].max())


def _leaders(settings: Sequence[Setting], lost: NDArray[np.float64]) -> list[Setting]:
    """The settings that own the best cells of (rounds, settings), `_FINALISTS` of them."""
    order = np.argsort(lost.min(axis=0), kind="stable")
    return [settings[i] for i in order[:_FINALISTS]]


def _with_half_steps(leaders: list[Setting], choice: Choice) -> list[Setting]:
    """Leaders and the steps half a grid unit below and above, unless the step is fixed."""
    if choice.step_size is not None:
        return leaders
    half = float(np.sqrt(GAINS[1] / GAINS[0]))
    return [
        Setting(StepSize(leader.step.initial * factor, leader.step.decay_rounds), leader.clip_norm)
        for leader in leaders
        for factor in (1 / half, 1.0, half)
    ]


def _all_losses(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    settings: Sequence[Setting],
    seeds: Sequence[int],
) -> NDArray[np.float64]:
    """Mean losses over seeds, shape (proxies, rounds, settings)."""
    return np.stack(
        _on_each(proxies, lambda proxy: _race_losses(facts, proxy, choice, settings, list(seeds)))
    )


def _on_each(proxies: Sequence[Proxy], work: Callable[[Proxy], T]) -> list[T]:
    """The proxies side by side in threads: most of a trial's time is compilation, which uses one core."""
    with ThreadPoolExecutor(max_workers=len(proxies)) as pool:
        return list(pool.map(work, proxies))


def _race_losses(
    facts: PublicFacts, proxy: Proxy, choice: Choice, settings: Sequence[Setting], seeds: list[int]
) -> NDArray[np.float64]:
    """Mean losses over seeds, shape (rounds, settings); longer races stop once they only get worse."""
    cohort = _cohort(facts.problem, proxy, choice.clients_per_round or facts.problem.n_clients)
    if choice.rounds:
        cohort, grid = _paid_cohort(facts.problem, proxy.clients, choice.rounds, cohort), [choice.rounds]
    else:
        grid = _round_grid(proxy, cohort, _paid_rounds(facts.problem, proxy, cohort, choice))
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


@dataclass(frozen=True)
class _Trial:
    """A cell of the landscape: T rounds with `cohort` of the proxy's clients."""

    rounds: int
    cohort: int
    point: TrialPoint


def _landscape(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    setting: Setting,
    seeds: int,
    on_progress: Callable[[float], None],
) -> list[_Trial]:
    """Mean losses over proxies and seeds for a grid of (T, b)."""
    cohorts = _cohort_grid(facts.problem, proxies[0], choice)
    cells = [(t, b) for b in cohorts for t in _cell_rounds(facts.problem, proxies[0], b, choice)]
    horizon = max(choice.max_rounds, *(t for t, _ in cells))
    trials = []
    for done, (t, b) in enumerate(cells):
        trials.append(_trial(facts, proxies, setting, seeds, t, b, horizon))
        on_progress((done + 1) / len(cells))
    return trials


def _trial(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    setting: Setting,
    seeds: int,
    rounds: int,
    cohort: int,
    horizon: int,
) -> _Trial:
    """One cell, its terms those of the private federation: the cohort is the same share of all clients."""
    fresh = list(range(100, 100 + seeds))
    losses = _on_each(
        proxies, lambda proxy: trial_losses(facts, proxy, rounds, cohort, [setting], fresh, horizon).mean()
    )
    problem = replace(facts.problem, clip_norm=setting.clip_norm)
    planned = np.array([int(uploads(rounds, cohort, proxies[0].clients))])
    share, n = cohort / proxies[0].clients, problem.n_clients
    asked = (n - share * n) / (max(n - 1, 1) * share * n)
    point = TrialPoint(
        rounds, asked, float(problem.weighted_noise(planned)[0]) / share, float(np.mean(losses))
    )
    return _Trial(rounds, cohort, point)


def _decide(
    facts: PublicFacts,
    proxies: Sequence[Proxy],
    choice: Choice,
    setting: Setting,
    seeds: int,
    bound: RepliesBound,
    trials: list[_Trial],
) -> tuple[int | None, int | None]:
    """The fitted optimum, unless a trial cell did better than a trial of that optimum.

    Among trial cells within `_TIE` of the best in gain the one with the fewest uploads is taken.
    """
    problem = replace(facts.problem, clip_norm=setting.clip_norm)
    given = (choice.rounds, choice.clients_per_round, choice.max_rounds)
    fitted = plan_replies(
        problem, bound, {}, rounds=given[0], clients_per_round=given[1], max_rounds=given[2]
    )
    best = min(trial.point.loss for trial in trials)
    if best >= 1:
        return choice.rounds, choice.clients_per_round
    allowed = [t for t in trials if choice.rounds in (None, t.rounds)]
    near = [t for t in allowed if t.point.loss - best <= _TIE * (1 - best)] or allowed
    cell = min(near, key=lambda t: (t.rounds * t.cohort, t.rounds))
    if fitted.train:
        cohort = _cohort(problem, proxies[0], fitted.clients_per_round)
        cohort = _paid_cohort(problem, proxies[0].clients, fitted.rounds, cohort)
        horizon = max(choice.max_rounds, *(t.rounds for t in trials))
        checked = _trial(facts, proxies, setting, seeds, fitted.rounds, cohort, horizon)
        if checked.point.loss <= cell.point.loss:
            return fitted.rounds, fitted.clients_per_round
    b = max(1, round(cell.cohort / proxies[0].clients * problem.n_clients))
    b = _paid_cohort(problem, problem.n_clients, cell.rounds, b)
    return cell.rounds, choice.clients_per_round or b


def _cohort_grid(problem: Problem, proxy: Proxy, choice: Choice) -> list[int]:
    if choice.clients_per_round is not None:
        return [_cohort(problem, proxy, choice.clients_per_round)]
    most = _paid_cohort(problem, proxy.clients, choice.rounds or 1, proxy.clients)
    return sorted({1, most})  # the bound is linear in (N-b)/((N-1) b), so its ends suffice


def _cell_rounds(problem: Problem, proxy: Proxy, cohort: int, choice: Choice) -> list[int]:
    """Rounds to try with a cohort: some that are paid for, and the fixed ones."""
    return _round_grid(proxy, cohort, _paid_rounds(problem, proxy, cohort, choice), choice.rounds)


def _paid_rounds(problem: Problem, proxy: Proxy, cohort: int, choice: Choice) -> int:
    """The most rounds, up to `max_rounds`, that are paid for by the proxy's clients and by the real ones."""
    limit, b = problem.most_uploads(), choice.clients_per_round
    paid = min(limit * proxy.clients / cohort, limit * problem.n_clients / b if b else np.inf)
    return int(min(choice.max_rounds, np.floor(paid)))


def _paid_cohort(problem: Problem, clients: int, rounds: int, most: int) -> int:
    """The largest cohort of so many clients, 1 to `most`, whose uploads in T rounds are paid for."""
    return int(max(1, min(most, np.floor(problem.most_uploads() * clients / rounds))))


def _cohort(problem: Problem, proxy: Proxy, clients_per_round: int) -> int:
    """The same share of the proxy's clients, at least one."""
    return max(1, round(clients_per_round * proxy.clients / problem.n_clients))


def _round_grid(proxy: Proxy, cohort: int, most: int, also: int | None = None) -> list[int]:
    """Rounds that make whole passes over the clients, up to `most`, and fractions of the first pass."""
    passes = {-(-k * proxy.clients // cohort) for k in PASSES}
    begun = {max(1, proxy.clients // (2 * cohort)), max(1, proxy.clients // (5 * cohort))}
    grid = {t for t in passes | begun if t <= most} | {min(most, max(passes))}
    return sorted(grid | ({also} if also else set()))
