"""Ranges that nobody knows: bought before planning, charged to everybody, kept by plan, ledger and model."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm

from noiseworthy.data import Federation, load_federation
from noiseworthy.data.schema import read_schema
from noiseworthy.data.schema.columns import NumberColumn
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.errors import ConfigError, DataError, PlanError, UnsoundClaim
from noiseworthy.model.model import load_model
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.quantiles import private_quantile
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.html import rests_on
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.studies import ranges
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.opening import open_data
from noiseworthy.studies.plan_codec import same
from noiseworthy.studies.plan_file import load_plan, planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.ranges import CANDIDATES
from noiseworthy.studies.record import load_record
from noiseworthy.studies.studies import plan, train_in
from noiseworthy.studies.typed_record import view

COLUMNS = """
[columns]
hospital = { role = "client" }
ill = { role = "label", classes = ["no", "yes"] }
income = { kind = "number", range = { buy = [0, 1000000], quantiles = [0.05, 0.95], share = 0.1 } }
dose = { kind = "number", range = { buy = [0.1, 100], share = 0.2 }, transform = "log", missing = true }
age = { kind = "number", range = [20, 80] }
"""
STUDY = """
[federation]
data = "wards.csv"
[task]
model = "logistic"
[privacy]
mechanism = "gaussian"
epsilon = { north = 2.0, south = 4.0, west = 4.0 }
delta = 1e-5
clip_norm = 1.0
[algorithm]
rounds = 3
clients_per_round = 3
step_size = 1.0
momentum = 0.0
averaging = 0.0
weighting = 0.0
"""
N = 9_000
LAPLACE = STUDY.replace('"gaussian"', '"laplace"').replace("delta = 1e-5\n", "")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    draw = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "ill": np.where(np.arange(N) % 4 < 2, "no", "yes"),
            "hospital": np.resize(["north", "south", "west"], N),
            "income": draw.uniform(20_000, 90_000, N).round(),
            "dose": np.where(np.arange(N) % 5 == 0, "", np.exp(draw.uniform(0, 3, N)).round(3).astype(str)),
            "age": draw.uniform(15, 85, N).round(),
        }
    )


@pytest.fixture
def folder(tmp_path, table) -> Path:
    table.to_csv(tmp_path / "wards.csv", index=False)
    return tmp_path


def study(folder: Path, columns: str = COLUMNS, body: str = STUDY):
    (folder / "study.toml").write_text(body + columns)
    return load_study(folder / "study.toml")


def bought(opened_study) -> tuple[BoughtRanges, Federation]:
    federation, ranges = open_data(opened_study)
    assert ranges is not None
    return ranges, federation


@pytest.mark.parametrize("body", [STUDY, LAPLACE])
def test_both_answers_of_a_client_are_drawn_with_what_its_share_pays_for(folder, body, monkeypatch):
    """By an arithmetic of the test's own: epsilons add up, and mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon))."""
    drawn: list[float] = []
    streams: set[str] = set()

    def watched(values, level, candidates, epsilon, generator, relation):
        drawn.append(epsilon)
        streams.add(str(generator.bit_generator.state))
        return private_quantile(values, level, candidates, epsilon, generator, relation)

    monkeypatch.setattr(ranges, "private_quantile", watched)
    told, _ = bought(study(folder, body=body))
    each = np.array(drawn).reshape(2, 2, 3)  # columns, quantiles, clients
    if body is LAPLACE:
        spent, whole = each.sum(axis=1), told.budget.epsilon
    else:
        spent, whole = np.square(2 * norm.ppf(expit(each))).sum(axis=1), np.square(told.budget.mu)
    assert spent == pytest.approx(np.outer([0.1, 0.2], whole))
    currency = told.parts[0][0].mechanism.law.paid_in.analysis
    charged = [times * currency.amount(release.shift) for release, times in told.parts]
    assert np.array(charged) == pytest.approx(spent)
    assert len(streams) == each.size  # no draw answers two questions


@pytest.mark.full
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("body", [STUDY, LAPLACE])
def test_bought_ranges_are_close_to_the_quantiles_and_records_are_seen_in_them(folder, table, body, relation):
    related = body.replace("clip_norm", f'relation = "{relation}"\nclip_norm')
    ranges, federation = bought(study(folder, body=related))
    found = ranges.found
    assert found["income"] == pytest.approx((23_500, 86_500), abs=3_000)
    dose = np.log(found["dose"])
    assert dose == pytest.approx([0.15, 2.85], abs=0.15)
    stated = study(folder).columns
    assert stated is not None
    resolved = stated.with_ranges(found)
    assert resolved.feature_names == ("income", "dose", "dose is missing", "age")
    assert federation.schema == resolved
    again = load_federation(str(folder / "wards.csv"), columns=resolved, seed=0,
                            held_out="records" if relation == "add-remove" else "rows")  # fmt: skip
    assert np.array_equal(again.x, federation.x)


def test_a_study_that_is_opened_again_buys_the_same_and_another_seed_something_else(folder):
    first, again = (bought(study(folder))[0].found for _ in range(2))
    other = bought(study(folder, body=STUDY.replace('csv"', 'csv"\nseed = 1')))[0].found
    assert first == again
    assert first["income"] != other["income"]


def test_test_records_have_no_say(folder, table):
    """The range is bought from what is trained on; a client's answers depend on no other client."""
    marked = COLUMNS + 'part = { role = "split" }\n'
    parts = np.where(np.arange(N) % 3000 < 600, "test", "train")
    table.assign(part=parts).to_csv(folder / "wards.csv", index=False)
    whole = bought(study(folder, marked))[0].found
    wild = table.assign(part=parts, income=np.where(parts == "test", 1e6, table["income"]))
    wild.to_csv(folder / "wards.csv", index=False)
    assert bought(study(folder, marked))[0].found == whole


@pytest.mark.parametrize("body", [STUDY, LAPLACE, LAPLACE.replace("epsilon =", "delta = 1e-5\nepsilon =")])
def test_ranges_and_training_together_spend_the_budget_and_no_more(folder, body):
    prepared = prepare(study(folder, body=body))
    made = planned(prepared).plan
    assert made.budget.epsilon.tolist() == [2.0, 4.0, 4.0]
    spent = made.spent() / made.budget.epsilon
    assert np.all(spent <= 1)
    assert np.all(spent > 0.999)
    alone = replace(made, ranges=None)
    assert np.all(alone.spent() < 0.9 * made.budget.epsilon)
    assert np.all(made.trainable.epsilon < 0.9 * made.budget.epsilon)


def test_each_range_costs_the_share_that_the_study_states(folder):
    made = planned(prepare(study(folder))).plan
    assert made.ranges is not None
    squared = [k * np.square(release.shift) for release, k in made.ranges.parts]
    assert squared[0] == pytest.approx(0.1 * made.budget.mu**2)
    assert squared[1] == pytest.approx(0.2 * made.budget.mu**2)


def test_the_plan_file_holds_the_ranges_and_fits_no_other_ones(folder, table):
    made = planned(prepare(study(folder)))
    kept = load_plan(made.file.save(folder))
    assert kept.digest == made.file.digest
    assert kept.plan.ranges is not None
    assert same(kept.plan.ranges, made.plan.ranges)
    assert kept.applied(prepare(study(folder))).plan.ranges is not None
    table.assign(income=table["income"] / 2).to_csv(folder / "wards.csv", index=False)
    with pytest.raises(PlanError, match=r"another study: its ranges\.found\.income"):
        kept.applied(prepare(study(folder)))


def test_a_plan_without_bought_ranges_is_written_as_before(folder):
    stated = COLUMNS.replace("{ buy = [0, 1000000], quantiles = [0.05, 0.95], share = 0.1 }", "[0, 9]")
    stated = stated.replace("{ buy = [0.1, 100], share = 0.2 }", "[1, 9]")
    made = planned(prepare(study(folder, stated)))
    assert "ranges" not in made.file.content["plan"]
    assert made.plan.ranges is None


def test_training_charges_ranges_first_and_model_card_and_ledger_tell_them(folder):
    run = folder / "run"
    made = plan(study(folder))
    train_in(made, run, name="wards")
    with sqlite3.connect(run / "ledger.sqlite") as books:
        rows = books.execute("SELECT account, sum(share) FROM releases WHERE number = 0 GROUP BY account")
        due = dict(rows.fetchall())
        total = dict(books.execute("SELECT account, sum(share) FROM releases GROUP BY account").fetchall())
    assert len(due) == 3
    assert [share / WHOLE for share in due.values()] == pytest.approx([0.3] * 3, rel=1e-9)
    assert [share / WHOLE for share in total.values()] == pytest.approx([1.0] * 3, rel=1e-6)
    schema, ranges = load_model(run).schema, made.plan.ranges
    assert schema is not None
    assert ranges is not None
    assert schema.tables()["income"]["range"] == list(ranges.found["income"])
    record = load_record(run)
    assert record["plan"]["bought_ranges"]["dose"] == list(ranges.found["dose"])
    card = claim_card(record)
    assert card["bought_ranges"] == record["plan"]["bought_ranges"]
    asked = next(one["answer"] for one in card["questions"] if "constants" in one["question"])
    assert "one round of noised quantiles, which bought the range of income, dose" in asked
    assert "Noised quantiles of every client bought ranges before planning: income" in asked
    assert "Ranges of income, dose were bought" in rests_on(view(record))
    assert "No record was looked at" not in rests_on(view(record))
    assert "bought ranges before planning" in json.dumps([vars(one) for one in privacy_statement(record)])


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"gaussian"', '"none"', r"\[columns\] income, dose: a range is bought from a budget"),
        (
            "clip_norm = 1.0",
            'clip_norm = 1.0\nrelation = "add-remove"\nsampling_rate = 0.5',
            "Poisson batches",
        ),
    ],
)
def test_a_study_that_cannot_pay_for_ranges_is_refused(folder, old, new, message):
    with pytest.raises((ConfigError, UnsoundClaim), match=message):
        open_data(study(folder, body=STUDY.replace(old, new)))


def test_shares_of_the_whole_budget_are_refused(folder):
    with pytest.raises(ConfigError, match=r"must add up to less than 1, got 1\.05"):
        open_data(study(folder, COLUMNS.replace("share = 0.1 ", "share = 0.85 ")))


def test_a_training_that_hides_whole_clients_does_not_buy_ranges(folder):
    body = STUDY.split("[algorithm]")[0] + '[algorithm]\nname = "dp-fedavg"\n'
    with pytest.raises(UnsoundClaim, match="hides a whole client"):
        prepare(study(folder, body=body)).problem(1.0, "D")


def test_budgets_that_are_compared_do_not_share_what_one_of_them_bought(folder):
    prepared = prepare(study(folder))
    privacy = prepared.study.privacy.model_copy(update={"epsilon": 9.0})
    other = replace(prepared, study=prepared.study.model_copy(update={"privacy": privacy}))
    with pytest.raises(UnsoundClaim, match="bought from another budget"):
        other.problem(1.0)


def test_a_plan_warns_of_ranges_that_noise_has_probably_widened(folder):
    noisy = [note for note in planned(prepare(study(folder))).plan.notes if "widened" in note]
    assert noisy == []
    poor = study(folder, COLUMNS.replace("share = 0.2", "share = 0.01"))
    (said,) = [note for note in planned(prepare(poor)).plan.notes if "widened" in note]
    assert said.startswith("Warning: noise has probably widened the bought range of dose: clients have about")


def test_nothing_is_deployed_with_ranges_to_buy(folder):
    made = planned(prepare(study(folder)))
    with pytest.raises(UnsoundClaim, match="ranges are bought in simulation only"):
        Deployment.of(made.prepared, made.plan)


def test_a_range_that_noise_makes_of_nothing_is_refused(folder):
    body = STUDY.replace("{ north = 2.0, south = 4.0, west = 4.0 }", "1e-4").replace('csv"', 'csv"\nseed = 2')
    with pytest.raises(DataError, match=r"column 'income': the range that was bought is empty"):
        open_data(study(folder, body=body))


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (
            "{ bye = [0, 1] }",
            r"age: range bye is no key here \(did you mean buy\?\); allowed: buy, quan|range buy is",
        ),
        ("{ buy = [5, 1] }", r"range must be \[least, most\], got \[5"),
        ("{ buy = [0, 1], quantiles = [0.9, 0.1] }", "quantiles must be two shares"),
        ("{ buy = [0, 1], share = 2.0 }", "age: range share must be less than 1"),
        ('{ buy = [0, 1] }, transform = "log"', "range must begin above 0"),
        ("{ buy = [0, 1] }, missing = 0.5", "missing must be true where the range is bought"),
    ],
)
def test_what_is_wrong_with_a_range_to_buy_is_one_sentence(folder, stated, message):
    with pytest.raises(ConfigError, match=message):
        study(folder, COLUMNS.replace("[20, 80]", stated))


@pytest.mark.parametrize("transform", ["none", "log", "sqrt"])
def test_candidates_of_a_range_are_the_values_that_become_them(transform):
    column = {"kind": "number", "range": {"buy": [1, 900]}, "transform": transform}
    (one,) = read_schema({"x": column, "y": {"role": "label", "classes": [0, 1]}}).features
    grid = np.linspace(-1, 1, CANDIDATES)[:: CANDIDATES // 50]
    assert isinstance(one, NumberColumn)
    assert one.read(one.value_of(grid)).numbers[:, 0] == pytest.approx(grid, abs=1e-6)
