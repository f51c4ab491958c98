"""What trials may choose of a method: its counts, and for all of them clip and step.

A setting is relative: passes over the clients, clips in units of a typical gradient, steps in units of
what they can gain. A method knows its grid, and turns a setting into its plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.plans.local_work import check_divides, divisors
from noiseworthy.plans.plan import Plan, Steering, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task

L = TypeVar("L")
Lever: TypeAlias = Literal["momentum", "weighting", "cohorts", "decay", "steering", "centring"]
"""What a race may vary beside counts, clip and step, where a method has it: a momentum of the server, uploads
weighted by their precision, rounds that ask some clients only, step sizes that fall or follow the uploads,
and records that are seen against their noised mean."""


MOST_GAIN = 0.9
"""Of steering in one round, however few there are."""
MOST_CLIENTS = 500
"""Clients of a trial; of larger federations so many stand for all, and a round asks at least one of them."""


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
        steering: sum over rounds of the gains with which noised uploads scale steps, where it has this.
    """

    passes: float
    work: float
    clip: float
    reach: float
    decay: float = 0.5
    momentum: float = 0.0
    averaging: float = 0.0
    weighting: float = 0.5
    steering: float = 4.0


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
class Free:
    """What a study leaves free of its method; None is free.

    Attributes:
        algorithm: name of the method.
        rounds: T, or iterations where clients take several steps per reply.
        work: E, p or tau.
        clients_per_round: b; free where the method has cohorts only.
        most: largest number of rounds or iterations.
        clip_norm: absolute.
        step_size: absolute.
        decay_rounds: of the step size.
        momentum: of the server.
        averaging: share of the last rounds.
        weighting: q, how far uploads are weighted by their precision.
        steering: gain with which noised uploads scale the steps.
        floor: of steering; never free.
        batch_size: records per local step, None for all; never free.
        own: keys that only this method has, as stated; never free.
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
    steering: float | None = None
    floor: float = 1.0
    batch_size: int | None = None
    own: dict[str, Any] = field(default_factory=dict)

    def step(self, setting: Setting, steps: int, kept: float, scale: GradientScale) -> StepSize:
        """Step sizes whose sum has the setting's reach, less what a momentum adds, m + ... + m^t to step t.

        Args:
            setting: what to choose where nothing is fixed.
            steps: of the whole training.
            kept: share of a typical gradient that the clip leaves.
            scale: typical gradients.
        """
        decay = self.decay_rounds or (setting.decay * steps if np.isfinite(setting.decay) else np.inf)
        if self.step_size is not None:
            return StepSize(self.step_size, decay)
        momentum, t = self.momentum_of(setting), np.arange(steps)
        shape = StepSize(1.0, decay).at(t) @ ((1 - momentum ** (t + 1)) / (1 - momentum))
        return StepSize(float(setting.reach / (shape * kept * scale.fall)), decay)

    def constant_step(self, setting: Setting, steps: int, kept: float, scale: GradientScale) -> StepSize:
        """The same for a method whose step sizes do not fall."""
        made = self.step(replace(setting, decay=np.inf), steps, kept, scale)
        return replace(made, decay_rounds=np.inf)

    def momentum_of(self, setting: Setting) -> float:
        """Of the server: as stated, else the setting's."""
        return setting.momentum if self.momentum is None else self.momentum

    def averaging_of(self, setting: Setting) -> float:
        """Share of the last rounds whose mean is delivered: as stated, else the setting's."""
        return setting.averaging if self.averaging is None else self.averaging

    def weighting_of(self, setting: Setting, made: Plan) -> float:
        """0 where all uploads are as precise as each other, or precision weighs them as records do."""
        if self.weighting is not None:
            return self.weighting
        noise = made.noise if made.sum_noise is None else made.weights / made.weighed(1.0).weights
        return setting.weighting if np.ptp(noise) > 1e-9 * noise.max() else 0.0

    def steering_of(self, setting: Setting, rounds: int) -> Steering | None:
        """None where steps are taken as planned; in few rounds the gain of each is larger.

        The gains 4 k (t/T) (1 - t/T) of T rounds sum to about 2kT/3.
        """
        planned = min(MOST_GAIN, float(f"{1.5 * setting.steering / rounds:.2g}"))
        gain = planned if self.steering is None else self.steering
        return Steering(gain, self.floor) if gain else None

    def clipped(self, problem: Problem, setting: Setting, unit: float) -> tuple[Problem, float]:
        """The problem with the setting's clip in a unit, and the share of a typical gradient that is kept."""
        clip = setting.clip * unit if self.clip_norm is None else self.clip_norm
        return problem.clipped_at(clip), min(1.0, clip / unit)

    def local_steps(self, setting: Setting) -> int:
        """E or tau of a setting; where T is stated, the nearest of its divisors.

        Raises:
            InvalidInput: a stated T that stated steps do not divide.
        """
        steps = max(1, round(setting.work))
        if self.rounds is None:
            return steps if self.work else min(steps, self.most)
        if self.work is not None:
            check_divides(self.rounds, steps)
        every = divisors(self.rounds)
        return int(every[np.abs(np.log(every / steps)).argmin()])

    def rounds_of(self, passes: float, clients: int, per_round: int, steps: int = 1) -> int:
        """T rounds of b clients, of so many steps each, in which each client replies about so many times.

        As many as k whole replies of every client allow: the noise of each pays for k = ceil(bT/N) anyway.
        """
        stated = self.rounds and self.rounds // steps
        replies = max(1, round(passes))
        return stated or max(1, min(replies * clients // per_round, self.most // steps))


@dataclass(frozen=True, kw_only=True)
class Keys:
    """Keys of a method's `[algorithm]` table that trials read.

    Attributes:
        rounds: of T, or of the iterations of all local steps; None where there is one upload.
        work: of E, tau or p; None where a reply is one gradient.
        most: of the largest number of rounds or iterations; None where the table has none.
        own: that only this method has and trials take as stated.
    """

    rounds: str | None
    work: str | None
    most: str | None
    own: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SearchSpace:
    """What is a method's own in planning by trial.

    Attributes:
        grid: what a race starts with.
        keys: of its table.
        levers: that a race may vary.
        plan: of a setting, from what is free, the problem (whose clip is ignored), the model and typical
            gradients. It raises InvalidInput or UnsoundClaim where resources, schedule or proof forbid it.
        decided: counts of a plan, by their keys in the table.
        any_width: whether plans ask nothing of the number of parameters, and uploads are sums of gradients of
            records with noise of its own for each: trials train models of unlike widths side by side then.
    """

    grid: Grid
    keys: Keys
    levers: frozenset[Lever]
    plan: Callable[[Free, Problem, Task, GradientScale, Setting], Plan]
    decided: Callable[[Plan], dict[str, Any]]
    any_width: bool


ONE_GRADIENT_GRID = Grid((1, 3, 10, 30, 100), (1,), (1.0, 0.3, 0.1), (3, 10, 30, 100, 300))
"""Of methods whose replies are one gradient."""
LOCAL_STEPS_GRID = Grid((1, 5, 25), (1, 3, 10), (1.0, 0.2), (1, 5, 25, 125))
"""Of methods that take several local steps before a reply."""


def rounds_and_clients(plan: Plan) -> dict[str, Any]:
    """Counts of a plan whose replies are one gradient."""
    return {"rounds": plan.rounds, "clients_per_round": plan.clients_per_round}


def local_work_of(plan: Plan, kind: type[L], called: str) -> L:
    """The local work of a plan of a method that has such.

    Raises:
        InvalidInput: a plan without any.
    """
    if not isinstance(plan.local, kind):
        raise InvalidInput(f"the plan of {plan.algorithm} has no {called}; plan it again")
    return plan.local
