"""All algorithms and rivals keep what the suite asks; what breaks one promise fails its check.

Those that share their code with another run with `-m slow`.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.methods import registry
from noiseworthy.methods.algorithm import Scheduled
from noiseworthy.methods.around import averaged
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.moments import scale as moments
from noiseworthy.methods.moments.scale import RecordScale
from noiseworthy.methods.mr_mtl import method as mr_mtl
from noiseworthy.methods.rivals import planner as rivals
from noiseworthy.plans.local_work import Coins, LocalSteps, NoisySteps
from noiseworthy.plans.plan import Plan, Steering, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.tasks import LinearModel
from noiseworthy.testing import AlgorithmConformance

SIZES = np.array([6, 14, 9, 7, 12])
N, FEATURES, ROUNDS = len(SIZES), 4, 6
STEP, CONSTANT = StepSize(0.1, 20.0), StepSize(0.05, np.inf)


def problem(mode="A", family="gaussian", relation="replace-one", rate=1.0) -> Problem:
    budget = PrivacyBudget.of(2.0, 0.0 if family == "laplace" else 1e-5, N, relation, unit_of(mode))
    return Problem(SIZES, FEATURES, budget, family, 0.7, rate, clipping=mode)


def replies(name: str, given: Problem, counts: Any = None) -> Plan:
    counts = np.full(N, int(uploads(ROUNDS, 2, N))) if counts is None else np.asarray(counts)
    release = given.release(np.maximum(counts, 1))
    return Plan(name, "", given, ROUNDS, 2, counts, release, None, {}, "", step=STEP)


class OnRegression(AlgorithmConformance):
    """Regression with records in a ball, which every clipping mode has a proof for."""

    feature_norm: ClassVar[float | None] = 4.0

    def task(self):
        return LinearModel(FEATURES, 1, "squared", ridge=0.05, feature_norm=self.feature_norm)

    def records(self, count, generator):
        return generator.normal(size=(count, FEATURES)).astype(np.float32), generator.normal(size=count) * 9


class TestFedSGDDPC(OnRegression):
    feature_norm = None

    def plan(self):
        return replies("fedsgd-dpc", problem())


@pytest.mark.slow
class TestFedSGDDPCWithLaplaceNoise(OnRegression):
    def plan(self):
        return replies("fedsgd-dpc", problem(family="laplace"))


@pytest.mark.slow
class TestFedSGDDPCUnderAddRemove(OnRegression):
    def plan(self):
        return replies("fedsgd-dpc", problem(relation="add-remove"))


@pytest.mark.slow
class TestFedSGDDPCAveraged(OnRegression):
    def plan(self):
        return replies("fedsgd-dpc", problem())

    def make(self, plan, task, seed):
        return averaged(registry.make(plan, task, seed), plan.rounds, 0.5)


class TestFedSGDDPCSteered(OnRegression):
    def plan(self):
        return replace(replies("fedsgd-dpc", problem()), steering=Steering(0.3, 0.5, 0.2))


class OfLocalSteps(OnRegression):
    mode: ClassVar[Any]
    family: ClassVar[Any] = "gaussian"
    steps: ClassVar[int] = 3
    batch_size: ClassVar[int | None] = None
    relation: ClassVar[Any] = "replace-one"

    def plan(self):
        given = problem(self.mode, self.family, self.relation)
        local = LocalSteps(self.steps, self.batch_size)
        return replace(replies("dp-fedavg", given), local=local)


@pytest.mark.slow
class TestDPFedAvgModeA(OfLocalSteps):
    mode, steps = "A", 1


@pytest.mark.slow
class TestDPFedAvgModeB(OfLocalSteps):
    mode = "B"


class TestDPFedAvgModeC(OfLocalSteps):
    mode, family = "C", "laplace"


@pytest.mark.slow
class TestDPFedAvgModeCOnMinibatches(OfLocalSteps):
    mode, batch_size = "C", 3


class TestDPFedAvgModeD(OfLocalSteps):
    mode, relation = "D", "add-remove"


@pytest.mark.slow
class TestDPFedAvgModeE(OfLocalSteps):
    mode, family = "E", "laplace"


class OfMoments(OnRegression):
    feature_norm = 2.0
    family: ClassVar[Any] = "gaussian"
    relation: ClassVar[Any] = "replace-one"

    def plan(self):
        given, task = problem("M", self.family, self.relation), self.task()
        scale = RecordScale.of(task, given.norm, 1.0)
        return moments.stated(given, task, scale, CONSTANT, 1.0, 0.8)


class TestMoments(OfMoments):
    pass


class TestMomentsWithLaplaceNoise(OfMoments):
    family = "laplace"


@pytest.mark.slow
class TestMomentsUnderAddRemove(OfMoments):
    relation = "add-remove"


class TestDPScaffNew(OnRegression):
    def plan(self):
        given, coins = problem("D"), Coins(20, 0.4, seed=1)
        counts = np.full(N, coins.rounds)
        release = given.release(counts)
        return Plan(
            "dp-scaffnew",
            "",
            given,
            coins.rounds,
            N,
            counts,
            release,
            None,
            {},
            "",
            step=CONSTANT,
            local=coins,
        )


class TestDPPASGD(OnRegression):
    """One step a round, so that the noise of the step is that of the upload."""

    def plan(self):
        given, work = problem(), NoisySteps(1)
        release = given.release(work.uses(ROUNDS, SIZES))
        uses = work.uses(ROUNDS, SIZES)
        return Plan("dp-pasgd", "", given, ROUNDS, N, uses, release, None, {}, "", step=CONSTANT, local=work)

    def most_change(self, plan, client, t):
        return CONSTANT.initial * super().most_change(plan, client, t)

    def noise_size(self, plan, client, t):
        return CONSTANT.initial * super().noise_size(plan, client, t)

    def residuals(self, algorithm, state, client, keys):
        shard = self._shard(0)

        def update(key):
            return algorithm.local_update(state, jnp.int32(client), (), shard, key)[0]

        silent = jax.tree.map(jnp.asarray, algorithm.noiseless())
        exact = silent.local_update(state, jnp.int32(client), (), shard, keys[0])[0]
        return jax.vmap(update)(keys) - exact


class TestMrMtl(OnRegression):
    """Its noise is drawn with the update, because the owner's model moves by it."""

    def plan(self):
        return mr_mtl.stated(problem(), ROUNDS, STEP, pull=2.0)

    def residuals(self, algorithm, state, client, keys):
        shard, memory = self._shard(0), algorithm.init_client(state.theta)

        def update(key):
            return algorithm.local_update(state, jnp.int32(client), memory, shard, key)[0]

        silent = jax.tree.map(jnp.asarray, algorithm.noiseless())
        exact = silent.local_update(state, jnp.int32(client), memory, shard, keys[0])[0]
        return jax.vmap(update)(keys) - exact


class TestDPFLBCS(OnRegression):
    def plan(self):
        return replies("dpfl-bcs", problem(), [1, 4, 2, 0, 5])


class OfRival(OnRegression):
    name: ClassVar[Any]
    family: ClassVar[Any] = "gaussian"

    def plan(self):
        given = problem(family=self.family)
        return rivals.plan(self.name, given, rounds=ROUNDS, clients_per_round=3, step=STEP, momentum=0.5)


@pytest.mark.slow
class TestDPSGD(OfRival):
    name = "dpsgd"


@pytest.mark.slow
class TestDMLDP(OfRival):
    name, family = "dmldp", "laplace"


@pytest.mark.slow
class TestWeiAvg(OfRival):
    name = "weiavg"


class TestPFA(OfRival):
    name = "pfa"


@pytest.mark.slow
class TestPrivateFL(OfRival):
    name = "privatefl"


# Mutants -------------------------------------------------------------------------------------------------


class Mutant(FedSGDDPC):
    """FedSGD-DPC with one promise broken."""


def becomes(kind):
    """The suite of FedSGD-DPC with its algorithm exchanged for a mutant."""

    class Broken(OnRegression):
        feature_norm = None

        def plan(self):
            return replies("fedsgd-dpc", problem())

        def make(self, plan, task, seed):
            sound = registry.make(plan, task, seed)
            return kind(**{field.name: getattr(sound, field.name) for field in fields(sound)})

    return Broken()


class HalvesItsNoise(Mutant):
    def privatize(self, state, update, client, key):
        return update + 0.5 * (super().privatize(state, update, client, key) - update)


class AddsNoise95(Mutant):
    def privatize(self, state, update, client, key):
        return update + 0.95 * (super().privatize(state, update, client, key) - update)


class RepeatsItsNoise(Mutant):
    def privatize(self, state, update, client, key):
        return super().privatize(state, update, client, jax.random.key(0))


class ForgetsTheClip(Mutant):
    def local_update(self, state, client, memory, shard, key):
        return self.task.gradient(state.theta, shard), memory


class ClipsTheBatch(Mutant):
    """Record noise for a batch that is clipped as a whole: no 1/n."""

    def local_update(self, state, client, memory, shard, key):
        mean = self.task.gradient(state.theta, shard)
        return mean * jnp.minimum(1.0, self.clip_norm / jnp.linalg.norm(mean)), memory


class SumsUnweighted(Mutant):
    def sum_over_records(self, state, clients, weights, shards):
        return super().sum_over_records(state, clients, jnp.ones_like(weights), shards)


class KeepsItsNoise(Mutant):
    noises: ClassVar[tuple[str, ...]] = ()


class PadsInFront(Mutant):
    def padded(self, lengths):
        early = np.pad(np.asarray(self.steps), (lengths["steps"] - len(self.steps), 0))
        return replace(super().padded(lengths), steps=early)


class LetsNaNThrough(Mutant):
    def local_update(self, state, client, memory, shard, key):
        update, memory = super().local_update(state, client, memory, shard, key)
        return update + 0.0 * jnp.sum(shard.y), memory


class DividesByItsBatch(Mutant):
    def local_update(self, state, client, memory, shard, key):
        update, memory = super().local_update(state, client, memory, shard, key)
        return update * 2, memory


class AsksTooOften(Mutant):
    def __init__(self, **fields):
        cohorts = np.asarray(fields.pop("cohorts")).copy()
        cohorts[:, 0], cohorts[:, 1] = 0, 1
        super().__init__(**fields, cohorts=cohorts)


class DrawsOnTheHost(Mutant):
    def privatize(self, state, update, client, key):
        noisy = super().privatize(state, update, client, key)
        return noisy + np.random.normal()  # noqa: NPY002


class ChoosesByTheModel(Mutant):
    def select(self, state):
        return jnp.sort(jnp.asarray(self.cohorts)[state.round])[::-1] + jnp.int32(state.theta[0] * 0)


KEPT: dict[str, Any] = {}


class ServerPeeks(Mutant):
    """What the client computed finds its way to the server beside the upload."""

    def local_update(self, state, client, memory, shard, key):
        update, memory = super().local_update(state, client, memory, shard, key)
        KEPT["update"] = update
        return update, memory

    def aggregate(self, state, total):
        return super().aggregate(state, total + KEPT["update"])


class DrawsItsSteps(Mutant):
    """Steps that follow the schedule, which is drawn from the seed."""

    def __init__(self, **fields):
        steps = np.asarray(fields.pop("steps")) * (1 + np.asarray(fields["cohorts"])[:, 0])
        super().__init__(**fields, steps=steps)


class GrantsMore(Mutant):
    def __init__(self, **fields):
        cohorts = np.asarray(fields.pop("cohorts"))
        super().__init__(**fields, cohorts=np.concatenate([cohorts, cohorts]))


@pytest.mark.parametrize(
    ("kind", "check"),
    [
        (HalvesItsNoise, "test_uploads_carry_the_planned_noise"),
        (AddsNoise95, "test_uploads_carry_the_planned_noise"),
        (RepeatsItsNoise, "test_noise_is_new_for_every_round_and_client"),
        (ForgetsTheClip, "test_no_neighbour_moves_an_update_by_more_than_the_planned_sensitivity"),
        (ClipsTheBatch, "test_no_neighbour_moves_an_update_by_more_than_the_planned_sensitivity"),
        (DividesByItsBatch, "test_no_neighbour_moves_an_update_by_more_than_the_planned_sensitivity"),
        (SumsUnweighted, "test_a_sum_over_records_is_that_of_the_updates"),
        (KeepsItsNoise, "test_a_factor_of_the_noise_is_one_of_every_upload"),
        (PadsInFront, "test_schedules_made_longer_change_no_round"),
        (LetsNaNThrough, "test_records_that_are_not_finite_make_no_update_that_is_not"),
        (AsksTooOften, "test_nobody_is_asked_more_often_than_its_noise_pays_for"),
        (GrantsMore, "test_a_ledger_of_the_plan_pays_for_all_rounds_and_for_no_more"),
        (DrawsItsSteps, "test_a_seed_draws_whom_to_ask_and_nothing_else"),
        (ChoosesByTheModel, "test_select_follows_the_public_schedule"),
        (ServerPeeks, "test_the_server_reads_uploads_only"),
        (DrawsOnTheHost, "test_an_upload_is_a_function_of_its_key"),
    ],
)
def test_a_broken_promise_fails_its_check(kind, check):
    with pytest.raises((AssertionError, ValueError)):
        getattr(becomes(kind), check)()


def test_every_check_has_a_mutant_above():
    (mark,) = test_a_broken_promise_fails_its_check.pytestmark  # type: ignore[attr-defined]
    checks = {name for name, _ in inspect.getmembers(AlgorithmConformance) if name.startswith("test_")}
    assert {check for _, check in mark.args[1]} == checks


def test_an_algorithm_that_does_not_say_what_its_noise_is_cannot_be_written():
    """On the way fields were found by their names, and one by another name kept its noise in trials."""
    with pytest.raises(TypeError, match="Loud must say which of its fields are noises"):

        class Loud(Scheduled):
            schedules: ClassVar[tuple[str, ...]] = ("cohorts",)
