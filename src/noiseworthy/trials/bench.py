"""Short trainings on public proxies with the noise of the private federation, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.space import GradientScale, Setting
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.trials.courses import LAST, Outcomes, blank, of_each
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.proxies import Proxy, make_proxies, on_each
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment
from noiseworthy.trials.tuned import after_tuning

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
        quality: final value of the metric that the study names; None where that is the loss. Of a study for
            its owners, accuracy (R^2) of models tuned at home.
        missed: 1 - quality, over that of the best constant answer. Of a study for its owners, the loss of
            tuned models over that of own ones.
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
        self._plans: dict[tuple[int, Candidate, int], tuple[Space, Proxy, Plan | None]] = {}

    def proxies(self, treatment: Treatment | None = None) -> list[Proxy]:
        """The public federations with records prepared in one way."""
        return self._open(treatment)[0]

    @property
    def linear(self) -> bool:
        """Whether the study trains a linear model, of which trials are cheap."""
        facts = self.facts
        return isinstance(facts.make_task(facts.record_shape, facts.classes, None), LinearModel)

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
            every = on_each(proxies, lambda proxy: _typical(proxy, self.facts.problem.norm))
            # `fall` is a squared gradient, which goes with the square of the record
            radii = np.array([[1.0, 2.0, 1.0]]) * np.log([[_radius(proxy.task)] for proxy in proxies])
            scale = GradientScale(*np.exp(np.mean(np.log(every) - radii, axis=0)).tolist())
            self._opened[treatment] = proxies, scale
        return self._opened[treatment]

    def plan(self, space: Space, candidate: Candidate, proxy: Proxy | None = None) -> Plan | None:
        """The plan of a candidate on a proxy (by default the first); None where nothing allows it."""
        proxy = proxy or self.proxies(candidate.treatment)[0]
        known = id(space), candidate, id(proxy)
        if known not in self._plans:
            try:
                made = self._made(space, candidate, proxy)
            except (InvalidInput, UnsoundClaim):
                made = None
            self._plans[known] = space, proxy, made  # both are kept, so that no others have their ids
        return self._plans[known][-1]

    def _made(self, space: Space, candidate: Candidate, proxy: Proxy) -> Plan:
        problem, scale = proxy.problem, self.scale(candidate.treatment, proxy.task)
        few = space.among(problem.n_clients, self.facts.problem.n_clients)
        return few.plan(problem, proxy.task, scale, candidate.setting)

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
            self._made(space, candidates[0], self.proxies(candidates[0].treatment)[0])
            raise InvalidInput(f"no setting of {space.algorithm} trains; state its counts")
        return list(kept.values())

    def scores(
        self,
        space: Space,
        candidates: Sequence[Candidate],
        seeds: Sequence[int],
        on_progress: Callable[[float], None] = lambda done: None,
        *,
        at_home: bool = False,
    ) -> Scores:
        """Train every candidate under every seed on every proxy.

        With `at_home`, models of a study for its owners are scored as these tune them.

        Those with records of one shape and as many classes share plans and algorithms.
        """
        shape = (len(self.sources), len(candidates), len(seeds))
        tuned = at_home and self.facts.for_owners
        scores = Scores(*blank(shape, tuned or self.facts.metric != "loss"))
        kinds = list(dict.fromkeys(candidate.treatment for candidate in candidates))
        for done, kind in enumerate(kinds):
            places = [i for i, candidate in enumerate(candidates) if candidate.treatment == kind]
            few = [candidates[i] for i in places]
            proxies = self.proxies(kind)
            alike = self.alike(space, kind)
            results = on_each(
                [[proxies[j] for j in few] for few in alike],
                lambda group, few=few: self._on(group, space, few, seeds, tuned),
            )
            for group, result in zip(alike, results, strict=True):
                for j, reached in zip(group, result, strict=True):
                    for known, found in zip(scores, reached, strict=False):
                        if known is not None:
                            known[j, places] = found
            on_progress((done + 1) / len(kinds))
        return scores

    def alike(self, space: Space, treatment: Treatment | None) -> list[list[int]]:
        """Places of the proxies that share plans and programs, records prepared in one way."""
        return _of_one_shape(self.proxies(treatment), any_width=space.method.any_width)

    def _on(
        self, proxies: Sequence[Proxy], space: Space, candidates: Sequence[Candidate], seeds: Sequence[int],
        tuned: bool,
    ) -> list[Outcomes]:  # fmt: skip
        plans = [self.plan(space, candidate, proxies[0]) for candidate in candidates]
        if not tuned:
            return [(loss[..., -1], *rest) for loss, *rest in of_each(proxies, plans, seeds, LAST)]
        every = of_each(proxies, plans, seeds, LAST, models=True)
        return [
            (loss[..., -1], score, *after_tuning(proxy, loss[..., -1], theta, seeds))
            for proxy, (loss, score, theta) in zip(proxies, every, strict=True)
        ]


def _of_one_shape(proxies: Sequence[Proxy], *, any_width: bool) -> list[list[int]]:
    """Places of proxies whose plans and programs are the same: as many classes, and as many parameters.

    Of `any_width`, as many with columns of zeros. Networks see records against public data as they train, and
    these are others on each proxy.
    """

    def kind(place: int) -> tuple[object, ...]:
        task, records = proxies[place].task, proxies[place].records
        if any_width and (wide := proxies[place].wide) is not None:
            return wide, _radius(task)
        apart = None if isinstance(task, LinearModel) else place
        return task.dimension, records.record_shape, records.classes, apart

    kinds = [kind(place) for place in range(len(proxies))]
    return [[i for i, one in enumerate(kinds) if one == wanted] for wanted in dict.fromkeys(kinds)]


def voted(proxy: Proxy, plans: Sequence[Plan | None], seeds: Sequence[int]) -> NDArray[np.float64]:
    """What plans are compared by: 0 is perfect, 1 is not training, shape (plans, seeds)."""
    loss, *rest = of_each([proxy], plans, seeds, LAST)[0]
    return Scores(loss[..., -1], *rest).voted


def _identity(plan: Plan) -> tuple[object, ...]:
    """What tells two plans of one problem apart."""
    problem, local = plan.problem, plan.local
    return (
        plan.rounds, plan.clients_per_round, problem.clip_norm, problem.clipping, plan.step, plan.momentum,
        plan.averaging, tuple(plan.weights), plan.steering, local, plan.moments,
    )  # fmt: skip


def _radius(task: Task) -> float:
    """The public bound on the norm of a record, which gradients grow with; 1 where there is none."""
    return (task.record_norm or 1.0) if isinstance(task, LinearModel) else 1.0


def _stacked(shards: Shards) -> Batch:
    """Records of all clients, padded to one size; of those that lie end to end some clients'."""
    if not isinstance(shards.train, FlatRecords):
        return shards.train
    some = np.linspace(0, shards.clients - 1, min(_FEW, shards.clients)).astype(int)
    each = [shards.of(client) for client in some.tolist()]
    room = max(len(batch.mask) for batch in each)

    def padded(leaf: Array) -> Array:
        return jnp.pad(leaf, [(0, room - len(leaf)), *[(0, 0)] * (leaf.ndim - 1)])

    return jax.tree.map(lambda *leaves: jnp.stack([*map(padded, leaves)]), *each)


@partial(jax.jit, static_argnums=0)
def _gradients(task: Task, theta: Array, batches: Batch) -> Array:
    """The mean gradient of each of some batches, one after the other, shape (m, p)."""
    return jax.lax.map(lambda batch: task.gradient(theta, batch), batches)


def _typical(proxy: Proxy, norm: Norm) -> GradientScale:
    """Mean norms of gradients at the start, of records and of a client's mean, and what a step gains."""
    deal, task = proxy.deal(), proxy.wide or proxy.bare
    theta = proxy.start_of(task.dimension)
    theta = proxy.task.initial(jax.random.key(0)) if theta is None else theta
    train = _stacked(proxy.widened(0) if proxy.wide else deal.shards)
    x, y, mask = (np.asarray(leaf).reshape(-1, 1, *leaf.shape[2:]) for leaf in train)
    real = np.flatnonzero(mask > 0)
    few = real[np.linspace(0, len(real) - 1, min(_FEW, len(real))).astype(int)]

    single = Batch(*jax.device_put((x[few], y[few], np.ones((len(few), 1), np.float32))))
    gradients, means = (np.asarray(_gradients(task, theta, batches)) for batches in (single, train))
    order = 1 if norm == "l1" else 2
    unit = deal.untrained_loss if proxy.facts.classes is None else 1.0
    sizes = [
        np.linalg.norm(gradients, order, axis=1).mean(),
        np.linalg.norm(gradients, axis=1).mean() ** 2 / unit,
        np.linalg.norm(means, order, axis=1).mean(),
    ]
    # above 0, as means over proxies are taken of logarithms
    return GradientScale(*np.maximum(sizes, 1e-12).tolist())
