"""Seen against a noised mean, started at shares of classes: planned, charged, told, kept."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noiseworthy.errors import ConfigError, PlanError
from noiseworthy.model.model import load_model
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.means import SHARE, MeanRelease
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.html import rests_on
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.studies.by_trial import open_bench, treatments_of
from noiseworthy.studies.centring import may_centre, with_mean
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import Planned, load_plan, planned
from noiseworthy.studies.prepare import Prepared, prepare
from noiseworthy.studies.record import load_record
from noiseworthy.studies.studies import train_in
from noiseworthy.studies.typed_record import view
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.names import MEAN

PRIVACY = {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5}
LAPLACE = {"privacy.mechanism": "laplace", "privacy.delta": 0.0, "privacy.epsilon": 20.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Records far from 0: what all of them share tells nothing, and what differs everything."""
    draw = np.random.default_rng(0)
    ill = np.repeat([0, 1], 1500)
    features = 0.7 + 0.08 * draw.normal(size=(3000, 6)) + 0.08 * np.outer(ill - 0.5, [1, -1, 1, -1, 1, -1])
    columns = {f"x{j}": features[:, j].clip(0, 1).round(4) for j in range(6)}
    town = np.resize(["a", "b", "c"], 3000)
    place = tmp_path_factory.mktemp("far")
    table = pd.DataFrame({**columns, "ill": np.where(ill, "yes", "no"), "town": town})
    table.to_csv(place / "far.csv", index=False)
    return place


def made(folder: Path, changes: dict[str, object] | None = None) -> Prepared:
    tables: dict[str, dict[str, object]] = {
        "federation": {"data": str(folder / "far.csv")},
        "columns": {f"x{j}": {"kind": "number", "range": [0, 1]} for j in range(6)}
        | {"ill": {"role": "label", "classes": ["no", "yes"]}, "town": {"role": "client"}},
        "privacy": {**PRIVACY},
        "algorithm": {"rounds": 6, "clients_per_round": 3},
        "planning": {"public": ["breast-cancer"], "seeds": 1},
        "training": {"seeds": [0]},
    }
    for key, value in (changes or {}).items():
        table, name = key.split(".")
        tables.setdefault(table, {})[name] = value
    return prepare(parse_study(tables))


@pytest.fixture(scope="module")
def plan(folder) -> Planned:
    return planned(made(folder))


@pytest.fixture(scope="module")
def run(folder, plan) -> Path:
    train_in(plan, folder / "run", name="far")
    return folder / "run"


def mean_of(plan: Planned) -> np.ndarray:
    task = plan.prepared.task
    assert isinstance(task, LinearModel)
    assert task.preparation.reference is not None
    return task.preparation.reference.mean


@pytest.mark.full
def test_trials_choose_it_where_records_have_much_in_common(plan):
    assert plan.prepared.study.task.reference == [MEAN]
    assert mean_of(plan) == pytest.approx(plan.plan.ranges.mean)


def test_the_mean_is_that_of_the_records_but_for_noise_and_shrinking(plan):
    federation, _ = plan.prepared.trained()
    rows = np.concatenate([federation.x[i, :n] for i, n in enumerate(federation.sizes)])
    true = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).mean(axis=0)
    assert mean_of(plan) == pytest.approx(true, abs=0.1)


@pytest.mark.parametrize("noise", [{}, LAPLACE])
def test_its_noise_is_as_large_as_it_is_paid_for(folder, plan, noise):
    """Of 40 seeds, in 6 numbers each: known to 5 % (7 with Laplace noise), of which 4 are allowed."""
    ranges = [
        with_mean(made(folder, noise | {"federation.seed": seed}), plan.prepared.study).ranges
        for seed in range(40)
    ]
    means = np.array([one.mean for one in ranges if one is not None])
    prepared = made(folder, noise)
    budget = PrivacyBudget.of(prepared.epsilon, prepared.delta, 3)
    how = MeanRelease.of(prepared.sizes, budget, prepared.question.mechanism, (6,), 2)
    assert np.std(means, axis=0).mean() == pytest.approx(how.deviation, rel=0.28)
    shares = np.array([one.class_shares for one in ranges if one is not None])
    assert np.std(shares, axis=0) == pytest.approx(0.5**0.5 * how.deviation / how.of_class, rel=0.6)


def test_the_same_study_tells_the_same_and_another_seed_another(folder, plan):
    study = plan.prepared.study
    once, again = (with_mean(made(folder), study).ranges for _ in range(2))
    other = with_mean(made(folder, {"federation.seed": 1}), study).ranges
    assert once is not None
    assert again is not None
    assert other is not None
    assert once.mean == again.mean == plan.plan.ranges.mean
    assert other.mean != once.mean


@pytest.mark.parametrize("noise", [{}, LAPLACE])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_mean_and_training_together_spend_the_budget_and_no_more(folder, noise, relation):
    plan = planned(made(folder, noise | {"privacy.relation": relation})).plan
    assert plan.ranges is not None
    spent = plan.spent() / plan.budget.epsilon
    assert np.all(spent <= 1)
    assert np.all(spent > 0.999)
    assert np.all(replace(plan, ranges=None).spent() < 0.97 * plan.budget.epsilon)
    ((release, times),) = plan.ranges.parts
    currency = release.mechanism.law.paid_in.analysis
    assert times * currency.amount(release.shift) == pytest.approx(SHARE * currency.whole(plan.budget))


def test_training_charges_it_first_and_card_and_statement_tell(run):
    with sqlite3.connect(run / "ledger.sqlite") as books:
        due = dict(
            books.execute("SELECT account, sum(share) FROM releases WHERE number = 0 GROUP BY account")
        )
        total = dict(books.execute("SELECT account, sum(share) FROM releases GROUP BY account"))
    assert [share / WHOLE for share in due.values()] == pytest.approx([SHARE] * 3, rel=1e-9)
    assert [share / WHOLE for share in total.values()] == pytest.approx([1.0] * 3, rel=1e-6)
    record = load_record(run)
    for told in ("bought_mean", "bought_class_shares"):
        assert claim_card(record)[told] == record["plan"][told]
    assert "noised means and counts of classes, which training starts from" in json.dumps(claim_card(record))
    assert "Intercepts start at shares of classes, told with it." in rests_on(view(record))
    assert "which every client told with noise" in rests_on(view(record))
    assert (
        "Every client told the mean of its records, scaled to norm 1, and shares of classes,"
        in json.dumps([vars(one) for one in privacy_statement(record)])
    )


def test_the_model_that_is_delivered_sees_records_against_it(plan, run):
    federation, _ = plan.prepared.trained()
    model = load_model(run / "model")
    found = np.mean((model.answers(federation.test_x).ravel() > 0) == federation.test_y)
    assert found == pytest.approx(load_record(run)["training"]["accuracy"][0][-1], abs=0.02)


@pytest.mark.full
def test_it_is_worth_its_share_here(folder, run):
    """The same study without it: beside what all records share nothing is learned in six rounds."""
    train_in(planned(made(folder, {"task.normalise": True})), folder / "plain", name="plain")
    with_it, without = (load_record(one)["training"]["loss"][0][-1] for one in (run, folder / "plain"))
    assert with_it < without - 0.05


def test_the_plan_says_so_and_its_file_holds_it(folder, plan):
    kept = load_plan(plan.file.save(folder))
    assert kept.digest == plan.file.digest
    again = kept.applied(made(folder))
    assert again.prepared.task == plan.prepared.task
    notes = " ".join(plan.plan.notes)
    assert "Every client tells the mean of its records and shares of classes with noise before" in notes
    assert "training, for 10% of its budget" in notes
    assert "no private record was read beside what was bought" in notes


def test_a_plan_that_did_not_pay_for_its_mean_is_refused(folder, plan):
    ((release, times),) = plan.plan.ranges.parts
    louder = replace(release, mechanism=release.mechanism.law.noise(2 * release.mechanism.size))
    cheaper = replace(plan.plan, ranges=replace(plan.plan.ranges, parts=((louder, times),)))
    with pytest.raises(PlanError, match="the plan was made for another study"):
        replace(plan.file, plan=cheaper).applied(made(folder))


def test_owners_at_the_end_of_a_network_may_tell_it_too(folder):
    assert may_centre(replace(made(folder), deploys=True))


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"privacy.trust": "secure-sum"}, id="sums alone are seen"),
        pytest.param({"privacy.relation": "add-remove", "privacy.sampling_rate": 0.5}, id="Poisson batches"),
        pytest.param({"columns.x0": {"kind": "number", "range": {"buy": [0, 2]}}}, id="ranges are bought"),
        pytest.param({"task.normalise": True}, id="the treatment is stated"),
        pytest.param(
            {
                f"resources.{key}": one
                for key, one in {"cost_per_round": 1, "cost_per_step": 1, "budget": 99}.items()
            },
            id="communications are scarce",
        ),
    ],
)
def test_it_is_not_tried_where_it_cannot_be_told(folder, changes):
    prepared = made(folder, changes)
    assert not any(one is not None and one.centred for one in treatments_of(prepared, open_bench(prepared)))


def test_numbers_to_predict_are_not_seen_so(folder):
    prepared = made(
        folder,
        {
            "columns.x0": {"role": "label", "range": [0, 1]},
            "columns.ill": {"kind": "category", "values": ["no", "yes"]},
        },
    )
    assert prepared.question.classes is None
    assert not may_centre(prepared)


def test_a_mean_that_nobody_told_is_refused(folder):
    with pytest.raises(ConfigError, match="is what a plan chooses; leave out how records are treated"):
        made(folder, {"task.reference": [MEAN]})
