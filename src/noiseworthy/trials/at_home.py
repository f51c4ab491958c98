"""What typical owners would reach at home beside a plan, and what would make sharing worth it."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy.home.base import AtHome as Making
from noiseworthy.home.base import Real
from noiseworthy.home.candidates import ALONE, BEST, CANDIDATES, SHARED, own_model, tuned_model
from noiseworthy.home.scores import merits
from noiseworthy.methods.registry import method
from noiseworthy.methods.space import MOST_CLIENTS
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.trust import Trust
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.courses import LAST, final_models, of_each
from noiseworthy.trials.facts import OWNERS, PublicFacts
from noiseworthy.trials.landscape import scaled
from noiseworthy.trials.proxies import Proxy, on_each, seed_of
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.tuned import OWN_EPOCHS, TUNED_EPOCHS, gains_of
from noiseworthy.trials.typical import prepared, sites, typical

CROWDS, BUDGETS = (4, 16), (2, 8)
"""Times as many owners, and times the epsilon, that are tried until one is enough."""
_SEEDS = (20_000, 20_001, 20_002, 20_003)
"""Noise seeds that races do not reach: two deals; of networks the first."""
Way = Literal["owners", "epsilon", "secure-sum"]


class Otherwise(NamedTuple):
    """What tuned models would be ahead of own ones by, with the same setting.

    Attributes:
        way: what is otherwise.
        value: owners in all, or the epsilon stated of the owner that has most; 0 of noise that is summed.
        gain: score, mean over public data and typical owners.
    """

    way: Way
    value: float
    gain: float


def otherwise(bench: Bench, space: Space, winner: Candidate, enough: float) -> tuple[Otherwise, ...]:
    """Of each way the least that makes tuned models enough better than own ones, or the most that was tried.

    The mean of c N replies carries 1/c of the noise variance of the mean of N, so that the trials of the
    federation serve for more owners with 1/sqrt(c) of its noise. The setting stays: another might gain more.

    Args:
        bench: public data.
        space: what is free.
        winner: the setting that was chosen.
        enough: gain in score to look for.
    """
    found: dict[Way, Otherwise] = {}
    for way, value, changed in _cases(bench.facts, bool(method(space.algorithm).reads)):
        if way not in found or found[way].gain <= enough:
            gain = _gain(bench, space, winner, changed)
            if gain is not None:
                found[way] = Otherwise(way, value, gain)
    return tuple(found.values())


def _cases(facts: PublicFacts, reads: bool) -> Iterator[tuple[Way, float, Callable[[Proxy], Proxy]]]:
    problem, n = facts.problem, facts.problem.n_clients
    for crowd in CROWDS:
        yield "owners", n * crowd, lambda one, by=crowd: replace(one, noise_factor=one.noise_factor / by**0.5)
    for budget in BUDGETS:
        own = facts.own_epsilon * budget
        yield "epsilon", own, lambda one, by=budget: _with(one, scaled(one.facts.problem, by))
    summed = Trust("secure-sum")
    if problem.trust == Trust() and not reads and summed.least_cohort <= n <= MOST_CLIENTS:
        yield "secure-sum", 0.0, lambda one: _with(one, replace(one.facts.problem, trust=summed))


def _with(proxy: Proxy, problem: Problem) -> Proxy:
    return replace(proxy, facts=replace(proxy.facts, problem=problem))


def _gain(bench: Bench, space: Space, winner: Candidate, changed: Callable[[Proxy], Proxy]) -> float | None:
    """Mean gain over the proxies as they would be; None where the setting is not allowed there."""
    seeds = _SEEDS if bench.linear else _SEEDS[:2]

    def on(proxy: Proxy) -> float | None:
        other = changed(proxy)
        plan = bench.plan(space, winner, other)
        if plan is None or not plan.train:
            return None
        *_, theta = of_each([other], [plan], seeds, LAST, models=True)[0]
        return gains_of(other, theta[0], seeds)

    gains = on_each(bench.proxies(winner.treatment), on)
    known = [gain for gain in gains if gain is not None]
    return float(np.average(known, weights=bench.weights)) if len(known) == len(gains) else None


WORTH = 0.01
"""Score by which tuned models must be ahead of own ones for sharing to be advised: a point."""


class _Trial(NamedTuple):
    """How much is tried.

    Attributes:
        typical: owners that stand for all, each for as many records.
        smaller: owners that stand for as many others each, most of which have few records.
        deals: of every public data set: where it names owners, one of two has real owners.
        candidates: what an owner may use.
    """

    typical: int
    smaller: int
    deals: int
    candidates: Mapping[str, Making]


_OF_LINEAR = _Trial(5, 3, 2, CANDIDATES)
_OF_NETWORKS = _Trial(3, 0, 2, {
    ALONE: partial(own_model, tried=OWN_EPOCHS),
    SHARED: CANDIDATES[SHARED],
    BEST: partial(tuned_model, tried=TUNED_EPOCHS),
})  # fmt: skip


@dataclass(frozen=True)
class AtHome:
    """What typical owners would reach, by trials on public data.

    Attributes:
        records: of each typical owner, ascending, shape (k,).
        scores: accuracy (R^2 of a regression) of each candidate, mean over the public data, shape (k,).
        gains: of tuned over alone on each public data set, shape (sources, k).
        shares: of the records of all owners that each stands for, shape (k,).
        sizes: records of every owner, ascending, shape (N,).
        changes: where own models are advised, what would have to be otherwise.
        planned_for: the models by which the plan was chosen.
        named: whether the data name the owners; else they are dealt, as the study says.
    """

    records: NDArray[np.int64]
    scores: dict[str, Real]
    gains: Real
    shares: Real
    sizes: NDArray[np.int64]
    changes: tuple[Otherwise, ...] = ()
    planned_for: Literal["shared", "tuned"] = "shared"
    named: bool = False

    @property
    def overall(self) -> dict[str, float]:
        """Score of each candidate over the records of all owners."""
        return {name: float(each @ self.shares) for name, each in self.scores.items()}

    @property
    def best(self) -> str:
        """What to do: `alone`, unless another is ahead of it by a point; then the better of the two.

        Of owners that the data name it is `tuned` wherever that is ahead by a point: how much they differ
        nobody knows, and tuning makes good what a shared model loses by it.
        """
        reached = self.overall
        if self.named and reached["tuned"] - reached["alone"] > WORTH:
            return "tuned"
        shared = max(("tuned", "shared"), key=lambda name: reached[name])
        return shared if reached[shared] - reached["alone"] > WORTH else "alone"

    @property
    def gaining(self) -> NDArray[np.bool_]:
        """Whether each typical owner gains a point by tuning, beyond a standard error, shape (k,).

        Those of as many records count together; of one public data set alone a point is enough.
        """
        _, kind = np.unique(self.records, return_inverse=True)
        alike = np.stack([self.gains[:, kind == one].mean(axis=1) for one in range(kind.max() + 1)], axis=1)
        error = alike.std(axis=0) / np.sqrt(max(len(alike) - 1, 1))
        return (alike.mean(axis=0) - error > WORTH)[kind]

    @property
    def gainers(self) -> NDArray[np.bool_]:
        """Whether each owner gains, as the typical one that is nearest in the logarithm of records, (N,)."""
        apart = np.abs(np.log(self.sizes[:, None] / self.records))
        return self.gaining[np.argmin(apart, axis=1)]

    def as_dict(self) -> dict[str, Any]:
        """All of it as plain values, as records keep it."""
        return {
            "records": self.records.tolist(),
            **{name: each.tolist() for name, each in self.scores.items()},
            "gains": self.gains.tolist(), "best": self.best, "shares": self.shares.tolist(),
            "gaining": int(self.gainers.sum()), "changes": [one._asdict() for one in self.changes],
            "planned_for": self.planned_for,
        }  # fmt: skip


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
    tried = _OF_LINEAR if bench.linear else _OF_NETWORKS
    places, shares = _places(sizes, tried)
    every = np.stack(
        on_each(proxies, lambda proxy: _on(proxy, bench.plan(space, winner, proxy), places, tried))
    )  # (sources, candidates, k)
    mean = np.average(every, axis=0, weights=bench.weights)
    each = dict(zip(tried.candidates, np.moveaxis(every, 1, 0), strict=True))
    order = np.argsort(sizes[places], kind="stable")
    found = AtHome(
        sizes[places][order],
        {name: score[order] for name, score in zip(tried.candidates, mean, strict=True)},
        (each[BEST] - each[ALONE])[:, order],
        shares[order],
        np.sort(bench.facts.problem.sizes),
        named=bench.facts.partition == OWNERS,
    )
    if found.best != ALONE:
        return found
    return replace(found, changes=otherwise(bench, space, winner, WORTH))


def _places(sizes: NDArray[np.int64], tried: _Trial) -> tuple[NDArray[np.int64], Real]:
    """Places of typical owners, and the share of all records that each stands for.

    Example:
        >>> places, shares = _places(np.array([5, 90, 7, 98]), _OF_LINEAR)
        >>> places.tolist(), shares.round(1).tolist()
        ([1, 1, 1, 3, 3, 0, 1, 3], [0.2, 0.2, 0.2, 0.2, 0.2, 0.0, 0.0, 0.0])
    """
    places = typical(sizes, tried.typical)
    if sizes.min() < sizes.max():
        smaller = ((np.arange(tried.smaller) + 0.5) / max(tried.smaller, 1) * len(sizes)).astype(np.int64)
        places = np.concatenate([places, np.argsort(sizes, kind="stable")[smaller]])
    return places, np.repeat([1 / tried.typical, 0.0], [tried.typical, len(places) - tried.typical])


def _on(proxy: Proxy, plan: Plan | None, places: NDArray[np.int64], tried: _Trial) -> Real:
    """Scores of each candidate and typical owner on one public data set, shape (candidates, k)."""
    task, records, deals = proxy.task, prepared(proxy.records, proxy.task), tried.deals
    thetas = np.tile(np.asarray(task.initial(jax.random.key(0))), (deals, 1))
    if plan is not None and plan.train:
        thetas = final_models(proxy, plan, deals)
    variance = float(np.var(records.test_y))
    scores = np.zeros((deals, len(tried.candidates), len(places)))
    for number, theta in enumerate(thetas):
        for j, site in enumerate(sites(proxy.facts, records, places, seed_of(number))):
            for i, made in enumerate(tried.candidates.values()):
                each = merits(task, made(task, theta, site.own, number), site.x, site.y, variance)
                scores[number, i, j] = np.nan_to_num(np.average(each, weights=site.counts))
    return scores.mean(axis=0)
