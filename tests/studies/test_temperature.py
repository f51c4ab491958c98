"""The temperature of a plan reaches every prediction of its model alike, and moves no class."""

from __future__ import annotations

import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from scipy.special import expit, softmax

import noiseworthy as nw
from noiseworthy import NoiseworthyClassifier
from noiseworthy.cli import main
from noiseworthy.model.export import export_onnx
from noiseworthy.model.model import Model, load_model
from noiseworthy.studies import by_trial
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import load_plan
from noiseworthy.trials import race

STUDY = {
    "federation": {"data": "breast-cancer", "clients": 4, "partition": "iid"},
    "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5},
    "algorithm": {"rounds": 6, "clients_per_round": 4},
    "planning": {"public": ["diabetes"], "seeds": 2},
}


@pytest.fixture(scope="module", params=["softmax", "logistic"])
def run(request, tmp_path_factory):
    """The folder of a run planned by a short race."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(race, "RUNGS", ())
        patch.setattr(by_trial, "explained", lambda decision, *_: decision)
        made = nw.plan(parse_study({**STUDY, "task": {"model": request.param, "normalise": True}}))
    nw.train_in(made, folder, name="cells")
    return folder, made


def without(model: Model) -> Model:
    description = model.description.model_copy(update={"temperature": 1.0})
    return Model(model.kept._replace(description=description), model.task)


def test_plan_and_model_state_it_and_the_card_says_whence_it_is(run):
    folder, made = run
    told = load_plan(folder / "plan.json").beside["foretold"]["temperature"]
    model = load_model(folder)
    assert model.description.temperature == told != 1
    assert made.record("cells")["foretold"]["temperature"] == told
    assert f"Outputs are divided by {told:.4g} before they become probabilities" in model.card
    assert "No private record was read for it, nothing was charged" in model.card
    assert "divided by" not in without(model).card


def test_object_command_and_graph_agree_and_classes_stay(run, tmp_path, monkeypatch):
    folder, made = run
    federation, _ = made.prepared.trained()
    x, model = federation.test_x, load_model(folder)
    z = model.answers(x).astype(float) / model.description.temperature
    expected = softmax(z, axis=1) if z.shape[1] == 2 else np.concatenate([expit(-z), expit(z)], axis=1)
    shares = model.predict_proba(x)
    np.testing.assert_allclose(shares, expected, rtol=1e-9)
    plain = without(model)
    assert np.abs(shares - plain.predict_proba(x)).max() > 1e-3
    assert model.predict(x).tolist() == plain.predict(x).tolist()
    accuracies = [one.measured(x, federation.test_y).accuracy for one in (model, plain)]
    assert accuracies[0] == accuracies[1] == model.description.metrics.accuracy
    assert model.description.metrics.log_loss == pytest.approx(
        -np.mean(np.log(shares[np.arange(len(x)), federation.test_y])), rel=1e-6
    )

    graph = onnxruntime.InferenceSession(export_onnx(model, tmp_path / "model.onnx"))
    np.testing.assert_allclose(graph.run(None, {"records": x})[0], shares, atol=1e-5)
    np.save(tmp_path / "x.npy", x)
    told = tmp_path / "told.csv"
    monkeypatch.setattr(
        sys, "argv", ["noiseworthy", "predict", *map(str, (folder, tmp_path / "x.npy", "-o", told))]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    found = pd.read_csv(told)[["probability 0", "probability 1"]].to_numpy()
    np.testing.assert_allclose(found, shares, atol=1e-5)


def test_an_estimator_answers_as_its_model_does():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(200, 3))
    y = np.where(x[:, 0] > 0, "yes", "no")
    made = NoiseworthyClassifier(
        epsilon=50.0,
        public=[],
        feature_range=(-1, 1),
        classes=["no", "yes"],
        tables={"algorithm": {"rounds": 5}},
    ).fit(x, y)
    before, named = made.predict_proba(x), made.predict(x)
    cooled = made.model_.description.model_copy(update={"temperature": 2.0})
    made.model_ = Model(made.model_.kept._replace(description=cooled), made.model_.task)
    odds = np.log(before[:, 1] / before[:, 0])
    np.testing.assert_allclose(made.predict_proba(x)[:, 1], expit(odds / 2), atol=1e-6)
    assert made.predict(x).tolist() == named.tolist()
