"""How settings are compared: a vote of the proxies on what each loses, and which one is settled on."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from noiseworthy._validate import Real
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment

_CAP = 1.0
"""Lost gain that one proxy may count at most: that of not training. An odd one then weighs no more."""
_RUIN = 0.1
"""What the vote without a cap adds, so that diverging on a proxy is worse than learning nothing there."""
_TIE = 0.005
"""Lost gain within which settings count as equally good."""
_ENOUGH, _ENOUGH_OF_SQUARES = 0.1, 1.0
"""What can be gained on a proxy from which on it counts in full: of classes a share of the untrained loss, of
numbers a logarithm, so that it is two thirds of the untrained error."""
_HARM = 2.0
"""Logarithm of the untrained error beyond which more error than that counts no more."""
TELLING = 0.97
"""Loss over the untrained one above which a proxy cannot tell how much a setting loses."""
_CHEAP, _CHEAP_TREATED_ALIKE = 0.01, 0.03
"""Lost gain that fewer uploads may cost, and where records are treated alike; stand-ins differ by more."""


class Price(NamedTuple):
    """What some uploads reach.

    Attributes:
        uploads: of all clients together.
        lost: share of the attainable gain that is lost with them, over all proxies.
    """

    uploads: int
    lost: float


def lost_of(losses: Real, best: Real) -> Real:
    """(L - best) / (untrained - best) per proxy, losses in shares of the untrained one, at most 2."""
    return np.minimum((losses - best[:, None]) / np.maximum(1 - best, 1e-3)[:, None], 2.0)


def vote(bench: Bench, losses: Real, best: Real) -> Real:
    """What the proxies lose together of all that can be gained on them, shape (candidates,).

    Where hardly anything can be gained, a share of it says hardly anything; beyond what is enough it says as
    much as anywhere else, so that easy data do not outvote those on which a long way is too far. Squared
    errors count by their logarithms: nearly all of an untrained error is often the mean of the labels, beside
    which differences between models would be nothing. More than the untrained error counts as far as it goes:
    how large labels are is known least, and too long a way may end at many times of it.
    """
    if bench.facts.classes is None:
        losses, best = (1 + np.log(np.maximum(share, 1e-9)) for share in (losses, best))
        gain = np.maximum(1 - best, 1e-3)
        harm = np.minimum(losses - best[:, None], gain[:, None] + _HARM) / gain[:, None]
        return np.average(harm, axis=0, weights=bench.weights * np.minimum(gain, _ENOUGH_OF_SQUARES))
    lost, gain = lost_of(losses, best), np.clip(1 - best, 1e-3, _ENOUGH)
    return np.average(np.minimum(lost, _CAP) + _RUIN * lost, axis=0, weights=bench.weights * gain)


def doubts(bench: Bench, voted: Real, best: Real) -> Real:
    """Standard errors over seeds of what each candidate loses more than the best, shape (candidates,).

    Args:
        bench: whose proxies vote.
        voted: what is voted on, shape (proxies, candidates, seeds).
        best: of it, on each proxy.
    """
    each = np.array([vote(bench, losses, best) for losses in np.moveaxis(voted, 2, 0)])
    more = each - each[:, [each.mean(axis=0).argmin()]]
    return more.std(axis=0, ddof=1) / np.sqrt(len(each)) if len(each) > 1 else np.zeros(len(more[0]))


def settled(
    bench: Bench, space: Space, candidates: Sequence[Candidate], votes: Real,
    unsure: Real | float = 0.0,
) -> int:  # fmt: skip
    """Among the candidates within `_TIE` of the best vote, the one that does least to records and gradients.

    That public data do not tell two settings apart does not mean that private data will not: what pooling or
    a small clip throw away may matter there. Among those that do as little, the one of fewest uploads that
    loses little more than the best: `_CHEAP` decides how records are treated, then `_CHEAP_TREATED_ALIKE` or
    what is unsure by `doubts`, which is within chance.
    """

    def gentleness(place: int) -> tuple[float, float]:
        made, clip = bench.plan(space, candidates[place]), candidates[place].setting.clip
        return (-np.inf, -np.inf) if made is None else (made.problem.dimension, clip)

    def cheapest(more: Real | float, treatments: Sequence[Treatment | None]) -> int:
        near: list[int] = np.flatnonzero(votes <= votes.min() + more).tolist()
        # never empty: the gentlest is within `_TIE` of the best, and so within what fewer uploads may cost
        free = [i for i in near if gentleness(i) >= least and candidates[i].treatment in treatments]
        return min(free, key=lambda place: (_uploads(bench, space, candidates[place]), votes[place]))

    least = max(gentleness(place) for place in np.flatnonzero(votes <= votes.min() + _TIE).tolist())
    usual = cheapest(_CHEAP, [one.treatment for one in candidates])
    return cheapest(np.maximum(_CHEAP_TREATED_ALIKE, unsure), [candidates[usual].treatment])


def frontier(bench: Bench, space: Space, candidates: Sequence[Candidate], votes: Real) -> tuple[Price, ...]:
    """The candidates that no other beats in both uploads and votes, from the most uploads to the fewest."""
    uploads = [_uploads(bench, space, one) for one in candidates]
    prices = sorted(Price(*pair) for pair in zip(uploads, votes.tolist(), strict=True))
    before = np.minimum.accumulate([np.inf, *(price.lost for price in prices[:-1])])
    return tuple(price for price, best in zip(prices, before, strict=True) if price.lost < best)[::-1]


def _uploads(bench: Bench, space: Space, candidate: Candidate) -> int:
    """Of all clients, of whom those that are tried stand for the others."""
    made = bench.plan(space, candidate)
    return 0 if made is None else round(made.uploads.mean() * bench.facts.problem.n_clients)
