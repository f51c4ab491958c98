"""What a plan by trial may choose: for each algorithm its counts, and for all of them clip and step.

A setting is relative: passes over the clients, clips in units of a typical gradient, steps in units of
what they can gain. A space knows what the user has fixed, and turns a setting into the plan of an algorithm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.conditions import largest_step, tightest_mode
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.methods.rivals.planner import RIVALS, RivalName
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.tasks.base import Task


@dataclass(frozen=True)
class Grid:
    """What a race starts with.

    Attributes:
        passes: replies of each client.
        work: local steps E or tau, or probabilities of communication p.
        clips: in units of the typical gradient.
        reaches: sums of step sizes, as the fall of a typical record's loss if no gradient changed.
    """

    passes: tuple[float, ...]
    work: tuple[float, ...]
    clips: tuple[float, ...]
    reaches: tuple[float, ...]


_ONE_STEP_GRID = Grid((1, 3, 10, 30, 100), (1,), (1.0, 0.3, 0.1), (1, 3, 10, 30, 100, 300))
_GRIDS = {
    "dp-fedavg": Grid((1, 5, 25), (1, 3, 10), (1.0, 0.2), (1, 5, 25, 125)),
    "dp-scaffnew": Grid((1, 5, 25), (1.0, 0.3, 0.1), (1.0, 0.2), (1, 5, 25, 125)),
    "dp-pasgd": Grid((1, 5, 25), (1, 3, 10), (1.0, 0.2), (1, 5, 25, 125)),
}
_ONE_STEP = ("fedsgd-dpc", "dpfl-bcs", *RIVALS)
HAVE_MOMENTUM = _ONE_STEP
"""Algorithms whose server can keep a momentum."""
HAVE_COHORTS = ("fedsgd-dpc",)
"""Algorithms whose rounds may ask some clients only."""
HAVE_WEIGHTING = ("fedsgd-dpc",)
"""Algorithms whose uploads can be weighted by their precision."""


@dataclass(frozen=True)
class Setting:
    """One point of a space.

    Attributes:
        passes: replies of each client on average, bT/N, or R where everybody replies.
        work: clients b per round as a share of all, local steps E or tau, or probability p.
        clip: clip over the typical norm of what is clipped.
        reach: sum of the step sizes, in units of `GradientScale`.
        decay: step size halved after this share of the steps; infinite keeps it constant.
        momentum: of the server.
        averaging: share of the last rounds whose mean is delivered.
        weighting: q, how far uploads are weighted by their precision.
    """

    passes: float
    work: float
    clip: float
    reach: float
    decay: float = 0.5
    momentum: float = 0.0
    averaging: float = 0.0
    weighting: float = 0.5


class GradientScale(NamedTuple):
    """Typical gradients at the public start, from public records.

    Attributes:
        clip: norm of a record's gradient, in the norm that is clipped.
        fall: by how much a step of size 1 would lower a typical record's loss if its gradient stayed the
            same; that of a regression in units of the untrained loss, most of which its labels' mean may be.
        mean: norm of a client's mean gradient, in the norm that is clipped.
    """

    clip: float
    fall: float
    mean: float


@dataclass(frozen=True)
class Space:
    """What one algorithm leaves free in one study; None is free.

    Attributes:
        algorithm: its name.
        rounds: T, or iterations where clients take several steps per reply.
        work: E, p or tau.
        clients_per_round: b; free for FedSGD-DPC only.
        most: largest number of rounds or iterations.
        clip_norm: absolute.
        step_size: absolute.
        decay_rounds: of the step size.
        momentum: of the server.
        averaging: share of the last rounds.
        weighting: q, how far uploads are weighted by their precision.
        batch_size: records per local step, None for all; never free.
        personal_step: step size of the clients' own transforms, of PrivateFL; never free.
        mode: clipping mode of DP-FedAvg.
        coin_seed: of DP-ScaffNew.
    """

    algorithm: str
    rounds: int | None = None
    work: float | None = None
    clients_per_round: int | None = None
    most: int = 500
    clip_norm: float | None = None
    step_size: float | None = None
    decay_rounds: float | None = None
    momentum: float | None = None
    averaging: float | None = None
    weighting: float | None = None
    batch_size: int | None = None
    personal_step: float | None = None
    mode: ClippingMode | None = None
    coin_seed: int = 0

    @property
    def one_step(self) -> bool:
        """Whether a reply is one gradient."""
        return self.algorithm in _ONE_STEP

    def first(self) -> list[Setting]:
        """The coarse grid that a race starts with."""
        grid = _GRIDS.get(self.algorithm, _ONE_STEP_GRID)
        return [
            Setting(passes, work, clip, reach)
            for passes in ((1.0,) if self.rounds else grid.passes)
            for work in (grid.work if self.work is None else (self.work,))
            for clip in (grid.clips if self.clip_norm is None else (1.0,))
            for reach in (grid.reaches if self.step_size is None else (1.0,))
        ]

    def plan(self, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
        """The plan of a setting.

        Args:
            problem: of the federation, real or in a trial; its clip is ignored.
            task: what is trained.
            scale: typical gradients, which clip and step are relative to.
            setting: what to choose where nothing is fixed.

        Raises:
            InvalidInput, UnsoundClaim: a setting that resources, schedule or proof do not allow.
        """
        return _PLANS[self.algorithm](self, problem, task, scale, setting)

    def _step(self, setting: Setting, steps: int, kept: float, scale: GradientScale) -> StepSize:
        """Step sizes whose sum has the setting's reach, less what a momentum adds."""
        decay = self.decay_rounds or (setting.decay * steps if np.isfinite(setting.decay) else np.inf)
        if self.step_size is not None:
            return StepSize(self.step_size, decay)
        shape = float(StepSize(1.0, decay).at(np.arange(steps)).sum())
        gain = kept * scale.fall / (1 - self._momentum(setting))
        return StepSize(setting.reach / (shape * gain), decay)

    def _momentum(self, setting: Setting) -> float:
        return setting.momentum if self.momentum is None else self.momentum

    def _averaging(self, setting: Setting) -> float:
        return setting.averaging if self.averaging is None else self.averaging

    def _weighting(self, setting: Setting, made: Plan) -> float:
        """0 where all uploads are as precise as each other, so that weights by precision are none."""
        if self.weighting is not None:
            return self.weighting
        return setting.weighting if np.ptp(made.noise) > 1e-9 * made.noise.max() else 0.0


def _clipped(space: Space, problem: Problem, setting: Setting, unit: float) -> tuple[Problem, float]:
    """The problem with the setting's clip, and the share of a typical gradient that is kept."""
    clip = setting.clip * unit if space.clip_norm is None else space.clip_norm
    return replace(problem, clip_norm=clip), min(1.0, clip / unit)


def _rounds(space: Space, passes: float, clients: int, per_round: int) -> int:
    """T rounds of b clients in which each replies so many times, within the space."""
    wanted = max(1, round(passes * clients / per_round))
    return space.rounds or min(wanted, space.most)


def _replies(space: Space, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    problem, kept = _clipped(space, problem, setting, scale.clip)
    n = problem.n_clients
    b = space.clients_per_round or max(1, round(setting.work * n))
    rounds = _rounds(space, setting.passes, n, b)
    step = space._step(setting, rounds, kept, scale)
    made = queries_replies.stated(problem, rounds, b, step)
    return replace(
        made,
        momentum=space._momentum(setting),
        averaging=space._averaging(setting),
        weighting=space._weighting(setting, made),
    )


def _selection(space: Space, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    problem, kept = _clipped(space, problem, setting, scale.clip)
    n = problem.n_clients
    b = space.clients_per_round or n
    rounds = _rounds(space, setting.passes, n, b)
    step = space._step(setting, rounds, kept, scale)
    made = participation.plan(problem, {}, rounds=rounds, clients_per_round=b, step=step)
    return replace(
        made,
        momentum=space._momentum(setting),
        averaging=space._averaging(setting),
    )


def _rival(space: Space, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    problem, kept = _clipped(space, problem, setting, scale.clip)
    name = cast(RivalName, space.algorithm)
    rivals.check_fits(name, problem)
    n = problem.n_clients
    b = space.clients_per_round or n
    rounds = _rounds(space, setting.passes, n, b)
    step = space._step(setting, rounds, kept, scale)
    made = rivals.plan(
        name, problem, rounds=rounds, clients_per_round=b, step=step,
        momentum=space._momentum(setting), personal_step=space.personal_step or rivals.PERSONAL_STEP,
    )  # fmt: skip
    return replace(made, averaging=space._averaging(setting))


def _local(space: Space, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    e, n = max(1, round(setting.work)), problem.n_clients
    mode = space.mode or _mode(task, problem, e, space.batch_size)
    b = space.clients_per_round or n
    rounds = _rounds(replace(space, rounds=space.rounds and space.rounds // e), setting.passes, n, b)
    problem = problem.clipped_as(mode)
    if mode == "D":
        step = space._step(setting, rounds * e, min(1.0, setting.clip), scale)
        unit = float(step.at(np.arange(rounds * e)).sum()) / rounds * scale.mean
        problem, _ = _clipped(space, problem, setting, unit)
    else:
        problem, kept = _clipped(space, problem, setting, scale.mean if mode == "C" else scale.clip)
        step = space._step(setting, rounds * e, kept, scale)
    if mode in ("B", "E") and space.step_size is None:
        step = replace(step, initial=min(step.initial, largest_step(task)))
    made = local_iterations.stated(problem, rounds * e, e, b, step, space.batch_size)
    return replace(made, averaging=space._averaging(setting))


def _mode(task: Task, problem: Problem, local_steps: int, batch_size: int | None) -> ClippingMode:
    if local_steps == 1 and batch_size is None:
        return "A"
    return tightest_mode(task, problem.family, batch_size)[0]


def _coins(space: Space, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    p = float(np.clip(setting.work, 0.001, 1.0))
    iterations = space.rounds or min(space.most, max(1, round(setting.passes / p)))
    step = space._step(replace(setting, decay=np.inf), iterations, min(1.0, setting.clip), scale)
    step = replace(step, decay_rounds=np.inf)
    problem, _ = _clipped(space, problem.clipped_as("D"), setting, step.initial / p * scale.mean)
    made = communication_probability.stated(problem, iterations, p, step, space.coin_seed, space.batch_size)
    if not made.train:
        raise InvalidInput(f"no coin falls in {iterations} iterations with p = {p:g}; take more of them")
    return replace(made, averaging=space._averaging(setting))


def _periods(space: Space, problem: Problem, task: Task, scale: GradientScale, setting: Setting) -> Plan:
    tau = max(1, round(setting.work))
    rounds = (
        space.rounds // tau if space.rounds else min(max(1, space.most // tau), max(1, round(setting.passes)))
    )
    problem, kept = _clipped(space, problem, setting, scale.clip)
    step = space._step(replace(setting, decay=np.inf), rounds * tau, kept, scale)
    step = replace(step, decay_rounds=np.inf)
    made = averaging_period.stated(problem, rounds * tau, tau, step, space.batch_size)
    return replace(made, averaging=space._averaging(setting))


_PLANS: dict[str, Callable[[Space, Problem, Task, GradientScale, Setting], Plan]] = {
    "fedsgd-dpc": _replies,
    "dp-fedavg": _local,
    "dp-scaffnew": _coins,
    "dp-pasgd": _periods,
    "dpfl-bcs": _selection,
    **dict.fromkeys(RIVALS, _rival),
}
