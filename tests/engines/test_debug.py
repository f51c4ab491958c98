"""The debug engine: rounds as written, charged one by one."""

from __future__ import annotations

import equinox as eqx
import numpy as np
import pytest

from noiseworthy.engines.debug import debug
from noiseworthy.errors import BudgetExceeded


def test_rounds_are_charged_one_by_one_and_the_excess_is_refused(plan_of, algorithms_of, shards, monkeypatch):
    plan = plan_of("laplace", 1, 3)
    one = algorithms_of(plan, [0]).all[0]
    greedy = eqx.tree_at(lambda a: a.cohorts, one, np.array([[2], [2], [1]], np.int32))
    with pytest.raises(BudgetExceeded, match="client 2 has made all of its 1 planned uploads"):
        debug(greedy, plan.releases, shards, np.array([0, 3]), 0)


def test_nothing_is_computed_for_a_cohort_that_is_refused(plan_of, algorithms_of, shards, monkeypatch):
    plan = plan_of("laplace", 1, 3)
    one = algorithms_of(plan, [0]).all[0]
    asked = []
    monkeypatch.setattr(type(shards), "of", lambda self, client: asked.append(client))
    with pytest.raises(BudgetExceeded):
        debug(one, plan.releases * 0, shards, np.array([3]), 0)
    assert asked == []


def test_uploads_are_those_of_the_ledger(plan_of, algorithms_of, shards):
    plan = plan_of("laplace", 2, 2)
    one = algorithms_of(plan, [4]).all[0]
    run = debug(one, plan.releases, shards, np.array([0, 2]), 4)
    np.testing.assert_array_equal(run.uploads[0], np.bincount(one.cohorts.ravel(), minlength=5))
    assert run.loss.shape == (1, 2)
