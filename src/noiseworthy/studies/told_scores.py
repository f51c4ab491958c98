"""What owners told of a model, in words; every deviation is doubled, so that one in twenty is missed."""

from __future__ import annotations

from noiseworthy._wording import count, level, percent
from noiseworthy.studies.typed_owners import OwnersScore, ScorePart


def sentences(told: ScorePart) -> list[str]:
    """How good the model is by its owners, and whether a constant would do as well.

    Example:
        >>> north = OwnersScore(client="north", records=400, score=0.8, deviation=0.02)
        >>> sentences(ScorePart(score=0.8, deviation=0.02, owners=[north]))[0].replace("\\xa0", " ")
        'Right on 80 % ± 4, as 1 owner told, with noise, of 400 records that no release trained on.'
    """
    owners, records = count(len(told.owners), "owner"), count(told.records, "record")
    whose = f"{owners} told, with noise, of {records} that no release trained on"
    reached = f"{reached_by(told, told.reach)}, as {whose}."
    found = [f"{percent(one.found)} ± {200 * one.deviation:.0f} of {one.label}" for one in told.classes]
    reached += f" It finds {' and '.join(found)}." if found else ""
    often = max(told.classes, key=lambda one: one.share, default=None)
    if often is None or told.score > often.share:
        return [reached]
    constant = f"{percent(often.share)} of these records are {often.label}"
    return [reached, f"No better than a constant, as far as noise tells: {constant}."]


def reached_by(told: ScorePart | OwnersScore, reach: float) -> str:
    """A told score within two deviations of it.

    Example:
        >>> reached_by(OwnersScore(client="north", records=9, score=2.0, deviation=0.25), 40.0)
        'Off by 2.00 ± 0.500 on average'
    """
    if reach:
        return f"Off by {level(told.score)} ± {level(2 * told.deviation)} on average"
    return f"Right on {percent(told.score)} ± {200 * told.deviation:.0f}"
