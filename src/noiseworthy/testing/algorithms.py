"""What a federated algorithm must keep, as a suite to inherit."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
from jax.tree_util import tree_leaves_with_path, tree_map_with_path
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._keys import Purpose, named_key
from noiseworthy.errors import BudgetExceeded
from noiseworthy.methods import registry
from noiseworthy.methods.algorithm import Algorithm, ServerState, start_of
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.rounds import client_step
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.testing.mechanisms import assert_follows

_FLOAT = 1e-5
"""Part of a sensitivity that float32 sums may add; deployed uploads are summed on a grid instead."""
_DRAWS = 40_000
_CLIENT = 0


class AlgorithmConformance:
    """An algorithm with its plan: what leaves a client, how often, with which noise, and what reads it.

    Records are drawn by the suite, some of them adversarial. `records` gives their shape.
    """

    def plan(self) -> Plan:
        """A plan that trains, with noise. Abstract."""
        raise NotImplementedError

    def task(self) -> Task:
        """The model that the plan was made for. Abstract."""
        raise NotImplementedError

    def records(self, count: int, generator: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any]]:
        """Ordinary records: features (count, *shape) and labels (count,). Abstract."""
        raise NotImplementedError

    def make(self, plan: Plan, task: Task, seed: int) -> Algorithm:
        """The algorithm; by default as the registry makes it."""
        return registry.make(plan, task, seed)

    def most_change(self, plan: Plan, client: int, t: int) -> float:
        """The most that a neighbour may change in an upload of round t, in the norm of the noise."""
        return float(_release(plan).sensitivity.value[client] * plan.upload_scale[t])

    def noise_size(self, plan: Plan, client: int, t: int) -> float:
        """The planned noise size on every coordinate of an upload of round t."""
        return float(_release(plan).mechanism.size[client] * plan.upload_scale[t])

    def residuals(self, algorithm: Algorithm, state: ServerState, client: int, keys: Array) -> Array:
        """Noise of one upload under each key, shape (K, u): by default what `privatize` adds to zero."""
        zero = jnp.zeros(algorithm.task.dimension)
        return jax.vmap(lambda key: algorithm.privatize(state, zero, jnp.int32(client), key))(keys)

    # Uploads ------------------------------------------------------------------------------------------

    def test_nobody_is_asked_more_often_than_its_noise_pays_for(self):
        """Whatever the seed of the schedule; and nobody twice in a round."""
        plan, clients = self._plan, self._plan.problem.n_clients
        for seed in range(5):
            cohorts = np.asarray(self.make(plan, self.task(), seed).cohorts)
            assert np.all(np.bincount(cohorts.ravel(), minlength=clients) <= plan.uploads), "asked too often"
            assert np.all(np.diff(np.sort(cohorts, axis=1), axis=1) > 0), "asked twice in a round"
            assert len(cohorts) == plan.rounds

    def test_a_seed_draws_whom_to_ask_and_nothing_else(self):
        """So that trials make what asks everybody once for all seeds; batches and noise have keys."""
        first, other = (self.make(self._plan, self.task(), seed) for seed in (0, 1))
        differ = tree_map_with_path(lambda path, *pair: not np.array_equal(*pair), first, other)
        moved = [str(path[-1]) for path, one in tree_leaves_with_path(differ) if one]
        assert set(moved) <= {".cohorts"}, f"the seed changes {', '.join(moved)}, too"

    def test_a_ledger_of_the_plan_pays_for_all_rounds_and_for_no_more(self):
        """Round by round, as `rounds.run_round` charges it."""
        ledger = Ledger.open(self._plan.uploads)
        for cohort in np.asarray(self._algorithm.cohorts):
            ledger = ledger.charge(cohort)
        spent = np.flatnonzero(ledger.remaining == 0)
        if spent.size:
            try:
                ledger.charge(spent[:1])
            except BudgetExceeded:
                return
            raise AssertionError("the ledger grants an upload that nobody paid for")

    def test_select_follows_the_public_schedule(self):
        """Also after other uploads: who is asked was drawn before training."""
        for t in range(min(3, self._plan.rounds)):
            state = self._state(t)
            assert np.array_equal(self._algorithm.select(state), np.asarray(self._algorithm.cohorts)[t])

    # Sensitivity --------------------------------------------------------------------------------------

    def test_no_neighbour_moves_an_update_by_more_than_the_planned_sensitivity(self):
        """Records that try to escape, at the start and far from it, early and late."""
        plan, order = self._plan, 1 if _release(self._plan).sensitivity.norm == "l1" else 2
        for state in self._states():
            updates, most = self._updates(state), self.most_change(plan, _CLIENT, int(state.round))
            against = updates if plan.budget.relation == "replace-one" else updates[-1:]
            with np.errstate(invalid="ignore"):
                moved = max(np.linalg.norm(updates - row, order, axis=1).max() for row in against)
            assert moved <= most * (1 + _FLOAT), f"a neighbour moves an update by {moved:g}, planned {most:g}"

    def test_records_that_are_not_finite_make_no_update_that_is_not(self):
        """A client with NaN among its records uploads numbers."""
        for state in self._states():
            assert np.all(np.isfinite(self._updates(state))), "an update is not finite"

    def test_a_sum_over_records_is_that_of_the_updates(self):
        """What the engine takes for many clients at once is what they would upload one by one."""
        algorithm, clients = self._algorithm, jnp.asarray(self._algorithm.select(self._state(0)))
        if not algorithm.sums_records:
            return
        weights = jnp.linspace(0.5, 2.0, len(clients))
        shards = [self._shard(seed) for seed in range(len(clients))]
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *shards)
        for state in self._states():
            at_once = algorithm.sum_over_records(state, clients, weights, stacked)
            memory, key = algorithm.init_client(state.theta), jax.random.key(31)
            each = [
                algorithm.local_update(state, client, memory, shard, key)[0]
                for client, shard in zip(clients, shards, strict=True)
            ]
            one_by_one = np.asarray(weights) @ np.stack(each)
            room = _FLOAT * np.abs(one_by_one).max()
            assert np.allclose(at_once, one_by_one, rtol=0, atol=room), "at once it is another sum"

    # Noise --------------------------------------------------------------------------------------------

    def test_uploads_carry_the_planned_noise(self):
        """Size and law, early and late, seen to about 5 % of the variance."""
        plan = self._plan
        for t in {0, plan.rounds - 1}:
            noise = self._noise(t, 0)
            assert_follows(noise / self.noise_size(plan, _CLIENT, t), plan.problem.family, f"round {t}")

    def test_noise_is_new_for_every_round_and_client(self):
        """Keys differ, and so does the noise: none of it can be subtracted."""
        first, second = self._noise(0, 0), self._noise(0, 1)
        assert not np.any(first == second), "noise is repeated"
        assert abs(np.corrcoef(first, second)[0, 1]) < 4.9 * 1.01 / np.sqrt(len(first))

    def test_a_factor_of_the_noise_is_one_of_every_upload(self):
        """Trials in which few clients stand for many, and audits without noise, rest on it."""
        algorithm, state = self._algorithm, self._state(0)
        keys = jax.random.split(jax.random.key(23), 3)
        noise = np.asarray(self.residuals(algorithm, state, _CLIENT, keys))
        loud = np.asarray(self.residuals(algorithm.with_noise(3.0), state, _CLIENT, keys))
        size = np.abs(noise).max()
        assert np.allclose(loud, 3 * noise, rtol=1e-3, atol=1e-3 * size), "three times the noise is another"
        silent = np.asarray(self.residuals(algorithm.noiseless(), state, _CLIENT, keys))
        assert np.all(np.abs(silent) <= 1e-3 * size), "noise is left where there should be none"

    # Schedules ----------------------------------------------------------------------------------------

    def test_schedules_made_longer_change_no_round(self):
        """Trainings of different lengths share a compiled program: zeros behind the last round."""
        algorithm, last = self._algorithm, self._plan.rounds - 1
        assert algorithm.lengths["cohorts"] == self._plan.rounds, "cohorts are no schedule of its rounds"
        longer = algorithm.padded({name: length + 3 for name, length in algorithm.lengths.items()})
        assert set(longer.lengths.items()) == {(n, length + 3) for n, length in algorithm.lengths.items()}
        for t in {0, last}:
            one, other = self._moved(algorithm, t), self._moved(longer, t)
            assert np.array_equal(one, other), f"round {t} changes"

    # Purity -------------------------------------------------------------------------------------------

    def test_the_server_reads_uploads_only(self):
        """The same uploads give the same model, whatever clients computed on meanwhile."""
        state, width = self._state(0), self._updates(self._state(0)).shape[1]
        cohort, models = jnp.asarray(self._algorithm.select(state)), []
        uploads = jax.random.normal(jax.random.key(5), (len(cohort), width))
        for seed in (0, 1):
            with jax.disable_jit():
                self._update_of(self._shard(seed), state)
            after = self._algorithm.aggregate(state, self._algorithm.combine(state, cohort, uploads))
            models.append(np.asarray(self._algorithm.model(after)))
        assert np.array_equal(*models), "the server's model depends on what clients hold"

    def test_an_upload_is_a_function_of_its_key(self):
        """No draw from a generator of the host: what cannot be repeated cannot be checked."""
        state, shard, key = self._state(0), self._shard(0), jax.random.key(17)
        memory = self._algorithm.init_client(state.theta)
        with jax.disable_jit():
            one, other = (
                client_step(self._algorithm, state, jnp.int32(_CLIENT), memory, shard, key)[0]
                for _ in range(2)
            )
        assert np.array_equal(one, other), "two uploads under one key differ"

    # Parts --------------------------------------------------------------------------------------------

    @property
    def _plan(self) -> Plan:
        return _made(type(self))[0]

    @property
    def _algorithm(self) -> Algorithm:
        return _made(type(self))[1]

    @property
    def _start(self) -> Array:
        return start_of(self._algorithm.task, jax.random.key(3))

    def _state(self, t: int, spread: float = 0.0) -> ServerState:
        """The state before round t, moved at random from the start."""
        start = self._algorithm.init(self._start)
        moved = start.theta + spread * jax.random.normal(jax.random.key(t), start.theta.shape)
        return start._replace(theta=moved, round=jnp.int32(t))

    def _states(self) -> Iterator[ServerState]:
        for t in {0, self._plan.rounds - 1}:
            for spread in (0.0, 3.0):
                yield self._state(t, spread)

    def _moved(self, algorithm: Algorithm, t: int) -> NDArray[np.float32]:
        """The model after round t in which all upload what the first of its cohort would, shape (p,)."""
        state, shard, key = self._state(t), self._shard(0), jax.random.key(29)
        cohort = algorithm.select(state)
        memory = algorithm.init_client(state.theta)
        with jax.disable_jit():
            upload, _ = client_step(algorithm, state, cohort[0], memory, shard, key)
            uploads = jnp.tile(upload, (len(cohort), 1))
            after = algorithm.aggregate(state, algorithm.combine(state, cohort, uploads))
            return np.asarray(algorithm.model(after))

    def _shard(self, seed: int) -> Batch:
        """A client's records, as an engine hands them to it."""
        return self._prepared(*self._drawn(seed))

    def _drawn(self, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.records(int(self._plan.problem.sizes[_CLIENT]), np.random.default_rng(seed))

    def _prepared(self, x: NDArray[Any], y: NDArray[Any]) -> Batch:
        return Batch(self._algorithm.task.prepare(jnp.asarray(x)), jnp.asarray(y), jnp.ones(len(y)))

    def _data_sets(self) -> list[Batch]:
        """A client's records with one of them, or all, exchanged for ordinary and for adversarial ones."""
        (x, y), (other, _) = self._drawn(0), self._drawn(9)
        where = slice(None) if self._plan.budget.unit == "client" else slice(0, 1)
        pairs = [(x, y)]
        for factor in (0.0, 1.0, -1.0, 1e4, -1e4, 1e30, np.inf, np.nan):
            for labels in (y, y[::-1], *(_escaping(y) if factor == 1.0 else ())):
                pairs.append((_exchanged(x, where, other, factor), _exchanged(y, where, labels)))
        return [self._prepared(*pair) for pair in pairs]

    def _updates(self, state: ServerState) -> NDArray[np.float64]:
        """Raw updates on all data sets, shape (m, u); under add-remove the last is that of what is left."""
        shards, budget = self._data_sets(), self._plan.budget
        if budget.relation == "add-remove":
            shards.append(shards[0]._replace(mask=shards[0].mask.at[0].set(0.0)))
        stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *shards)
        updates = np.array(_updated(type(self))(stacked, state), np.float64)
        if (budget.relation, budget.unit) == ("add-remove", "client"):
            updates[-1] = 0.0  # a client that is left out uploads noise alone
        return updates

    def _update_of(self, shard: Batch, state: ServerState) -> Array:
        memory = self._algorithm.init_client(self._start)
        return self._algorithm.local_update(state, jnp.int32(_CLIENT), memory, shard, jax.random.key(11))[0]

    def _noise(self, t: int, seed: int) -> NDArray[np.float64]:
        """Noise of uploads of round t under many keys, flat."""
        draw, key = _residuals(type(self)), named_key(jax.random.key(seed), Purpose.NOISE, t)
        width = jax.eval_shape(draw, self._state(t), key[None]).size
        noise = draw(self._state(t), jax.random.split(key, -(-_DRAWS // width)))
        return np.asarray(noise, np.float64).ravel()


@cache
def _made(suite: type[AlgorithmConformance]) -> tuple[Plan, Algorithm]:
    """Plan and algorithm of a suite, made once."""
    plan = suite().plan()
    algorithm = suite().make(plan, suite().task(), 0)
    return plan, jax.tree.map(jnp.asarray, algorithm)


@cache
def _updated(suite: type[AlgorithmConformance]) -> Any:
    """Compiled updates on a stack of data sets."""
    return jax.jit(jax.vmap(suite()._update_of, in_axes=(0, None)))


@cache
def _residuals(suite: type[AlgorithmConformance]) -> Any:
    """Compiled noise of one client under many keys."""
    algorithm = _made(suite)[1]
    return jax.jit(lambda state, keys: suite().residuals(algorithm, state, _CLIENT, keys))


def _exchanged(values: NDArray[Any], where: slice, other: NDArray[Any], factor: float = 1.0) -> NDArray[Any]:
    """Values of some records replaced by multiples of other ones."""
    mixed = values.copy()
    with np.errstate(all="ignore"):
        mixed[where] = other[where] if factor == 1.0 else (other[where] * factor).astype(values.dtype)
    return mixed


def _escaping(labels: NDArray[Any]) -> list[NDArray[Any]]:
    """Labels that have broken clips, where labels are numbers."""
    if not np.issubdtype(labels.dtype, np.floating):
        return []
    return [np.full_like(labels, value) for value in (1e6, -1e6, 1e30, np.inf, np.nan)]


def _release(plan: Plan) -> Any:
    if plan.release is None:
        raise AssertionError("the plan of a conformance test must train with noise")
    return plan.release
