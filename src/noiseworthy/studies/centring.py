"""Mean of records and shares of classes, which clients tell with noise for a plan to start from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.methods.registry import method
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.means import SHARE, MeanRelease, Real
from noiseworthy.privacy.releases import Release
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.names import MEAN

_TAG = 0x3EA2
"""What tells the draws of a study apart."""
OF_A_SIMULATION = (
    "the mean that this plan starts from was told in simulation; leave --plan out, and noiseworthy deploy up "
    "plans for owners, who tell theirs once the training begins"
)


def may_centre(prepared: Prepared) -> bool:
    """Whether trials may choose it: records with classes, of which nothing was told before."""
    federation = prepared.federation
    with_classes = federation is not None and federation.classes is not None
    return with_classes and prepared.ranges is None and may_tell(prepared)


def may_tell(prepared: Prepared) -> bool:
    """Whether clients may tell before a training: records are hidden one by one, and all uploads are seen.

    The release is a communication more, which `[resources]` would have to pay for, and they do not count it.
    """
    study, federation, privacy = prepared.study, prepared.federation, prepared.study.privacy
    seen = privacy.sampling_rate == 1 and privacy.unit == "record" and not privacy.whom.in_sums
    weight = None if federation is None else federation.most_weight or federation.persons
    plain = federation is not None and weight is study.resources is None
    return seen and plain and "centring" in method(study.algorithm.name).space.levers


def with_mean(prepared: Prepared, planned: Study | None) -> Prepared:
    """A study whose clients release mean and counts, where its plan starts from them.

    Drawn by its seed in simulation; owners at the end of a network are still to be asked.
    """
    if planned is None or planned.task.reference != [MEAN]:
        return prepared
    if prepared.at_owners:
        return charged(prepared)
    how = mean_release(prepared)
    return charged(prepared, *how.combined(answers(prepared, how.release, how.told, _TAG)))


def answers(
    prepared: Prepared, release: Release, told: Callable[[NDArray, NDArray], Real], tag: int
) -> dict[int, Real]:
    """What every client of a simulation tells of its records and labels, with noise by the study's seed.

    Args:
        prepared: the study.
        release: of each client.
        told: by records, shape (n, ...), and labels, before noise.
        tag: what tells the draws of a study apart.
    """
    (federation, _), noise = prepared.trained(), release.mechanism
    said = {}
    for client, (n, size) in enumerate(zip(prepared.sizes, noise.size, strict=True)):
        exact = told(federation.x[client, :n], federation.y[client, :n])
        seed = [prepared.study.federation.seed, tag, int(prepared.sizes.sum()), client]
        said[client] = exact + size * noise.law.analysis.host_draws(np.random.default_rng(seed), len(exact))
    return said


def charged(prepared: Prepared, mean: Iterable[float] = (), class_shares: Iterable[float] = ()) -> Prepared:
    """A study that is charged for what clients told, whatever they said; for what they will, without."""
    parts = ((mean_release(prepared).release, np.ones(len(prepared.sizes), np.int64)),)
    told, shares = (tuple(map(float, numbers)) for numbers in (mean, class_shares))
    bought = BoughtRanges(parts, prepared.problem(1.0).budget, {}, mean=told, class_shares=shares)
    return replace(prepared, ranges=bought)


def said_of_mean(prepared: Prepared) -> tuple[str, ...]:
    """What a plan says of the mean that its clients tell; nothing where they tell none."""
    told = prepared.ranges
    if told is None or not (told.mean or (told.pending and told.asked == "mean")):
        return ()
    return (
        f"Every client tells the mean of its records and shares of classes with noise before training, for "
        f"{SHARE:.0%} of its budget: records are seen against the mean, and intercepts start at the shares. "
        "[task] normalise = true plans without.",
    )


def mean_release(prepared: Prepared) -> MeanRelease:
    """How the clients of a study tell it, for a share of their whole budgets."""
    problem, (federation, _) = prepared.problem(1.0), prepared.trained()
    known = prepared.sizes, problem.budget, problem.family
    return MeanRelease.of(*known, federation.feature_shape, federation.classes or 0)
