"""What a planner may know without asking anybody: the public facts of a federation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from noiseworthy.planning.problem import Problem
from noiseworthy.tasks.base import Task


@dataclass(frozen=True)
class PublicFacts:
    """Public facts that trials imitate; no private feature or label is among them.

    Attributes:
        problem: sizes, budgets and mechanism (its clip is a placeholder while the clip is planned).
        record_shape: shape of one record.
        classes: number of classes.
        make_task: the study's model for another record shape and number of classes.
        source: name of the private data, so that it is never its own proxy.
        partition: name of the partition that the clients are believed to follow.
        settings: its settings, e.g. `labels_per_client`.
    """

    problem: Problem
    record_shape: tuple[int, ...]
    classes: int
    make_task: Callable[[tuple[int, ...], int], Task]
    source: str
    partition: str
    settings: dict[str, Any] = field(default_factory=dict)
