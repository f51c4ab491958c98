"""Persons are counted at every owner, weights count before the clip, and neither is a feature."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import tomli_w

from noiseworthy.data.schema import read_schema
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.owners import write_owner_files
from noiseworthy.errors import ConfigError, DataError, InvalidInput
from noiseworthy.model.model import load_model
from noiseworthy.studies.at_home import counted_once
from noiseworthy.studies.checking import Terms, check_own, check_study
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.models import open_task
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import load_record
from noiseworthy.studies.studies import plan, train_in
from noiseworthy.sweeps.advisor import entrants
from noiseworthy.tasks import LinearModel

COLUMNS = {
    "hospital": {"role": "client"},
    "patient": {"role": "person"},
    "sampling": {"role": "weight", "range": [0, 600], "step": 200},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [20, 80]},
}
BOUNDED = {**COLUMNS, "patient": {"role": "person", "at_most": 3}}
KEYS = {
    "federation": {"data": "wards.csv"},
    "task": {"model": "logistic", "bias": 0.5},
    "privacy": {"mechanism": "gaussian", "epsilon": 50.0, "delta": 1e-5, "clip_norm": 5.0},
    "algorithm": {"rounds": 20, "clients_per_round": 2, "step_size": 2.0, "momentum": 0.0, "averaging": 0.0,
                  "weighting": 0.0},
    "training": {"seeds": [0]},
}  # fmt: skip


def frame() -> pd.DataFrame:
    """Two hospitals of 60 records; every patient has three, and the ill ones weigh three times as much."""
    rng, n = np.random.default_rng(0), 120
    ill = rng.random(n) < 0.5
    return pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "hospital": np.repeat(["north", "south"], n // 2),
            "patient": [f"P{i // 3}" for i in range(n)],
            "sampling": np.where(ill, 600, 200),
            "age": np.clip(50 + 5 * ill + 12 * rng.normal(size=n), 20, 80),
        }
    )


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame().to_csv(tmp_path / "wards.csv", index=False)
    return tmp_path


def study(columns=COLUMNS, **tables):
    return parse_study({**KEYS, "columns": columns, **tables})


def test_neither_column_is_a_feature_and_weights_count_in_their_step(folder):
    federation, task = prepare(study()).trained()
    assert isinstance(task, LinearModel)
    assert federation.schema is not None
    assert federation.schema.feature_names == ("age",)
    assert (federation.feature_shape, task.features, task.dimension, task.most_weight) == ((1,), 1, 2, 3.0)
    ill = federation.y[0, : federation.sizes[0]] == 1
    np.testing.assert_array_equal(federation.x[0, : federation.sizes[0], -1], np.where(ill, 3, 1))


@pytest.mark.full
def test_weights_move_the_model_and_its_loss_is_weighted(folder):
    models = {}
    for name, step in (("weighted", 200), ("plain", None)):
        sampling = COLUMNS["sampling"] if step else {"kind": "left-out"}
        (folder / "study.toml").write_text(
            tomli_w.dumps({**KEYS, "columns": {**COLUMNS, "sampling": sampling}})
        )
        train_in(plan(load_study(folder / "study.toml")), folder / name, name=name)
        models[name] = load_model(folder / name)
    new = {"age": [50.0, 60.0]}
    weighted, plain = (models[name].predict_proba(new)[:, 1] for name in ("weighted", "plain"))
    assert np.all(weighted > plain + 0.1)
    assert models["weighted"].task.most_weight is None
    assert "a record counts by 'sampling', 1 for 200" in models["weighted"].card
    assert "counts by" not in models["plain"].card
    training = load_record(folder / "weighted")["training"]
    metrics, test = (
        models["weighted"].description.metrics,
        prepare(load_study(folder / "study.toml")).trained()[0].test_y,
    )
    share = 3 * test.mean() / (3 * test.mean() + 1 - test.mean())
    expected = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert metrics.constant_loss == pytest.approx(expected)
    assert models["plain"].description.metrics.prior_weighted_loss is None
    assert training["loss"][0][-1] < expected + 0.05


def test_an_owner_weighs_and_counts_by_the_file_that_a_study_writes(folder):
    prepared = prepare(study(BOUNDED))
    deployment = Deployment.of(prepared, planned(prepared).plan)
    path = write_owner_files(deployment, folder / "owners")["north"]
    owner = load_owner(path)
    assert owner.columns.person.at_most == 3
    holding = Holding.load(owner.federation, "north", owner.columns)
    assert holding.task(task_table(prepared)) == prepared.task
    np.testing.assert_array_equal(holding.x, prepared.trained()[0].x[0, : prepared.sizes[0]])
    crowded = frame().assign(patient="P0")
    crowded.drop(columns="hospital").to_csv(folder / "north.csv", index=False)
    own = owner.federation.model_copy(update={"data": str(folder / "north.csv"), "clients": 1})
    with pytest.raises(DataError, match="'patient': 1 person has more than 3 records at a client, up to 120"):
        Holding.load(own, "north", owner.columns)
    found = check_own(own, owner.columns, Terms("gaussian", 20.0, 1e-5))
    assert [(one.where, one.count) for one in found.findings if one.level == "refused"] == [("patient", 120)]


def test_the_same_weight_at_every_owner_is_in_the_digest_and_persons_are_not():
    digest = read_schema(COLUMNS).digest
    assert digest == read_schema(BOUNDED).digest
    other = {**COLUMNS, "sampling": {"role": "weight", "range": [0, 500], "step": 200}}
    assert digest != read_schema(other).digest


@pytest.mark.parametrize("where", ["column", "privacy"])
def test_a_person_with_more_records_than_stated_is_refused_and_the_card_tells_what_all_cost(folder, where):
    def of(most: int):
        if where == "column":
            return study({**COLUMNS, "patient": {"role": "person", "at_most": most}})
        return study(privacy={**KEYS["privacy"], "persons_have_at_most": most})

    with pytest.raises(
        DataError, match="'patient': 40 persons have more than 2 records at a client, up to 3; drop"
    ):
        prepare(of(2))
    found = check_study(of(2)).findings
    assert [(one.level, one.count) for one in found if one.where == "patient"] == [("refused", 120)]
    assert not any("P0" in one.says for one in found)
    assert of(3).persons_have_at_most == 3
    assert prepare(of(3)).sizes.tolist() == [48, 48]


def test_a_person_at_two_clients_is_counted_at_each(folder):
    frame().assign(patient=[f"P{i % 60 // 3}" for i in range(120)]).to_csv(folder / "wards.csv", index=False)
    assert prepare(study(BOUNDED)).sizes.tolist() == [48, 48]


def test_without_a_bound_a_check_says_how_many_records_persons_have(folder):
    said = {one.where: one for one in check_study(study()).findings}["patient"]
    assert said.level == "warning"
    assert "40 persons, with up to 3 records each at a client; epsilon is of one record" in said.says


def test_a_bound_that_is_stated_twice_must_be_one(folder):
    with pytest.raises(
        ConfigError, match=r"\[columns\] patient: at_most = 3 and \[privacy\] persons_have_at"
    ):
        study(BOUNDED, privacy={**KEYS["privacy"], "persons_have_at_most": 4})
    with pytest.raises(ConfigError, match=r"\[columns\] patient: at_most is counted exactly for full"):
        study(BOUNDED, privacy={**KEYS["privacy"], "sampling_rate": 0.5, "relation": "add-remove"})


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"sampling": -1}, "column 'sampling' has 120 values other than numbers at 0 or above"),
        ({"sampling": np.nan}, "column 'sampling' has 120 missing values; say what those records count"),
        ({"patient": ""}, "column 'patient' has 120 missing values; say whose"),
        ({"patient": "NA"}, "column 'patient' has 120 missing values; say whose"),
    ],
)
def test_weights_below_zero_and_records_of_nobody_are_refused(folder, cells, message):
    frame().assign(**cells).to_csv(folder / "wards.csv", index=False)
    with pytest.raises(DataError, match=message):
        prepare(study())
    assert check_study(study()).refused


@pytest.mark.parametrize(
    ("sampling", "message"),
    [
        ({"role": "weight"}, "sampling: range is missing"),
        ({"role": "weight", "range": [-1, 2]}, "range must begin at 0 or above, got -1"),
        ({"role": "weight", "range": [0, 2], "step": 0}, "step must be greater than 0"),
    ],
)
def test_a_weight_needs_a_public_range(sampling, message):
    with pytest.raises(ConfigError, match=message):
        study({**COLUMNS, "sampling": sampling})


def test_a_network_knows_no_weights(folder):
    with pytest.raises(InvalidInput, match='role = "weight" belongs to linear models'):
        open_task(study(task={"model": "two-layer-cnn"}), (785,), 2, most_weight=3.0)


def test_owners_at_home_count_every_record_once(folder):
    federation, task = counted_once(*prepare(study()).trained())
    assert (federation.x.shape[2:], federation.test_x.shape[1:]) == ((1,), (1,))
    assert task == replace(prepare(study()).trained()[1], most_weight=None)
    plain = prepare(study({**COLUMNS, "sampling": {"kind": "left-out"}})).trained()
    assert counted_once(*plain) == plain


def test_an_algorithm_that_knows_no_weights_is_left_out_of_an_advice(folder):
    entering, left_out = entrants(prepare(study()))
    assert "fedsgd-dpc" in [one.algorithm.name for one in entering]
    (said,) = [one.reason for one in left_out if one.name == "moments"]
    assert "moments knows nothing of weights" in said
    plain = prepare(study({**COLUMNS, "sampling": {"kind": "left-out"}}))
    assert "moments" in [one.algorithm.name for one in entrants(plain)[0]]
