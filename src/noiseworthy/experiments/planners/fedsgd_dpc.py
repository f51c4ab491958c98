"""Plan FedSGD-DPC for a study: where constants come from, then rounds, clients, clip and step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._keys import Purpose, named_key
from noiseworthy.config import FedSGDTable, Study
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import ConfigError
from noiseworthy.experiments.planners.decision import (
    NOTHING_TO_TRY,
    Decision,
    analytic,
    decay,
    given,
    stated_constants,
)
from noiseworthy.experiments.prepare import Prepared
from noiseworthy.planning.estimation import bought_constants, bought_noise, split_budget
from noiseworthy.planning.plan import Pilot, Plan, StepSize
from noiseworthy.planning.problem import Constant, Problem
from noiseworthy.planning.queries_replies import check_paid, curves
from noiseworthy.planning.queries_replies import plan as plan_replies
from noiseworthy.planning.queries_replies import stated as stated_replies
from noiseworthy.planning.replies_bound import theory_bound
from noiseworthy.privacy.accountants import Release
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.tasks import LinearModel, Task

_LONGEST_CURVE = 500


def decide(prepared: Prepared, table: FedSGDTable) -> Decision:
    """Plan FedSGD-DPC from stated, analytic or bought constants; where all is stated, take it as it is."""
    study = prepared.study
    check_stated(prepared, table)
    if all_stated(study, table) and study.constants.source is None and not stated_constants(study):
        return Decision(_as_stated(prepared, table), None)
    source = study.constants.source or "assumed"
    problem = prepared.problem(_stated_clip(prepared, source))
    constants, problem, pilot = _constants(prepared, problem, source)
    bound = theory_bound(problem, constants)
    plan = plan_replies(
        problem,
        bound,
        constants,
        rounds=given(table.rounds),
        clients_per_round=given(table.clients_per_round),
        max_rounds=table.max_rounds,
        step=_step(table, constants),
        notes=_clip_note(prepared.task, problem) + _pilot_note(constants, problem, pilot),
        pilot=pilot,
    )
    return Decision(plan, curves(plan.problem, bound, plan, max(plan.rounds, _LONGEST_CURVE)))


def all_stated(study: Study, table: FedSGDTable) -> bool:
    """Whether counts, clip and step size are stated; levers of the server are off unless they are stated."""
    counts = (table.rounds, table.clients_per_round, table.step_size, study.privacy.clip_norm)
    levers = [getattr(table, name) for name in ("momentum", "averaging", "weighting")
              if name in table.model_fields_set]  # fmt: skip
    return "auto" not in (*counts, *levers)


def _as_stated(prepared: Prepared, table: FedSGDTable) -> Plan:
    problem, step = prepared.problem(float(prepared.study.privacy.clip_norm)), float(table.step_size)
    steps = StepSize(step, decay(table.step_decay))
    return stated_replies(problem, int(table.rounds), int(table.clients_per_round), steps)


def check_stated(prepared: Prepared, table: FedSGDTable) -> None:
    """What the user fixed is checked before anything is planned, because trials take their time.

    Raises:
        InvalidInput: a count out of range, or more uploads than the resources pay for.
    """
    n = len(prepared.sizes)
    check.count("max_rounds", table.max_rounds)
    if table.rounds != "auto":
        check.count("rounds", table.rounds, remedy="T = 0 is no training; leave rounds to the planner")
    if table.clients_per_round != "auto":
        remedy = f"the federation has {n} clients"
        check.count("clients_per_round", table.clients_per_round, most=n, remedy=remedy)
    clip = prepared.study.privacy.clip_norm
    problem = prepared.problem(1.0 if clip == "auto" else clip)
    check_paid(problem, given(table.rounds), given(table.clients_per_round))


def _constants(
    prepared: Prepared, problem: Problem, source: str
) -> tuple[dict[str, Constant], Problem, Pilot | None]:
    stated = stated_constants(prepared.study)
    if source == "assumed":
        if not stated:
            raise ConfigError(_without_constants(prepared))
        return stated, problem, None
    smooth = (analytic(prepared, problem.clip_norm) if prepared.task is not None else {}) | stated
    if source == "analytic":
        return smooth, problem, None
    pilot, left = split_budget(problem, prepared.study.constants.share)
    gradients = _pilot_uploads(prepared, problem, pilot)
    bought = bought_constants(
        gradients, problem, pilot, smooth["smoothness"].value, smooth["strong_convexity"].value
    )
    return (
        smooth | bought | stated,
        left,
        Pilot(((pilot, np.ones(problem.n_clients, np.int64)),), problem.budget),
    )


def _without_constants(prepared: Prepared) -> str:
    if prepared.federation is not None:
        return NOTHING_TO_TRY
    return (
        "[constants] are missing: planning from sizes alone needs smoothness, strong_convexity, "
        "gradient_bound, initial_distance_sq and heterogeneity; or give data to plan by trial"
    )


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
    euclidean = law_of(prepared.study.privacy.mechanism).norm == "l2"
    if source != "assumed" and euclidean and isinstance(task, LinearModel) and task.record_norm is not None:
        return float(analytic(prepared, 1e30)["gradient_bound"].value)
    raise ConfigError(
        '[privacy] clip_norm = "auto" needs planning by trial (leave [constants] out) or [task] feature_norm '
        "with analytic constants; or state a number"
    )


def _step(table: FedSGDTable, constants: dict[str, Constant]) -> StepSize:
    """The stated step, or the schedule of the theory, (2/mu) / (t + 2L/mu)."""
    if table.step_size != "auto":
        return StepSize(float(table.step_size), decay(table.step_decay))
    smoothness, mu = constants["smoothness"].value, constants["strong_convexity"].value
    return StepSize(1 / smoothness, 2 * smoothness / mu)


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
    error = bought_noise(problem, pilot.parts[0][0])
    if constants["gradient_bound"].value ** 2 >= 3 * error:
        return ()
    return (
        f"Warning: the bought gradients are hidden by their noise (error {np.sqrt(error):.3g} on G); "
        "raise [constants] share, or plan by trial on public data.",
    )
