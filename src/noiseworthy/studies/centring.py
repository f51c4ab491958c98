"""The mean of records, which a plan has clients tell with noise so that records are seen against it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from noiseworthy.methods.registry import method
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.means import SHARE, MeanRelease, mean_of
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
    """A study whose clients release their mean, drawn by its seed, where its plan sees records against it."""
    if planned is None or planned.task.reference != [MEAN]:
        return prepared
    (federation, _), how = prepared.trained(), _how(prepared)
    noise, seed = how.release.mechanism, (prepared.study.federation.seed, _TAG, int(prepared.sizes.sum()))
    distribution, mean = noise.law.analysis.distribution(), np.zeros(math.prod(federation.feature_shape))
    for client, (n, size) in enumerate(zip(prepared.sizes, noise.size, strict=True)):
        generator = np.random.default_rng([*seed, client])
        drawn = size * distribution.rvs(len(mean), random_state=generator)
        mean += how.weights[client] * (mean_of(federation.x[client, :n], noise.norm) + drawn)
    return charged(prepared, tuple(how.shrunk(mean).tolist()))


def charged(prepared: Prepared, mean: tuple[float, ...]) -> Prepared:
    """A study that is charged for a mean, whatever it says."""
    parts = ((_how(prepared).release, np.ones(len(prepared.sizes), np.int64)),)
    return replace(prepared, ranges=BoughtRanges(parts, prepared.problem(1.0).budget, {}, mean=mean))


def said_of_mean(prepared: Prepared) -> tuple[str, ...]:
    """What a plan says of the mean that its clients told; nothing where they told none."""
    if prepared.ranges is None or not prepared.ranges.mean:
        return ()
    return (
        f"Every client tells the mean of its records with noise before training, for {SHARE:.0%} of its "
        "budget, and records are seen against it. Owners at the end of a network are not asked for it; "
        "[task] normalise = true plans without it.",
    )


def _how(prepared: Prepared) -> MeanRelease:
    problem, shape = prepared.problem(1.0), prepared.trained()[0].feature_shape
    return MeanRelease.of(prepared.sizes, problem.budget, problem.family, math.prod(shape))
