"""Tasks by name: each name gives its model, and every misfit says what to change."""

import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import LinearModel, Task, make_task, paper_cnn


def test_each_name_gives_its_model():
    options = {"ridge": 0.1, "feature_norm": 2.0, "normalise": True, "bias": True}
    assert make_task("softmax", (28, 28), 10, **options) == LinearModel(784, 10, "softmax", **options)
    assert make_task("logistic", (9,), 2) == LinearModel(9, 1, "logistic")
    assert make_task("linear", [11], None) == LinearModel(11, 1, "squared")
    assert make_task("cnn", (28, 28), 62) is paper_cnn()
    assert make_task("cnn", (28, 28), 10, ridge=0.5).ridge == 0.5
    assert isinstance(make_task("cnn", (28, 28), 10), Task)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "svm"}, "model must be one of 'softmax', 'logistic', 'linear', 'cnn', got 'svm'"),
        ({"model": "logistic"}, "logistic needs 2 classes, got 10; use softmax"),
        ({"classes": None}, "softmax needs classes, got real targets; use linear"),
        ({"model": "cnn", "classes": None}, "cnn needs classes"),
        ({"model": "linear"}, "linear needs real targets, got 10 classes; use softmax or logistic"),
        ({"model": "cnn", "record_shape": (784,)}, "the cnn needs images"),
        ({"model": "cnn", "record_shape": (28, 30)}, "multiples of 4"),
        ({"model": "cnn", "bias": True}, "bias belongs to linear models"),
        ({"model": "cnn", "feature_norm": 1.0}, "feature_norm belongs to linear models"),
        ({"classes": 1}, "outputs must be at least 2, got 1"),
        ({"ridge": -1.0}, "ridge must be finite and at least 0"),
        ({"feature_norm": 0.0}, "feature_norm must be finite and above 0"),
        ({"normalise": True}, "normalise needs a feature_norm"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        make_task(**{"model": "softmax", "record_shape": (28, 28), "classes": 10, **arguments})
