"""The data sets that ship with the install."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine

from noiseworthy.data import embedded, load_federation, load_records
from noiseworthy.errors import InvalidInput


@pytest.mark.parametrize(
    ("name", "low", "total", "shape", "classes"),
    [
        ("digits", 0, 1797, (8, 8), 10),
        ("breast-cancer", -1, 569, (30,), 2),
        ("wine", -1, 178, (13,), 3),
        ("iris", -1, 150, (4,), 3),
    ],
)
def test_shipped_data_have_the_stated_sizes_ranges_and_stratified_split(name, low, total, shape, classes):
    records = load_records(name)
    assert (len(records) + len(records.test_y), records.record_shape, records.classes) == (
        total,
        shape,
        classes,
    )
    assert records.x.min() == low
    assert max(records.x.max(), records.test_x.max()) == 1
    held_out = np.bincount(records.test_y) / (np.bincount(records.y) + np.bincount(records.test_y))
    np.testing.assert_allclose(held_out, 0.2, atol=0.011)


def test_the_progression_of_diabetes_is_a_regression_on_the_patients_of_its_two_classes():
    """As published, from 25 to 346; above 140 the classifier's label is 1, in some order of the patients."""
    numbers, classes = load_records("diabetes-progression"), load_records("diabetes")
    both = np.concatenate([numbers.y, numbers.test_y])
    measured = 25 + (both + 1) / 2 * (346 - 25)
    np.testing.assert_allclose(np.sort(measured), np.sort(load_diabetes().target), atol=1e-3)
    assert numbers.classes is None
    assert (len(numbers), numbers.record_shape) == (354, (10,))
    assert np.sum(measured > 140.5) == classes.y.sum() + classes.test_y.sum()
    every = [np.concatenate([one.x, one.test_x]).sum(axis=1) for one in (numbers, classes)]
    np.testing.assert_allclose(*map(np.sort, every))


def test_the_split_is_the_same_every_time():
    np.testing.assert_array_equal(load_records("digits").test_x, load_records("digits").test_x)


@pytest.mark.parametrize(
    ("load", "low", "high"),
    [
        (load_breast_cancer, embedded.BREAST_CANCER_LOW, embedded.BREAST_CANCER_HIGH),
        (load_wine, embedded.WINE_LOW, embedded.WINE_HIGH),
        (load_iris, embedded.IRIS_LOW, embedded.IRIS_HIGH),
    ],
)
def test_the_scaling_constants_are_the_published_ranges(load, low, high):
    data = load().data
    width = np.ptp(data, axis=0)
    for constants, ends in ((low, data.min(axis=0)), (high, data.max(axis=0))):
        assert np.all(np.abs(np.array(constants) - ends) < np.maximum(0.05 * width, 1e-12))


def test_two_labels_each_on_the_digits():
    fed = load_federation("digits", clients=10, partition="label-shards", labels_per_client=2, seed=0)
    assert fed.sizes.tolist() == [143] * 10
    assert {len(np.unique(y[:n])) for y, n in zip(fed.y, fed.sizes, strict=True)} == {2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"source": "digitz"}, "source must be one of digits, .*got 'digitz'"),
        ({"source": "digits", "label_column": "y"}, "digits has fixed columns"),
        ({"source": "digits"}, "clients must be given"),
        ({"source": "digits", "clients": 2, "alpha": 1.0}, "takes no settings, got 'alpha'"),
        (
            {"source": "digits", "clients": 2, "records_per_client": 0},
            "records_per_client must be at least 1",
        ),
        ({"source": "digits", "clients": 2, "seed": -1}, "seed must be at least 0"),
    ],
)
def test_settings_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        load_federation(**{"seed": 0, **arguments})


def test_records_per_client_and_fraction_multiply():
    fed = load_federation("digits", clients=4, seed=0, records_per_client=100, fraction=0.5)
    assert fed.sizes.tolist() == [50] * 4


@pytest.mark.parametrize(
    ("name", "loaded"),
    [
        ("digits", load_digits()),
        ("breast_cancer", load_breast_cancer()),
        ("wine", load_wine()),
        ("iris", load_iris()),
        ("diabetes", load_diabetes(scaled=False)),
    ],
)
def test_what_ships_is_what_scikit_learn_has(name, loaded):
    x, y = embedded.bundled(name)
    np.testing.assert_array_equal(x, loaded.data)
    np.testing.assert_array_equal(y, loaded.target)
