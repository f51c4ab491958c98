"""How claims of Ma et al. are judged: small functions from measured points to a verdict with its numbers.

Final utilities are compared between series of the same mechanism, epsilon_max and partition, paired by seed
(`ma_utility`). A claim agrees if it holds in all places, and partly if in half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from noiseworthy.experiments.papers.ma_utility import (
    FREE,
    PLAIN,
    RIVALS,
    TWO_STAGES,
    Gap,
    Group,
    Utility,
    groups,
    named,
    varying,
)
from noiseworthy.experiments.papers.spec import Judgement, Point, Word
from noiseworthy.privacy.mechanisms import Family

Judge = Callable[[Sequence[Point]], Judgement]
FEW = 6
EXTREME = 30.0
"""Points of accuracy that the paper gains where data are most heterogeneous."""


def leads(utility: Utility, series: str) -> Judge:
    """A series is better than each private rival, in the mean over seeds."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for group in groups(points):
            best = max((group[name] for name in RIVALS if name in group), key=utility.mean)
            gap = utility.gap(group[series], best)
            held.append(gap.mean > 0)
            shown.append(f"{_where(group, points)}: {utility.shown(group[series])}, {gap} on {best.series}")
        return Judgement(share(held), _told(held, shown))

    return judge


def ahead(utility: Utility, series: Sequence[str], than: Mapping[Family, str]) -> Judge:
    """Each series is better than the one that it is compared with under its mechanism."""

    def judge(points: Sequence[Point]) -> Judgement:
        pairs = [
            (group, group[name], group[than[mechanism]])
            for group in groups(points)
            for name in series
            if (mechanism := next(iter(group.values())).mechanism) in than
        ]
        gaps = [utility.gap(first, second) for _, first, second in pairs]
        shown = [
            f"{_where(group, points)}: {first.series} {gap} on {second.series}"
            for (group, first, second), gap in zip(pairs, gaps, strict=True)
        ]
        held = [gap.mean > 0 for gap in gaps]
        return Judgement(share(held), _told(held, shown))

    return judge


def each_ahead(utility: Utility, mark: str) -> Judge:
    """Each series with a mark at the end of its label is better than the one without."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for group in groups(points):
            for name in [name for name in group if name.endswith(mark)]:
                gap = utility.gap(group[name], group[name.removesuffix(mark)])
                held.append(gap.mean > 0)
                shown.append(f"{_where(group, points)} {name.removesuffix(mark)}: {gap}")
        return Judgement(share(held), _told(held, shown))

    return judge


def no_gain(utility: Utility, series: str, than: str, mechanism: str) -> Judge:
    """A series is not better than another beyond its deviation over seeds."""

    def judge(points: Sequence[Point]) -> Judgement:
        chosen = [group for group in groups(points) if next(iter(group.values())).mechanism == mechanism]
        gaps = [utility.gap(group[series], group[than]) for group in chosen]
        shown = [f"{_where(group, points)}: {gap}" for group, gap in zip(chosen, gaps, strict=True)]
        return Judgement(share([gap.mean <= gap.std for gap in gaps]), "; ".join(shown))

    return judge


def as_good(utility: Utility, series: str, than: str) -> Judge:
    """A series is as good as another or better: behind by no more than its deviation over seeds."""

    def judge(points: Sequence[Point]) -> Judgement:
        found = groups(points)
        gaps = [utility.gap(group[series], group[than]) for group in found]
        shown = [f"{_where(group, points)}: {gap}" for group, gap in zip(found, gaps, strict=True)]
        held = [gap.mean >= -gap.std for gap in gaps]
        return Judgement(share(held), _told(held, shown))

    return judge


def costlier(utility: Utility) -> Judge:
    """Every private series loses more under Laplace noise."""

    def judge(points: Sequence[Point]) -> Judgement:
        gaussian, laplace = (
            {p.series: p for p in points if p.mechanism == m} for m in ("gaussian", "laplace")
        )
        both = [name for name in gaussian if name in laplace and name != FREE]
        gaps = {name: utility.gap(gaussian[name], laplace[name]) for name in both}
        shown = "; ".join(f"{name} {gap}" for name, gap in gaps.items())
        return Judgement(share([gap.mean > 0 for gap in gaps.values()]), f"Gaussian over Laplace: {shown}")

    return judge


def rises(utility: Utility, along: str, series: Sequence[str]) -> Judge:
    """Each series is better at the greatest value of `along` than at the least."""

    def judge(points: Sequence[Point]) -> Judgement:
        gains = gains_of(utility, points, along, series)
        shown = "; ".join(f"{name} {gap}" for name, gap in gains.items())
        return Judgement(share([gap.mean > 0 for gap in gains.values()]), f"from end to end: {shown}")

    return judge


def hardly_rises(utility: Utility, along: str, series: Sequence[str]) -> Judge:
    """From end to end of `along` each series gains less than half of what DPFL-BCS gains."""

    def judge(points: Sequence[Point]) -> Judgement:
        gains = gains_of(utility, points, along, series)
        ours = gains_of(utility, points, along, [TWO_STAGES])
        most = {name: ours[f"{name.partition(' ')[0]} {TWO_STAGES}"].mean / 2 for name in gains}
        shown = "; ".join(f"{name} {gap}" for name, gap in (gains | ours).items())
        held = [gap.mean < max(most[name], 0.0) for name, gap in gains.items()]
        return Judgement(share(held), f"from end to end: {shown}")

    return judge


def extreme(utility: Utility) -> Judge:
    """DPFL-BCS gains 30 points at the least alpha: on the best rival, or partly only on the plain one."""

    def judge(points: Sequence[Point]) -> Judgement:
        least = min(p.alpha for p in points if p.alpha is not None)
        words, shown = [], []
        for group in groups([p for p in points if p.alpha == least]):
            rivals = [group[name] for name in RIVALS if name in group]
            ours, plain = group[TWO_STAGES], group[PLAIN[rivals[0].mechanism]]
            best = max(rivals, key=utility.mean)
            gaps = utility.gap(ours, best), utility.gap(ours, plain)
            words.append(_word([gap.mean >= EXTREME for gap in gaps]))
            mechanism = rivals[0].mechanism
            shown.append(f"{mechanism}: {gaps[0]} on {best.series}, {gaps[1]} on {plain.series}")
        return Judgement(min(words, key=_STRENGTH.index), "; ".join(shown))

    return judge


def leads_less(utility: Utility) -> Judge:
    """The lead of WeiAvg and of PFA on the plain rival is less at the least alpha than at the greatest."""

    def judge(points: Sequence[Point]) -> Judgement:
        alphas = sorted({p.alpha for p in points if p.alpha is not None})
        held, shown = [], []
        for mechanism, plain in PLAIN.items():
            ends = [{p.series: p for p in points if (p.mechanism, p.alpha) == (mechanism, a)}
                    for a in (alphas[0], alphas[-1])]  # fmt: skip
            for name in ("WeiAvg", "PFA"):
                low, high = (utility.gap(end[name], end[plain]) for end in ends)
                held.append(low.mean < high.mean)
                shown.append(
                    f"{mechanism} {name} on {plain}: {low} at α={alphas[0]:g}, {high} at α={alphas[-1]:g}"
                )
        return Judgement(share(held), "; ".join(shown))

    return judge


def gains_of(utility: Utility, points: Sequence[Point], along: str, series: Sequence[str]) -> dict[str, Gap]:
    """Gap between the greatest and the least value of `along`, by mechanism and series."""
    gains = {}
    for mechanism in PLAIN:
        for name in series:
            line = [p for p in points if (p.mechanism, p.series) == (mechanism, name)]
            if line:
                ends = (f(line, key=lambda p: p.quantity(along)) for f in (max, min))
                gains[f"{mechanism} {name}"] = utility.gap(*ends)
    return gains


_STRENGTH: tuple[Word, ...] = ("disagrees", "partly", "agrees")


def _word(held: Sequence[bool]) -> Word:
    return _STRENGTH[sum(held)]


def share(held: Sequence[bool]) -> Word:
    """All hold: agrees. At least half: partly."""
    if held and all(held):
        return "agrees"
    return "partly" if held and 2 * sum(held) >= len(held) else "disagrees"


def _told(held: Sequence[bool], shown: Sequence[str]) -> str:
    """The places that a claim was looked at; of many only those where it failed, or a few."""
    if len(shown) <= FEW:
        return "; ".join(shown)
    failed = [text for holds, text in zip(held, shown, strict=True) if not holds]
    listed, rest = failed or shown, "; …" if len(failed or shown) > FEW else ""
    return f"{sum(held)} of {len(held)}{', but not' if failed else ''}: {'; '.join(listed[:FEW])}{rest}"


def _where(group: Group, points: Sequence[Point]) -> str:
    return named(group, varying=varying(points))
