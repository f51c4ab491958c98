"""An owner who was given a plan to review serves nobody where it asks for more than its file allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.cli.gateways import _check_plan, gateway
from noiseworthy.errors import GatewayError, PlanError
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import FILE, load_plan, planned
from noiseworthy.studies.prepare import prepare

STUDY = {
    "federation": {"data": "breast-cancer", "clients": 5},
    "task": {"model": "logistic", "normalise": True, "bias": 0.0},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {
        "rounds": 4, "clients_per_round": 5, "step_size": 1.0, "momentum": 0.0, "averaging": 0.0,
        "weighting": 0.0,
    },
}  # fmt: skip


@pytest.fixture
def file(tmp_path):
    made = planned(prepare(parse_study(STUDY)))
    return load_plan(made.file.save(tmp_path))


def test_a_plan_within_the_owners_file_is_named_by_its_digest(file, gateway_of, tmp_path, capsys):
    _check_plan(tmp_path / FILE, gateway_of())
    assert f"Plan {file.digest[:12]} asks client 1" in capsys.readouterr().err


BEYOND = {
    "has most_releases 3, the plan asks for 4": {"allowed": {"most_releases": 3}},
    "does not allow models logistic": {"allowed": {"models": ["softmax"]}},
    r"has 100.0% left of epsilon 4 .* state less .* epsilon .* does not grow$": {"budget": {"epsilon": 4.0}},
    "has mechanism laplace, the plan gaussian": {"budget": {"mechanism": "laplace", "delta": 0.0}},
    "not made for records of 'client 9'": {"owner": {"client": "client 9"}},
}


@pytest.mark.parametrize("said", BEYOND)
def test_a_plan_beyond_the_owners_file_is_refused(said, file, gateway_of, tmp_path):
    with pytest.raises(GatewayError, match=said):
        _check_plan(tmp_path / FILE, gateway_of(**BEYOND[said]))


def test_a_plan_for_classes_in_another_order_is_refused(file, gateway_of, tmp_path):
    opened, study = gateway_of(federation={"classes": ["0", "1"]}), file.made_for["study"]["federation"]
    study["classes"] = [0, 1]
    file.save(tmp_path)
    _check_plan(tmp_path / FILE, opened)
    study["classes"] = [1, 0]
    replace(file).save(tmp_path)
    with pytest.raises(GatewayError, match="file has classes 0, 1 in this order, the study 1, 0"):
        _check_plan(tmp_path / FILE, opened)


def test_a_plan_for_other_records_is_refused(file, gateway_of, tmp_path):
    """Noise that was calibrated for more records hides fewer of them."""
    problem = replace(file.plan.problem, sizes=file.plan.problem.sizes + np.array([0, 1, 0, 0, 0]))
    release = problem.release(file.plan.releases)
    replace(file, plan=replace(file.plan, problem=problem, release=release)).save(tmp_path)
    with pytest.raises(GatewayError, match=r"client 1 holds .* records, the plan was made for"):
        _check_plan(tmp_path / FILE, gateway_of())


def test_a_plan_whose_noise_does_not_hold_its_claim_is_refused(file, gateway_of, tmp_path):
    louder = replace(file.plan, problem=replace(file.plan.problem, clip_norm=1.0))
    replace(file, plan=louder).save(tmp_path)
    with pytest.raises(PlanError, match="for another sensitivity"):
        _check_plan(tmp_path / FILE, gateway_of())


def test_a_plan_beyond_the_owners_file_is_refused_before_anybody_is_listened_to(
    file, gateway_of, tmp_path, monkeypatch, capsys
):
    """The gateway said that it was listening, with its socket open, and then that the plan does not fit."""
    opened = gateway_of(allowed={"most_releases": 3})

    def listening(*_):
        raise AssertionError("the socket was opened")

    monkeypatch.setattr("noiseworthy.deploy.gateway.owner.load_owner", lambda _: opened.owner)
    monkeypatch.setattr("noiseworthy.deploy.gateway.gateway.Gateway.open", lambda *_, **__: opened)
    monkeypatch.setattr("noiseworthy.deploy.gateway.server.listening", listening)
    with pytest.raises(GatewayError, match="has most_releases 3"):
        gateway(tmp_path / "owner.toml", plan=tmp_path / FILE)
    assert "listening" not in capsys.readouterr().err
