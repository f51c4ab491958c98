"""When another algorithm would do better: where two fitted bounds cross, within what trials have covered."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from noiseworthy._validate import Real
from noiseworthy.trials.advisor import FIRST_SEED, Entry
from noiseworthy.trials.bench import Bench
from noiseworthy.trials.courses import constant_score, untrained_score
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.fitted_bound import fit
from noiseworthy.trials.landscape import landscape
from noiseworthy.trials.what_if import Curve, WhatIf

SEEDS = range(2 * FIRST_SEED, 2 * FIRST_SEED + 2)
"""Of the trials that bounds are fitted to, which neither races nor the ranking use."""


@dataclass(frozen=True)
class Crossover:
    """Where another algorithm is predicted to do better along one axis.

    Attributes:
        axis: what x counts.
        below: x below which it does; None where it does at no smaller x that was trialled.
        above: x above which it does; None likewise.
        low: least x that trials of both cover.
        high: greatest x.
    """

    axis: str
    below: float | None
    above: float | None
    low: float
    high: float


@dataclass(frozen=True)
class Outlook:
    """The algorithm that is ahead beside another, along epsilon, clients and cost.

    Attributes:
        other: name of the other.
        flips: one for each axis that trials of both cover; only leads above the errors of both fits count.
        ours: curves of the one that is ahead, moved to what was measured.
        theirs: those of the other.
        fits: how well the theory of each fits its trials, in words.
        trust: what ours is predicted to reach for each that owners may trust, as plain values.
    """

    other: str
    flips: tuple[Crossover, ...]
    ours: tuple[Curve, ...]
    theirs: tuple[Curve, ...]
    fits: tuple[str, str]
    trust: tuple[dict[str, Any], ...] = ()


def outlook(bench: Bench, ours: Entry, theirs: Entry, seconds: float = np.inf) -> Outlook | None:
    """When another algorithm would be predicted to do better than ours.

    Args:
        bench: the proxies.
        ours: the algorithm that is ahead; it trains.
        theirs: the other; it trains.
        seconds: for the trials that the bounds of both are fitted to.

    Returns:
        An `Outlook`; None where no bound can be fitted.
    """
    mine, other = (what_if(bench, one, Deadline(seconds / 2)) for one in (ours, theirs))
    if mine is None or other is None:
        return None
    near, far = _curves(bench, mine, ours), _curves(bench, other, theirs)
    # not `max`, which gives NaN or not by the order of the two: an error that is not known lets no lead count
    doubt = float(np.maximum(mine.bound.left_out, other.bound.left_out))
    flips = [flip(a, b, doubt) for a, b in zip(near, far, strict=True)]
    fits = (mine.bound.quality, other.bound.quality)
    trusts = tuple(one.as_dict() for one in mine.trusts())
    return Outlook(theirs.name, tuple(one for one in flips if one), near, far, fits, trusts)


def _curves(bench: Bench, guess: WhatIf, entry: Entry) -> tuple[Curve, ...]:
    """Curves of what entries are ranked by, moved to what was measured; of tuned models those shared."""
    measured, curves = float(entry.per_seed.mean()), (guess.epsilon(), guess.clients(), guess.cost())
    if entry.missed is None or bench.facts.for_owners:
        return tuple(anchored(guess, curve, entry.shared) for curve in curves)
    proxies = bench.proxies(entry.found.result.winner.treatment)
    most = float(np.mean([1 - constant_score(proxy) for proxy in proxies]))
    return tuple(in_metric(curve, measured, most) for curve in curves)


def in_metric(curve: Curve, measured: float, most: float) -> Curve:
    """A curve of what is missed of a metric instead of the loss, moved to what was measured.

    Args:
        curve: along any axis, whose accuracy is the metric.
        measured: what was missed under the common seeds, over what the best constant answer misses.
        most: that the best constant answer misses.
    """
    missed = (1 - np.array(curve.accuracy)) / most
    moved = missed + measured - np.interp(np.log(curve.own), np.log(curve.x), missed)
    moved = np.clip(moved, 0.0, 1.0)
    return replace(curve, loss=tuple(moved.tolist()), accuracy=tuple((1 - most * moved).tolist()))


def what_if(bench: Bench, entry: Entry, deadline: Deadline) -> WhatIf | None:
    """The theory of an entry's algorithm fitted to trials around its plan; None where none of them trains.

    Args:
        bench: the proxies.
        entry: of the advice, whose plan trains.
        deadline: of the trials.
    """
    winner = entry.found.result.winner
    points = landscape(bench, entry.space, winner, SEEDS, deadline=deadline)
    if not points:
        return None
    start = np.mean([untrained_score(proxy) for proxy in bench.proxies(winner.treatment)])
    return WhatIf.of(fit(points, float(start)), entry.found.plan, bench.facts.own_epsilon)


def anchored(guess: WhatIf, curve: Curve, measured: float) -> Curve:
    """A curve moved up or down so that it has, at the study's own x, the loss that was measured there.

    Args:
        guess: whose curve it is.
        curve: along any axis.
        measured: loss under the common seeds, over the untrained one.
    """
    loss = np.array(curve.loss)
    moved = loss + measured - np.interp(np.log(curve.own), np.log(curve.x), loss)
    moved = np.where(loss < 1, np.clip(moved, 0.0, 1.0), 1.0)
    return replace(curve, loss=tuple(moved.tolist()), accuracy=tuple(guess.bound.accuracy(moved).tolist()))


def flip(ours: Curve, theirs: Curve, doubt: float = 0.0) -> Crossover | None:
    """Where the other of two curves falls below ours, nearest to the study's own x on both sides.

    Args:
        ours: of the algorithm that is ahead at its own x.
        theirs: of another, along the same axis.
        doubt: lead in the loss that the other must win beyond a crossing for it to count.

    Returns:
        A `Crossover` within the x that trials of both cover; None where these are fewer than two.

    Example:
        >>> x, inside = (1.0, 2.0, 4.0, 8.0), (True, True, True, False)
        >>> ours = Curve("epsilon", x, (0.5, 0.4, 0.4, 0.4), (), inside, 2.0)
        >>> theirs = Curve("epsilon", x, (0.8, 0.5, 0.3, 0.1), (), inside, 2.0)
        >>> found = flip(ours, theirs)
        >>> found.below, round(found.above, 3), found.high
        (None, 2.828, 4.0)
    """
    covered = [np.array(one.x)[np.array(one.inside)] for one in (ours, theirs)]
    if min(map(len, covered)) < 2:
        return None
    low, high = max(x[0] for x in covered), min(x[-1] for x in covered)
    x = np.unique(np.clip(np.concatenate([*covered, [ours.own]]), low, high))
    if len(x) < 2:
        return None
    behind = _at(ours, x) - _at(theirs, x)
    own = int(np.searchsorted(x, np.clip(ours.own, low, high)))
    below, above = (_crossing(x[way], behind[way], doubt) for way in (slice(own, None, -1), slice(own, None)))
    return Crossover(ours.axis, below, above, float(low), float(high))


def _at(curve: Curve, x: Real) -> Real:
    """Losses between points along log x."""
    return np.interp(np.log(x), np.log(curve.x), curve.loss)


def _crossing(x: Real, behind: Real, doubt: float) -> float | None:
    """The first x at which we are behind, between points along log x; the first point counts as ahead."""
    lost = np.flatnonzero(behind[1:] > 0)
    if not lost.size or not behind[1:].max() > doubt:
        return None
    i = int(lost[0])
    before, after = min(float(behind[i]), 0.0), float(behind[i + 1])
    share = before / (before - after)
    return float(x[i] ** (1 - share) * x[i + 1] ** share)
