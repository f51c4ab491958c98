"""What DPFL-BCS beside its rivals came to, in the words and numbers that figures, page and table share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from noiseworthy._wording import about, count, level, number, percent, percent_up, rounded_up, span
from noiseworthy.methods.words import Record
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.reports.findings import score_name

OURS, REFERENCE, SAME_CLIENTS = "DPFL-BCS", "FedSGD", "PrivateFL-BCS"
SWEEPS = ("epsilon_max", "alpha")
"""What may be varied."""
_SURE = 2.0
"""Standard errors from which a gap is more than the luck of seeds."""
_NBSP = "\N{NO-BREAK SPACE}"


# Looking things up ------------------------------------------------------------------------------------


def own_points(record: Record) -> list[Record]:
    """The study's own point under each mechanism."""
    points = record["rivals"]["points"]
    return [point for point in points if point["own"] and law_of(point["mechanism"]).noisy]


def sweep(record: Record, mechanism: str, name: str) -> list[Record]:
    """The points of a mechanism along what is varied, ascending, the study's own among them.

    Empty where nothing was varied.
    """
    rivals = record["rivals"]
    (other,) = (key for key in SWEEPS if key != name)
    along = [p for p in rivals["points"] if p["mechanism"] == mechanism and p[other] == rivals[other]]
    return sorted(along, key=lambda point: point[name]) if len(along) > 1 else []


def reference_of(record: Record, alpha: float | None) -> Record:
    """FedSGD without noise on the records as they were dealt out."""
    points = record["rivals"]["points"]
    (point,) = (point for point in points if not law_of(point["mechanism"]).noisy and point["alpha"] == alpha)
    return point["algorithms"][0]


def entry_of(point: Record, name: str) -> Record:
    """One algorithm at a point."""
    return next(entry for entry in point["algorithms"] if entry["name"] == name)


def mean_of(record: Record, entry: Record) -> float | None:
    """Mean over seeds of what is compared; None where a training diverged."""
    return entry[f"mean_{record['rivals']['quantity']}"]


def ranked(record: Record, entries: Sequence[Record]) -> list[Record]:
    """Entries from the best to the worst; those that diverged last."""
    sign = 1 if record["rivals"]["quantity"] == "loss" else -1
    worth = {entry["name"]: mean_of(record, entry) for entry in entries}
    place = {name: math.inf if mean is None else sign * mean for name, mean in worth.items()}
    return sorted(entries, key=lambda entry: place[entry["name"]])


def best_rival(record: Record, point: Record) -> Record | None:
    """The best of the private algorithms that ask all clients alike; None where all of them diverged."""
    alike = [entry for entry in point["algorithms"] if entry["name"] not in (OURS, SAME_CLIENTS)]
    best = ranked(record, alike)[0]
    return None if mean_of(record, best) is None else best


# Numbers as they are written --------------------------------------------------------------------------


def quantity_name(record: Record) -> str:
    """What is compared."""
    return "test accuracy" if record["rivals"]["quantity"] == "accuracy" else _loss_name(record)


def _loss_name(record: Record) -> str:
    return "test loss, half the mean squared error" if score_name(record) == "R²" else "test loss"


def written(record: Record, value: float | None) -> str:
    """A mean as it is written everywhere."""
    if record["rivals"]["quantity"] == "loss":
        return level(value)
    return "diverged" if value is None else percent(value, 1)


def with_deviation(record: Record, entry: Record) -> str:
    """Mean and standard deviation over seeds."""
    mean, quantity = mean_of(record, entry), record["rivals"]["quantity"]
    if mean is None or len(record["rivals"]["seeds"]) == 1:
        return written(record, mean)
    std = entry[f"std_{quantity}"]
    if quantity == "loss":
        return f"{level(mean)} ± {number(std, 2)}"
    return f"{100 * mean:.1f} ± {100 * std:.1f}{_NBSP}%"


def gap_of(record: Record, gap: Record, *, signed: bool = False) -> str:
    """A gap with its deviation over seeds, in points of accuracy or in the loss."""
    loss = record["rivals"]["quantity"] == "loss"
    mean, std = gap["mean"], gap["std"]
    by = f"{mean:+.3g}" if loss else f"{100 * mean:+.1f}"
    text = by if signed else by.lstrip("+-")
    if len(record["rivals"]["seeds"]) > 1:
        text += f" ± {number(std, 2)}" if loss else f" ± {100 * std:.1f}"
    return text if loss else f"{text} points"


# Sentences --------------------------------------------------------------------------------------------


def finding(record: Record) -> str | None:
    """Whether DPFL-BCS is ahead, under each mechanism; None where it was held against nobody."""
    if not record.get("rivals"):
        return None
    return ". ".join(verdict(record, point) for point in own_points(record))


def verdict(record: Record, point: Record) -> str:
    """Whether DPFL-BCS is ahead of the best private rival at a point: by two standard errors or more."""
    noise = f"Under {point['mechanism'].capitalize()} noise {OURS}"
    best = best_rival(record, point)
    if mean_of(record, entry_of(point, OURS)) is None:
        return f"{noise} diverged"
    if best is None:
        return f"{noise} is ahead: all private rivals diverged"
    if best["gap"] is None:
        return f"{noise} cannot be held against {best['name']}, of which a training diverged"
    return f"{noise} {_standing(record, best)}{_same_clients(record, point)}"


def _standing(record: Record, best: Record) -> str:
    rival = f"the best private rival, {best['name']}"
    gap = gap_of(record, best["gap"])
    sure = _is_sure(best["gap"], len(record["rivals"]["seeds"]))
    if sure and best["gap"]["mean"] > 0:
        return f"is ahead of {rival}, by {gap}"
    if sure:
        return f"is behind {rival}, by {gap}"
    clearly = "clearly ahead" if best["gap"]["mean"] > 0 else "ahead"
    return f"is not {clearly} of {rival}: {gap_of(record, best['gap'], signed=True)}"


def _is_sure(gap: Record, seeds: int) -> bool:
    error = gap["std"] / np.sqrt(seeds - 1) if seeds > 1 else 0.0
    return bool(abs(gap["mean"]) > _SURE * error)


def _same_clients(record: Record, point: Record) -> str:
    """What is to be said where PrivateFL gains more from the same choice of clients."""
    gap = entry_of(point, SAME_CLIENTS)["gap"]
    if gap is None or gap["mean"] >= 0 or not _is_sure(gap, len(record["rivals"]["seeds"])):
        return ""
    return f"; {SAME_CLIENTS}, which asks the same clients, is {gap_of(record, gap)} better"


def caption(record: Record) -> str:
    """What was simulated, what it says, and what it would cost to choose by it."""
    return (
        f"The {quantity_name(record)} of all on the same federation, with the same budgets, rounds, clients "
        f"per round, clip and steps: {seeds_of(record)} each, and their mean. {finding(record)}. "
        f"{_pure(record)}{_spent(record)} {_search(record)} Another step may suit a rival better."
    )


def seeds_of(record: Record) -> str:
    """How many trainings a number is the mean of."""
    return count(len(record["rivals"]["seeds"]), "simulated training")


_VARIED = {
    "epsilon_max": "the largest budget",
    "alpha": "the concentration of the partition",
}


def sweeps_caption(record: Record) -> str:
    """What is varied along the lines."""
    mechanism = record["rivals"]["mechanisms"][0]
    varied = [words for name, words in _VARIED.items() if sweep(record, mechanism, name)]
    bars = "" if len(record["rivals"]["seeds"]) == 1 else ", bars a standard deviation"
    unlike = " The smaller α, the more do clients' records differ." if _VARIED["alpha"] in varied else ""
    return (
        f"The {quantity_name(record)} where {' or '.join(varied)} is another and all else as in the study, "
        f"whose own place is dotted: means of {seeds_of(record)}{bars}.{unlike}"
    )


def _pure(record: Record) -> str:
    laws = map(law_of, record["rivals"]["mechanisms"])
    return "".join(f"{law.title} noise is planned for pure ε, δ = 0. " for law in laws if law.pure)


def _spent(record: Record) -> str:
    """That nobody overspends, from what was spent in simulation."""
    entries = [entry for point in own_points(record) for entry in point["algorithms"]]
    most = max(entry["spent"] for entry in entries)
    return f"No client spends more than {percent_up(most)} of its ε in any of them."


def _search(record: Record) -> str:
    """What choosing the best of all on private data would spend."""
    points = own_points(record)
    trainings = count(sum(len(point["algorithms"]) for point in points), "private training")
    run = f"To choose among them by looking at private data would run {trainings}"
    if any(point["search_epsilon"] is None for point in points):
        return f"{run} and add up what they spend; {REFERENCE} hides nothing."
    sums = " and ".join(
        f"{rounded_up(point['search_epsilon'], 3)} under {point['mechanism'].capitalize()} noise"
        for point in points
    )
    most = max(row["epsilon"] for row in record["plan"]["privacy"]["clients"])
    return (
        f"{run} and spend epsilon {sums} of the client that is worst off, where one of them spends at most "
        f"{number(most, 6)}; {REFERENCE} hides nothing."
    )


def pace(record: Record) -> str:
    """How long all trainings took."""
    rivals = record["rivals"]
    per_second = rivals["replies"] / max(rivals["seconds"], 1e-9)
    return f"{rivals['replies']:,} replies in {about(rivals['seconds'])} s, {per_second:,.0f} a second"


def standings(record: Record) -> dict[str, list[dict[str, str]]]:
    """Tables of the study's own point under each mechanism; none where nobody was held against DPFL-BCS."""
    if not record.get("rivals"):
        return {}
    return {f"{p['mechanism'].capitalize()} noise": _rows(record, p) for p in own_points(record)}


def varied(record: Record) -> dict[str, list[dict[str, str]]]:
    """Tables of what was varied: a row per algorithm, a column per value."""
    found = {}
    for mechanism in record["rivals"]["mechanisms"]:
        for name in SWEEPS:
            if points := sweep(record, mechanism, name):
                found[f"{mechanism.capitalize()} noise, {_VARIED[name]}"] = _columns(record, points, name)
    return found


def _rows(record: Record, point: Record) -> list[dict[str, str]]:
    """Everybody at a point, the best first: what is reached, the gap, who is asked, what is spent."""
    entries = [*ranked(record, point["algorithms"]), reference_of(record, point["alpha"])]
    return [
        {
            "algorithm": entry["name"],
            record["rivals"]["quantity"]: with_deviation(record, entry),
            f"{OURS} ahead by": "" if entry["gap"] is None else gap_of(record, entry["gap"], signed=True),
            "replies each": span(entry["asked"]),
            "spent of ε": "no noise" if entry["spent"] is None else percent_up(entry["spent"]),
        }
        for entry in entries
    ]


def _columns(record: Record, points: Sequence[Record], name: str) -> list[dict[str, str]]:
    """Everybody along what is varied, in the order of the study's own point."""
    own = next(point for point in points if point["own"])
    names = [entry["name"] for entry in ranked(record, own["algorithms"])]
    return [
        {"algorithm": one, **{number(p[name]): with_deviation(record, entry_of(p, one)) for p in points}}
        for one in names
    ]


def axis(record: Record, name: str) -> str:
    """What is varied, at the axis."""
    if name == "alpha":
        return "Dirichlet concentration α of the partition"
    ((law, (least, _)),) = record["study"]["privacy"]["epsilon"].items()
    evenly = "" if law == "uniform" else ", evenly in its logarithm"
    return f"largest budget: ε is drawn from {number(least)} up to it{evenly}"
