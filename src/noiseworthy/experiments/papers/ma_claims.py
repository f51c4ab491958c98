"""What Ma et al. say of their figures, what this product says, and how it is judged.

Final utilities are compared between series of the same mechanism, epsilon_max and partition, paired by seed
(`ma_utility`). A claim agrees if it holds in all places, and partly if in half of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from noiseworthy.experiments.papers.ma_utility import (
    FREE,
    ONE_STAGE,
    PERSONAL_BIASED,
    PLAIN,
    RIVALS,
    TWO_STAGES,
    WITHOUT,
    Gap,
    Group,
    Utility,
    groups,
    named,
    varying,
)
from noiseworthy.experiments.papers.spec import Claim, Judgement, Point, Word
from noiseworthy.privacy.mechanisms import Family

Judge = Callable[[Sequence[Point]], Judgement]
EXTREME = 30.0
"""Points of accuracy that the paper gains where data are most heterogeneous."""


# Judges -----------------------------------------------------------------------------------------------


def leads(utility: Utility, series: str) -> Judge:
    """A series is better than each private rival, in the mean over seeds."""

    def judge(points: Sequence[Point]) -> Judgement:
        held, shown = [], []
        for group in groups(points):
            best = max((group[name] for name in RIVALS if name in group), key=utility.mean)
            gap = utility.gap(group[series], best)
            held.append(gap.mean > 0)
            shown.append(f"{_where(group, points)}: {utility.shown(group[series])}, {gap} on {best.series}")
        return Judgement(share(held), "; ".join(shown))

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
        return Judgement(share([gap.mean > 0 for gap in gaps]), "; ".join(shown))

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
        return Judgement(share(held), "; ".join(shown))

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
        return Judgement(share([gap.mean >= -gap.std for gap in gaps]), "; ".join(shown))

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


def _where(group: Group, points: Sequence[Point]) -> str:
    return named(group, varying=varying(points))


# Claims -----------------------------------------------------------------------------------------------

_NOISE = (
    "Sound noise for so many parameters covers what a round can teach; where nothing is learnt, what is left "
    "between the algorithms is chance."
)
_BY_WEIGHT = (
    "Asking a client of little budget seldom makes its noise smaller; weighing its reply less does not, but "
    "cuts it from the sum. Where budgets differ much both come near each other."
)
_FEW = "Ten rounds of losses at a tenth of their budget tell clients hardly apart, and cost what they cost."


def _best(utility: Utility) -> tuple[Claim, ...]:
    return (
        Claim("DPFL-BCS achieves the highest utility of the private algorithms.",
              leads(utility, TWO_STAGES), _NOISE),
        Claim("One stage, planned by budgets and sizes alone, does so, too.",
              leads(utility, ONE_STAGE), _NOISE, ours=True),
        Claim("One stage is at least as good as two.", as_good(utility, ONE_STAGE, TWO_STAGES),
              "Here what stage 1 tells is worth what it costs.", ours=True),
    )  # fmt: skip


def training(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 2."""
    utility = Utility(regression)
    return (
        *_best(utility),
        Claim("PFA and WeiAvg outperform DPSGD and DMLDP.",
              ahead(utility, ("PFA", "WeiAvg"), PLAIN), _BY_WEIGHT),
        Claim("PrivateFL outperforms DPSGD under Gaussian noise.",
              ahead(utility, ("PrivateFL",), {"gaussian": "DPSGD"}), _PERSONAL),
        Claim("PrivateFL fails to improve on DMLDP under Laplace noise.",
              no_gain(utility, "PrivateFL", "DMLDP", "laplace"), _PERSONAL),
        Claim("Laplace noise compromises utility more than Gaussian noise.", costlier(utility), _NOISE),
    )  # fmt: skip


_PERSONAL = (
    "The transform is clipped and noised together with the model here; trained without noise, as the paper "
    "has it, it would not be private. The server scores the model without anybody's transform."
)


def combined(*, regression: bool) -> tuple[Claim, ...]:
    """Of Table I."""
    utility = Utility(regression)
    than = dict.fromkeys(PLAIN, "PrivateFL")
    return (
        Claim("Biased selection significantly improves PrivateFL.",
              ahead(utility, (PERSONAL_BIASED,), than), _NOISE),
    )  # fmt: skip


def momentum(*, regression: bool) -> tuple[Claim, ...]:
    """Of the comparison with the paper's momentum."""
    return (
        Claim("Under this noise every private algorithm ends better without the paper's momentum of 0.9.",
              each_ahead(Utility(regression), WITHOUT),
              "Momentum is ten times the step: where noise is small enough, that is worth its price.",
              ours=True),
    )  # fmt: skip


def privacy(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 4."""
    utility = Utility(regression)
    return (
        *_best(utility),
        Claim("DPFL-BCS, WeiAvg and PFA get better as ε_max grows.",
              rises(utility, "epsilon", (TWO_STAGES, "WeiAvg", "PFA")), _NOISE),
        Claim("PrivateFL, DPSGD and DMLDP cannot effectively improve as ε_max grows.",
              hardly_rises(utility, "epsilon", ("PrivateFL", "DPSGD", "DMLDP")),
              "The clients of least ε draw the noise, and their ε, too, grows with ε_max."),
    )  # fmt: skip


def data(*, regression: bool) -> tuple[Claim, ...]:
    """Of figure 5."""
    utility = Utility(regression)
    every = (FREE, *RIVALS, TWO_STAGES)
    claims = (
        *_best(utility),
        Claim("Utility deteriorates as α falls.", rises(utility, "alpha", every),
              "A small α also makes clients of many records, who need less noise."),
        Claim("WeiAvg and PFA only work well when α is not very small.", leads_less(utility), _BY_WEIGHT),
    )  # fmt: skip
    gained = Claim(
        "DPFL-BCS improves accuracy by 30 to 40 points where α is extremely small.", extreme(utility), _NOISE
    )
    return claims if regression else (*claims, gained)
