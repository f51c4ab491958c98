"""Public data made to look like the private federation: same clients, same skew, same kind of records."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax
from noiseworthy.data import Records
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import InvalidInput
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Score
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.preparation import AS_THEY_ARE
from noiseworthy.trials.centring import centred, starting_at
from noiseworthy.trials.dealing import RECORDS, RECORDS_OF_NETWORKS, dealt, weighted
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.public import public_records, same_data
from noiseworthy.trials.rotated import back, can_rotate, directions_of, rotated
from noiseworthy.trials.treatment import Treatment
from noiseworthy.trials.typical import Home
from noiseworthy.trials.widened import widened

T = TypeVar("T")
P = TypeVar("P")
DEALS = 4
"""Ways in which public records are dealt out: trials of other seeds see other records of other clients."""
_SEED = 20
_MOST_WIDENED = 2
"""Times its features that a model has columns at most: more take longer than another program to compile."""
_SIGNS = (-1, 1)
"""A told mean is off by a deviation of its noise, above or below: no lucky draw."""


@dataclass(frozen=True)
class Deal:
    """One federation of public records on the device.

    Attributes:
        shards: its records; each stands for as many of the client's as the study has for it.
        condensed: the same as moments, for algorithms that need no more; else equal to `shards`.
        untrained_loss: test loss of a start that knows no shares of classes, the same for all treatments.
        untrained_quality: its accuracy (R^2 of a regression).
    """

    shards: Shards
    condensed: Shards
    untrained_loss: float
    untrained_quality: float


@dataclass(frozen=True)
class Proxy:
    """A public data set that stands for the private one, ready for trials.

    Attributes:
        facts: those of the study, thinned to the clients of the trial.
        records: made to look like those of the study.
        task: the study's model for them.
        noise_factor: what noise is multiplied by, below 1 where clients were left out.
        room: features of the widest of the proxies of like models; 0 where all of them have as many.
        homes: typical owners of deals, where shared models are tuned; filled when they are first asked for.
    """

    facts: PublicFacts
    records: Records
    task: Task
    noise_factor: float
    room: int = 0
    _deals: dict[int, Deal] = field(default_factory=dict, repr=False)
    _seen: dict[int, Shards] = field(default_factory=dict, repr=False)
    homes: dict[int, list[Home]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        facts: PublicFacts,
        source: str,
        treatment: Treatment | None = None,
        data_dir: str | Path | None = None,
    ) -> Proxy:
        """The proxy of a source, its records treated as the study says or as it might."""
        few, records = facts.thinned(), public_records(facts, source, data_dir)
        task = facts.make_task(records.record_shape, records.classes, treatment, source)
        # noises of N uploads, m of which hide a record together, leave 1/(N m) of a variance in their mean
        kept = [of.problem.n_clients * of.problem.hidden_among(None) for of in (few, facts)]
        factor = float(np.sqrt(kept[0] / kept[1]))
        if treatment is not None and treatment.centred and isinstance(task, LinearModel):
            task, few = centred(task, few, records, factor), few.paying(treatment)
        if facts.label_noise:
            # not by `hash`, which differs between processes: a plan must come out the same again
            off = _SIGNS[sum(source.encode()) % 2] * facts.label_noise
            task = starting_at(task, float(records.y.mean()) + off)
        return cls(few, records, task, factor)

    @cached_property
    def problem(self) -> Problem:
        """The private problem with the dimension of this proxy's model."""
        return replace(self.facts.problem, dimension=self.task.dimension)

    def deal(self, number: int = 0) -> Deal:
        """One of the `DEALS` federations that its records make, dealt out when first asked for."""
        place = number % DEALS
        if place not in self._deals:
            self._deals[place] = self._dealt(seed_of(place))
        return self._deals[place]

    @cached_property
    def bare(self) -> Task:
        """Its model for prepared records and any start: one program serves all of them."""
        if not isinstance(self.task, LinearModel):
            return self.task
        return replace(self.task, preparation=AS_THEY_ARE, feature_norm=None, normalise=False, start=())

    @property
    def wide(self) -> LinearModel | None:
        """The bare model with columns of zeros up to `room`, where it has room and its records are padded."""
        if not self.room or not isinstance(self.bare, LinearModel):
            return None
        padded = not isinstance(self.deal().shards.train, FlatRecords)
        return replace(self.bare, features=self.room) if padded else None

    def widened(self, number: int) -> Shards:
        """The records of a deal with these columns, made when first asked for."""
        return self._as_seen(number, lambda shards: widened(shards, cast(LinearModel, self.task), self.room))

    def start_of(self, numbers: int) -> NDArray[np.float32] | None:
        """Where its linear models of so many numbers start, of whole records or along few directions."""
        if not isinstance(self.task, LinearModel):
            return None
        constant = np.array(self.task.start, np.float32) / np.float32(self.task.bias or 1)
        return np.append(np.zeros(numbers - len(constant), np.float32), constant)

    @property
    def rotates(self) -> bool:
        """Whether its records are images that trials may see along few directions."""
        return len(self.records.record_shape) > 1 and can_rotate(self.task, self.deal().shards)

    @cached_property
    def directions(self) -> NDArray[np.float32]:
        """The main directions of the records of the first deal."""
        return directions_of(cast(LinearModel, self.task), self.deal().shards)

    def rotated(self, number: int) -> Shards:
        """The records of a deal along the main directions, rotated when first asked for."""
        return self._as_seen(number, lambda shards: rotated(shards, self.directions, self.problem.norm))

    def whole(self, theta: NDArray[np.floating]) -> NDArray[np.floating]:
        """Models, shape (..., p), of the records as they are, where `theta` is of rotated ones, too."""
        if not isinstance(self.task, LinearModel) or theta.shape[-1] == self.task.dimension:
            return theta
        return back(theta, self.task, self.directions)

    def _as_seen(self, number: int, see: Callable[[Shards], Shards]) -> Shards:
        place = number % DEALS
        if place not in self._seen:
            self._seen[place] = see(self.deal(place).shards)
        return self._seen[place]

    def _dealt(self, seed: int) -> Deal:
        most = RECORDS if isinstance(self.task, LinearModel) else RECORDS_OF_NETWORKS
        federation = dealt(self.facts, self.records, seed, most)
        shards = weighted(Shards.load(federation, self.task), self.facts.problem.sizes / federation.sizes)
        numbers = federation.classes is None
        condensed = Shards.load(federation, self.task, condensed=True) if numbers else shards
        knows = self.task if numbers else self.bare
        start = _scored(self.bare, knows.initial(jax.random.key(_SEED)), shards.test_x, shards.test_y)
        return Deal(shards, condensed, float(start.loss), float(start.accuracy))


@partial(jax.jit, static_argnums=0)
def _scored(task: Any, theta: Array, x: Array, y: Array) -> Score:
    return task.score(theta, x, y)


def seed_of(number: int) -> int:
    """The seed of a deal."""
    return _SEED + number % DEALS


def make_proxies(
    facts: PublicFacts,
    sources: Sequence[str],
    treatment: Treatment | None = None,
    data_dir: str | Path | None = None,
) -> list[Proxy]:
    """One proxy per source, its records prepared as the study says or as it might.

    Raises:
        InvalidInput: the study's own data among the sources, or no source at all.
    """
    if not sources:
        raise InvalidInput("planning by trial needs at least one public data set under [planning] public")
    own = [source for source in sources if same_data(facts.source, source, data_dir)]
    if own:
        raise InvalidInput(
            f"{own[0]} is the private data of this study and cannot be called public; "
            "remove it from [planning] public"
        )
    return _with_room([Proxy.of(facts, source, treatment, data_dir) for source in sources])


def _with_room(proxies: Sequence[Proxy]) -> list[Proxy]:
    """Linear models that differ in their features alone, by up to twice as many, get as many in trials."""
    rooms: dict[int, int] = {}
    widest: dict[Task, int] = {}
    linear = [(i, one.task) for i, one in enumerate(proxies) if isinstance(one.task, LinearModel)]
    for i, task in sorted(linear, key=lambda pair: -pair[1].features):
        kind = replace(task, features=1, preparation=AS_THEY_ARE, start=())
        if _MOST_WIDENED * task.features < widest.setdefault(kind, task.features):
            widest[kind] = task.features
        rooms[i] = widest[kind]
    unlike = {room for i, task in linear if (room := rooms[i]) != task.features}
    return [replace(one, room=rooms[i]) if rooms.get(i) in unlike else one for i, one in enumerate(proxies)]


def on_each(parts: Sequence[P], work: Callable[[P], T]) -> list[T]:
    """What some work gives on each proxy, or group of them, two at a time.

    Most of the time of small trials is compilation, which uses one core.
    """
    if len(parts) == 1:
        return [work(parts[0])]
    with ThreadPoolExecutor(max_workers=2) as pool:
        return list(pool.map(work, parts))
