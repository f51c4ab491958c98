"""What is read off private records before planning makes a study a simulation, and it says so everywhere."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.deploy.deployment import Deployment
from noiseworthy.errors import ConfigError
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.findings import warnings_of
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.read_off import read_off
from noiseworthy.studies.record import new_record

PRIVACY = {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "clip_norm": 1.0}
RULE = {"source": "rule"}


@pytest.fixture
def study(tmp_path):
    """A study on a table of three wards, planned by the rule that knows classes and features."""

    def made(labels, relation="replace-one", split=None, **federation):
        rng = np.random.default_rng(0)
        columns = {"x": rng.random((120, 4)), "label": labels, "ward": np.repeat(["a", "b", "c"], 40)}
        if split is not None:
            columns["split"] = split
        path = tmp_path / "wards.npz"
        np.savez(path, **columns)
        table = {"data": str(path), "client_column": "ward", **federation}
        privacy = {**PRIVACY, "relation": relation}
        raw = {"federation": table, "privacy": privacy, "task": {"normalise": True}, "constants": RULE}
        return prepare(parse_study(raw))

    return made


def record_of(prepared):
    prepared, decision = plan_study(prepared)
    return new_record(prepared.study, decision, prepared.federation, prepared.dimension, name="wards")


def two(changed=None):
    labels = np.tile(["ill", "well"], 60)
    if changed is not None:
        labels = labels.astype("<U8")
        labels[7] = changed
    return labels


def test_one_changed_label_changes_the_plan_of_a_study_that_says_so(study):
    """Without classes a third label makes another model: dimension, rounds, clip and noise."""
    plans = [plan_study(study(labels))[1].plan for labels in (two(), two("other"))]
    assert plans[0].problem.dimension != plans[1].problem.dimension
    for plan, last in zip(plans, ("'well'", "'well'"), strict=True):
        warning = next(note for note in plan.notes if note.startswith("Warning: This study is a simulation"))
        assert f"{last}) were read off the private labels" in warning


def test_stated_classes_make_the_plan_the_same_whatever_a_label_is(study):
    plans = [
        plan_study(study(labels, classes=["ill", "well", "other"]))[1].plan
        for labels in (two(), two("other"))
    ]
    assert plans[0].as_dict() == plans[1].as_dict()
    assert not any("simulation" in note for note in plans[0].notes)


def test_plan_report_and_card_say_it(study):
    record = record_of(study(two()))
    says = "the classes ('ill', 'well') were read off the private labels"
    assert any(says in line for line in warnings_of(record))
    card = claim_card(record)
    assert any(says in point for point in card["not_protected"])
    answers = {one["question"]: one["answer"] for one in card["questions"]}
    assert says in answers["What did the constants of the plan cost?"]
    outside = next(clause for clause in privacy_statement(record) if clause.title == "What is not protected")
    assert any(says in point for point in outside.points)
    silent = record_of(study(two(), classes=["ill", "well"]))
    assert "read off" not in str(claim_card(silent)) + str(warnings_of(silent))


def test_it_is_not_deployed_and_the_list_to_state_is_told(study):
    prepared, decision = plan_study(study(two()))
    with pytest.raises(ConfigError, match=r'nothing is deployed.*state classes = \["ill", "well"\] in \[fed'):
        Deployment.of(prepared, decision.plan)
    prepared, decision = plan_study(study(two(), classes=["ill", "well"]))
    assert Deployment.of(prepared, decision.plan).federation.clients == ("a", "b", "c")


@pytest.mark.parametrize("partition", ["dirichlet", "sorted", "label-shards"])
def test_a_table_that_is_dealt_out_by_its_labels_is_a_simulation(study, partition):
    settings = {"alpha": 1.0} if partition == "dirichlet" else {}
    dealt = {"partition": partition, "clients": 3, "classes": ["ill", "well"], **settings}
    prepared, decision = plan_study(study(two(), **dealt))
    assert f'partition = "{partition}" deals the table out by its private labels' in decision.plan.notes[0]
    with pytest.raises(ConfigError, match="a column of clients says whose records they are"):
        Deployment.of(prepared, decision.plan)


@pytest.mark.parametrize(
    ("federation", "says"),
    [
        (
            {"client_column": "client", "clients": 3},
            "dealt out by places in it, so that one record more or less deals",
        ),
        (
            {"partition": "iid", "clients": 3},
            "dealt out by places in it, so that one record more or less deals",
        ),
        ({"partition": "quantity-skew", "clients": 3, "alpha": 1.0}, "dealt out by places in it"),
        ({"records_per_client": 10}, "records_per_client keeps records by their places, so that one record"),
        ({"fraction": 0.5}, "fraction keeps records by their places, so that one record more or less can"),
    ],
)
def test_what_one_record_more_moves_makes_a_simulation_under_add_remove_alone(study, federation, says):
    stated = {"classes": ["ill", "well"], "feature_columns": ["x"], **federation}
    prepared, decision = plan_study(study(two(), "add-remove", **stated))
    assert says in decision.plan.notes[0]
    with pytest.raises(ConfigError, match=r"nothing is deployed.*by (their )?places"):
        Deployment.of(prepared, decision.plan)
    exchanges = study(two(), **stated)
    assert read_off(exchanges.study, exchanges.federation) == ()


def test_owners_that_a_table_names_are_no_simulation_under_add_remove(study):
    named = study(two(), "add-remove", classes=["ill", "well"])
    assert read_off(named.study, named.federation) == ()


@pytest.mark.parametrize(
    "federation",
    [
        {"data": "digits", "clients": 3, "partition": "label-shards"},
        {"data": "breast-cancer", "clients": 3},
        {"sizes": [10, 20]},
    ],
)
def test_public_data_and_sizes_are_read_for_nothing(federation):
    task = {"dimension": 3} if "sizes" in federation else {}
    prepared = prepare(parse_study({"federation": federation, "privacy": PRIVACY, "task": task}))
    assert read_off(prepared.study, prepared.federation) == ()


def test_a_plan_warns_of_a_delta_that_lets_a_record_be_given_away(study):
    prepared = study(two(), classes=["ill", "well"])
    for delta, clients in ((0.9 / 32, 0), (1 / 32, 3)):
        privacy = prepared.study.privacy.model_copy(update={"delta": delta})
        changed = prepare(prepared.study.model_copy(update={"privacy": privacy}))
        said = [note for note in plan_study(changed)[1].plan.notes if "Delta is not below" in note]
        assert len(said) == (clients > 0)
        assert all(
            "Warning: Delta is not below 1 over the number of records of a, b, c: to" in one for one in said
        )


# Test records and sizes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "split", "says"),
    [
        (
            "replace-one",
            None,
            "The 24 test records: held out of the private records: a fifth, drawn in public by",
        ),
        (
            "add-remove",
            None,
            "test records: held out of the private records: about a fifth, each by a public ha",
        ),
        (
            "replace-one",
            np.tile(["test", "train"], 60),
            "The 60 test records: rows that the data mark as test r",
        ),
    ],
)
def test_card_and_report_say_where_test_records_come_from(study, relation, split, says):
    record = record_of(study(two(), relation, split, classes=["ill", "well"]))
    for points in (claim_card(record)["not_protected"], _outside(record)):
        (point,) = [point for point in points if "Scores on them are exact" in point]
        assert says in point
        assert "no epsilon covers them" in point


def test_public_test_sets_are_said_to_be_nobodys():
    raw = {"federation": {"data": "digits", "clients": 3}, "privacy": PRIVACY, "task": {"normalise": True}}
    record = record_of(prepare(parse_study({**raw, "constants": RULE})))
    assert "held out of the private records" in str(_outside(record))
    record["federation"]["test_origin"] = "apart"
    assert "a set of their own, which no client holds" in str(_outside(record))


def test_sizes_are_not_said_to_be_hidden_where_they_are_published(study):
    hides = "hides whether a record is there in the uploads"
    said = {
        relation: str(_outside(record_of(study(two(), relation, classes=["ill", "well"]))))
        for relation in ("replace-one", "add-remove")
    }
    assert hides in said["add-remove"]
    assert "can tell from its size" in said["add-remove"]
    assert hides not in said["replace-one"]


def _outside(record):
    (clause,) = [clause for clause in privacy_statement(record) if clause.title == "What is not protected"]
    return clause.points
