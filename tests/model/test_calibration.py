"""Probabilities are calibrated by one number that is found on public records, wherever the model is used."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from noiseworthy.cli import main
from noiseworthy.deploy.gateway.models import ModelOffer, Models
from noiseworthy.errors import DataError
from noiseworthy.model.description import Calibration, Description, best_scale, crossed_scales
from noiseworthy.model.export import export_onnx
from noiseworthy.model.folder import save_folder
from noiseworthy.model.metrics import of_classes
from noiseworthy.model.model import Model, load_model

from .conftest import model_of

FOUND = Calibration(scale=0.4, source="the test records, which no client holds", records=500, error=0.2)
TASKS: dict[str, Any] = {
    "logistic": ({"model": "logistic", "feature_norm": 1.0, "bias": 0.3}, (3,), 2),
    "softmax": ({"model": "softmax"}, (4,), 3),
}


def calibrated(name: str, calibration: Calibration | None = FOUND) -> Model:
    model = model_of(*TASKS[name])
    described = model.description.calibrated(calibration)
    return replace(model, kept=model.kept._replace(description=described))


def records(name: str, n: int = 40) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(n, *TASKS[name][1])).astype(np.float32)


def drawn(n: int, factor: float, seed: int = 0):
    """Log odds, and labels that are as often right as `factor` times them say."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, (n, 1))
    return z, (rng.random(n) < 1 / (1 + np.exp(-factor * z[:, 0]))).astype(int)


@pytest.mark.parametrize("factor", [0.25, 1.0, 3.0])
def test_the_scale_is_that_by_which_labels_were_drawn(factor):
    z, y = drawn(40_000, factor)
    assert best_scale(z, y) == pytest.approx(factor, rel=0.05)
    twice = best_scale(np.concatenate([np.zeros_like(z), z], axis=1), y)
    assert twice == pytest.approx(best_scale(z, y), rel=1e-4)


def test_scores_are_of_scales_that_have_not_seen_their_records():
    z, y = drawn(401, 0.3)
    scales = crossed_scales(z, y)
    assert set(scales[::2]) == {best_scale(z[1::2], y[1::2])}
    assert set(scales[1::2]) == {best_scale(z[::2], y[::2])}


def test_outputs_without_worth_are_muted_and_those_that_are_always_right_are_not():
    rng = np.random.default_rng(0)
    assert best_scale(rng.normal(size=(500, 3)), rng.integers(0, 3, 500)) < 0.1
    assert best_scale([[1.0], [-1.0]], [1, 0]) > 20


@pytest.mark.parametrize("name", TASKS)
def test_classes_stay_and_probabilities_are_scaled_alike_everywhere(name, tmp_path, monkeypatch):
    """The object, its folder, the command, ONNX and the folder of an owner, to 1e-5."""
    ort = pytest.importorskip("onnxruntime")
    model, plain, x = calibrated(name), calibrated(name, None), records(name)
    shares = model.predict_proba(x)
    np.testing.assert_array_equal(model.predict(x), plain.predict(x))
    assert np.abs(shares - plain.predict_proba(x)).max() > 0.05
    odds = np.log(shares[:, 1:] / shares[:, :1])
    before = plain.predict_proba(x)
    np.testing.assert_allclose(odds, 0.4 * np.log(before[:, 1:] / before[:, :1]), atol=1e-5)
    save_folder(model.kept, tmp_path / "model")
    offer = ModelOffer(run="study", description=model.description.plain, theta=model.kept.theta)
    owners = Models(tmp_path / "owner").keep(offer)
    for folder in (tmp_path / "model", owners):
        np.testing.assert_allclose(load_model(folder).predict_proba(x), shares, atol=1e-5)
    graph = ort.InferenceSession(export_onnx(model, tmp_path / "model.onnx"))
    np.testing.assert_allclose(graph.run(None, {"records": x})[0], shares, atol=1e-5)
    np.save(tmp_path / "x.npy", x)
    words = ["predict", tmp_path / "model", tmp_path / "x.npy", "-o", tmp_path / "told.csv"]
    monkeypatch.setattr(sys, "argv", ["noiseworthy", *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    told = pd.read_csv(tmp_path / "told.csv").filter(like="probability").to_numpy()
    np.testing.assert_allclose(told, shares, atol=1e-5)


def test_the_format_says_it_and_the_card_tells_by_what():
    model, plain = calibrated("logistic"), calibrated("logistic", None)
    assert (model.description.plain["format"], plain.description.plain["format"]) == (2, 1)
    assert "calibration" not in plain.description.plain
    assert Description.read(model.description.plain) == model.description
    with pytest.raises(DataError, match="format 2 is that of calibrated models"):
        Description.read({**model.description.plain, "format": 1})
    metrics = of_classes([0, 1, 1], np.array([[0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]))
    cards = []
    for one in (model, plain):
        scored = one.description.model_copy(update={"metrics": metrics})
        cards.append(replace(one, kept=one.kept._replace(description=scored)).card)
    assert (
        "multiplied by 0.4, found on 500 public records (the test records, which no client holds)" in cards[0]
    )
    assert "Without that the error was 20.0" in cards[0].replace("\N{NO-BREAK SPACE}", " ")
    assert "Its probabilities are not calibrated: there were no public records to do it by" in cards[1]
