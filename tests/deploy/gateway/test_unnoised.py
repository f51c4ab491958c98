"""Releases that leave without noise for a trusted server: allowed by name, priced as if noised, once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Into, Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.unnoised import noise_of_sum
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.moments.wire import MomentsWork
from noiseworthy.methods.mr_mtl.wire import MrMtlWork
from noiseworthy.methods.rows import gradient_rows
from noiseworthy.privacy.grid_mechanism import REACH
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.uploads import Grid, Upload

from .conftest import P, asked, request, spent

WEIGHT, CLIP = 0.3, 0.1
NOISE = 4 * 2 * CLIP / 91
UPDATE = FedAvgWork(clipping="D", step_sizes=np.full(2, 0.5))
MOMENTS = MomentsWork(label_weight=1.0)


def into(noise: float = NOISE, coarser: int = 0) -> Into:
    exponent = Grid.finest(CLIP + REACH * WEIGHT * noise).exponent
    return Into(weight=WEIGHT, exponent=exponent + coarser)


@pytest.fixture
def trusting(gateway_of) -> Gateway:
    return gateway_of(allowed={"server_adds_noise": True})


def upload_of(gateway: Gateway, wanted) -> Upload:
    reply = asked(gateway, wanted)
    assert isinstance(reply, Uploaded), reply
    assert isinstance(reply.upload, Upload)
    return reply.upload


def refusal(gateway: Gateway, wanted) -> Refused:
    reply = asked(gateway, wanted)
    assert isinstance(reply, Refused)
    return reply


def test_an_owner_that_trusts_no_server_lets_nothing_leave_without_noise(gateway):
    told = refusal(gateway, request(into=into()))
    assert (told.reason, "server_adds_noise" in told.message) == ("not-allowed", True)
    assert not gateway.about.server_adds_noise
    assert spent(gateway) == (0, 0)


def test_the_upload_is_the_clipped_sum_on_the_grid_of_the_sum_and_says_that_noise_is_awaited(trusting):
    job = trusting.accepted(wanted := request(into=into())).job
    grid, factor, total = Grid(into().exponent), WEIGHT / 91, np.zeros(P, np.int64)
    for part in gradient_rows(job.task, job.theta, trusting.holding.batch(job.task), job.total):
        total += clipped_sum(np.float64(part) * factor, CLIP * factor, "l2", grid)
    upload = upload_of(trusting, wanted)
    assert upload.assurance == "awaited"
    np.testing.assert_array_equal(upload.steps, total)
    np.testing.assert_array_equal(upload.values, total * grid.spacing / WEIGHT)
    assert trusting.about.server_adds_noise


@pytest.mark.parametrize("work", [None, UPDATE, MOMENTS], ids=["gradient", "update", "moments"])
def test_it_costs_what_the_same_noise_of_the_owner_would(trusting, work):
    """Within the millionth that a grid may move a price."""
    noise = 8 * CLIP if work is UPDATE else NOISE
    how: dict[str, Any] = {"noise": noise} | ({} if work is None else {"algorithm": work})
    upload_of(trusting, request(1, into=into(noise), **how))
    (_, bare) = spent(trusting)
    own = asked(trusting, request(1, run="own noise", **how))
    assert isinstance(own, Uploaded), own
    assert spent(trusting)[1] - bare == pytest.approx(bare, rel=1e-12)


@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_the_server_draws_the_noise_that_was_promised_a_millionth_more(mechanism):
    drawn = noise_of_sum(mechanism, WEIGHT * NOISE, Grid(into().exponent))
    assert drawn.family == mechanism
    assert drawn.scale * Grid(into().exponent).spacing == pytest.approx(WEIGHT * NOISE * (1 + 2**-20))


def test_it_leaves_once_and_no_copy_is_sealed(trusting):
    """Noise drawn anew over the same numbers would be another release of them."""
    wanted = request(into=into())
    first = trusting.answer(packed(wanted))
    steps = read_reply(first).upload.steps
    told = refusal(trusting, wanted)
    assert (told.reason, told.next) == ("conflict", 2)
    assert "leaves once" in told.message
    trusting.rest()
    kept = b"".join(path.read_bytes() for path in trusting.ledger.path.parent.glob("ledger.sqlite*"))
    assert b"leaves once" in kept
    assert steps.tobytes() in first
    assert steps.tobytes() not in kept
    assert spent(trusting)[0] == 1


def test_what_no_noise_of_a_sum_covers_is_refused_before_anything_is_paid(trusting):
    assert "no room" in refusal(trusting, request(into=into(coarser=40))).message
    assert "no room" in refusal(trusting, request(into=into(coarser=-60))).message
    assert refusal(trusting, request(noise=NOISE / 100, into=into())).reason == "floor"
    told = refusal(trusting, request(algorithm=PasgdWork(step_sizes=np.full(2, 0.1)), into=into()))
    assert "dp-pasgd does not upload one noised sum" in told.message
    told = refusal(trusting, request(algorithm=MrMtlWork(step_size=0.5, share=0.1), into=into()))
    assert "an owner computes on with it" in told.message, "an own model would move by bare numbers"
    assert spent(trusting) == (0, 0)


def test_a_clip_below_one_step_of_the_sums_grid_is_refused_before_it_is_paid_for(gateway_of):
    """A row that counts for less than a step would be truncated to nothing, which rows refuse."""
    pure = {"mechanism": "laplace", "delta": 0.0}
    gateway = gateway_of(allowed={"server_adds_noise": True}, budget=pure)
    coarse = Into(weight=WEIGHT, exponent=math.ceil(math.log2(WEIGHT * CLIP / 91)))
    told = refusal(gateway, request(mechanism="laplace", noise=1e9 * CLIP, into=coarse))
    assert (told.reason, "at least one step of the grid" in told.message) == ("not-allowed", True)
    assert spent(gateway) == (0, 0)


def test_moments_need_a_grid_that_keeps_their_rows_at_right_angles(trusting):
    """Their sensitivity is below two clips, which a coarse grid could pass."""
    fine = request(algorithm=MOMENTS, into=into())
    assert len(upload_of(trusting, fine).steps) == P * (P + 1) // 2 + P
    loud = 40 * CLIP  # on a grid of 2^32 steps to its noise, where truncated moments leave their right angle
    coarse = Into(weight=WEIGHT, exponent=Grid.finest(WEIGHT * loud).exponent + 20)
    told = refusal(trusting, request(2, algorithm=MOMENTS, noise=loud, into=coarse))
    assert "too coarse for these rows" in told.message
    gradient = refusal(trusting, request(2, noise=loud, into=coarse))
    assert "too coarse for this delta" in gradient.message, "its rows may be as far apart as two clips"


def test_an_upload_into_a_secure_sum_always_carries_noise_of_its_own(trusting):
    from noiseworthy.deploy.gateway.sums import SumRequest

    reply = read_reply(trusting.answer(packed(SumRequest(message=b"", request=request(into=into())))))
    assert isinstance(reply, Refused)
    assert spent(trusting) == (0, 0)
