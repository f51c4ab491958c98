"""Audits of a server that keeps to itself whom it asks: the canary takes part by a coin in every round."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from noiseworthy.audit import targets
from noiseworthy.audit.audits import Effort, audit
from noiseworthy.methods.dp_fedavg.algorithm import DPFedAvg
from noiseworthy.methods.dp_fedavg.planner import stated
from noiseworthy.methods.fedsgd_dpc.planner import stated as of_gradients
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.trust import Trust


@pytest.fixture(scope="module")
def plan():
    budget = PrivacyBudget.of(3.0, 1e-5, 6, "add-remove", "client")
    trust = Trust("central", cohorts="secret")
    problem = Problem(np.full(6, 20), 20, budget, "gaussian", 1.5, clipping="D", trust=trust)
    return stated(problem, 6, 1, 3, StepSize(0.1))


def test_a_sound_plan_passes_and_four_fifths_of_its_epsilon_are_proven(plan):
    (made,) = audit(plan, Effort(trials=8_000))
    assert made.passed, [check.says for check in made.checks]
    np.testing.assert_allclose(made.exposure.epsilon, made.target.epsilon, rtol=5e-3)
    assert made.proven > 0.8 * made.claimed


def test_a_server_that_asks_everybody_is_caught(plan, monkeypatch):
    """Noise is as planned, but no coin is tossed."""
    monkeypatch.setattr(targets, "make", lambda *of: replace(cast(DPFedAvg, make(*of)), secret=False))
    (made,) = audit(plan, Effort(trials=1_000))
    assert [check.name for check in made.checks if not check.passed] == ["bound"]
    assert made.proven > made.claimed


def test_batches_of_records_in_a_sum_are_attacked_by_the_noise_that_hides_them():
    """Other owners' batches are known to the attacker, who subtracts what is in them."""
    budget = PrivacyBudget.of(3.0, 1e-5, 6, "add-remove")
    problem = Problem(np.full(6, 20), 20, budget, "gaussian", 1.5, 0.5, trust=Trust("central"))
    (made,) = audit(of_gradients(problem, 6, 6, StepSize(0.1)), Effort(trials=8_000))
    assert made.passed, [check.says for check in made.checks]
    assert made.proven > 0.8 * made.claimed
