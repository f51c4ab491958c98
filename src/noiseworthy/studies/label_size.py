"""How large the numbers are that a regression predicts: bought before it is planned, with noised counts."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy._wording import about
from noiseworthy.errors import ConfigError, UnsoundClaim
from noiseworthy.methods.registry import method
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.octaves import OCTAVES, octave_counts, of_octave_counts, told
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity
from noiseworthy.studies.centring import answers
from noiseworthy.studies.prepare import Prepared, trials_wanted
from noiseworthy.studies.public_sizes import closer, label_range

SHARE = 0.05
"""Of every budget, that the size of labels costs."""
TELLING = 1 / (2 * math.sqrt(3) * 1.96)
"""Noise in the share of an octave up to which counts are bought where the study does not ask for them.

Numbers that lie evenly up to one octave and up to the next have shares of octaves that are 1/sqrt(3) apart.
Noise makes one of both neighbours look nearer with probability 2 Phi(-1 / (2 sqrt(3) noise)): 5 % here.
"""
_UNLIKE = 0.05
"""How far owners are taken to differ in the share of an octave: uploads weigh by it and by their noise."""
_TAG = 0x51ED
"""What tells the draws of a study apart."""

NOT_AT_OWNERS = (
    "the size of labels is bought in simulation only, where all owners' records are at hand; state a number, "
    'the one that a simulation on like records bought, or [planning] label_scale = "range"'
)


def sized(prepared: Prepared) -> Prepared:
    """A study with the size of its labels bought, where it says so or where that is likely to pay.

    It is likely to pay where a regression is planned by trial, only a range of its labels is known that 0
    lies in, and noised counts tell more than noise.

    Raises:
        ConfigError, UnsoundClaim: a study that asks for it and cannot buy it.
    """
    asked = prepared.study.planning.label_scale
    if isinstance(asked, float) or asked == "range" or _bought(prepared) is not None:
        return prepared
    if not (why_not := _obstacle(prepared)) and (asked or _pays(prepared)):
        return replace(prepared, ranges=_buy(prepared))
    if asked and why_not:
        raise why_not
    return prepared


def said_of_size(prepared: Prepared) -> tuple[str, ...]:
    """What a plan for numbers of which only the range is stated says of their size."""
    federation = prepared.federation
    ends = federation is not None and trials_wanted(prepared) and label_range(prepared.study, federation)
    if not ends:
        return ()
    if (size := _bought(prepared)) is None:
        return (
            f"Of the numbers to predict only a range is known, {ends[0]:g} to {ends[1]:g}. If their usual "
            "size (root mean square) is public, state [planning] label_scale: where it is far below the "
            "range, the plan gains much.",
        )
    small = closer(prepared.study, prepared.ranges) is not None
    return (
        f"Noised counts of every client, for {SHARE:.0%} of its budget, say that the numbers to predict are "
        f"about {about(size)} in size (root mean square); "
        + ("the plan is made for that." if small else "the plan is made for their range, which says as much.")
        + " Where their size is public, [planning] label_scale states it and costs nothing.",
    )


def _bought(prepared: Prepared) -> float | None:
    return None if prepared.ranges is None else prepared.ranges.label_scale


def _obstacle(prepared: Prepared) -> Exception | None:
    """Why a study cannot buy the size of its labels; None where it can."""
    study, federation, where = prepared.study, prepared.federation, '[planning] label_scale = "bought"'
    if federation is None or label_range(study, federation) is None:
        return ConfigError(f"{where} is for a regression whose label has a range in [columns]; state a size")
    if not trials_wanted(prepared):
        return ConfigError(f"{where} is for planning by trial, and this study is not; leave it out")
    if prepared.at_owners:
        return ConfigError(f"{where}: {NOT_AT_OWNERS}")
    privacy = study.privacy
    if privacy.sampling_rate < 1 or privacy.unit != "record" or privacy.whom.in_sums:
        return UnsoundClaim(
            f"{where} releases counts of single records of each client; use sampling_rate = 1, unit = "
            '"record" and trust = "local", or state a number'
        )
    if method(study.algorithm.name).space.keys.work is not None:
        return UnsoundClaim(
            f"{where} hides single records, and {study.algorithm.name} may hide whole clients; state a number"
        )
    return None


def _pays(prepared: Prepared) -> bool:
    """Whether the range leaves the size open, and noise lets counts tell it."""
    least, most = _ends(prepared)
    return least <= 0 <= most and prepared.ranges is None and _noise(prepared)[2] <= TELLING


def _ends(prepared: Prepared) -> tuple[float, float]:
    ends = label_range(prepared.study, prepared.trained()[0])
    return (0.0, 1.0) if ends is None else ends


def _noise(prepared: Prepared) -> tuple[Release, NDArray[np.float64], float]:
    """Counts of octaves as a release, weights of the clients' shares, and noise of the weighted shares."""
    table, sizes = prepared.study.privacy, prepared.sizes
    law, ones = law_of(table.mechanism), np.ones(len(sizes))
    moved = of_octave_counts(law.norm, table.relation) * ones
    size = law.paid_in.analysis.noise(moved, _budget(prepared), SHARE, ones)
    release = Release(law.noise(size), Sensitivity(moved, law.norm, table.relation))
    variance = release.mechanism.variance / np.square(sizes)
    weights = 1 / (variance + _UNLIKE**2)
    weights /= weights.sum()
    return release, weights, float(np.sqrt(np.square(weights) @ variance))


def _budget(prepared: Prepared) -> PrivacyBudget:
    clients, relation = len(prepared.sizes), prepared.study.privacy.relation
    return PrivacyBudget.of(prepared.epsilon, prepared.delta, clients, relation)


def _buy(prepared: Prepared) -> BoughtRanges:
    """The size of labels, drawn by the study's seed, and what it costs, beside ranges that were bought."""
    least, most = _ends(prepared)
    release, weights, noise = _noise(prepared)
    bound, shares = max(abs(least), abs(most)), np.zeros(OCTAVES)
    noisy = answers(prepared, release, lambda _, y: octave_counts(y.astype(float), bound).astype(float), _TAG)
    for client, counts in noisy.items():
        shares += weights[client] * counts / prepared.sizes[client]
    found = told(shares, noise)
    before = prepared.ranges or BoughtRanges((), _budget(prepared), {})
    parts = (*before.parts, (release, np.ones(len(weights), np.int64)))
    octaves = tuple(found.shares.tolist()) if least >= 0 else ()
    return replace(before, parts=parts, label_scale=bound * found.size, label_octaves=octaves)
