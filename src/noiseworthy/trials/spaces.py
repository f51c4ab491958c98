"""What a race may choose in one study: what the study leaves free, by its method's grid and plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from noiseworthy.methods.registry import method
from noiseworthy.methods.space import Free, GradientScale, Grid, SearchSpace, Setting
from noiseworthy.plans.plan import Plan, Steering
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task

_FEW_PASSES = 10
_GAINS = 4.0
"""Sum of the gains of steering in half of the first settings, which ends well where public data mislead."""
_CLOSING = 0.2
"""How far the last model follows the slopes of most rounds: 0.15 to 0.4 end alike."""


@dataclass(frozen=True)
class Space(Free):
    """What one method leaves free in one study; None is free."""

    @property
    def method(self) -> SearchSpace:
        """What is the method's own."""
        return method(self.algorithm).space

    @property
    def one_gradient(self) -> bool:
        """Whether a reply is one gradient."""
        return self.method.keys.work is None

    @property
    def grid(self) -> Grid:
        """Where a race starts if nothing is fixed."""
        return self.method.grid

    def first(self, steep: bool = False, stride: int = 1, most: float = np.inf) -> list[Setting]:
        """The settings that a race starts with.

        Args:
            steep: whether the noise grows with the square of the uploads. Then few are paid for, and one
                client in a round makes many small steps of them.
            stride: of the values along each axis that is free, every so many-th.
            most: passes at most.
        """
        grid, alone = self.grid, steep and "cohorts" in self.method.levers and self.clients_per_round is None
        return [
            Setting(passes, work, clip, reach, steering=gains)
            for gains in ((0.0, _GAINS) if self.steers else (0.0,))
            for passes in ((1.0,) if self.rounds else grid.passes[::stride])
            if passes <= most
            for work in (grid.work[::stride] if self.work is None else (self.work,))
            + ((0.0,) if alone and passes <= _FEW_PASSES else ())
            for clip in (grid.clips[::stride] if self.clip_norm is None else (1.0,))
            for reach in (grid.reaches[::stride] if self.step_size is None else (1.0,))
        ]

    @property
    def steers(self) -> bool:
        """Whether uploads may scale steps and model."""
        return "steering" in self.method.levers and self.steering is None

    def closed(self, plan: Plan) -> Plan:
        """The plan with its last model, unless a mean is delivered, scaled by what uploads said of it."""
        if not self.steers or plan.averaging:
            return plan
        said = plan.steering or Steering(0.0, self.floor)
        return replace(plan, steering=replace(said, closing=_CLOSING))

    def among(self, few: int, clients: int) -> Space:
        """The same where few stand for all clients, and as large a share of them for a stated cohort."""
        # as many of fewer would be asked more often each, for more noise than the federation's own
        b = self.clients_per_round
        return self if b is None else replace(self, clients_per_round=max(1, round(b * few / clients)))

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
        return self.method.plan(self, problem, task, scale, setting)
