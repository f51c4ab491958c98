"""Tasks by name: each name gives its model, and every misfit says what to change."""

import numpy as np
import pytest
from pydantic import ValidationError

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import (
    MODELS,
    LinearModel,
    ModelTask,
    Task,
    fu_cnn,
    group_cnn,
    lenet5,
    lstm,
    ma_cnn,
    make_task,
    paper_cnn,
    resnet20,
    two_layer_cnn,
    unet3d,
    vgg11,
)
from noiseworthy.tasks.table import TaskTable


def test_each_name_gives_its_model():
    options = {"ridge": 0.1, "feature_norm": 2.0, "normalise": True, "bias": True}
    assert make_task("softmax", (28, 28), 10, **options) == LinearModel(784, 10, "softmax", **options)
    assert make_task("logistic", (9,), 2) == LinearModel(9, 1, "logistic")
    assert make_task("svm", (9,), 2, **options) == LinearModel(9, 1, "hinge", **options)
    assert make_task("linear", [11], None) == LinearModel(11, 1, "squared")
    assert make_task("cnn", (28, 28), 62) is paper_cnn()
    assert make_task("cnn", (28, 28), 10, ridge=0.5).ridge == 0.5
    assert isinstance(make_task("cnn", (28, 28), 10), Task)
    assert make_task("fu-cnn", (28, 28), 62) is fu_cnn()
    assert make_task("two-layer-cnn", (32, 32, 3), 10) is two_layer_cnn()
    assert make_task("vgg11", (224, 224, 3), 2, ridge=0.1) is vgg11(2, (224, 224, 3), ridge=0.1)
    assert make_task("ma-cnn", (28, 28), 10) is ma_cnn()
    assert make_task("lenet5", (784,), 10) is lenet5()
    assert make_task("group-cnn", (28, 28), 62) is group_cnn()
    assert make_task("resnet20", (32, 32, 3), 10, ridge=0.1) is resnet20(ridge=0.1)
    assert make_task("lstm", (10,), 96) is lstm(96)
    assert make_task("unet3d", (48, 60, 48), 2) is unet3d()


def test_flat_squares_are_images():
    assert make_task("fu-cnn", (784,), 62) is fu_cnn()
    assert make_task("cnn", [64], 10) is paper_cnn(10, (8, 8))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        *((name, (784,)) for name in ("cnn", "fu-cnn", "two-layer-cnn", "ma-cnn", "lenet5", "group-cnn")),
        ("vgg11", (28, 30, 3)),
        ("resnet20", (32, 32, 3)),
        ("lstm", (7,)),
        ("unet3d", (4, 8, 4)),
    ],
)
def test_a_network_knows_the_shape_of_its_prepared_records(model, shape):
    task = make_task(model, shape, 2)
    assert isinstance(task, ModelTask)
    assert task.prepare(np.zeros((2, *shape), np.int32)).shape == (2, *task.record_shape)


def test_a_study_file_knows_the_same_names():
    assert [TaskTable(model=name).model for name in MODELS] == list(MODELS)
    with pytest.raises(ValidationError, match=r"Input should be 'softmax', 'logistic',.*'lstm' or 'unet3d'"):
        TaskTable(model="tree")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"model": "tree"},
            "model must be one of 'softmax', 'logistic', 'svm', 'linear', 'cnn', 'fu-cnn'.*, got 'tree'",
        ),
        ({"model": "logistic"}, "logistic needs 2 classes, got 10; use softmax"),
        ({"model": "svm"}, "svm needs 2 classes, got 10; use softmax"),
        ({"model": "svm", "classes": None}, "svm needs classes, got real targets; use linear"),
        ({"classes": None}, "softmax needs classes, got real targets; use linear"),
        ({"model": "cnn", "classes": None}, "cnn needs classes"),
        ({"model": "linear"}, "linear needs real targets, got 10 classes; use softmax or logistic"),
        ({"model": "cnn", "record_shape": (783,)}, "cnn needs images, got records of 783 numbers"),
        ({"model": "cnn", "record_shape": (49,)}, r"multiples of 4, got \(7, 7\)"),
        ({"model": "vgg11", "record_shape": (3072,)}, "vgg11 needs images, got records of 3072 numbers"),
        ({"model": "lstm"}, r"lstm needs records of shape \(L,\), tokens of a text, got \(28, 28\)"),
        ({"model": "lstm", "classes": None}, "lstm needs classes"),
        ({"model": "unet3d", "classes": 2}, r"unet3d needs records of shape \(D, H, W\)"),
        ({"model": "unet3d", "record_shape": (4, 4, 4)}, "classes must be between 2 and 2, got 10; unet3d"),
        ({"model": "lstm", "feature_norm": 1.0}, "feature_norm .* must be left out for lstm"),
        ({"model": "cnn", "record_shape": (28, 30)}, "multiples of 4"),
        ({"model": "cnn", "bias": True}, "bias belongs to linear models"),
        ({"model": "cnn", "feature_norm": 1.0}, "feature_norm belongs to linear models"),
        ({"model": "cnn", "pooling": 2}, "pooling belongs to linear models and must be left out for cnn"),
        ({"model": "lstm", "projection": 2}, "projection belongs to linear models"),
        ({"classes": 1}, "outputs must be at least 2, got 1"),
        ({"ridge": -1.0}, "ridge must be finite and at least 0"),
        ({"feature_norm": 0.0}, "feature_norm must be finite and above 0"),
        ({"normalise": True}, "normalise needs a feature_norm"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        make_task(**{"model": "softmax", "record_shape": (28, 28), "classes": 10, **arguments})
