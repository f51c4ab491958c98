"""What typical owners would reach at home beside a plan: alone, shared and tuned, tried on public data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Records
from noiseworthy.home.base import Own, Real
from noiseworthy.home.owners import ALONE, BEST, CANDIDATES
from noiseworthy.home.scores import merits
from noiseworthy.plans.plan import Plan
from noiseworthy.trials.bench import Bench, Candidate, on_each
from noiseworthy.trials.courses import final_models
from noiseworthy.trials.dealing import TEST_RECORDS, dealt, real_owners
from noiseworthy.trials.facts import OWNERS, PublicFacts
from noiseworthy.trials.proxies import Proxy, seed_of
from noiseworthy.trials.spaces import Space

_TYPICAL = 5
"""Owners that stand for all: each for as many records."""
_DEALS = 2
"""Deals of every public data set: where it names owners, one is dealt alike and one has real owners."""
_HELD_OUT = 0.2
"""Share of a real public owner's records that its models are scored on."""
WORTH = 0.01
"""Score by which tuned models must be ahead of own ones for sharing to be advised: a point."""


@dataclass(frozen=True)
class AtHome:
    """What typical owners would reach, by trials on public data.

    Attributes:
        records: of each typical owner, ascending, shape (k,); each stands for as many records of all owners.
        scores: accuracy (R^2 of a regression) of each candidate, mean over the public data, shape (k,).
        gains: of tuned over alone on each public data set, shape (sources, k).
    """

    records: NDArray[np.int64]
    scores: dict[str, Real]
    gains: Real

    @property
    def overall(self) -> dict[str, float]:
        """Score of each candidate over the records of all owners."""
        return {name: float(each.mean()) for name, each in self.scores.items()}

    @property
    def best(self) -> str:
        """What to do: `alone`, unless another is ahead of it by a point; then the better of the two."""
        reached = self.overall
        shared = max(("tuned", "shared"), key=lambda name: reached[name])
        return shared if reached[shared] - reached["alone"] > WORTH else "alone"

    @property
    def gaining(self) -> NDArray[np.bool_]:
        """Whether each typical owner gains a point by tuning, beyond a standard error, shape (k,)."""
        error = self.gains.std(axis=0) / np.sqrt(len(self.gains))
        return self.gains.mean(axis=0) - error > WORTH

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, as records keep it."""
        scores = {name: each.tolist() for name, each in self.scores.items()}
        return {"records": self.records.tolist(), **scores, "gains": self.gains.tolist(), "best": self.best}


class _Site(NamedTuple):
    """A public owner: what it learns from, what it is scored on, and what each of these records counts."""

    own: Own
    x: NDArray
    y: NDArray
    counts: Real


def at_home(bench: Bench, space: Space, winner: Candidate) -> AtHome:
    """Try alone, shared and tuned with a plan on public owners, who have as many records as the private ones.

    The shared model is trained as in every trial, with this federation's noise. A typical owner then draws
    its number of public records: with the classes that an owner of the deal has, or from the records of one
    real public owner. How much private owners differ beyond that nobody knows: where they differ more, own
    and tuned models gain. Of public data with fewer records than an owner has, own models learn too little.

    Args:
        bench: public data.
        space: what is free.
        winner: the setting that was chosen, with its treatment of records.
    """
    proxies = bench.proxies(winner.treatment)
    sizes = proxies[0].problem.sizes
    typical = _typical(sizes)
    every = np.stack(
        on_each(proxies, lambda proxy: _on(proxy, bench.plan(space, winner, proxy), typical))
    )  # (sources, candidates, k)
    mean = np.average(every, axis=0, weights=bench.weights)
    each = dict(zip(CANDIDATES, np.moveaxis(every, 1, 0), strict=True))
    return AtHome(sizes[typical], dict(zip(CANDIDATES, mean, strict=True)), each[BEST] - each[ALONE])


def _typical(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places of the owners that stand for all, by ascending records, shape (k,).

    The owners of the records in the middle of each of k like shares of all records.

    Example:
        >>> _typical(np.array([1, 97, 1, 1])).tolist()
        [1, 1, 1, 1, 1]
    """
    order = np.argsort(sizes, kind="stable")
    middles = (np.arange(_TYPICAL) + 0.5) / _TYPICAL * sizes.sum()
    return order[np.searchsorted(np.cumsum(sizes[order]), middles)]


def _on(proxy: Proxy, plan: Plan | None, typical: NDArray[np.int64]) -> Real:
    """Scores of each candidate and typical owner on one public data set, shape (candidates, k)."""
    task, records, prepare = proxy.task, proxy.records, jax.jit(proxy.task.prepare)
    x, test_x = (np.asarray(prepare(jnp.asarray(part))) for part in (records.x, records.test_x))
    prepared = replace(records, x=x, test_x=test_x)
    thetas = np.tile(np.asarray(task.initial(jax.random.key(0))), (_DEALS, 1))
    if plan is not None and plan.train:
        thetas = final_models(proxy, plan, _DEALS)
    variance = float(np.var(records.test_y))
    scores = np.zeros((_DEALS, len(CANDIDATES), len(typical)))
    for number, theta in enumerate(thetas):
        for j, site in enumerate(_sites(proxy.facts, prepared, typical, seed_of(number))):
            for i, made in enumerate(CANDIDATES.values()):
                model = made(task, theta, site.own, number)
                each = merits(task, model, site.x, site.y, variance)
                scores[number, i, j] = np.nan_to_num(np.average(each, weights=site.counts))
    return scores.mean(axis=0)


def _sites(facts: PublicFacts, records: Records, typical: NDArray[np.int64], seed: int) -> Iterator[_Site]:
    """What typical owners of a deal have."""
    rng, sizes = np.random.default_rng(seed), facts.problem.sizes
    if (stood_for := real_owners(facts, records, seed, rng)) is not None:
        for place in typical:
            own = rng.permutation(stood_for[place])
            held_out = max(1, round(_HELD_OUT * len(own)))
            learnt, tested = own[held_out:][: sizes[place]], own[:held_out]
            scored = records.x[tested], records.y[tested], np.ones(len(tested))
            yield _Site(Own(records.x[learnt], records.y[learnt]), *scored)
        return
    tested = rng.permutation(len(records.test_x))[:TEST_RECORDS]
    x, y = records.test_x[tested], records.test_y[tested]
    for place, shares in zip(typical, _shares(facts, records, typical, seed), strict=True):
        learnt = _drawn(records, int(sizes[place]), shares, rng)
        counts = _to_shares(y, shares)
        yield _Site(Own(records.x[learnt], records.y[learnt]), x, y, counts)


def _shares(facts: PublicFacts, records: Records, typical: NDArray[np.int64], seed: int) -> list[Real | None]:
    """Shares of the classes that typical owners of a deal have; None where all are dealt alike."""
    if records.classes is None or facts.partition in (OWNERS, "iid"):
        return [None] * len(typical)
    deal = dealt(facts, records, seed)
    counts = [np.bincount(deal.y[i, : deal.sizes[i]], minlength=records.classes) for i in typical]
    return [count / count.sum() for count in counts]


def _drawn(records: Records, n: int, shares: Real | None, rng: np.random.Generator) -> NDArray[np.int64]:
    """Places of n records, or as many as there are, with some shares of the classes, each at most once."""
    order = rng.permutation(len(records.y))
    if shares is None:
        return order[:n]
    wanted = rng.multinomial(n, shares)
    return np.concatenate([order[records.y[order] == c][:k] for c, k in enumerate(wanted)])


def _to_shares(y: NDArray, shares: Real | None) -> Real:
    """What each record counts, so that classes have some shares of them."""
    if shares is None:
        return np.ones(len(y))
    return (shares / np.bincount(y, minlength=len(shares)).clip(1))[y]
