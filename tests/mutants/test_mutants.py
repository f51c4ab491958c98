"""Broken copies of the product, each a small patch of its code, and the checks of the audit that find it.

A mutant makes a plan that claims more privacy than it gives. It is caught where a check of the audit fails;
the table in `docs/audit.md` names the checks that must. Were the audit blind, these tests would fail; were it
trigger-happy, those of sound plans in `tests/audit` would.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy import rounds
from noiseworthy._keys import named_key
from noiseworthy.audit.audits import Effort, audit
from noiseworthy.methods import algorithm as uploading
from noiseworthy.methods.dp_fedavg import algorithm as dp_fedavg
from noiseworthy.methods.dp_fedavg import planner as local_iterations
from noiseworthy.methods.dp_pasgd import planner as averaging_period
from noiseworthy.methods.dp_scaffnew import planner as communication_probability
from noiseworthy.methods.dpfl_bcs import loss_reports, two_stages
from noiseworthy.methods.fedsgd_dpc import planner as queries_replies
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.local import clip_whole
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.privacy import budget, clipping
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.privacy.mechanisms import Gaussian
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.privacy.trust import Trust
from noiseworthy.tasks import LinearModel, networks
from noiseworthy.tasks import chunks as in_parts
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.chunks import chunks
from noiseworthy.tasks.persons import Persons

pytestmark = pytest.mark.slow  # minutes, because every patch is compiled anew: make mutants

PAGE = Path(__file__).parents[2] / "docs" / "audit.md"
SIZES = np.array([40, 60, 80, 100, 50, 70])
STEP = StepSize(0.1, float("inf"))
TRIALS = 6_000


def problem(clipping_mode="A", epsilon=4.0) -> Problem:
    allowed = PrivacyBudget.of(epsilon, 1e-5, len(SIZES), unit=unit_of(clipping_mode))
    return Problem(SIZES, 20, allowed, "gaussian", 1.5, clipping=clipping_mode)


def gradients(asked: int = 3) -> Plan:
    return queries_replies.stated(problem(), 12, asked, STEP)


def whole_updates() -> Plan:
    return communication_probability.stated(problem("D"), 40, 0.3, STEP, coin_seed=4)


def local_steps() -> Plan:
    return local_iterations.stated(problem("C"), 24, 4, 4, STEP)


def noised_steps() -> Plan:
    return averaging_period.stated(problem(), 24, 3, STEP)


def with_losses() -> Plan:
    known = {name: Constant(1.0, "assumed") for name in ("smoothness", "strong_convexity")}
    return two_stages.plan(
        problem(), known, rounds=12, clients_per_round=3, estimation_rounds=4, loss_cap=2.3, step=STEP
    )


class Mutant(NamedTuple):
    """What is changed, and which checks of the audit must fail.

    Attributes:
        patch: changes the product and returns the plan that it then makes.
        caught_by: checks that must fail.
        model: of the audited study.
    """

    patch: Callable[[pytest.MonkeyPatch], Plan]
    caught_by: frozenset[str]
    model: str = "linear"


MUTANTS: dict[str, Mutant] = {}


def mutant(name: str, *caught_by: str, model: str = "linear"):
    def register(patch):
        MUTANTS[name] = Mutant(patch, frozenset(caught_by), model)
        return patch

    return register


# Too little noise --------------------------------------------------------------------------------------


@mutant("noise halved", "bound", "scale")
def noise_halved(monkeypatch):
    monkeypatch.setattr(
        uploading, "simulated_noise", lambda key, law, size, p, parts: simulated_noise(key, law, size / 2, p)
    )
    return gradients()


@mutant("shares counted for all who are asked", "bound", "reconciliation")
def shares_of_all(monkeypatch):
    monkeypatch.setattr(Trust, "survivors", lambda self, cohort: np.asarray(cohort))
    trusting = replace(problem(), trust=Trust("secure-sum", colluders=2, dropouts=1))
    return queries_replies.stated(trusting, 12, 6, STEP)


@mutant("the factor 2 dropped", "bound", "exposure")
def factor_dropped(monkeypatch):
    def of_one_record(*args):
        sound = of_mean_gradient(*args)
        return replace(sound, value=sound.value / 2)

    of_mean_gradient = clipping.of_mean_gradient
    monkeypatch.setattr(clipping, "of_mean_gradient", of_one_record)
    return gradients()


@mutant("the wrong zCDP root", "bound", "exposure", "reconciliation")
def wrong_root(monkeypatch):
    """epsilon = rho + 2 sqrt(rho L) has the root sqrt(rho) = sqrt(epsilon + L) - sqrt(L), not with a plus."""

    def ratio(epsilon, delta):
        return np.sqrt(2) * (np.sqrt(epsilon - np.log(delta)) + np.sqrt(-np.log(delta)))

    def epsilon_of(mu, delta):
        root = np.asarray(mu) / np.sqrt(2) * (1 - 1e-12)
        return np.square(root - np.sqrt(-np.log(delta))) + np.log(delta)

    monkeypatch.setattr(budget, "gaussian_mu", ratio)
    for reader in ("gaussian_epsilon", "mechanisms.gaussian_analysis"):
        monkeypatch.setattr(f"noiseworthy.privacy.{reader}.gaussian_epsilon", epsilon_of)
    return gradients()


@mutant("weights by data size with uniform noise", "reconciliation")
def uniform_noise(monkeypatch):
    """Every client divides by its own size, and adds the noise of a client of mean size."""

    def alike(self, releases, *of_sums):
        release = sound(self, releases, *of_sums)
        size = np.full(len(SIZES), (release.mechanism.size * SIZES).mean() / SIZES.mean())
        return replace(release, mechanism=Gaussian(size))

    sound = Problem.release
    monkeypatch.setattr(Problem, "release", alike)
    return gradients()


# Releases that nobody counted --------------------------------------------------------------------------


@mutant("mean instead of realised rounds", "exposure", "reconciliation")
def mean_rounds(monkeypatch):
    """The noise pays for p T rounds; the coins fall more often."""

    def on_average(public, coins, *rest):
        made = scheduled(public, coins, *rest)
        assert coins.rounds > coins.expected_rounds
        releases = np.full(public.n_clients, int(coins.expected_rounds))
        return replace(made, releases=releases, release=public.release(releases))

    scheduled = communication_probability._scheduled
    monkeypatch.setattr(communication_probability, "_scheduled", on_average)
    return whole_updates()


@mutant("fractional participation", "exposure", "reconciliation")
def fractional_participation(monkeypatch):
    """The noise pays for b T / N uploads, rounded down; the schedule asks some clients once more."""
    monkeypatch.setattr(queries_replies, "uploads", lambda rounds, b, clients: rounds * b // clients)
    return queries_replies.stated(problem(), 5, 4, STEP)


@mutant("steps miscounted", "bound", "exposure")
def steps_miscounted(monkeypatch):
    """The noise of a step pays for one step in every round, not for all that a record is in."""
    counted = NoisySteps.uses
    monkeypatch.setattr(
        NoisySteps, "uses", lambda self, steps, sizes: counted(self, np.asarray(steps) // self.steps, sizes)
    )
    return noised_steps()


@mutant("losses released without charge", "exposure")
def losses_uncharged(monkeypatch):
    def free(*args):
        first = sound(*args)
        gradients, (losses, told) = first.parts
        return replace(first, parts=(gradients, (losses, np.zeros_like(told))))

    sound = two_stages._first_stage
    monkeypatch.setattr(two_stages, "_first_stage", free)
    return with_losses()


@mutant("losses released as they are", "scale")
def losses_bare(monkeypatch):
    monkeypatch.setattr(
        loss_reports.LossReports, "privatize", lambda self, state, update, client, key: update
    )
    return with_losses()


# Records that move more than their clip ------------------------------------------------------------------


@mutant("clip per batch with record noise", "bound", "exposure")
def clip_per_batch(monkeypatch):
    """The mean gradient is clipped, so that one record moves it by 2 C and not by 2 C / n."""

    def clipped(self, theta, batch, clip_norm, norm):
        return batch.size * clip_whole(self.gradient(theta, batch), clip_norm, norm)

    monkeypatch.setattr(LinearModel, "clipped_gradient_sum", clipped)
    return gradients()


@mutant("clip per record with noise for persons", "bound", "exposure")
def clip_per_record_of_persons(monkeypatch):
    """Each record of a person is clipped, so that both of them move the sum by 4 C and not by 2 C."""

    def clipped(self, theta, batch, clip_norm, norm):
        rows = batch.x.reshape(-1, batch.x.shape[-1])
        real = (rows[:, -1] > 0) * jnp.repeat(batch.mask, self.most)
        records = Batch(rows[:, :-1], batch.y.ravel(), real)
        return self.task.clipped_gradient_sum(theta, records, clip_norm, norm)

    monkeypatch.setattr(Persons, "clipped_gradient_sum", clipped)
    hidden = PrivacyBudget.of(4.0, 1e-5, len(SIZES), unit="person")
    of_persons = Problem(SIZES, 20, hidden, "gaussian", 1.5, row="person")
    return queries_replies.stated(of_persons, 12, 3, STEP)


@mutant("clip per tensor", "exposure", model="network")
def clip_per_tensor(monkeypatch):
    def each(gradient, size, clip_norm):
        parts = jnp.split(gradient, 2)
        sizes = [in_parts.upper_norm_of_long(part, "l2") for part in parts]
        return jnp.concatenate([clip(part, one, clip_norm) for part, one in zip(parts, sizes, strict=True)])

    def clipped(task, theta, batch, clip_norm, norm):
        return in_parts.formed_sum(task._loss, theta, chunks(batch, task.chunk), clip_norm, norm)

    clip = in_parts.clip
    monkeypatch.setattr(in_parts, "clip", each)
    monkeypatch.setattr(networks.ModelTask, "clipped_gradient_sum", clipped)
    return gradients()


@mutant("momentum before the clip", "bound", "exposure")
def momentum_before_the_clip(monkeypatch):
    """A client's momentum gathers raw gradients, and only what it has gathered is clipped."""

    def local_update(self, state, client, memory, shard, key):
        velocity = 0.9 * memory + self.task.gradient(state.theta, shard)
        return clip_whole(velocity, self.clip_norm, self.norm), velocity

    monkeypatch.setattr(FedSGDDPC, "init_client", lambda self, theta: jnp.zeros_like(theta))
    monkeypatch.setattr(FedSGDDPC, "local_update", local_update)
    return gradients()


@mutant("momentum between the clip and the noise", "bound", "exposure")
def momentum_after_the_clip(monkeypatch):
    """Old clipped gradients are carried along, so that one record counts up to 1 / (1 - m) times."""

    def local_update(self, state, client, memory, shard, key):
        now, _ = sound(self, state, client, memory, shard, key)
        velocity = 0.9 * memory + now
        return velocity, velocity

    sound = FedSGDDPC.local_update
    monkeypatch.setattr(FedSGDDPC, "init_client", lambda self, theta: jnp.zeros_like(theta))
    monkeypatch.setattr(FedSGDDPC, "local_update", local_update)
    return gradients()


@mutant("noise of the first step of a round alone", "scale")
def noise_of_one_step(monkeypatch):
    """The update grows with the sum of the step sizes, its noise with the first of them."""

    def privatize(self, state, update, client, key):
        size = self.noise[client] * self.steps[state.round * self.local_steps]
        return update + simulated_noise(key, self.family, size, self.task.dimension)

    monkeypatch.setattr(dp_fedavg.DPFedAvg, "privatize", privatize)
    return local_steps()


# Noise that comes twice, or is of another law ------------------------------------------------------------


@mutant("noise replayed after resume", "replay")
def noise_replayed(monkeypatch):
    """Rounds are counted anew after the break half way, and their keys with them."""
    monkeypatch.setattr(
        rounds, "named_key", lambda root, purpose, t, client: named_key(root, purpose, t % 6, client)
    )
    return gradients()


@mutant("one noise for all clients", "replay")
def noise_shared(monkeypatch):
    monkeypatch.setattr(rounds, "named_key", lambda root, purpose, t, client: named_key(root, purpose, t))
    return gradients()


@mutant("noise of a bounded law", "scale")
def noise_bounded(monkeypatch):
    """Uniform noise of the planned variance: its residuals add up as they should."""

    def bounded(key, law, size, p, parts):
        return size * jax.random.uniform(key, (p,), minval=-(3**0.5), maxval=3**0.5)

    monkeypatch.setattr(uploading, "simulated_noise", bounded)
    return gradients()


@pytest.fixture
def freshly_compiled():
    """What was compiled before a patch would run on without it, and what is compiled under one after it."""
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.parametrize("name", MUTANTS)
def test_the_audit_catches(name, monkeypatch, freshly_compiled):
    broken = MUTANTS[name]
    plan = broken.patch(monkeypatch)
    found = audit(plan, Effort(model=broken.model, trials=TRIALS))
    failed = {check.name for one in found for check in one.checks if not check.passed}
    assert failed >= broken.caught_by, [check.says for one in found for check in one.checks]


def test_the_page_names_every_mutant_with_the_checks_that_catch_it():
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.startswith("|")]
    told = {row[1].strip(): {name.strip() for name in row[2].split(",")} for row in rows if len(row) > 3}
    for name, broken in MUTANTS.items():
        assert told[name] == broken.caught_by, name
