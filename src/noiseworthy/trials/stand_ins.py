"""Which public data stand in for a study's where it names none, and how much the word of each weighs."""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from noiseworthy.data.prior import PRIOR
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.public import same_data

_REAL = 4
"""Real tables at most, the nearest of their kind."""
_PRIOR = tuple(f"{PRIOR}:{seed}" for seed in range(3))
"""What is drawn from the prior beside them."""
_SCENES, _VIEWS = f"{PRIOR}:2", f"{PRIOR}:5"
"""The second stands in for the first where public features are seen, which make out little in it."""
_DRAWN_LIKENESS = 0.4
"""What a table of the prior weighs: as much as a real one about a factor of e off in features or records."""


class _Table(NamedTuple):
    features: int
    classes: int | None
    records: int
    codes: float = 0.0
    """Share of the features that are codes: yes or no, or one of the values of a category."""


TABLES = {
    "breast-cancer": _Table(30, 2, 456), "diabetes": _Table(10, 2, 354, 0.1), "wine": _Table(13, 3, 142),
    "iris": _Table(4, 3, 120), "diabetes-progression": _Table(10, None, 354, 0.1),
    "anes-vote": _Table(9, 2, 755), "anes-party": _Table(8, 7, 755),
    "randhie-visit": _Table(9, 2, 1000, 0.44), "randhie-visits": _Table(9, None, 1000, 0.44),
    "randhie-health": _Table(7, 4, 1000, 0.14), "modechoice": _Table(10, 2, 672, 0.4),
    "grunfeld": _Table(3, None, 176), "elnino": _Table(14, None, 584, 0.86),
    "co2": _Table(13, None, 1000, 0.92), "sunspots": _Table(5, None, 238),
    "phishing": _Table(9, 2, 1000, 1.0), "segment": _Table(18, 7, 1000), "segment-grows": _Table(18, 2, 1000),
    "shuttle": _Table(9, 2, 1000), "solar-flare": _Table(33, 2, 853, 1.0),
    "solar-class": _Table(27, 6, 853, 0.96), "trump-approval": _Table(5, None, 801),
}  # fmt: skip
"""Real tables that ship, by name."""


def public_sources(
    facts: PublicFacts, without: Collection[str] = (), *, featured: bool = False
) -> dict[str, float]:
    """What ships with the product and stands in for a study's data, and what the word of each weighs.

    For images strokes, silhouettes and scenes of the prior stand in (views, where features are seen), and for
    grey ones digits, which weigh as much. For a table the nearest real ones of its kind stand in (numbers to
    predict, two classes or several), one of each source of records at most, and tables of the prior. A real
    one weighs by its likeness.

    Args:
        facts: of the study; its own data and their relatives are never among what stands in.
        without: names of other data that must not be, nor their relatives.
        featured: whether public features of images are seen.
    """
    left_out = (facts.source, *without)
    if len(facts.record_shape) > 1 and facts.classes:
        real = [] if math.prod(facts.record_shape[2:]) > 1 or _related("digits", left_out) else ["digits"]
        drawn = [_VIEWS if featured and one == _SCENES else one for one in _PRIOR]
        return dict.fromkeys([*real, *drawn], 1.0)
    by_likeness = sorted(TABLES, key=lambda name: -likeness(facts, TABLES[name]))
    real: list[str] = []
    for name in by_likeness:
        alike = _kind(TABLES[name].classes) == _kind(facts.classes)
        if alike and len(real) < _REAL and not _related(name, [*left_out, *real]):
            real.append(name)
    weights = {name: likeness(facts, TABLES[name]) for name in real}
    return weights | dict.fromkeys(_PRIOR, _DRAWN_LIKENESS)


def likeness(facts: PublicFacts, table: _Table) -> float:
    """exp of minus how far a table is from the study: in log features, log classes, half of log records, and
    the share of features that are codes.

    Records count by half because a trial holds a thousand of them, however many there are; codes where the
    study's columns are known.
    """
    features = abs(math.log(math.prod(facts.record_shape) / table.features))
    classes = abs(math.log((facts.classes or 1) / (table.classes or 1)))
    records = abs(math.log(facts.problem.sizes.sum() / table.records)) / 2
    coded = sum(block.width for block in facts.columns if block.kind in ("yes-no", "category"))
    width = sum(block.width for block in facts.columns)
    codes = abs(coded / width - table.codes) if width else 0.0
    return math.exp(-min(features, 3.0) - min(classes, 3.0) - min(records, 1.0) - codes)


def _kind(classes: int | None) -> int:
    """0 of numbers to predict, 2 of two classes, 3 of several."""
    return min(classes or 0, 3)


def _related(name: str, others: Sequence[str]) -> bool:
    return any(same_data(name, other) for other in others)
