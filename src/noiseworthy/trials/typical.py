"""Typical owners of a federation, with public records as they have private ones."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Records
from noiseworthy.engines.shards import preparing
from noiseworthy.home.base import Own, Real
from noiseworthy.tasks.base import Task
from noiseworthy.trials.dealing import TEST_RECORDS, dealt, real_owners
from noiseworthy.trials.facts import OWNERS, PublicFacts

_HELD_OUT = 0.2
"""Share of a real public owner's records that its models are scored on; of an only one, the test records."""


class Site(NamedTuple):
    """A public owner: what it learns from, what it is scored on, and what each of these records counts."""

    own: Own
    x: NDArray
    y: NDArray
    counts: Real


class Home(NamedTuple):
    """A typical public owner with the mean test loss and the score of its own model."""

    site: Site
    alone: float
    score: float


def typical(sizes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Places of the owners that stand for all, by ascending records, shape (k,).

    The owners of the records in the middle of each of k like shares of all records.

    Example:
        >>> typical(np.array([1, 97, 1, 1]), 5).tolist()
        [1, 1, 1, 1, 1]
    """
    order = np.argsort(sizes, kind="stable")
    middles = (np.arange(count) + 0.5) / count * sizes.sum()
    return order[np.searchsorted(np.cumsum(sizes[order]), middles)]


def prepared(records: Records, task: Task) -> Records:
    """Public records as a model takes them."""
    x, test_x = (np.asarray(preparing(task)(jax.device_put(part))) for part in (records.x, records.test_x))
    return replace(records, x=x, test_x=test_x)


def sites(facts: PublicFacts, records: Records, places: NDArray[np.int64], seed: int) -> Iterator[Site]:
    """What typical owners of a deal have."""
    rng, sizes = np.random.default_rng(seed), facts.problem.sizes
    if (stood_for := real_owners(facts, records, seed, rng)) is not None:
        for place in places:
            own = rng.permutation(stood_for[place])
            # an only record is learnt from: nothing can be learnt from none
            held_out = min(max(1, round(_HELD_OUT * len(own))), len(own) - 1)
            learnt, tested = own[held_out:][: sizes[place]], own[:held_out]
            mine, others = (records.x[tested], records.y[tested]), (records.test_x, records.test_y)
            x, y = mine if held_out else others
            yield Site(Own(records.x[learnt], records.y[learnt]), x, y, np.ones(len(y)))
        return
    tested = rng.permutation(len(records.test_x))[:TEST_RECORDS]
    x, y = records.test_x[tested], records.test_y[tested]
    for place, shares in zip(places, _shares(facts, records, places, seed), strict=True):
        learnt = _drawn(records, int(sizes[place]), shares, rng)
        yield Site(Own(records.x[learnt], records.y[learnt]), x, y, _to_shares(y, shares))


def _shares(facts: PublicFacts, records: Records, places: NDArray[np.int64], seed: int) -> list[Real | None]:
    """Shares of the classes that typical owners of a deal have; None where all are dealt alike."""
    if records.classes is None or facts.partition in (OWNERS, "iid"):
        return [None] * len(places)
    deal = dealt(facts, records, seed)
    counts = [np.bincount(deal.y[i, : deal.sizes[i]], minlength=records.classes) for i in places]
    return [count / count.sum() for count in counts]


def _drawn(records: Records, n: int, shares: Real | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Places of n records, or as many as there are, with some shares of the classes, each at most once."""
    order = rng.permutation(len(records.y))
    if shares is None:
        return order[:n]
    wanted = rng.multinomial(n, shares)
    return np.concatenate([order[records.y[order] == c][:k] for c, k in enumerate(wanted)])


def _to_shares(y: NDArray, shares: Real | None) -> Real:
    """What each record counts, so that classes have some shares of them; all alike where none has any."""
    each = np.ones(len(y)) if shares is None else (shares / np.bincount(y, minlength=len(shares)).clip(1))[y]
    # an owner may hold nothing but a class of which public data have no test record: no mean is over none
    return each if np.any(each) else np.ones(len(y))
