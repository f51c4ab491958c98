"""How claims are judged: small functions from measured points to a verdict with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from noiseworthy.experiments.papers.settings import UNTRAINED
from noiseworthy.experiments.papers.spec import NO_NOISE, Judgement, Point, Role, Score, Word

Judge = Callable[[Sequence[Point]], Judgement]
Key = Literal[
    "epsilon",
    "fraction",
    "clients_per_round",
    "rounds",
    "iterations",
    "local_steps",
    "clip_norm",
    "step_size",
    "budget",
]
_TIE = 1.02
_SOUND: tuple[Role, ...] = ("paper", "fixed", "grid")
"""Settings under noise that keeps its promise, other than our plans."""


def ordered(
    metric: Score,
    along: Key,
    *,
    rising: bool,
    roles: Sequence[Role] = ("paper", "fixed"),
    mechanism: str = "",
) -> Judge:
    """The metric rises (or falls) with `along`, everything else equal; judged on neighbouring pairs."""

    def judge(points: Sequence[Point]) -> Judgement:
        rows = _rows(_of(points, roles, mechanism), along)
        held = [(getattr(b, metric) > getattr(a, metric)) == rising for row in rows for a, b in pairwise(row)]
        shown = [_name(row[0], along) + _values(row, metric) for row in _few(rows)]
        return Judgement(_share(held), f"{sum(held)} of {len(held)} neighbouring pairs: " + "; ".join(shown))

    return judge


def best(role: Role, against: Sequence[Role], mechanism: str = "") -> Judge:
    """The setting of a role has the least loss among others (2 % are a tie; within 10 % is partly)."""
    return _compared(role, against, mechanism, exact=_TIE, nearly=1.10)


def within(role: Role, share: float, against: Sequence[Role]) -> Judge:
    """The loss of a role's setting is at most (1 + share) times the least of the others, everywhere."""
    return _compared(role, against, "", exact=1 + share, nearly=None)


def beats(role: Role, against: Sequence[Role], accuracy: float) -> Judge:
    """A role's setting has less loss and at least so many more points of accuracy than the best other."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for mine, other in _against_best(points, role, against, ""):
            held.append(mine.loss < other.loss and mine.accuracy >= other.accuracy + accuracy)
            losses = f"{_loss(mine.loss)} against {_loss(other.loss)}"
            gain = 100 * (mine.accuracy - other.accuracy)
            shown.append(f"{_budget(mine)}: {losses}, {gain:+.1f} points of accuracy")
        return Judgement(_share(held), "; ".join(shown))

    return judge


def inflated(
    factor: float,
    roles: Sequence[Role] = ("paper", "fixed", "grid"),
    *,
    where: Callable[[Point], bool] = lambda point: True,
) -> Judge:
    """Under every budget the worst setting that `where` selects has `factor` times the loss of the best."""

    def judge(points: Sequence[Point]) -> Judgement:
        groups = _groups([p for p in _of(points, roles, "") if where(p)])
        pairs = [(min(g, key=lambda p: p.loss), max(g, key=lambda p: p.loss)) for g in groups]
        shown = [f"{_budget(good)}: {_loss(good.loss)} to {_loss(bad.loss)}" for good, bad in pairs]
        return Judgement(_share([bad.loss >= factor * good.loss for good, bad in pairs]), "; ".join(shown))

    return judge


def least_enough(along: Key, chosen: float, within: float) -> Judge:
    """A chosen value is the smallest of those tried whose loss is within a share of the least."""

    def judge(points: Sequence[Point]) -> Judgement:
        tried = sorted(_of(points, _SOUND, ""), key=lambda p: p.quantity(along))
        least = min(p.loss for p in tried)
        enough = next(p for p in tried if p.loss <= (1 + within) * least)
        shown = "; ".join(f"{p.series}: {_loss(p.loss)}" for p in tried)
        return Judgement(_share([bool(np.isclose(enough.quantity(along), chosen))]), shown)

    return judge


def worse(series: str, than: str, mechanism: str, epsilon: float, factor: float) -> Judge:
    """One setting has at least `factor` times the loss of another, at one budget; partly if just more."""

    def judge(points: Sequence[Point]) -> Judgement:
        found = {p.series: p for p in points if p.mechanism == mechanism and p.epsilon == epsilon}
        bad, good = found[series], found[than]
        word: Word = "agrees" if bad.loss >= factor * good.loss else "partly"
        word = "disagrees" if bad.loss <= good.loss else word
        return Judgement(word, f"{_budget(bad)}: {_result(bad)}, {_result(good)}")

    return judge


def drops(points_lost: float, roles: Sequence[Role] = ("paper", "fixed", "grid")) -> Judge:
    """At the least budget of each mechanism the worst setting loses so much accuracy against the best."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for group in _groups(_of(points, roles, "")):
            least = min(p.epsilon for p in points if p.mechanism == group[0].mechanism)
            if group[0].epsilon == least:
                low, high = (f(p.accuracy for p in group) for f in (min, max))
                held.append(high - low >= points_lost)
                shown.append(f"{_budget(group[0])}: accuracy {low:.2f} to {high:.2f}")
        return Judgement(_share(held), "; ".join(shown))

    return judge


def level(
    mechanism: str, role: Role, *, least: float = 0.0, most: float = 1.0, where: Callable[[Point], bool]
) -> Judge:
    """The accuracy of a role lies between two levels at all points that `where` selects."""

    def judge(points: Sequence[Point]) -> Judgement:
        chosen = [p for p in _of(points, [role], mechanism) if where(p)]
        held = [least <= p.accuracy <= most for p in chosen]
        shown = [f"{_budget(p)}: {p.accuracy:.2f}" for p in chosen]
        return Judgement(_share(held), "accuracy at " + "; ".join(shown))

    return judge


def gap(score: Score, share: float) -> Judge:
    """Under every finite budget a score is worse than without noise, by at least so much of that score."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for quiet in (p for p in _of(points, _SOUND, "") if p.epsilon == NO_NOISE):
            for noisy in _of(points, _SOUND, ""):
                if noisy.epsilon != NO_NOISE and noisy.series == quiet.series:
                    best, worst = sorted(
                        (getattr(quiet, score), getattr(noisy, score)), reverse=score == "accuracy"
                    )
                    right = best == getattr(quiet, score)
                    held.append(right and abs(worst - best) >= share * best)
                    shown.append(f"{_budget(noisy)}: {getattr(noisy, score):.3f} against {best:.3f}")
        return Judgement(_share(held), "; ".join(shown))

    return judge


def diverges(epsilon: float, factor: float) -> Judge:
    """At one budget the loss ends at so many times its least value on the way, or more."""

    def judge(points: Sequence[Point]) -> Judgement:
        curves = [p.curves("loss").mean(axis=0) for p in _of(points, _SOUND, "") if p.epsilon == epsilon]
        held = [curve[-1] >= factor * curve.min() for curve in curves]
        shown = [f"ε={epsilon:g}: least {_loss(curve.min())}, last {_loss(curve[-1])}" for curve in curves]
        return Judgement(_share(held), "; ".join(shown))

    return judge


def interior(along: Key, score: Score = "loss") -> Judge:
    """Under every finite budget the best value of a quantity lies inside the range that was tried."""

    def judge(points: Sequence[Point]) -> Judgement:
        rows = [row for row in _sound_rows(points, along) if row[0].epsilon != NO_NOISE]
        best = [_best_of(row, score) for row in rows]
        held = [one not in (row[0], row[-1]) for row, one in zip(rows, best, strict=True)]
        shown = [
            f"{_budget(one)}: best at {one.quantity(along):g} ({_ends(row, one, score)})"
            for row, one in zip(rows, best, strict=True)
        ]
        return Judgement(_share(held), "; ".join(shown))

    return judge


def falls_over(along: Key, score: Score, least: float) -> Judge:
    """Under every finite budget a score falls by at least so much from one end of a quantity to the other."""

    def judge(points: Sequence[Point]) -> Judgement:
        rows = [row for row in _sound_rows(points, along) if row[0].epsilon != NO_NOISE]
        ends = [(getattr(row[0], score), getattr(row[-1], score)) for row in rows]
        shown = [
            f"{_budget(row[0])}: {first:.3f} to {last:.3f}"
            for row, (first, last) in zip(rows, ends, strict=True)
        ]
        return Judgement(_share([first - last >= least for first, last in ends]), "; ".join(shown))

    return judge


def optimum_ordered(along: Key, *, rising: bool, score: Score = "loss") -> Judge:
    """The best value of a quantity never falls (or rises) with epsilon, and is not the same for all."""

    def judge(points: Sequence[Point]) -> Judgement:
        rows = sorted(_sound_rows(points, along), key=lambda row: row[0].epsilon)
        best = [_best_of(row, score).quantity(along) for row in rows]
        held = [b != a and (b > a) == rising for a, b in pairwise(best) if a != b]
        shown = "; ".join(
            f"{_epsilon(row[0].epsilon)}: {value:g}" for row, value in zip(rows, best, strict=True)
        )
        return Judgement(_share(held), shown)

    return judge


def optimum_is(along: Key, printed: dict[float, float], score: Score = "loss") -> Judge:
    """The best value of a quantity is the one that the paper prints for each epsilon."""

    def judge(points: Sequence[Point]) -> Judgement:
        best = {row[0].epsilon: _best_of(row, score).quantity(along) for row in _sound_rows(points, along)}
        held = [best[epsilon] == value for epsilon, value in printed.items()]
        shown = [
            f"{_epsilon(epsilon)}: {best[epsilon]:g}, paper {value:g}" for epsilon, value in printed.items()
        ]
        return Judgement(_share(held), "; ".join(shown))

    return judge


def planned_near(role: Role, along: Key, printed: dict[float, float], factor: float) -> Judge:
    """What a plan chooses is what the paper prints as best, up to a factor."""

    def judge(points: Sequence[Point]) -> Judgement:
        chosen = {p.epsilon: p.quantity(along) for p in _of(points, [role], "")}
        held = [best / factor <= chosen[e] <= best * factor for e, best in printed.items()]
        shown = [f"{_epsilon(e)}: {chosen[e]:g}, paper {best:g}" for e, best in printed.items()]
        return Judgement(_share(held), "; ".join(shown))

    return judge


def settles(score: Score, least_iterations: int, within: float) -> Judge:
    """From so many iterations on, a score varies by at most `within` under every budget."""

    def judge(points: Sequence[Point]) -> Judgement:
        late = [p for p in points if p.quantity("iterations") >= least_iterations]
        rows = _sound_rows(late, "iterations")
        spans = [np.ptp([getattr(p, score) for p in row]) for row in rows]
        shown = [f"{_budget(row[0])}:{_values(row, score)}" for row in rows]
        return Judgement(_share([bool(span <= within) for span in spans]), "; ".join(shown))

    return judge


def lost_gain(role: Role, most: float) -> Judge:
    """A plan loses at most so much of the gain that the best setting has over not training, if any has."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for mine, best in _against_best(points, role, _SOUND, ""):
            start = float(mine.curves("loss")[:, 0].mean())
            line = f"{_budget(mine)}: {_result(mine)}, best {_result(best)}"
            if best.loss >= start:
                shown.append(f"{line}, nothing gains on {_loss(start)}")
                continue
            lost = (mine.loss - best.loss) / (start - best.loss)
            held.append(lost <= most)
            shown.append(f"{line}, lost {lost:.0%}")
        return Judgement(_share(held), "; ".join(shown))

    return judge


def best_line(
    series: str, along: Key, least: float, roles: Sequence[Role] = _SOUND, tie: float = 0.05
) -> Judge:
    """From `least` on, one line lies lowest, or within a tie of the lowest, wherever it was measured.

    Other lines are taken at the same place, linear in log loss between their own.
    """

    def judge(points: Sequence[Point]) -> Judgement:
        lines = {line[0].series: line for line in _split(_of(points, roles, ""), lambda p: p.series)}
        held, shown = [], []
        for point in (p for p in lines[series] if p.quantity(along) >= least):
            place = point.quantity(along)
            others = {name: _at(line, along, place) for name, line in lines.items() if name != series}
            rival = min(others, key=lambda name: others[name])
            held.append(point.loss <= (1 + tie) * others[rival])
            shown.append(f"{point.name}: {_loss(point.loss)}, best other {rival} {_loss(others[rival])}")
        return Judgement(_share(held), f"{sum(held)} of {len(held)}: " + "; ".join(_few(shown)))

    return judge


def flattest_line(series: str, along: Key, least: float, roles: Sequence[Role] = _SOUND) -> Judge:
    """From `least` on, the loss of one line varies least: largest over smallest."""

    def judge(points: Sequence[Point]) -> Judgement:
        spans = {}
        for line in _split(_of(points, roles, ""), lambda p: p.series):
            losses = [p.loss for p in line if p.quantity(along) >= least]
            spans[line[0].series] = max(losses) / min(losses)
        others = [span for name, span in spans.items() if name != series]
        word: Word = "agrees" if spans[series] < min(others) else "partly"
        word = "disagrees" if spans[series] >= max(others) else word
        return Judgement(word, "; ".join(f"{name}: {span:.1f} times" for name, span in spans.items()))

    return judge


# Parts that judges share ------------------------------------------------------------------------------


def _compared(
    role: Role, against: Sequence[Role], mechanism: str, exact: float, nearly: float | None
) -> Judge:
    def judge(points: Sequence[Point]) -> Judgement:
        pairs = _against_best(points, role, against, mechanism)
        ratios = [mine.loss / other.loss for mine, other in pairs]
        shown = [
            f"{_budget(mine)}: {_result(mine)}, best {_result(other)} ({ratio - 1:+.0%})"
            for (mine, other), ratio in zip(pairs, ratios, strict=True)
        ]
        word = _share([ratio <= exact for ratio in ratios])
        if nearly is not None and word == "disagrees" and all(ratio <= nearly for ratio in ratios):
            word = "partly"
        return Judgement(word, "; ".join(shown))

    return judge


def _against_best(
    points: Sequence[Point], role: Role, against: Sequence[Role], mechanism: str
) -> list[tuple[Point, Point]]:
    pairs = []
    for group in _groups(_of(points, [role, *against], mechanism)):
        mine = [p for p in group if p.role == role]
        others = [p for p in group if p.role in against]
        if mine and others:
            pairs.append((mine[0], min(others, key=lambda p: p.loss)))
    return pairs


def _sound_rows(points: Sequence[Point], along: Key) -> list[list[Point]]:
    return _rows(_of(points, _SOUND, ""), along)


def _at(line: Sequence[Point], along: Key, place: float) -> float:
    """The loss of a line at a place, linear in its logarithm between measured points."""
    places, losses = zip(*sorted((p.quantity(along), p.loss) for p in line), strict=True)
    return float(np.exp(np.interp(place, places, np.log(losses))))


def _best_of(row: Sequence[Point], score: Score) -> Point:
    """The first point of best score."""
    return (max if score == "accuracy" else min)(row, key=lambda p: getattr(p, score))


def _ends(row: Sequence[Point], best: Point, score: Score) -> str:
    first, last = row[0], row[-1]
    return f"{getattr(best, score):.3f}; ends {getattr(first, score):.3f} and {getattr(last, score):.3f}"


def _of(points: Sequence[Point], roles: Sequence[Role], mechanism: str) -> list[Point]:
    return [p for p in points if p.role in roles and mechanism in ("", p.mechanism)]


def _groups(points: Sequence[Point]) -> list[list[Point]]:
    """Points that differ in their setting only."""
    return _split(points, lambda p: (p.mechanism, p.epsilon, p.fraction, p.budget))


def _rows(points: Sequence[Point], along: Key) -> list[list[Point]]:
    """Points that differ in `along` (and in rounds) only, in its order; rows of one are dropped."""
    keys = ["mechanism", "epsilon", "fraction", "budget"] + ([] if along in UNTRAINED else ["series"])
    rows = _split(points, lambda p: tuple(getattr(p, key) for key in keys if key != along))
    return [sorted(row, key=lambda p: p.quantity(along)) for row in rows if len(row) > 1]


def _split(points: Sequence[Point], key: Callable[[Point], Any]) -> list[list[Point]]:
    groups: dict[Any, list[Point]] = {}
    for point in points:
        groups.setdefault(key(point), []).append(point)
    return list(groups.values())


def _share(held: Sequence[bool]) -> Word:
    """All hold: agrees. At least half: partly."""
    if held and all(held):
        return "agrees"
    return "partly" if held and 2 * sum(held) >= len(held) else "disagrees"


def _few(rows: list[Any], most: int = 6) -> list[Any]:
    return rows if len(rows) <= most else rows[:: -(-len(rows) // most)]


def _budget(point: Point) -> str:
    limit = "" if point.budget == float("inf") else f", C={point.budget:g}"
    return f"{point.mechanism} {_epsilon(point.epsilon)}{limit}" + _part(point)


def _epsilon(value: float) -> str:
    return "ε=∞" if value == NO_NOISE else f"ε={value:g}"


def _part(point: Point) -> str:
    return "" if point.fraction == 1 else f", {point.fraction:.0%} of the records"


def _result(point: Point) -> str:
    return f"({point.name}) {_loss(point.loss)}"


def _loss(value: float) -> str:
    return f"{value:.3f}"


def _name(point: Point, along: Key) -> str:
    if along in UNTRAINED:
        return _budget(point)
    if along == "epsilon":
        return f"{point.mechanism}, {point.series}{_part(point)}"
    return f"{point.mechanism} {_epsilon(point.epsilon)}, {point.series}"


def _values(row: list[Point], metric: Score) -> str:
    return " " + " / ".join(f"{getattr(point, metric):.3f}" for point in row)
