"""The mean of the numbers that a regression predicts: clients tell it with noise, and a plan starts at it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.means import LabelMean
from noiseworthy.studies.centring import answers, may_tell
from noiseworthy.studies.models import task_for
from noiseworthy.studies.prepare import Prepared, trials_wanted
from noiseworthy.studies.public_sizes import closer, stated_scale
from noiseworthy.tasks.linear import LinearModel

_SIZES = 4.0
"""Labels are kept within so many times their root mean square, where that is known."""
_TAG = 0x3EA3
"""What tells the draws of a study apart."""


def with_label_mean(prepared: Prepared) -> Prepared:
    """A study whose clients tell the mean of their labels, where it has such and noise leaves it telling.

    Drawn by its seed in simulation; owners at the end of a network are still to be asked.
    """
    how = label_mean_of(prepared)
    if how is None or not how.telling:
        return prepared
    before = prepared.ranges or BoughtRanges((), prepared.problem(1.0).budget, {})
    parts = (*before.parts, (how.release, np.ones(len(prepared.sizes), np.int64)))
    asked = replace(before, parts=parts, label_noise=how.deviation)
    if prepared.at_owners:
        return replace(prepared, ranges=asked)
    said = answers(prepared, how.release, lambda _, labels: how.told(labels), _TAG)
    told = replace(asked, label_mean=how.combined(said))
    return replace(prepared, ranges=told, task=task_for(prepared.study, prepared.trained()[0], told))


def label_mean_of(prepared: Prepared) -> LabelMean | None:
    """How the clients of a study would tell it; None where it has no such labels, or cannot start at them."""
    if not _may_start(prepared) or (ends := _ends(prepared)) is None:
        return None
    problem = prepared.problem(1.0)
    budget = problem.budget if prepared.ranges is None else prepared.ranges.budget
    return LabelMean.of(prepared.sizes, budget, problem.family, *ends)


def said_of_label_mean(prepared: Prepared) -> tuple[str, ...]:
    """What a plan says of the mean that its clients tell; nothing where they tell none."""
    bought, how = prepared.ranges, label_mean_of(prepared)
    if bought is None or not bought.label_noise or how is None:
        return ()
    known = "it" if bought.label_mean is None else f"{bought.label_mean:.4g}"
    return (
        f"Every client tells the mean of the numbers to predict with noise before training, for "
        f"{how.share:.0%} of its budget: the intercept starts at {known}, give or take {how.deviation:.2g}.",
    )


def _may_start(prepared: Prepared) -> bool:
    """Whether it is planned by trial, with a linear model of one number that has an intercept."""
    federation, task, bought = prepared.federation, prepared.task, prepared.ranges
    if federation is None or federation.classes is not None or federation.label_shape:
        return False
    starts = trials_wanted(prepared) and isinstance(task, LinearModel) and task.bias > 0
    return starts and may_tell(prepared) and not (bought and (bought.found or bought.mean))


def _ends(prepared: Prepared) -> tuple[float, float] | None:
    """Public ends of the labels: their range, and some times their size where that says more."""
    study, told = prepared.study, closer(prepared.study, prepared.ranges)
    size = stated_scale(study) if told is None else told.label_scale
    within = None if study.columns is None else study.columns.label.range
    if size is None:
        return within
    least, most = within or (-np.inf, np.inf)
    ends = max(least, -_SIZES * size), min(most, _SIZES * size)
    return ends if ends[0] < ends[1] else within
