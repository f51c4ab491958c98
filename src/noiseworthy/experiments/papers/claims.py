"""How claims are judged: small functions from measured points to a verdict with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

from noiseworthy.experiments.papers.spec import Judgement, Point, Role, Word

Judge = Callable[[Sequence[Point]], Judgement]
Metric = Literal["loss", "accuracy"]
Key = Literal["epsilon", "fraction", "clients_per_round"]
_TIE = 1.02


def ordered(
    metric: Metric,
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


def inflated(factor: float, roles: Sequence[Role] = ("paper", "fixed", "grid")) -> Judge:
    """Under every budget the worst setting has at least `factor` times the loss of the best."""

    def judge(points: Sequence[Point]) -> Judgement:
        groups = _groups(_of(points, roles, ""))
        pairs = [(min(g, key=lambda p: p.loss), max(g, key=lambda p: p.loss)) for g in groups]
        shown = [f"{_budget(good)}: {_loss(good.loss)} to {_loss(bad.loss)}" for good, bad in pairs]
        return Judgement(_share([bad.loss >= factor * good.loss for good, bad in pairs]), "; ".join(shown))

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


def _of(points: Sequence[Point], roles: Sequence[Role], mechanism: str) -> list[Point]:
    return [p for p in points if p.role in roles and mechanism in ("", p.mechanism)]


def _groups(points: Sequence[Point]) -> list[list[Point]]:
    """Points that differ in their setting only."""
    return _split(points, lambda p: (p.mechanism, p.epsilon, p.fraction))


def _rows(points: Sequence[Point], along: Key) -> list[list[Point]]:
    """Points that differ in `along` (and in rounds) only, in its order; rows of one are dropped."""
    keys = ["mechanism", "epsilon", "fraction"] + (["series"] if along != "clients_per_round" else [])
    rows = _split(points, lambda p: tuple(getattr(p, key) for key in keys if key != along))
    return [sorted(row, key=lambda p: getattr(p, along)) for row in rows if len(row) > 1]


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


def _few(rows: list[list[Point]], most: int = 6) -> list[list[Point]]:
    return rows if len(rows) <= most else rows[:: -(-len(rows) // most)]


def _budget(point: Point) -> str:
    return f"{point.mechanism} ε={point.epsilon:g}" + _part(point)


def _part(point: Point) -> str:
    return "" if point.fraction == 1 else f", {point.fraction:.0%} of the records"


def _result(point: Point) -> str:
    return f"(T={point.rounds}, b={point.clients_per_round}) {_loss(point.loss)}"


def _loss(value: float) -> str:
    return f"{value:.3f}"


def _name(point: Point, along: Key) -> str:
    if along == "clients_per_round":
        return _budget(point)
    if along == "epsilon":
        return f"{point.mechanism}, {point.series}{_part(point)}"
    return f"{point.mechanism} ε={point.epsilon:g}, {point.series}"


def _values(row: list[Point], metric: Metric) -> str:
    return " " + " / ".join(f"{getattr(point, metric):.3f}" for point in row)
