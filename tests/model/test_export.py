"""An exported graph says what the model says: preparation, norm, intercept, matrix, probabilities."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnxruntime
import pytest

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.model.export import export_onnx
from noiseworthy.tasks import Reference

from .conftest import model_of

DRAWS = np.random.default_rng(0)
SCALED = {"feature_norm": 1.0, "normalise": True, "bias": 0.3}
SEEN = Reference.of([DRAWS.random((50, 5, 7))])
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...], int | None]] = {
    "logistic": ({"model": "logistic"}, (4,), 2),
    "within a ball": ({"model": "logistic", "feature_norm": 0.8, "bias": 0.3}, (4,), 2),
    "on a sphere": ({"model": "softmax", **SCALED}, (4,), 3),
    "svm": ({"model": "svm", **SCALED}, (4,), 2),
    "regression": ({"model": "linear", **SCALED, "bias": 1.0}, (4,), None),
    "pooled": ({"model": "softmax", "pooling": 2}, (5, 7), 3),
    "pooled colours": ({"model": "softmax", "pooling": 3, "feature_norm": 1.0}, (6, 7, 3), 3),
    "pooled flat": ({"model": "softmax", "pooling": 2}, (36,), 3),
    "projected": ({"model": "softmax", "pooling": 2, "projection": 4}, (5, 7), 3),
    "against a reference": ({"model": "softmax", "projection": 6, "reference": ["public"]}, (5, 7), 3),
    "against its mean": ({"model": "softmax", "reference": ["public"], **SCALED}, (5, 7), 3),
    "cnn": ({"model": "cnn"}, (8, 8), 3),
    "cnn, flat records": ({"model": "cnn"}, (64,), 3),
    "fu-cnn": ({"model": "fu-cnn"}, (8, 12), 3),
    "two-layer-cnn": ({"model": "two-layer-cnn"}, (8, 8, 3), 4),
    "ma-cnn": ({"model": "ma-cnn"}, (7, 9), 3),
    "lenet5": ({"model": "lenet5"}, (16, 13, 3), 4),
}


@pytest.mark.full
@pytest.mark.parametrize("case", CASES)
def test_the_graph_agrees_with_the_model(case, tmp_path):
    task, shape, classes = CASES[case]
    model = model_of(task, shape, classes, SEEN if "reference" in task else None)
    session = onnxruntime.InferenceSession(export_onnx(model, tmp_path / "model.onnx"))
    x = DRAWS.normal(size=(9, *shape)).astype(np.float32)
    x[0], x[1] = 0, x[1] / 100
    (found,) = session.run(None, {"records": x})
    z = model.answers(x)
    expected = model.probabilities(z) if model.loss in ("softmax", "logistic") else z
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.ptp(found, axis=0).max() > 1e-3


def test_what_a_graph_has_no_place_for_goes_along(logistic, tmp_path):
    session = onnxruntime.InferenceSession(export_onnx(logistic, tmp_path / "model.onnx"))
    said = session.get_modelmeta().custom_metadata_map
    assert json.loads(said["classes"]) == ["class 0", "class 1"]
    assert json.loads(said["privacy"])["claim"].startswith("Epsilon 2")


def test_an_installation_without_onnx_is_told_what_to_install(logistic, tmp_path, monkeypatch):
    monkeypatch.setattr("noiseworthy.model.export.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"onnx is not installed; pip install 'noiseworthy\[onnx\]'"):
        export_onnx(logistic, tmp_path / "model.onnx")


def test_what_cannot_be_exported_is_refused_by_name(tmp_path):
    model = model_of({"model": "group-cnn"}, (16, 16), 3)
    with pytest.raises(InvalidInput, match="group-cnn cannot be exported to ONNX; linear models and cnn"):
        export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())
