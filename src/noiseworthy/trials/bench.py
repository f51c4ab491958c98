"""Short trainings on public proxies with the noise of the private federation, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.averaged import averaged
from noiseworthy.methods.making import padded
from noiseworthy.methods.registry import method
from noiseworthy.methods.space import GradientScale, Setting
from noiseworthy.methods.steered import steered
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.qualities import answers_of, constant_quality, quality
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.proxies import Deal, Proxy, make_proxies, shape_of
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment

T = TypeVar("T")
P = TypeVar("P")
Outcomes: TypeAlias = tuple[NDArray[np.float64], ...]
"""Losses over the untrained one and accuracies; the metric that a study names, and what is missed of it."""
_WIDTH, _SEEDS, _HORIZON = 16, 2, 512
"""Settings and seeds that are trained side by side, and rounds that schedules have room for.

A program is compiled for these numbers, which takes longer than trials do: missing settings are filled up.
"""
LAST = np.ones(1)
"""Share of the rounds after which a trial is scored where nothing but its end counts."""
_LEAST_GAIN = 1e-3
"""What a metric of the best constant answer lacks at least, so that it can be divided by."""
_FEW = 64
"""Records of a proxy that gradients are measured on."""


class Candidate(NamedTuple):
    """A setting and how records are prepared for it; None is as the study says."""

    setting: Setting
    treatment: Treatment | None = None


class Scores(NamedTuple):
    """Results of trials, shape (proxies, candidates, seeds); infinite losses where training diverged.

    Attributes:
        loss: final test loss over that of the untrained start.
        accuracy: final accuracy (R^2 of a regression).
        quality: final value of the metric that the study names; None where that is the loss.
        missed: 1 - quality, over that of the best constant answer.
    """

    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    quality: NDArray[np.float64] | None = None
    missed: NDArray[np.float64] | None = None

    @property
    def voted(self) -> NDArray[np.float64]:
        """What settings are compared by: 0 is perfect, 1 is not training."""
        return self.loss if self.missed is None else self.missed

    def beside(self, other: Scores) -> Scores:
        """Those of these candidates and of others."""
        return Scores._make(
            one if one is None or its is None else np.concatenate([one, its], axis=1)
            for one, its in zip(self, other, strict=True)
        )

    def of(self, places: list[int]) -> Scores:
        """Those of some candidates."""
        return Scores._make(None if leaf is None else leaf[:, places] for leaf in self)


class Bench:
    """Where candidates are tried: the proxies of a federation, opened once for every treatment."""

    def __init__(
        self,
        facts: PublicFacts,
        sources: Sequence[str],
        data_dir: str | Path | None = None,
        weights: Sequence[float] | None = None,
    ):
        """Proxies are opened when they are first needed.

        Args:
            facts: the private federation's public facts.
            sources: names of public data sets.
            data_dir: folder of data files.
            weights: what the word of each source weighs; None weighs all alike.
        """
        self.facts = facts
        self.sources = tuple(sources)
        self.data_dir = data_dir
        self.weights = np.ones(len(self.sources)) if weights is None else np.array(weights, float)
        self._opened: dict[Treatment | None, tuple[list[Proxy], GradientScale]] = {}

    def proxies(self, treatment: Treatment | None = None) -> list[Proxy]:
        """The public federations with records prepared in one way."""
        return self._open(treatment)[0]

    @property
    def record_shapes(self) -> list[tuple[int, ...]]:
        """Shape of a record of each public data set, resized to the study's where it is an image."""
        return [shape_of(self.facts, source, self.data_dir) for source in self.sources]

    def scale(self, treatment: Treatment | None = None, task: Task | None = None) -> GradientScale:
        """Geometric mean over the proxies of their typical gradients, in units of the largest record.

        Args:
            treatment: how records are prepared.
            task: whose largest record is the unit; by default that of the first proxy.
        """
        proxies, unit = self._open(treatment)
        radius = _radius(task or proxies[0].task)
        return GradientScale(unit.clip * radius, unit.fall * radius**2, unit.mean * radius)

    def _open(self, treatment: Treatment | None) -> tuple[list[Proxy], GradientScale]:
        if treatment not in self._opened:
            proxies = make_proxies(self.facts, self.sources, treatment, self.data_dir)
            every = [_typical(proxy, self.facts.problem.norm) for proxy in proxies]
            radii = np.array([[1.0, 2.0, 1.0]]) * np.log([[_radius(proxy.task)] for proxy in proxies])
            scale = GradientScale(*np.exp(np.mean(np.log(every) - radii, axis=0)).tolist())
            self._opened[treatment] = proxies, scale
        return self._opened[treatment]

    def plan(self, space: Space, candidate: Candidate, proxy: Proxy | None = None) -> Plan | None:
        """The plan of a candidate on a proxy (by default the first); None where nothing allows it."""
        proxy = proxy or self.proxies(candidate.treatment)[0]
        scale = self.scale(candidate.treatment, proxy.task)
        try:
            return space.plan(proxy.problem, proxy.task, scale, candidate.setting)
        except (InvalidInput, UnsoundClaim):
            return None

    def possible(self, space: Space, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The candidates that resources, schedules and proofs allow, each plan once.

        Raises:
            InvalidInput, UnsoundClaim: none of them; why the first is refused.
        """
        kept: dict[object, Candidate] = {}
        for candidate in candidates:
            if (made := self.plan(space, candidate)) is not None and made.train:
                kept.setdefault((_identity(made), candidate.treatment), candidate)
        if not kept:
            first = candidates[0]
            proxy = self.proxies(first.treatment)[0]
            space.plan(proxy.problem, proxy.task, self.scale(first.treatment, proxy.task), first.setting)
            raise InvalidInput(f"no setting of {space.algorithm} trains; state its counts")
        return list(kept.values())

    def scores(
        self,
        space: Space,
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        on_progress: Callable[[float], None] = lambda done: None,
    ) -> Scores:
        """Train every candidate under every seed on every proxy.

        Proxies run side by side in threads: most of the time of small trials is compilation, which uses one
        core. Those with records of one shape and as many classes share plans and algorithms.
        """
        shape = (len(self.sources), len(candidates), len(seeds))
        scores = Scores(*_blank(shape, self.facts))
        kinds = list(dict.fromkeys(candidate.treatment for candidate in candidates))
        for done, kind in enumerate(kinds):
            places = [i for i, candidate in enumerate(candidates) if candidate.treatment == kind]
            few = [candidates[i] for i in places]
            proxies = self.proxies(kind)
            alike = _of_one_shape(proxies)
            results = on_each(
                [[proxies[j] for j in few] for few in alike],
                lambda group, few=few: self._on(group, space, few, seeds),
            )
            for group, result in zip(alike, results, strict=True):
                for j, reached in zip(group, result, strict=True):
                    for known, found in zip(scores, reached, strict=False):
                        if known is not None:
                            known[j, places] = found
            on_progress((done + 1) / len(kinds))
        return scores

    def _on(
        self, proxies: Sequence[Proxy], space: Space, candidates: Sequence[Candidate], seeds: Sequence[int]
    ) -> list[Outcomes]:
        plans = [self.plan(space, candidate, proxies[0]) for candidate in candidates]
        return [(loss[..., -1], *rest) for loss, *rest in _courses(proxies, plans, seeds, LAST)]


def _of_one_shape(proxies: Sequence[Proxy]) -> list[list[int]]:
    """Places of proxies whose models and plans are the same: records of one shape, and as many classes.

    What is seen against public data is seen against others on each proxy.
    """

    def kind(place: int) -> tuple[object, ...]:
        records = proxies[place].records
        return records.record_shape, records.classes, place if len(records.record_shape) > 1 else None

    kinds = [kind(place) for place in range(len(proxies))]
    return [[i for i, one in enumerate(kinds) if one == wanted] for wanted in dict.fromkeys(kinds)]


def outcomes(proxy: Proxy, plans: Sequence[Plan | None], seeds: Sequence[int]) -> Outcomes:
    """Final loss over the untrained one, and score, of any plans, shape (plans, seeds)."""
    loss, score = courses(proxy, plans, seeds, LAST)
    return loss[..., -1], score


def voted(proxy: Proxy, plans: Sequence[Plan | None], seeds: Sequence[int]) -> NDArray[np.float64]:
    """What plans are compared by: 0 is perfect, 1 is not training, shape (plans, seeds)."""
    loss, *rest = _courses([proxy], plans, seeds, LAST)[0]
    return Scores(loss[..., -1], *rest).voted


def untrained_score(proxy: Proxy) -> float:
    """The score of the untrained start, by the metric that the study names."""
    told = proxy.facts.metric in ("balanced-accuracy", "auc")
    return constant_score(proxy) if told else proxy.deal().untrained_quality


def constant_score(proxy: Proxy) -> float:
    """The metric that the study names of the constant answer that is best."""
    return constant_quality(proxy.facts.metric, proxy.deal().shards.test_y)


def courses(
    proxy: Proxy, plans: Sequence[Plan | None], seeds: Sequence[int], shares: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Losses over the untrained one along the rounds of any plans, and their final scores.

    A score is the metric that the study names; where it names none, accuracy, or R^2 of a regression.

    Args:
        proxy: to train on.
        plans: what to train.
        seeds: of noise.
        shares: of a plan's rounds after which it is scored, rising, the last being 1.

    Returns:
        Losses of shape (plans, seeds, shares) and scores of shape (plans, seeds).
    """
    loss, score, *named = _courses([proxy], plans, seeds, shares)[0]
    return loss, named[0] if named else score


def _courses(
    proxies: Sequence[Proxy], plans: Sequence[Plan | None], seeds: Sequence[int], shares: NDArray[np.float64]
) -> list[Outcomes]:
    """`courses` on each of some proxies of one shape, with the metric that the study names."""
    first, *others = _blank((len(proxies), len(plans), len(seeds)), proxies[0].facts)
    every = [np.repeat(first[..., None], len(shares), axis=-1), *others]
    for places in _alike(plans):
        few = [one for i in places if (one := plans[i]) is not None]
        for j, found in enumerate(_side_by_side(proxies, few, seeds, shares)):
            for known, its in zip(every, found, strict=True):
                known[j, places] = its
    return list(zip(*every, strict=True))


def _blank(shape: tuple[int, ...], facts: PublicFacts) -> list[NDArray[np.float64]]:
    """Scores where training diverged: losses and accuracies, and where the study names a metric, of that."""
    times = 1 if facts.metric == "loss" else 2
    return [np.full(shape, value) for value in (np.inf, np.nan, np.nan, np.inf)[: 2 * times]]


def on_each(parts: Sequence[P], work: Callable[[P], T]) -> list[T]:
    """What some work gives on each proxy, or group of them, two at a time."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(work, parts))


def _identity(plan: Plan) -> tuple[object, ...]:
    """What tells two plans of one problem apart."""
    problem, local = plan.problem, plan.local
    return (
        plan.rounds, plan.clients_per_round, problem.clip_norm, problem.clipping, plan.step, plan.momentum,
        plan.averaging, tuple(plan.weights), plan.steering, local, plan.moments,
    )  # fmt: skip


def _alike(plans: Sequence[Plan | None]) -> Iterator[list[int]]:
    """Places of plans that one program trains: as many rounds and clients, one way of clipping, like work."""

    def kind(plan: Plan) -> tuple[object, ...]:
        return (
            plan.rounds,
            plan.clients_per_round,
            plan.problem.clipping,
        )

    kinds = {kind(plan): None for plan in plans if plan is not None}
    for one in kinds:
        places = [i for i, plan in enumerate(plans) if plan is not None and kind(plan) == one]
        for start in range(0, len(places), _WIDTH):
            yield places[start : start + _WIDTH]


def trained(proxy: Proxy, plans: Sequence[Plan], seeds: Sequence[int]) -> Outcomes:
    """Final loss over the untrained one, and accuracy, of at most `_WIDTH` plans of as many rounds.

    Each pair of seeds trains on another deal of the public records, so that a few of them decide nothing.

    Returns:
        Two arrays of shape (plans, seeds).
    """
    ((loss, accuracy, *_),) = _side_by_side([proxy], plans, seeds, LAST)
    return loss[..., -1], accuracy


def _side_by_side(
    proxies: Sequence[Proxy], plans: Sequence[Plan], seeds: Sequence[int], shares: NDArray[np.float64]
) -> Iterator[Outcomes]:
    filled = [*plans, *[plans[-1]] * (_WIDTH - len(plans))]
    paired = [*seeds, *seeds[: len(seeds) % _SEEDS]]
    parts = [_few(proxies, filled, paired[i : i + _SEEDS], shares) for i in range(0, len(paired), _SEEDS)]
    for of_one in zip(*parts, strict=True):
        every = (np.concatenate(few, axis=1) for few in zip(*of_one, strict=True))
        yield tuple(one[: len(plans), : len(seeds)] for one in every)


def _few(
    proxies: Sequence[Proxy], plans: Sequence[Plan], seeds: Sequence[int], shares: NDArray[np.float64]
) -> list[Outcomes]:
    """`trained` on each proxy for the number of plans and seeds that the compiled program has."""
    algorithms = [_algorithm(proxies[0], plan, seed) for plan in plans for seed in seeds]
    planned = np.repeat([plan.uploads for plan in plans], len(seeds), axis=0)
    at, every = np.ceil(plans[0].rounds * shares).astype(int), list(seeds) * len(plans)
    roomy, shape = padded(algorithms, _HORIZON), (len(plans), len(seeds))
    found = []
    for proxy in proxies:
        deal = proxy.deal(seeds[0] // _SEEDS)
        shards = deal.condensed if algorithms[0].condensed else deal.shards
        run = simulate(roomy, planned, shards, at, every)
        loss = run.loss[:, np.searchsorted(run.rounds, at)].reshape(*shape, len(at)) / deal.untrained_loss
        loss, accuracy = np.where(np.isfinite(loss), loss, np.inf), run.final_accuracy.reshape(shape)
        found.append((loss, accuracy, *_by_metric(proxy, deal, run.theta, loss[..., -1], accuracy)))
    return found


def _by_metric(
    proxy: Proxy,
    deal: Deal,
    theta: NDArray[np.float32],
    loss: NDArray[np.float64],
    accuracy: NDArray[np.float64],
) -> Outcomes:
    """The metric that the study names and what is missed of it, in the shape of losses; none for the loss."""
    if (metric := proxy.facts.metric) == "loss":
        return ()
    reached = accuracy
    if metric not in ("accuracy", "r2"):
        outputs = answers_of(proxy.task, jnp.asarray(theta), deal.shards.test_x)
        reached = quality(metric, np.nan_to_num(outputs), deal.shards.test_y).reshape(loss.shape)
    share = (1 - reached) / max(1 - constant_quality(metric, deal.shards.test_y), _LEAST_GAIN)
    return reached, np.where(np.isfinite(loss), share, np.inf)


def _algorithm(proxy: Proxy, plan: Plan, seed: int) -> Algorithm:
    """The plan's algorithm with its share of noise.

    All average, and all that may be steered are, if only by nothing, so that one program serves every plan.
    """
    own = method(plan.algorithm)
    made = own.make(plan, proxy.task, seed)
    if "steering" in own.space.levers:
        made = steered(made, plan)
    return averaged(made, plan.rounds, plan.averaging).with_noise(proxy.noise_factor)


def _radius(task: Task) -> float:
    """The public bound on the norm of a record, which gradients grow with; 1 where there is none."""
    return (task.record_norm or 1.0) if isinstance(task, LinearModel) else 1.0


def _typical(proxy: Proxy, norm: Norm) -> GradientScale:
    """Mean norms of gradients at the start, of records and of a client's mean, and what a step gains."""
    task, theta = proxy.task, proxy.task.initial(jax.random.key(0))
    deal = proxy.deal()
    train = deal.shards.train
    x, y = (leaf.reshape(-1, *leaf.shape[2:]) for leaf in (train.x, train.y))
    real = np.flatnonzero(np.asarray(train.mask).ravel() > 0)
    few = real[np.linspace(0, len(real) - 1, min(_FEW, len(real))).astype(int)]

    def gradient(x: Array, y: Array) -> Array:
        return task.gradient(theta, Batch(x[None], y[None], jnp.ones(1)))

    gradients = np.asarray(jax.lax.map(lambda record: gradient(*record), (x[few], y[few])))
    means = np.asarray(jax.lax.map(lambda shard: task.gradient(theta, Batch(*shard)), tuple(train)))
    order = 1 if norm == "l1" else 2
    unit = deal.untrained_loss if proxy.facts.classes is None else 1.0
    sizes = [
        np.linalg.norm(gradients, order, axis=1).mean(),
        np.linalg.norm(gradients, axis=1).mean() ** 2 / unit,
        np.linalg.norm(means, order, axis=1).mean(),
    ]
    return GradientScale(*np.maximum(sizes, 1e-12).tolist())
