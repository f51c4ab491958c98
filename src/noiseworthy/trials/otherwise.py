"""What would make sharing worth it for owners: more of them, a larger budget, noise that they share."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from noiseworthy.methods.registry import method
from noiseworthy.methods.space import MOST_CLIENTS
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.trust import Trust
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.courses import LAST, of_each
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.landscape import scaled
from noiseworthy.trials.proxies import Proxy, on_each
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.tuned import gains_of

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
