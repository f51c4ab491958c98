"""What trials prove about a mechanism, at a stated rate of false alarms: exact counts, no asymptotics.

In a trial a fair coin chooses one of two neighbouring data sets, the mechanism runs, and an attacker names
the coin from what was released. Whatever the attacker does,

    P(error) >= (1 - TV) / 2,    TV = total variation between the two laws of what is released = delta(0),

so few errors prove a large TV. A family of noise (`audit.families`) turns TV into epsilon; without a family,
hits and false alarms bound epsilon at a given delta directly.
"""

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import beta

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput

_LEVELS = np.linspace(0.002, 0.998, 250)
"""Quantiles of the scores that are tried as thresholds, on one half of the trials."""


def most_probable(events: ArrayLike, trials: ArrayLike, false_alarm: float) -> Real:
    """Clopper-Pearson upper limit on the probability of an event.

    Args:
        events: how often it happened, at least 0.
        trials: independent trials, at least `events`.
        false_alarm: probability with which the limit may be too low, in (0, 1).

    Returns:
        The limit, of the broadcast shape; 1 where every trial was an event, or there was none.

    Raises:
        InvalidInput: a false alarm outside (0, 1), more events than trials, negative counts.

    Guarantee: P(limit < p) <= false_alarm for every p. It holds too where the trials have different
    probabilities of mean p (Hoeffding 1956, Theorem 4).

    Example:
        >>> float(most_probable(0, 100, 0.05).round(4))
        0.0295

    Source: Clopper & Pearson 1934.
    """
    check.in_unit_interval("false_alarm", false_alarm, closed_left=False)
    events, trials = np.broadcast_arrays(np.asarray(events, float), np.asarray(trials, float))
    if np.any(events < 0) or np.any(events > trials):
        raise InvalidInput("events must lie between 0 and the number of trials; count them again")
    inner = events < trials
    limit = beta.ppf(1 - false_alarm, np.where(inner, events, 0) + 1, np.where(inner, trials - events, 1))
    return np.where(inner, limit, 1.0)


def least_advantage(errors: int, trials: int, false_alarm: float) -> float:
    """Lower limit on the total variation that an attacker's errors prove, 1 - 2 P(error).

    Args:
        errors: coins named wrongly.
        trials: coins named.
        false_alarm: probability with which the limit may be too high.

    Returns:
        In [0, 1); 0 proves nothing.

    Guarantee: the rule by which the attacker names coins was fixed before the trials, so that
    P(limit > TV) <= false_alarm.

    Example:
        >>> round(least_advantage(350, 1000, 0.05), 3)
        0.249
    """
    return max(1 - 2 * float(most_probable(errors, trials, false_alarm)), 0.0)


def errors_of(present: Real, absent: Real) -> int:
    """Coins that the threshold 0 names wrongly; a score of exactly 0 names the canary absent.

    Args:
        present: scores, log-likelihood ratios, of trials with one data set.
        absent: of trials with its neighbour.

    Example:
        >>> errors_of(np.array([1.0, -0.1]), np.array([-2.0, 0.0]))
        1
    """
    return int(np.sum(present <= 0) + np.sum(absent > 0))


def rates_of(present: Real, absent: Real, points: int = 101) -> tuple[list[float], list[float]]:
    """Rates of false alarms and of misses at thresholds from high to low: what the attacker reached.

    Args:
        present, absent: as `errors_of`.
        points: thresholds, at quantiles of all scores.

    Example:
        >>> rates_of(np.array([1.0, 2.0]), np.array([-1.0, -2.0]), 3)
        ([0.0, 0.0, 0.5], [0.5, 0.0, 0.0])
    """
    levels = np.quantile(np.concatenate([present, absent]), np.linspace(0.999, 0.001, points))
    alarms = 1 - np.searchsorted(np.sort(absent), levels, "right") / max(len(absent), 1)
    misses = np.searchsorted(np.sort(present), levels, "right") / max(len(present), 1)
    return alarms.tolist(), misses.tolist()


def family_free_epsilon(present: Real, absent: Real, delta: float, false_alarm: float) -> float:
    """Lower limit on epsilon at `delta` that holds for any mechanism whatever.

        epsilon >= log((P(hit) - delta) / P(false alarm)),  in both directions

    Direction and threshold are chosen on one half of the trials and judged on the other.

    Args:
        present, absent: as `errors_of`.
        delta: in [0, 1).
        false_alarm: probability with which the limit may be too high, in (0, 1).

    Returns:
        At least 0; 0 without trials on either side.

    Example:
        >>> generator = np.random.default_rng(0)
        >>> family_free_epsilon(generator.normal(3, 1, 2000), generator.normal(-3, 1, 2000), 1e-5, 0.05) > 2
        True

    Source: Jagielski, Ullman & Oprea 2020, without their reuse of the sample for the threshold.
    """
    check.in_unit_interval("delta", delta, closed_left=True)
    halves = [_half(present, absent, 0), _half(present, absent, 1)]
    if not all(sample.size for half in halves for sample in half):
        return 0.0
    first, second = halves
    levels = np.quantile(np.concatenate(first), _LEVELS)
    limits = [_limits(*_turned(first, way), way * levels, delta, false_alarm) for way in (1, -1)]
    best, place = divmod(int(np.argmax(limits)), levels.size)
    way = (1, -1)[best]
    found = _limits(*_turned(second, way), way * levels[[place]], delta, false_alarm)
    return max(float(found[0]), 0.0)


Samples: TypeAlias = tuple[Real, Real]


def _half(present: Real, absent: Real, which: int) -> Samples:
    return present[which::2], absent[which::2]


def _turned(samples: Samples, way: int) -> Samples:
    """The other direction asks how well the absence of the canary is found."""
    present, absent = samples
    return (present, absent) if way > 0 else (-absent, -present)


def _limits(hits: Real, alarms: Real, levels: Real, delta: float, false_alarm: float) -> Real:
    """At each threshold; the two limits on rates err with half of the false alarms each."""
    misses = np.searchsorted(np.sort(hits), levels, "right")
    raised = len(alarms) - np.searchsorted(np.sort(alarms), levels, "right")
    hit = 1 - most_probable(misses, len(hits), false_alarm / 2)
    alarm = most_probable(raised, len(alarms), false_alarm / 2)
    # a hit rate within delta proves nothing: its logarithm is far below 0, where the caller cuts it off
    return np.log(np.maximum(hit - delta, 1e-300) / alarm)
