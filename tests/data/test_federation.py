"""Federations: stacked, padded, counted; and what they refuse."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import Federation, ragged
from noiseworthy.data.labels import scaled_images
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.tasks import LinearModel

GOOD = ([[1.0], [2.0]], [0, 1])


def build(*clients, test=GOOD, classes=2, **settings):
    return Federation.from_clients(clients, test=test, classes=classes, name="toy", **settings)


def test_records_stand_first_and_padding_is_zero():
    fed = build(([[1.0]], [1]), ([[2.0], [3.0]], [1, 1]))
    np.testing.assert_array_equal(fed.x[..., 0], [[1, 0], [2, 3]])
    np.testing.assert_array_equal(fed.y, [[1, 0], [1, 1]])
    assert (fed.x.dtype, fed.y.dtype, fed.clients) == (np.float32, np.int32, ("client 0", "client 1"))


def test_regression_labels_stay_numbers():
    fed = build(([[1.0]], [0.5]), test=([[1.0]], [2]), classes=None)
    assert (fed.y.dtype, fed.y[0, 0]) == (np.float32, 0.5)


def test_tokens_stay_whole_and_every_one_has_a_label():
    tokens = np.arange(12, dtype=np.int32).reshape(3, 4)
    fed = build((tokens[:1], tokens[:1] + 1), (tokens, tokens + 1), test=(tokens, tokens + 1), classes=13)
    assert (fed.x.dtype, fed.y.dtype, fed.record_shape, fed.label_shape) == (np.int32, np.int32, (4,), (4,))
    np.testing.assert_array_equal(fed.y[1], tokens + 1)
    np.testing.assert_array_equal(fed.y[0], [[1, 2, 3, 4], [0] * 4, [0] * 4])
    np.testing.assert_array_equal(fed.take_records(2).y[1], tokens[:2] + 1)


def test_bytes_of_images_are_scaled_as_where_they_are_read_and_predicted():
    pixels, labels = np.arange(0, 256, 51, dtype=np.uint8).reshape(2, 3, 1), [0, 1]
    fed = build((pixels, labels), test=(pixels / 255, labels))
    np.testing.assert_array_equal(fed.x[0], fed.test_x)
    np.testing.assert_array_equal(fed.x[0].ravel(), scaled_images(pixels).ravel())
    scans = build((pixels.astype(np.uint16), labels), test=(pixels, labels))
    assert (scans.x.max(), scans.test_x.max()) == (255, 1)
    rows = build((pixels[..., 0], labels), test=(pixels[..., 0], labels))
    assert rows.x.max() == 255  # bytes in columns are numbers of a table


def test_a_mask_may_lead_the_axes_of_its_record():
    volumes = np.ones((2, 3, 4, 5, 1))
    fed = build((volumes, np.ones((2, 3, 4, 5))), test=(volumes, np.zeros((2, 3, 4, 5))))
    assert (fed.x.dtype, fed.label_shape) == (np.float32, (3, 4, 5))


def test_taking_records_keeps_the_first_and_clears_the_rest():
    fed = build(([[1.0], [2.0], [3.0]], [1, 1, 1]), ([[4.0]], [1])).take_records(2)
    np.testing.assert_array_equal(fed.sizes, [2, 1])
    np.testing.assert_array_equal(fed.x[..., 0], [[1, 2], [4, 0]])
    np.testing.assert_array_equal(fed.y, [[1, 1], [1, 0]])


def test_labels_lie_as_their_records_do(monkeypatch):
    """As of images of clients of unlike sizes: stacking the labels alone would cost nothing."""
    monkeypatch.setattr(ragged, "_MOST_STACKED", 20)
    monkeypatch.setattr(ragged, "_MOST_PADDING", 1)
    rows = np.arange(24.0).reshape(3, 8)
    fed = build((rows[:1], [1]), (rows, [0, 1, 1]), test=(rows, [0, 1, 1]))
    assert (isinstance(fed.x, ragged.Ragged), isinstance(fed.y, ragged.Ragged)) == (True, True)
    few = fed.take_records(2)
    np.testing.assert_array_equal(few.sizes, [1, 2])
    np.testing.assert_array_equal(few.x[1], rows[:2])
    np.testing.assert_array_equal(few.y[1], [0, 1])
    shards = Shards.load(few, LinearModel(8, 2, "softmax"))
    assert isinstance(shards.train, FlatRecords)


def test_taking_a_fraction_rounds_down_but_keeps_one():
    fed = build((np.ones((100, 1)), np.ones(100)), ([[4.0]], [1]))
    np.testing.assert_array_equal(fed.take(0.29).sizes, [29, 1])
    np.testing.assert_array_equal(fed.x[0, 29:30], [[1.0]])  # the original is untouched


@pytest.mark.parametrize(
    ("clients", "message"),
    [
        ([], "at least one client"),
        ([GOOD, (np.zeros((0, 1)), [])], "client 1 has no records; leave it out"),
        ([([[1.0]], [0, 1])], "1 records but labels of shape"),
        ([([[np.nan]], [0])], "client 0 has features that are NaN or infinite"),
        ([([[np.inf]], [0])], "client 0 has features that are NaN or infinite"),
        ([([[1e300]], [0])], "client 0 has features that are NaN or infinite"),
        (
            [(np.ma.masked_array([[1.0]], True), [0])],
            "client 0 has features that are NaN or infinite, or masked",
        ),
        ([([[1.0]], np.ma.masked_array([0], True))], "labels that are NaN or infinite, or masked"),
        ([(np.array([[1j]]), [0])], "client 0 has features that are not numbers of one shape"),
        ([(np.array([["2026-01-01"]], "M8[D]"), [0])], "features that are not numbers of one shape"),
        ([([["red"]], [0])], "encode text"),
        ([([[1.0], [1.0, 2.0]], [0, 1])], "not numbers of one shape"),
        ([([[1.0]], [2])], "label 2; labels must be whole numbers in 0..1"),
        ([([[1.0]], [-1])], "label -1"),
        ([([[1.0]], [0.5])], "label 0.5"),
        ([([[1.0]], [np.nan])], "labels that are NaN"),
        ([([[1.0, 2.0]], [0])], "one shape"),
        (
            [([[1.0], [2.0]], [[0, 0], [1, 1]])],
            r"labels of shape \(2, 2\).*per position of the record \(1,\)",
        ),
        ([([[1.0], [2.0]], [[0], [1]])], r"all labels must have one shape, got \[\(\), \(1,\)\]"),
        ([(np.array([[1]], np.int32), [0])], "int32 tokens for everybody or for nobody"),
    ],
)
def test_records_that_cannot_be_trained_on_are_refused_by_name(clients, message):
    with pytest.raises(DataError, match=message):
        build(*clients)


def test_a_target_is_one_number_per_record():
    with pytest.raises(DataError, match=r"labels of shape \(1, 2\); give one label per record$"):
        build(([[1.0, 2.0]], [[0.5, 1.5]]), test=([[1.0, 2.0]], [0.5]), classes=None)


def test_names_must_match_the_clients():
    with pytest.raises(DataError, match=r"must hold 1 different names, got \['a', 'b'\]"):
        build(GOOD, client_names=["a", "b"])
    with pytest.raises(DataError, match=r"must hold 2 different names, got \['a', 'a'\]"):
        build(GOOD, GOOD, client_names=["a", "a"])


@pytest.mark.parametrize("classes", [["a", "b"], "2", 2.5, 0])
def test_classes_are_a_number(classes):
    with pytest.raises(InvalidInput, match=r"classes must be (a whole number|at least 1), got .*; give"):
        build(GOOD, classes=classes)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.5, float("nan")])
def test_fractions_outside_the_unit_interval_are_refused(fraction):
    with pytest.raises(DataError, match="fraction must lie in"):
        build(GOOD).take(fraction)


def test_taking_no_records_is_refused():
    with pytest.raises(InvalidInput, match="records per client must be whole numbers of at least 1"):
        build(GOOD).take_records(0)


def test_tokens_may_be_of_jax_and_names_of_numpy():
    tokens, frame = jnp.array([[3, 4]], jnp.int32), pd.DataFrame({"dtype": np.ones(1, np.int32)})
    assert build((tokens, [1]), test=(tokens, [1])).x.dtype == np.int32
    assert build((frame, [1]), test=(frame, [1])).x.dtype == np.float32
    assert build(GOOD, GOOD, client_names=np.array(["a", "b"])).clients == ("a", "b")
