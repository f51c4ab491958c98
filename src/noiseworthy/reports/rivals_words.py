"""What DPFL-BCS beside its rivals came to, in the words and numbers that figures, page and table share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import attrgetter
from typing import Literal

from noiseworthy._wording import about, count, level, number, percent, percent_up, rounded_up, span
from noiseworthy.methods.rivals.contest import OURS, REFERENCE, SAME_CLIENTS
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.reports.findings import chance, score_name
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.studies.typed_sweeps import EntryPart, GapPart, PointPart, RivalsPart

Varied = Literal["epsilon_max", "alpha"]
SWEEPS: tuple[Varied, ...] = ("epsilon_max", "alpha")
"""What may be varied."""
ALONE = "alone"
"""What owners' own models are called among the scores at home."""


# Looking things up ------------------------------------------------------------------------------------


def own_points(rivals: RivalsPart) -> list[PointPart]:
    """The study's own point under each mechanism."""
    return [point for point in rivals.points if point.own and law_of(point.mechanism).noisy]


def sweep(rivals: RivalsPart, mechanism: str, name: Varied) -> list[PointPart]:
    """The points of a mechanism along what is varied, ascending, the study's own among them.

    Empty where nothing was varied.
    """
    other = attrgetter("alpha" if name == "epsilon_max" else "epsilon_max")
    along = [p for p in rivals.points if p.mechanism == mechanism and other(p) == other(rivals)]
    return sorted(along, key=attrgetter(name)) if len(along) > 1 else []


def reference_of(rivals: RivalsPart, alpha: float | None) -> EntryPart:
    """FedSGD without noise on the records as they were dealt out."""
    points = rivals.points
    (point,) = (point for point in points if not law_of(point.mechanism).noisy and point.alpha == alpha)
    return point.algorithms[0]


def entry_of(point: PointPart, name: str) -> EntryPart:
    """One algorithm at a point."""
    return next(entry for entry in point.algorithms if entry.name == name)


def mean_of(rivals: RivalsPart, entry: EntryPart) -> float | None:
    """Mean over seeds of what is compared; None where a training diverged."""
    return entry.mean_loss if rivals.quantity == "loss" else entry.mean_accuracy


def std_of(rivals: RivalsPart, entry: EntryPart) -> float | None:
    """Its standard deviation; None where a training diverged."""
    return entry.std_loss if rivals.quantity == "loss" else entry.std_accuracy


def ranked(rivals: RivalsPart, entries: Sequence[EntryPart]) -> list[EntryPart]:
    """Entries from the best to the worst; those that diverged last."""
    sign = 1 if rivals.quantity == "loss" else -1
    worth = {entry.name: mean_of(rivals, entry) for entry in entries}
    place = {name: math.inf if mean is None else sign * mean for name, mean in worth.items()}
    return sorted(entries, key=lambda entry: place[entry.name])


def best_rival(rivals: RivalsPart, point: PointPart) -> EntryPart | None:
    """The best of the private algorithms that ask all clients alike; None where all of them diverged."""
    alike = [entry for entry in point.algorithms if entry.name not in (OURS, SAME_CLIENTS)]
    best = ranked(rivals, alike)[0]
    return None if mean_of(rivals, best) is None else best


# Numbers as they are written --------------------------------------------------------------------------


def quantity_name(record: RunRecord, rivals: RivalsPart) -> str:
    """What is compared."""
    if rivals.quantity == "accuracy":
        return "test accuracy"
    return "test loss, half the mean squared error" if score_name(record) == "R²" else "test loss"


def written(rivals: RivalsPart, value: float | None) -> str:
    """A mean as it is written everywhere."""
    if rivals.quantity == "loss":
        return level(value)
    return "diverged" if value is None else percent(value, 1)


def with_deviation(rivals: RivalsPart, entry: EntryPart) -> str:
    """Mean and standard deviation over seeds."""
    mean, std = mean_of(rivals, entry), std_of(rivals, entry)
    if mean is None or std is None or len(rivals.seeds) == 1:
        return written(rivals, mean)
    if rivals.quantity == "loss":
        return f"{level(mean)} ± {number(std, 2)}"
    return f"{100 * mean:.1f} ± {percent(std, 1)}"


def gap_of(rivals: RivalsPart, gap: GapPart, *, signed: bool = False) -> str:
    """A gap with its deviation over seeds, in points of accuracy or in the loss."""
    loss = rivals.quantity == "loss"
    mean, std = gap.mean, gap.std
    by = f"{mean:+.3g}" if loss else f"{100 * mean:+.1f}"
    text = by if signed else by.lstrip("+-")
    if len(rivals.seeds) > 1:
        text += f" ± {number(std, 2)}" if loss else f" ± {100 * std:.1f}"
    return text if loss else f"{text} points"


# Sentences --------------------------------------------------------------------------------------------


def finding(rivals: RivalsPart) -> str:
    """Whether DPFL-BCS is ahead, under each mechanism."""
    return ". ".join(verdict(rivals, point) for point in own_points(rivals))


def verdict(rivals: RivalsPart, point: PointPart) -> str:
    """Whether DPFL-BCS is ahead of the best private rival at a point, by more than chance."""
    noise = f"Under {point.mechanism.capitalize()} noise {OURS}"
    best = best_rival(rivals, point)
    if mean_of(rivals, entry_of(point, OURS)) is None:
        return f"{noise} diverged"
    if best is None:
        return f"{noise} is ahead: all private rivals diverged"
    if best.gap is None:
        return f"{noise} cannot be held against {best.name}, of which a training diverged"
    return f"{noise} {_standing(rivals, best.name, best.gap)}{_same_clients(rivals, point)}"


def _standing(rivals: RivalsPart, best: str, gap: GapPart) -> str:
    rival, by = f"the best private rival, {best}", gap_of(rivals, gap)
    sure = _is_sure(gap, len(rivals.seeds))
    if sure and gap.mean > 0:
        return f"is ahead of {rival}, by {by}"
    if sure:
        return f"is behind {rival}, by {by}"
    clearly = "clearly ahead" if gap.mean > 0 else "ahead"
    return f"is not {clearly} of {rival}: {gap_of(rivals, gap, signed=True)}"


def _is_sure(gap: GapPart, seeds: int) -> bool:
    return abs(gap.mean) > chance(gap.std, seeds)


def _same_clients(rivals: RivalsPart, point: PointPart) -> str:
    """What is to be said where PrivateFL gains more from the same choice of clients."""
    gap = entry_of(point, SAME_CLIENTS).gap
    if gap is None or gap.mean >= 0 or not _is_sure(gap, len(rivals.seeds)):
        return ""
    return f"; {SAME_CLIENTS}, which asks the same clients, is {gap_of(rivals, gap)} better"


def caption(record: RunRecord) -> str:
    """What was simulated, what it says, and what it would cost to choose by it; empty without rivals."""
    if (rivals := record.rivals) is None:
        return ""
    pure = [law.title for law in map(law_of, rivals.mechanisms) if law.pure]
    planned = "".join(f"{title} noise is planned for pure ε, δ = 0. " for title in pure)
    return (
        f"The {quantity_name(record, rivals)} of all on the same federation, with the same budgets, rounds, "
        f"clients per round, clip and steps: {seeds_of(rivals)} each, and their mean. {finding(rivals)}. "
        f"{planned}{_spent(rivals)} {_search(record, rivals)} Another step may suit a rival better."
    )


def seeds_of(rivals: RivalsPart) -> str:
    """How many trainings a number is the mean of."""
    return count(len(rivals.seeds), "simulated training")


_VARIED = {"epsilon_max": "the largest budget", "alpha": "the concentration of the partition"}


def sweeps_caption(record: RunRecord) -> str:
    """What is varied along the lines; empty without rivals."""
    if (rivals := record.rivals) is None:
        return ""
    varied = [_VARIED[name] for name in SWEEPS if sweep(rivals, rivals.mechanisms[0], name)]
    bars = "" if len(rivals.seeds) == 1 else ", bars a standard deviation"
    unlike = " The smaller α, the more do clients' records differ." if _VARIED["alpha"] in varied else ""
    return (
        f"The {quantity_name(record, rivals)} where {' or '.join(varied)} is another and all else as in the "
        f"study, whose own place is dotted: means of {seeds_of(rivals)}{bars}.{unlike}"
    )


def _spent(rivals: RivalsPart) -> str:
    """That nobody overspends, from what was spent in simulation."""
    entries = [entry for point in own_points(rivals) for entry in point.algorithms]
    most = max(entry.spent for entry in entries if entry.spent is not None)
    return f"No client spends more than {percent_up(most)} of its ε in any of them."


def _search(record: RunRecord, rivals: RivalsPart) -> str:
    """What choosing the best of all on private data would spend."""
    points = own_points(rivals)
    trainings = count(sum(len(point.algorithms) for point in points), "private training")
    run = f"To choose among them by looking at private data would run {trainings}"
    known = {p.mechanism: p.search_epsilon for p in points if p.search_epsilon is not None}
    if len(known) < len(points):
        return f"{run} and add up what they spend; {REFERENCE} hides nothing."
    sums = " and ".join(f"{rounded_up(e, 3)} under {name.capitalize()} noise" for name, e in known.items())
    most = max(row.epsilon for row in record.plan.privacy.clients)
    return (
        f"{run} and spend epsilon {sums} of the client that is worst off, where one of them spends at most "
        f"{rounded_up(most, 6)}; {REFERENCE} hides nothing."
    )


def pace(rivals: RivalsPart) -> str:
    """How long all trainings took."""
    per_second = rivals.replies / max(rivals.seconds, 1e-9)
    return f"{rivals.replies:,} replies in {about(rivals.seconds)} s, {per_second:,.0f} a second"


def standings(rivals: RivalsPart) -> dict[str, list[dict[str, str]]]:
    """Tables of the study's own point under each mechanism."""
    return {f"{p.mechanism.capitalize()} noise": _rows(rivals, p) for p in own_points(rivals)}


def at_home(rivals: RivalsPart) -> dict[str, list[dict[str, str]]]:
    """Tables of what owners make of each one's model, as `standings` rank them; {} where nobody asked."""
    tables = {}
    for point in own_points(rivals):
        entries = [*ranked(rivals, point.algorithms), reference_of(rivals, point.alpha)]
        homes = {entry.name: entry.home for entry in entries if entry.home}
        rows = [
            {"model of": name, **{way: _score(rivals, home[way]) for way in home if way != ALONE}}
            for name, home in homes.items()
        ]
        if rows:
            tables[f"{point.mechanism.capitalize()} noise, at home"] = rows
    return tables


def home_finding(rivals: RivalsPart) -> str:
    """What owners reach alone, and by the best of the ways and models; empty where nobody asked."""
    found = []
    for point in own_points(rivals):
        reached = {
            (entry.name, way): value
            for entry in point.algorithms
            for way, value in (entry.home or {}).items()
            if value is not None
        }
        ways = {key: value for key, value in reached.items() if key[1] != ALONE}
        if not ways or len(ways) == len(reached):
            continue
        (name, way), best = max(ways.items(), key=lambda one: one[1])
        alone = max(value for (_, way), value in reached.items() if way == ALONE)
        found.append(
            f"under {point.mechanism.capitalize()} noise owners reach {_score(rivals, alone)} alone and "
            f"{_score(rivals, best)} with the model of {name}, {way}"
        )
    return f"On their own test records, {'; '.join(found)}" if found else ""


def _score(rivals: RivalsPart, value: float | None) -> str:
    """Accuracy, or R^2 where the contest is by loss."""
    if value is None:
        return "–"
    return number(value, 3) if rivals.quantity == "loss" else percent(value, 1)


def varied(rivals: RivalsPart) -> dict[str, list[dict[str, str]]]:
    """Tables of what was varied: a row per algorithm, a column per value."""
    found = {}
    for mechanism in rivals.mechanisms:
        for name in SWEEPS:
            if points := sweep(rivals, mechanism, name):
                found[f"{mechanism.capitalize()} noise, {_VARIED[name]}"] = _columns(rivals, points, name)
    return found


def _rows(rivals: RivalsPart, point: PointPart) -> list[dict[str, str]]:
    """Everybody at a point, the best first: what is reached, the gap, who is asked, what is spent."""
    entries = [*ranked(rivals, point.algorithms), reference_of(rivals, point.alpha)]
    return [
        {
            "algorithm": entry.name,
            rivals.quantity: with_deviation(rivals, entry),
            f"{OURS} ahead by": "" if entry.gap is None else gap_of(rivals, entry.gap, signed=True),
            "replies each": span(entry.asked),
            "spent of ε": "no noise" if entry.spent is None else percent_up(entry.spent),
        }
        for entry in entries
    ]


def _columns(rivals: RivalsPart, points: Sequence[PointPart], name: Varied) -> list[dict[str, str]]:
    """Everybody along what is varied, in the order of the study's own point."""
    own = next(point for point in points if point.own)
    names = [entry.name for entry in ranked(rivals, own.algorithms)]
    at = {number(getattr(point, name)): point for point in points}
    return [
        {"algorithm": one, **{x: with_deviation(rivals, entry_of(point, one)) for x, point in at.items()}}
        for one in names
    ]


def axis(record: RunRecord, name: Varied) -> str:
    """What is varied, at the axis."""
    if name == "alpha":
        return "Dirichlet concentration α of the partition"
    ((law, (least, _)),) = record.study["privacy"]["epsilon"].items()
    evenly = "" if law == "uniform" else ", evenly in its logarithm"
    return f"largest budget: ε is drawn from {number(least)} up to it{evenly}"
