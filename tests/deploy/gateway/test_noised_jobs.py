"""Jobs of several noised sums: each is bounded and paid for, and what leaves is made of them alone."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.messages import Derived, Uploaded, pack_reply, read_reply
from noiseworthy.deploy.gateway.work import job_of
from noiseworthy.errors import InvalidInput, WireError
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.rows import gradient_rows
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.sums import NoisedSum

from .conftest import P, asked, request, spent

CAP = 0.7
RIDGE = {"model": "logistic", "feature_norm": 1.0, "ridge": 0.1}
STEPS = PasgdWork(step_sizes=np.array([2.0, 1.0, 0.5]))
PERSONAL = PrivateFLWork(personal_step=0.5)
LOSSES = LossReportWork(loss_cap=CAP, loss_noise=4 * CAP / 91, step_size=1.5)
WORKS = {"steps": STEPS, "personal": PERSONAL, "losses": LOSSES}


@pytest.fixture
def drawn(monkeypatch) -> list[np.ndarray]:
    """The values of every noised sum that is drawn."""
    found: list[np.ndarray] = []
    of = NoisedSum.of

    def kept(self, parts):
        upload = of(self, parts)
        found.append(upload.values)
        return upload

    monkeypatch.setattr(NoisedSum, "of", kept)
    return found


def changed_at(gateway, job, place):
    """The owner's records, and the same with another label at one place."""
    batch = gateway.holding.batch(job.task)
    return batch, batch._replace(y=batch.y.at[place].set(1 - batch.y[place]))


# Privacy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 90])
def test_one_record_changes_its_own_joint_gradient_alone(gateway, place):
    """Transform and model are clipped as one row; all others stay the same bit by bit."""
    job = gateway.accepted(request(algorithm=PERSONAL)).job
    phi = np.linspace(-1, 1, job.both.dimension, dtype=np.float32)
    before, after = (
        np.concatenate(list(gradient_rows(job.personal, phi, batch, job.both)))
        for batch in changed_at(gateway, job, place)
    )
    same = np.arange(91) != place
    assert before.shape == (91, 1 + 2 * P)
    assert np.array_equal(before[same], after[same])
    totals = [clipped_sum(rows, 0.1, "l2", job.both.mechanism.grid) for rows in (before, after)]
    assert 0.1 < np.linalg.norm(np.subtract(*totals)) * job.both.mechanism.grid.spacing <= 0.2


@pytest.mark.parametrize("size", [0.1, 30.0, 3e38])
def test_one_record_moves_a_reported_loss_by_at_most_the_cap(gateway, silent, size):
    """Even where losses are far beyond the cap, or not finite, which counts as the cap."""
    theta = np.full(P, size, np.float32)
    job = gateway.accepted(request(algorithm=LOSSES, theta=theta)).job
    told = [job._loss(theta, batch)[0] for batch in changed_at(gateway, job, 3)]
    assert abs(told[0] - told[1]) * 91 <= CAP * (1 + 1e-9)
    assert all(0 <= one <= CAP for one in told)
    losses = np.nan_to_num(np.asarray(job.task.losses(theta, gateway.holding.batch(job.task))), nan=np.inf)
    assert told[0] == pytest.approx(np.minimum(losses, CAP).mean(), rel=1e-5)


def test_an_owner_accounts_for_all_that_is_drawn(holding):
    """2C/n of a gradient, tau times; Theta/n of a loss, twice: whatever the server believes."""
    task = holding.task(request().task)
    found = {
        name: [(one.release.sensitivity.value[0], one.times) for one in _job(work, task).sums]
        for name, work in WORKS.items()
    }
    gradient = pytest.approx(0.2 / 91, rel=1e-15)
    assert found == {
        "steps": [(gradient, 3)],
        "personal": [(gradient, 1)],
        "losses": [(gradient, 1), (pytest.approx(CAP / 91, rel=1e-15), 2)],
    }


def _job(work, task):
    return job_of(request(algorithm=work), task, 91)


@pytest.mark.parametrize(("name", "dimensions"), [("steps", [P] * 3), ("personal", [1 + 2 * P]),
                                                  ("losses", [P, 1, 1])])  # fmt: skip
def test_as_much_is_drawn_as_is_paid_for(gateway_of, silent, name, dimensions):
    """A sum of four times its noise costs 1/16 of mu^2; three of them cost as much as three gradients."""
    gateway = gateway_of(allowed={"most_parameters": 1 + 2 * P})
    assert isinstance(asked(gateway, request(1, algorithm=WORKS[name])), Uploaded)
    price = spent(gateway)[1]
    asked(gateway, request(2))
    gradient = spent(gateway)[1] - price
    assert silent == [*dimensions, P]
    assert abs(price - len(dimensions) * gradient) <= len(dimensions)


@pytest.mark.parametrize("size", [2.9, 3.1])
def test_the_floor_holds_for_every_sum(gateway_of, size):
    gateway = gateway_of(budget={"noise_floor": 3.0})
    work = LossReportWork(loss_cap=CAP, loss_noise=size * CAP / 91, step_size=1.0)
    reply = asked(gateway, request(algorithm=work))
    assert getattr(reply, "reason", None) == ("floor" if size < 3 else None)
    assert spent(gateway)[0] == (size > 3)


def test_steps_that_would_overspend_are_refused_before_the_first(gateway, silent):
    """Of mu 1 there are two in mu(8, 1e-5)^2 = 2.9, and three are asked."""
    assert asked(gateway, request(algorithm=STEPS, noise=2 * 0.1 / 91)).reason == "budget"
    assert (silent, spent(gateway)) == ([], (0, 0))


def test_noised_steps_take_gaussian_noise_and_no_more_than_the_owner_allows(gateway_of):
    pure = gateway_of(budget={"mechanism": "laplace", "delta": 0.0})
    reply = asked(pure, request(algorithm=STEPS, mechanism="laplace"))
    assert (reply.reason, "gaussian" in reply.message) == ("not-allowed", True)
    long = PasgdWork(step_sizes=np.ones(1001))
    other = gateway_of(owner={"data_set": "others"})
    assert asked(other, request(algorithm=long)).reason == "not-allowed"


def test_a_budget_for_the_whole_owner_pays_for_none_of_them(gateway_of):
    gateway = gateway_of(budget={"unit": "client"})
    for work in WORKS.values():
        assert "clips its whole update" in asked(gateway, request(algorithm=work)).message


# What leaves -----------------------------------------------------------------------------------------


def test_a_move_is_made_of_noised_gradients_alone(gateway, drawn):
    """With real noise: the server's reading of the three sums is the move, to the last bits."""
    wanted = request(algorithm=STEPS, task=RIDGE)
    got = asked(gateway, wanted).upload.values
    moved = np.zeros(P)
    for step, noised in zip([2.0, 1.0, 0.5], drawn, strict=True):
        moved -= step * (noised + 0.1 * np.float32(wanted.theta + moved))
    assert np.array_equal(got, moved)
    assert len({one.tobytes() for one in drawn}) == 3


def test_the_second_loss_is_taken_where_the_noised_gradient_leads(gateway, silent, drawn):
    wanted = request(algorithm=LOSSES, task=RIDGE)
    got = asked(gateway, wanted).upload.values
    gradient, *losses = drawn
    assert np.array_equal(got, np.concatenate([gradient, *[one + CAP / 2 for one in losses]]))
    after = wanted.theta - 1.5 * (gradient + 0.1 * wanted.theta)
    task = gateway.holding.task(wanted.task)
    own = task.losses(jnp.asarray(after, jnp.float32), gateway.holding.batch(task))
    assert got[-1] == pytest.approx(np.minimum(np.asarray(own), CAP).mean(), rel=1e-6)


def test_the_transforms_part_stays(gateway_of, drawn):
    """Of q + p noised numbers p leave; the next release is behind the moved transform, after a restart."""
    reply = asked(gateway_of(), request(algorithm=PERSONAL))
    assert np.array_equal(reply.upload.values, drawn[0][1 + P :])
    gateway = gateway_of()
    kept = gateway.memories.recall("first study", jnp.zeros(1 + P))
    start = np.concatenate([np.ones(1), np.zeros(P)])
    assert kept.release == 1
    assert np.allclose(kept.memory, start - 0.5 * drawn[0][: 1 + P], rtol=1e-6)
    assert isinstance(asked(gateway, request(2, algorithm=PERSONAL)), Uploaded)
    assert gateway.memories.recall("first study", kept.memory).release == 2


@pytest.mark.parametrize("name", WORKS)
def test_a_retry_gets_the_identical_bytes(gateway_of, name):
    first = asked(gateway_of(), request(algorithm=WORKS[name]))
    again = asked(gateway_of(), request(algorithm=WORKS[name]))
    assert pack_reply(again) == pack_reply(first)
    assert asked(gateway_of(), request(algorithm=WORKS[name], noise=0.1)).reason == "conflict"


@pytest.mark.parametrize("name", WORKS)
def test_parameters_that_overflow_are_no_oracle(gateway, silent, name):
    reply = asked(gateway, request(theta=np.full(P, 3e38, np.float32), algorithm=WORKS[name]))
    assert isinstance(reply, Uploaded)


@pytest.mark.parametrize(
    "values",
    [np.array([np.nan]), np.array([np.inf]), np.zeros((2, 2)), np.zeros(2, np.float32)],
    ids=["NaN", "infinite", "a matrix", "float32"],
)
def test_what_is_derived_is_a_list_of_finite_numbers(values):
    with pytest.raises(InvalidInput, match="finite float64"):
        Derived(values, "grid-csprng")


@pytest.mark.parametrize(
    "parts", [{"values": np.zeros(2)}, {"values": [0.0], "assurance": "grid-csprng"}, {}, 3]
)
def test_a_reply_with_another_upload_is_none(gateway, parts):
    fields = wire.unpack(gateway.answer(packed(request(algorithm=STEPS))))
    with pytest.raises(WireError, match="no reply of a gateway"):
        read_reply(wire.pack(fields | {"upload": parts}))
