"""Numbers that are stated by client reach that client: in plans, owners' files, trade-offs and reports."""

from __future__ import annotations

import tomllib
from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.owners import owner_tables
from noiseworthy.errors import InvalidInput
from noiseworthy.reports.html import toml
from noiseworthy.reports.tables import plan_panel
from noiseworthy.studies.loading import in_line, load_study, parse_study
from noiseworthy.studies.measure import Costs, TimedStep, as_toml, resource_tables
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import new_record
from noiseworthy.sweeps.tradeoff import Surface, plan_surface

NUMBERS = {"zeta": 0.1, "alpha": 5.0, "mid": 1.0}
SIZES = {"zeta": 30, "alpha": 60, "mid": 40}
STUDY = """
[federation]
data = "DATA"
client_column = "ward"
classes = [0, 1]
[privacy]
mechanism = "gaussian"
epsilon = { csv = "budgets.csv", column = "epsilon", client_column = "who" }
delta = 1e-5
clip_norm = 1.0
[resources]
cost_per_round = { mid = 2.0, zeta = 1.0, alpha = 3.0 }
budget = { alpha = 300, zeta = 100.0, mid = 200.0 }
[algorithm]
rounds = 2
clients_per_round = 3
step_size = 0.1
[constants]
smoothness = 1.0
strong_convexity = 0.1
gradient_bound = 1.0
initial_distance_sq = 900.0
heterogeneity = 0.5
[tradeoff]
epsilon = [0.5, 1.0]
budget = [0.25, 1.0]
"""


@pytest.fixture
def study(tmp_path):
    """The study of a file whose rows are in no order."""
    rng = np.random.default_rng(0)
    ward = rng.permutation(np.repeat(list(SIZES), list(SIZES.values())))
    split = np.where(np.arange(len(ward)) < 5, "test", "train")
    x, label = rng.random((len(ward), 3)), rng.integers(0, 2, len(ward))
    np.savez(tmp_path / "wards.npz", x=x, label=label, ward=ward, split=split)
    rows = "".join(f"{name},{epsilon}\n" for name, epsilon in NUMBERS.items())
    (tmp_path / "budgets.csv").write_text(f"who,epsilon\n{rows}")
    (tmp_path / "study.toml").write_text(STUDY.replace("DATA", str(tmp_path / "wards.npz")))
    return load_study(tmp_path / "study.toml")


def test_owners_files_hold_the_budget_that_was_stated_for_their_owner(study):
    """Of this very file zeta was offered 1.0, and mid 5.0."""
    prepared, decision = plan_study(prepare(study))
    deployment = Deployment.of(prepared, decision.plan)
    for name, epsilon in NUMBERS.items():
        assert owner_tables(deployment, name)["budget"]["epsilon"] == epsilon


def test_the_plan_says_whose_budget_is_how_large(study):
    prepared, decision = plan_study(prepare(study))
    record = new_record(study, decision, prepared.federation, prepared.dimension, name="wards")
    rows = record["plan"]["privacy"]["clients"]
    named = zip(record["federation"]["clients"], rows, strict=True)
    assert {name: row["epsilon"] for name, row in named} == NUMBERS
    console = Console(width=80, file=StringIO())
    console.print(plan_panel(record))
    assert "alpha: 5, mid: 1, zeta: 0.1" in console.file.getvalue()


def test_a_study_as_it_is_reported_is_the_same_study(study):
    written = toml(study.model_dump(mode="json", exclude_none=True))
    assert parse_study(tomllib.loads(written)) == study


def test_factors_of_a_trade_off_are_factors_of_everybodys_own(study):
    prepared = prepare(study)
    surface = plan_surface(Surface.of(prepared), prepared)
    assert surface.epsilon.per_client
    assert surface.budget.per_client
    for point in surface.points:
        problem = point.plan.problem
        own = dict(zip(prepared.names, problem.budget.epsilon, strict=True))
        assert own == pytest.approx({name: point.epsilon * value for name, value in NUMBERS.items()})
        np.testing.assert_allclose(problem.resources.budget, point.budget * np.array([300.0, 200.0, 100.0]))
        np.testing.assert_array_equal(problem.resources.cost_per_round, [3.0, 2.0, 1.0])


def test_measured_costs_can_be_pasted_by_name(study):
    records = np.array([60, 40, 30])
    steps = tuple(TimedStep(n, n / 1000, 5) for n in (30, 40, 60))
    prepared = prepare(study)
    costs = Costs(3, records, steps, "cpu", prepared.names)
    pasted = tomllib.loads(as_toml(resource_tables(costs, study, 1e5)["seconds"], study))
    assert pasted["resources"]["cost_per_step"] == {"alpha": 0.06, "mid": 0.04, "zeta": 0.03}
    raw = study.model_dump(mode="json", exclude_none=True)
    again = prepare(parse_study({**raw, **pasted}))
    np.testing.assert_array_equal(again.problem(1.0).resources.cost_per_step, [0.06, 0.04, 0.03])


@pytest.mark.parametrize("name", ["Ward 1", "a.b", '"', "\\", "nord\nsüd", "北京", "csv", "\U0001f3e5"])
def test_any_name_can_be_written_and_read_again(name):
    assert tomllib.loads(f"epsilon = {in_line({name: 0.5, 'other': 2.0})}") == {
        "epsilon": {name: 0.5, "other": 2.0}
    }


def test_a_client_that_cannot_pay_is_told_by_its_name(study):
    raw = study.model_dump(mode="json", exclude_none=True)
    raw["resources"]["budget"]["mid"] = 1.0
    with pytest.raises(InvalidInput, match=r"which costs 2 units, got 1 for client 'mid'; raise the budget"):
        plan_study(prepare(parse_study(raw)))


def test_what_a_plan_says_of_single_clients_it_says_by_their_names(study):
    raw = study.model_dump(mode="json", exclude_none=True)
    del raw["resources"]
    raw["algorithm"] = {"name": "dpfl-bcs", "clients_per_round": 1, "rounds": 30, "step_size": 0.1}
    raw["constants"] = {"heterogeneity": 0.0, "smoothness": 1.0, "strong_convexity": 0.1}
    notes = plan_study(prepare(parse_study(raw)))[1].plan.notes
    assert notes == ("Client 'zeta' is never asked: nothing is spent there, and nothing learnt.",)
    raw["resources"] = {"cost_per_round": 1.0, "budget": {"mid": 60.0, "zeta": 50.0, "alpha": 300.0}}
    raw["algorithm"] = {"name": "dp-pasgd", "total_iterations": 20, "local_steps": 1, "step_size": 0.1}
    del raw["constants"]["heterogeneity"]
    raw["constants"] |= {"gradient_variance": 0.1, "initial_gap": 9.0}
    assert "units of client 'zeta'" in plan_study(prepare(parse_study(raw)))[1].plan.outcome


def test_who_is_asked_rests_on_everybodys_own_heterogeneity(study):
    """The larger a client's is, the less it is asked, whatever place it has in the file."""
    raw = study.model_dump(mode="json", exclude_none=True)
    raw |= {"algorithm": {"name": "dpfl-bcs", "clients_per_round": 1, "rounds": 30, "step_size": 0.1}}
    raw["privacy"]["epsilon"] = 1.0
    del raw["resources"]
    asked = {}
    for odd in SIZES:
        stated = {name: 5.0 * (name == odd) for name in ("mid", "zeta", "alpha")}
        raw["constants"] = {"heterogeneity": stated, "smoothness": 1.0, "strong_convexity": 0.1}
        prepared, decision = plan_study(prepare(parse_study(raw)))
        asked[odd] = dict(zip(prepared.names, decision.plan.releases.tolist(), strict=True))
    for odd, releases in asked.items():
        assert all(releases[odd] < other[odd] for name, other in asked.items() if name != odd)
