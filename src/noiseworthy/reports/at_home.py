"""What owners reach at home, in words and rows: alone, with the shared model, and with it tuned."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from noiseworthy._wording import count, finite, number, percent, span
from noiseworthy.reports import findings
from noiseworthy.reports.findings import score, score_name
from noiseworthy.studies.typed_owners import CandidatePart, HomePart
from noiseworthy.studies.typed_record import RunRecord

NAMES = {"alone": "alone", "shared": "shared", "tuned": "tuned at home"}
"""What candidates are called."""
ENOUGH = 10
"""Test records of an owner whose score says something about the worst of them."""
LISTED = 1000


def finding(record: RunRecord) -> str | None:
    """Which of the three to use, in a sentence without its full stop; None where nobody asked."""
    if (home := record.home) is None:
        return None
    reached = {name: one.overall for name, one in home.candidates.items() if one.overall is not None}
    if not reached:
        return "No owner has test records to score what it reaches at home"
    said = ", ".join(f"{NAMES[name]} {score(record, value)}" for name, value in reached.items())
    return f"{_verdict(home, reached)}: {said}"


def compared(record: RunRecord) -> list[dict[str, str]]:
    """A row for own models, and for each model of a comparison as it is and tuned; empty for others."""
    if record.compare is None or (home := record.compare.home) is None:
        return []

    def write(value: float | None) -> str:
        return "diverged" if value is None else score(record, value)

    rows = [{"model": one.name, "shared": write(one.shared), "tuned at home": write(one.tuned)}
            for one in home.models]  # fmt: skip
    return [{"model": "own models", "shared": "", "tuned at home": write(home.alone)}, *rows]


def compare_caption(record: RunRecord) -> str:
    """What a comparison shows, for owners with what they make of its models."""
    rows = compared(record)
    if not rows:
        return findings.compare_caption(record)
    alone, *models = rows
    said = ", ".join(f"{one['model']} {one['tuned at home']} (shared {one['shared']})" for one in models)
    return (
        f"{findings.compare_caption(record)} For owners, on their own test records: own models "
        f"{alone['tuned at home']}; tuned at home {said}."
    )


def planned_for(record: RunRecord) -> str:
    """By which models a plan for owners was chosen, and what its trials advise."""
    said = record.foretold and record.foretold.home
    if said is None or said.planned_for == "shared":
        chosen = "planned for the shared model, before any of them tunes it at home"
    else:
        chosen = "planned for what they make of the shared model at home"
    if said is None or said.gaining is None or record.federation is None:
        return chosen
    owners = count(len(record.federation.sizes), "owner")
    return f"{chosen}; on public data {said.gaining:,} of {owners} gain from sharing"


def _verdict(home: HomePart, reached: dict[str, float]) -> str:
    """Own, shared or tuned; told apart from own models where that is beyond two standard errors."""
    alone, tuned = reached.get("alone", -math.inf), reached.get("tuned", -math.inf)
    shared = reached.get("shared", -math.inf)
    if alone >= max(tuned, shared):
        return "Stay home"
    best, error = max((tuned, home.error_alone), (shared, home.error_of_shared), key=lambda one: one[0])
    if error is None or best - alone <= 2 * error:
        return "Staying home and sharing are not told apart"
    return "Share, and tune at home" if tuned >= shared else "Share, and use the shared model"


def who_gains(record: RunRecord, home: HomePart) -> str:
    """How many owners gain from sharing, which, and how many of them beyond chance."""
    gains, known = finite(home.gains, math.nan), [gain is not None for gain in home.gains]
    if not any(known):
        return ""
    sizes, gains = _sizes(record)[known], gains[known]
    least = finite(home.gains_least, -math.inf)[known]
    most = finite(home.gains_most, math.inf)[known]
    kinds = {"higher": gains > 0, "lower": gains < 0, "alike": gains == 0}
    held = {kind: sizes[chosen] for kind, chosen in kinds.items() if chosen.any()}
    parts = [f"{len(some):,} {kind}{_with_records(some)}" for kind, some in held.items()]
    return (
        f"Scores of tuned against alone, of {count(len(gains), 'owner')} with test records: "
        f"{', '.join(parts)}. Beyond chance, at 95 % for each by itself: {np.sum(least > 0):,} gain from "
        f"sharing, {np.sum(most < 0):,} pay."
    )


def _with_records(sizes: NDArray[np.int64]) -> str:
    median = "" if len(sizes) < 3 else f", {np.median(sizes):,.0f} at the median"
    return f" ({span(sizes.tolist())} records{median})"


def _sizes(record: RunRecord) -> NDArray[np.int64]:
    return np.array(record.federation.sizes if record.federation else [], np.int64)


def fairness(record: RunRecord, home: HomePart) -> list[dict[str, str]]:
    """A row for each candidate: all test records, what was foretold, mean, worst and spread of owners."""
    tests = np.array(home.tests)
    enough = tests >= ENOUGH if np.any(tests >= ENOUGH) else tests > 0
    said = record.foretold and record.foretold.home
    told = {} if said is None else {"alone": said.alone, "shared": said.shared, "tuned": said.tuned}
    shares = None if said is None or said.shares is None else finite(said.shares)
    mean = {name: float(np.average(finite(each), weights=shares)) for name, each in told.items()}
    return [_row(record, NAMES[name], one, enough, mean.get(name)) for name, one in home.candidates.items()]


def _row(
    record: RunRecord, name: str, one: CandidatePart, enough: NDArray[np.bool_], foretold: float | None
) -> dict[str, str]:
    scores = finite(one.scores, math.nan)[enough]
    said = {} if foretold is None else {"foretold": score(record, foretold)}
    if one.overall is None or not np.isfinite(scores).all() or not len(scores):
        of_owners = {"mean owner": "", "worst": "", "spread": ""}
        return {"model": name, "all test records": "diverged", **said, **of_owners}
    apart = number(scores.std(), 2) if score_name(record) == "R²" else percent(scores.std())
    return {
        "model": name,
        "all test records": score(record, one.overall),
        **said,
        "mean owner": score(record, scores.mean()),
        "worst": score(record, scores.min()),
        "spread": apart,
    }


def fairness_note(home: HomePart) -> str:
    """What the rows are of, and what the spread is."""
    tests = np.array(home.tests)
    some = int(np.sum(tests >= ENOUGH))
    whose = f"{count(some, 'owner')} with {ENOUGH} test records or more" if some else "owners with any"
    dealt = "" if home.named else (
        " The data do not say whose test records are whose: each went to an owner of records with its label."
    )  # fmt: skip
    without = int(np.sum(tests == 0))
    bare = f" {count(without, 'owner')} without test records: not scored." if without else ""
    return (
        f"Mean, worst and spread (standard deviation) are over {whose}. Own models and those tuned at home "
        f"read the records without noise and never leave their owners: no epsilon covers them.{dealt}{bare}"
    )


def owner_rows(record: RunRecord) -> list[dict[str, str]]:
    """A row for each owner, the one with the fewest records first: scores with the limits of tuned ones."""
    if (home := record.home) is None:
        return []
    sizes = _sizes(record)
    return [
        {
            "owner": record.client_names[i],
            "records": f"{sizes[i]:,}",
            "test records": f"{home.tests[i]:,}",
            **{NAMES[name]: _score(record, one.scores[i]) for name, one in home.candidates.items()},
            "95 % limits": _limits(record, home.tuned.least[i], home.tuned.most[i]),
            "gain": _score(record, home.gains[i]),
            "its limits": _limits(record, home.gains_least[i], home.gains_most[i]),
        }
        for i in np.argsort(sizes, kind="stable")[:LISTED].tolist()
    ]


def _score(record: RunRecord, value: float | None) -> str:
    return "" if value is None else score(record, value)


def _limits(record: RunRecord, least: float | None, most: float | None) -> str:
    if least is None or most is None:
        return ""
    return f"{score(record, least)} to {score(record, most)}"


def home_caption(record: RunRecord) -> str:
    """What the dots are, and who gains."""
    if (home := record.home) is None:
        return ""
    many = len(home.tests) > MOST_ROWS
    drawn = (
        "Gain of tuning the shared model at home over an own model, by the records that an owner has; lines "
        "are limits at 95 % for each owner by itself."
        if many
        else "Owners by their records, the fewest on top: scores on their own test records, with limits of "
        "the tuned model at 95 % for each owner by itself."
    )
    return f"{drawn} {who_gains(record, home)}"


MOST_ROWS = 40
"""Above so many owners rows become gains by records, or sorted steps."""
