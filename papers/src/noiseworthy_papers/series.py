"""Series that figures are made of: fixed settings, and the same under a paper's own noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from noiseworthy_papers.points import NO_NOISE, Role
from noiseworthy_papers.settings import Setting
from noiseworthy_papers.spec import Arm, Series


def fixed(label: str, role: Role, setting: Setting | None) -> Series:
    """The same setting under every budget; None is not training."""
    return Series(label, role, lambda epsilon, fraction: setting)


def with_printed(arm: Arm, printed: Sequence[Series] | None = None) -> tuple[Arm, Arm]:
    """An arm, and its settings (or some of them) under the paper's own noise, which is not private.

    Without noise there is nothing to print, so that the second arm has finite budgets only.
    """
    chosen = arm.series if printed is None else printed
    series = tuple(replace(one, label=f"{one.label}, as printed", role="as printed") for one in chosen)
    finite = tuple(epsilon for epsilon in arm.epsilons if epsilon != NO_NOISE)
    return arm, replace(arm, epsilons=finite, series=series)
