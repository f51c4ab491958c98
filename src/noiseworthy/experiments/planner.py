"""Plan a study: choose where the constants come from, then decide rounds, clients, clip and step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._keys import Purpose, named_key
from noiseworthy.config import Study
from noiseworthy.engines.simulation import Shards
from noiseworthy.errors import ConfigError
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning.estimation import analytic_constants, bought_constants, bought_noise, split_budget
from noiseworthy.planning.plan import Pilot, Plan, StepSize
from noiseworthy.planning.problem import ASSUMED, Constant, Problem
from noiseworthy.planning.queries_replies import plan as plan_replies
from noiseworthy.planning.replies_bound import RepliesBound, theory_bound
from noiseworthy.privacy.accountants import Release
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.tasks import LinearModel, Task
from noiseworthy.trials.fitted_bound import TrialPoint
from noiseworthy.trials.proxies import make_proxies, public_sources
from noiseworthy.trials.search import Choice, plan_by_trial

Progress = Callable[[float], None]


@dataclass(frozen=True)
class Decision:
    """A plan with what it rests on.

    Attributes:
        plan: the plan.
        bound: the bound that was minimised, for curves.
        trials: trial cells on public data, empty without trials.
        spread: lost gain on the proxy the choice suits least; None without trials.
    """

    plan: Plan
    bound: RepliesBound
    trials: tuple[TrialPoint, ...] = ()
    spread: float | None = None


def decide(prepared: Prepared, on_progress: Progress = lambda done: None) -> Decision:
    """Plan a study.

    Constants are, in this order: stated (`assumed`), `analytic`, `bought`, or fitted to trials on public
    data, which also choose clip and step where those are "auto".

    Raises:
        ConfigError: constants are missing and cannot be had from what the study gives.
    """
    study = prepared.study
    _check_stated(prepared)
    source = study.constants.source or ("assumed" if study.constants.assumed() else "fitted")
    if source == "fitted":
        return _by_trial(prepared, on_progress)
    problem = prepared.problem(_stated_clip(prepared, source))
    constants, problem, pilot = _constants(prepared, problem, source)
    bound = theory_bound(problem, constants)
    plan = plan_replies(
        problem,
        bound,
        constants,
        rounds=_given(study.algorithm.rounds),
        clients_per_round=_given(study.algorithm.clients_per_round),
        max_rounds=study.algorithm.max_rounds,
        step=_step(study, constants),
        notes=_clip_note(prepared.task, problem) + _pilot_note(constants, problem, pilot),
    )
    return Decision(replace(plan, pilot=pilot), bound)


def _check_stated(prepared: Prepared) -> None:
    """What the user fixed is checked before anything is planned, because trials take their time."""
    table, n = prepared.study.algorithm, len(prepared.sizes)
    check.count("max_rounds", table.max_rounds)
    if table.rounds != "auto":
        check.count("rounds", table.rounds, remedy="T = 0 is no training; leave rounds to the planner")
    if table.clients_per_round != "auto":
        remedy = f"the federation has {n} clients"
        check.count("clients_per_round", table.clients_per_round, most=n, remedy=remedy)
    clip = prepared.study.privacy.clip_norm
    prepared.problem(1.0 if clip == "auto" else clip)


def _by_trial(prepared: Prepared, on_progress: Progress) -> Decision:
    study = prepared.study
    if stated := study.constants.assumed():
        raise ConfigError(
            f'[constants] source = "fitted" has no use for {", ".join(stated)}; leave them out, or leave out '
            "source to plan by them"
        )
    if prepared.federation is None:
        raise ConfigError(
            "[constants] are missing: planning from sizes alone needs smoothness, strong_convexity, "
            "gradient_bound, initial_distance_sq and heterogeneity; or give data to plan by trial"
        )
    if study.privacy.mechanism == "none":
        raise ConfigError(
            "there is nothing to plan by trial without noise; state rounds, clip_norm and step_size"
        )
    facts = prepared.public_facts()
    public = study.planning.public
    sources = public_sources(facts) if public == "auto" else public
    table = study.algorithm
    choice = Choice(
        rounds=_given(table.rounds),
        clients_per_round=_given(table.clients_per_round),
        max_rounds=table.max_rounds,
        step_size=_given(table.step_size),
        decay_rounds=_decay(study),
        clip_norm=_given(study.privacy.clip_norm),
    )
    proxies = make_proxies(facts, sources, study.federation.data_dir)
    found = plan_by_trial(facts, proxies, choice, study.planning.seeds, on_progress)
    return Decision(found.plan, found.bound, tuple(found.points), found.spread)


def _constants(
    prepared: Prepared, problem: Problem, source: str
) -> tuple[dict[str, Constant], Problem, Pilot | None]:
    stated = {name: Constant(value, ASSUMED) for name, value in prepared.study.constants.assumed().items()}
    if source == "assumed":
        return stated, problem, None
    analytic = _analytic(prepared, problem) if prepared.task is not None else {}
    if source == "analytic":
        return analytic | stated, problem, None
    smooth = analytic | stated
    pilot, left = split_budget(problem, prepared.study.constants.share)
    gradients = _pilot_uploads(prepared, problem, pilot)
    bought = bought_constants(
        gradients, problem, pilot, smooth["smoothness"].value, smooth["strong_convexity"].value
    )
    return analytic | bought | stated, left, Pilot(pilot, problem.budget)


def _analytic(prepared: Prepared, problem: Problem) -> dict[str, Constant]:
    federation, task = prepared.trained()
    if not isinstance(task, LinearModel):
        raise ConfigError(
            "analytic constants exist for linear models only; plan by trial or state [constants]"
        )
    return analytic_constants(task.loss, task.record_norm, task.ridge, problem.clip_norm, federation.classes)


def _pilot_uploads(prepared: Prepared, problem: Problem, pilot: Release) -> NDArray[np.float64]:
    """One noised mean gradient per client at the start; charged by `split_budget`."""
    federation, task = prepared.trained()
    shards, key = Shards.load(federation, task), jax.random.key(prepared.study.federation.seed)
    theta = task.initial(named_key(key, Purpose.START))
    uploads, clip = [], jnp.float32(problem.clip_norm)
    for client, (size, noise) in enumerate(zip(problem.sizes, pilot.mechanism.size, strict=True)):
        total = task.clipped_gradient_sum(theta, shards.of(client), clip, problem.norm)
        drawn = named_key(key, Purpose.PILOT, 0, client)
        uploads.append(total / size + simulated_noise(drawn, problem.family, noise, task.dimension))
    return np.asarray(uploads, np.float64)


def _stated_clip(prepared: Prepared, source: str) -> float:
    clip = prepared.study.privacy.clip_norm
    if clip != "auto":
        return float(clip)
    task = prepared.task
    euclidean = prepared.study.privacy.mechanism != "laplace"
    if source != "assumed" and euclidean and isinstance(task, LinearModel) and task.record_norm is not None:
        return float(_analytic(prepared, prepared.problem(1e30))["gradient_bound"].value)
    raise ConfigError(
        '[privacy] clip_norm = "auto" needs planning by trial (leave [constants] out) or [task] feature_norm '
        "with analytic constants; or state a number"
    )


def _step(study: Study, constants: dict[str, Constant]) -> StepSize:
    """The stated step, or the schedule of the theory, (2/mu) / (t + 2L/mu)."""
    if study.algorithm.step_size != "auto":
        return StepSize(float(study.algorithm.step_size), _decay(study))
    smoothness, mu = constants["smoothness"].value, constants["strong_convexity"].value
    return StepSize(1 / smoothness, 2 * smoothness / mu)


def _decay(study: Study) -> float:
    decay = study.algorithm.step_decay
    return float("inf") if decay == "none" else float(decay)


def _clip_note(task: Task | None, problem: Problem) -> tuple[str, ...]:
    """Clipping below the gradient bound of a multiclass model leaves the theorem's assumptions."""
    if not isinstance(task, LinearModel) or task.record_norm is None or problem.norm != "l2":
        return ()
    if task.loss == "softmax" and problem.clip_norm < np.sqrt(2) * task.record_norm:
        return (
            "The clip is below the largest gradient sqrt(2) R: the bound holds for an altered objective.",
        )
    return ()


def _pilot_note(constants: dict[str, Constant], problem: Problem, pilot: Pilot | None) -> tuple[str, ...]:
    """A warning where the bought constants are hidden by the noise they were bought with."""
    if pilot is None or "gradient_bound" not in constants:
        return ()
    error = bought_noise(problem, pilot.release)
    if constants["gradient_bound"].value ** 2 >= 3 * error:
        return ()
    return (
        f"Warning: the bought gradients are hidden by their noise (error {np.sqrt(error):.3g} on G); "
        "raise [constants] share, or plan by trial on public data.",
    )


def _given(value):
    return None if value == "auto" else value
