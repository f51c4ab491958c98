"""Every method that is listed has all its parts, and they agree with each other."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields, replace
from importlib import import_module
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import noiseworthy
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.methods.axes import Axes
from noiseworthy.methods.base import Method
from noiseworthy.methods.registry import METHODS, make, method, table
from noiseworthy.methods.rivals import planner
from noiseworthy.methods.shape import Counts, Shape, shifts
from noiseworthy.methods.space import Keys, SearchSpace
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.trust import Trust
from noiseworthy.studies.sweep_tables import CompareTable
from noiseworthy.tasks import LinearModel

ROOT = Path(noiseworthy.__file__).parents[2]
PAGES = re.compile(r"docs/theory/\w+\.md")


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_name_that_it_is_listed_under_and_so_has_its_table(name):
    own = method(name)
    assert own.name == name
    assert name in get_args(own.table.model_fields["name"].annotation)


@pytest.mark.parametrize("name", METHODS)
def test_the_table_that_is_found_without_the_method_is_its_own(name):
    assert table(name) is method(name).table


@pytest.mark.parametrize("name", METHODS)
def test_keys_that_trials_read_are_keys_of_the_table(name):
    own = method(name)
    keys, stated = own.space.keys, own.table.model_fields
    in_rounds = set() if keys.rounds is None else {keys.rounds, "averaging"}
    assert {*keys.own, "step_size", *in_rounds} <= stated.keys()
    assert (keys.rounds is None) == ("averaging" not in stated)
    assert {keys.work, keys.most} - {None} <= stated.keys()
    for lever, key in (("momentum", "momentum"), ("weighting", "weighting"), ("decay", "step_decay")):
        assert (lever in own.space.levers) == (key in stated), f"{name} has no key for the lever {lever}"
    assert ("cohorts" in own.space.levers) <= ("clients_per_round" in stated)


@pytest.mark.parametrize("trust", [Trust("secure-sum"), Trust("central")])
def test_what_looks_at_single_uploads_is_not_made_for_sums_whatever_its_method_says(trust):
    budget = PrivacyBudget.of([0.5, 4.0, 4.0], 1e-5, 3)
    problem = Problem(np.array([20, 30, 40]), 4, budget, "gaussian", 1.0)
    plan = planner.plan("pfa", problem, rounds=4, clients_per_round=3, step=StepSize(0.1))
    task = LinearModel(4, 1, "squared", feature_norm=1.0)
    assert make(plan, task, 0).reads_uploads
    with pytest.raises(UnsoundClaim, match=f'pfa looks at single uploads.* trust = "{trust.model}"'):
        make(replace(plan, problem=replace(problem, trust=trust)), task, 0)


@pytest.mark.parametrize("name", METHODS)
def test_axes_are_keys_of_compare(name):
    axes = method(name).axes
    assert axes.across != axes.series
    assert {axes.across, axes.series} <= CompareTable.model_fields.keys()


@pytest.mark.parametrize("name", METHODS)
def test_the_form_of_a_bound_has_a_value_for_each_of_its_terms(name):
    shape, some = method(name).shape, np.array([2.0, 9.0, 40.0])
    counts = Counts(some, 3 * some, np.ones(3), np.zeros(3), 1 / some)
    for gamma in shifts(counts.iterations):
        rows = shape.rows(counts, float(gamma))
        assert rows.shape == (3, len(shape.terms))
        assert np.all(rows >= 0)


@pytest.mark.parametrize("name", METHODS)
def test_the_theory_of_a_method_has_a_page(name):
    room = Path(import_module(METHODS[name]).__file__ or "").parent
    named = {page for path in room.glob("*.py") for page in PAGES.findall(path.read_text())}
    assert named
    assert all((ROOT / page).is_file() for page in named)


@pytest.mark.parametrize("kind", [Method, SearchSpace, Keys, Shape, Axes])
def test_no_part_of_a_method_has_a_default(kind):
    assert all(one.default is MISSING and one.default_factory is MISSING for one in fields(kind))


def test_a_method_that_is_not_listed_is_refused_by_name():
    """On the way one was planned as dp-fedavg, and got another theory's form and grid."""
    with pytest.raises(InvalidInput, match="algorithm must be one of"):
        method("dp-fedadam")
