"""Mean of records and shares of classes, which clients tell with noise for a plan to start from."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from noiseworthy.methods.registry import method
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.means import SHARE, MeanRelease
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.names import MEAN

_TAG = 0x3EA2
"""What tells the draws of a study apart."""
MEAN_NOT_AT_OWNERS = (
    "owners tell no mean of their records before training, which this plan has them do; plan it for them "
    "with deploy up, or state [task] normalise = true"
)


def may_centre(prepared: Prepared) -> bool:
    """Whether trials may choose it: records with classes, each hidden by itself, in simulation.

    The release is a communication more, which `[resources]` would have to pay for, and they do not count it.
    """
    study, federation = prepared.study, prepared.federation
    if federation is None or federation.classes is None or prepared.ranges is not None:
        return False
    privacy, simulated = study.privacy, not (study.federation.of_owners or prepared.deploys)
    seen = privacy.sampling_rate == 1 and privacy.unit == "record" and not privacy.whom.in_sums
    plain = federation.most_weight is federation.persons is study.resources is None
    return simulated and seen and plain and "centring" in method(study.algorithm.name).space.levers


def with_mean(prepared: Prepared, planned: Study | None) -> Prepared:
    """A study whose clients release mean and counts, drawn by its seed, where its plan starts from them."""
    if planned is None or planned.task.reference != [MEAN]:
        return prepared
    (federation, _), how = prepared.trained(), _how(prepared)
    noise, seed = how.release.mechanism, (prepared.study.federation.seed, _TAG, int(prepared.sizes.sum()))
    distribution, answer = noise.law.analysis.distribution(), np.zeros(())
    for client, (n, size) in enumerate(zip(prepared.sizes, noise.size, strict=True)):
        generator = np.random.default_rng([*seed, client])
        told = how.told(federation.x[client, :n], federation.y[client, :n])
        drawn = size * distribution.rvs(len(told), random_state=generator)
        answer = answer + how.weights[client] * (told + drawn)
    mean, shares = how.read(answer)
    return charged(prepared, tuple(mean.tolist()), tuple(shares.tolist()))


def charged(prepared: Prepared, mean: tuple[float, ...], class_shares: tuple[float, ...]) -> Prepared:
    """A study that is charged for what clients told, whatever they said."""
    parts = ((_how(prepared).release, np.ones(len(prepared.sizes), np.int64)),)
    bought = BoughtRanges(parts, prepared.problem(1.0).budget, {}, mean=mean, class_shares=class_shares)
    return replace(prepared, ranges=bought)


def said_of_mean(prepared: Prepared) -> tuple[str, ...]:
    """What a plan says of the mean that its clients told; nothing where they told none."""
    if prepared.ranges is None or not prepared.ranges.mean:
        return ()
    return (
        f"Every client tells the mean of its records and shares of classes with noise before training, for "
        f"{SHARE:.0%} of its budget: records are seen against the mean, and intercepts start at the shares. "
        "Owners at the end of a network are not asked for them; [task] normalise = true plans without.",
    )


def _how(prepared: Prepared) -> MeanRelease:
    problem, (federation, _) = prepared.problem(1.0), prepared.trained()
    numbers, classes = math.prod(federation.feature_shape), federation.classes or 0
    return MeanRelease.of(prepared.sizes, problem.budget, problem.family, numbers, classes)
