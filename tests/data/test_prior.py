"""Synthetic tables: the same for the same arguments, of the stated kinds, as varied as real ones."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.data.prior import prior_table
from noiseworthy.data.prior_columns import Block, blocks_of, drawn_blocks, width_of
from noiseworthy.data.schema import read_schema
from noiseworthy.data.table_records import from_columns
from noiseworthy.data.tables import Columns
from noiseworthy.errors import InvalidInput
from prior import of_prior

SCHEMA = {
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [0, 100]},
    "weight": {"kind": "number", "range": [30, 200], "missing": True},
    "smoker": {"kind": "yes-no"},
    "site": {"kind": "category", "values": ["a", "b", "c"], "missing": True},
    "stage": {"kind": "ordered", "values": ["I", "II", "III"]},
    "seen": {"kind": "date", "range": ["2020-01-01", "2021-01-01"], "missing": True, "indicator": False},
}


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "classes"), [((4,), 2), ((40,), 26), ((500,), 6), ((12,), None), ((6, 5), 3)]
)
def test_a_table_has_the_shape_of_the_study_and_lies_in_public_ranges(shape, classes):
    for seed in range(3):
        table = prior_table(shape, classes, seed)
        assert (table.x.shape, table.test_x.shape) == ((3000, *shape), (1000, *shape))
        assert (table.x.dtype, table.y.dtype) == (np.float32, np.float32 if classes is None else np.int32)
        assert table.name == f"prior:{seed}"
        assert table.classes == classes
        for numbers in (table.x, table.test_x):
            assert np.all(np.isfinite(numbers))
            assert np.abs(numbers).max() <= 1


@pytest.mark.parametrize("classes", [3, None])
def test_the_same_arguments_give_the_same_table_and_others_another(classes):
    one, again, other = (prior_table((9,), classes, seed) for seed in (5, 5, 6))
    for name in ("x", "y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
    assert not np.array_equal(one.x, other.x)
    assert not np.array_equal(one.y, other.y)


@pytest.mark.full
@pytest.mark.parametrize(("features", "classes", "records"), [(4, 2, 8), (40, 26, 104), (10, 26, 4000)])
def test_each_class_occurs_among_the_private_records(features, classes, records):
    for seed in range(20):
        assert len(np.unique(prior_table((features,), classes, seed, records=records).y)) == classes


def test_numbers_to_predict_have_size_one_and_are_rarely_centred():
    every = [np.concatenate([t.y, t.test_y]) for t in (prior_table((6,), None, seed) for seed in range(20))]
    np.testing.assert_allclose([np.sqrt(np.mean(y**2)) for y in every], 1, rtol=1e-5)
    assert np.sum([abs(y.mean()) > 0.15 for y in every]) >= 18


@pytest.mark.full
@pytest.mark.parametrize(
    ("features", "classes", "statistic", "low", "high"),
    [
        (10, 2, "gain", 0.1, 0.85),
        (10, 2, "norm", 0.25, 0.75),
        (10, 2, "norm_spread", 0.03, 0.4),
        (10, 2, "mean_share", 0.01, 0.8),
        (10, 2, "directions", 0.25, 0.6),
        (10, 2, "first", 0.28, 0.6),
        (10, 2, "evenness", 0.6, 0.9),
        (10, 2, "entropy", 0.7, 0.995),
        (100, 2, "gain", 0.1, 0.8),
        (100, 2, "norm", 0.3, 0.7),
        (100, 2, "norm_spread", 0.015, 0.2),
        (100, 2, "directions", 0.1, 0.35),
        (100, 2, "first", 0.1, 0.3),
        (25, None, "gain", 0.1, 0.7),
        (25, None, "offset", 0.4, 3.0),
    ],
)
def test_a_hundred_tables_are_as_varied_as_real_ones(features, classes, statistic, low, high):
    """What real tables reach (docs/trials.md) is no rare draw: five of a hundred lie beyond each end."""
    found = _found(features, classes)[statistic]
    assert np.sum(found < low) >= 5
    assert np.sum(found > high) >= 5
    assert np.sum((found >= low) & (found <= high)) >= 40


_KNOWN: dict[tuple[int, int | None], dict[str, np.ndarray]] = {}


def _found(features: int, classes: int | None) -> dict[str, np.ndarray]:
    if (features, classes) not in _KNOWN:
        _KNOWN[features, classes] = of_prior(features, classes)
    return _KNOWN[features, classes]


def test_no_model_is_perfect_where_labels_are_noisy():
    """Records of a few columns repeat: equal ones of different classes bound every model's accuracy."""
    columns = (Block("yes-no"), Block("yes-no"), Block("ordered", 3))
    bounds = []
    for seed in range(30):
        table = prior_table((3,), 2, seed, columns=columns)
        cells = np.unique(table.x, axis=0, return_inverse=True)[1].ravel()
        counts = np.array([np.bincount(table.y[cells == cell], minlength=2) for cell in np.unique(cells)])
        bounds.append(counts.max(axis=1).sum() / len(table))
    assert np.sum(np.array(bounds) < 0.9) >= 10
    assert np.sum(np.array(bounds) > 0.95) >= 3


def test_the_columns_of_a_schema_keep_their_kinds():
    schema = read_schema(SCHEMA)
    blocks = blocks_of(schema)
    assert width_of(blocks) == schema.width == 10
    assert [one.kind for one in blocks] == ["number", "number", "yes-no", "category", "ordered", "number"]
    table = prior_table((10,), 2, 1, columns=blocks)
    age, weight, no_weight, smoker, *site, no_site, stage, seen = table.x.T
    assert len(np.unique(age)) > 100 < len(np.unique(seen))
    assert set(np.unique(smoker)) == {-1, 1}
    assert set(np.unique(stage)) == {-1, 0, 1}
    assert {*np.unique(no_weight), *np.unique(no_site)} == {0, 1}
    assert np.all(weight[no_weight == 1] == 0)
    np.testing.assert_array_equal(np.sum(site, axis=0), 1 - no_site)


def test_a_number_is_described_by_a_range_or_by_the_steps_that_it_is_counted_in():
    label = {"ill": {"role": "label", "classes": [0, 1]}}
    counted = {"kind": "number", "center": 50, "step": 20}
    stated = {"range": {"kind": "number", "range": [0, 9]}, "steps": counted, "smokes": {"kind": "yes-no"}}
    assert [one.described for one in blocks_of(read_schema(label | stated))] == [True] * 3
    as_it_is = {"age": {"kind": "number", "step": 1.0}}
    blocks = blocks_of(read_schema(label | as_it_is | stated))
    assert [one.described for one in blocks] == [False, True, True, True]
    plain = from_columns(
        {"age": np.arange(8.0), "ill": np.arange(8) % 2}, Columns("ill", classes=(0, 1)), "own"
    )
    assert plain.schema is not None
    assert [one.described for one in blocks_of(plain.schema)] == [False]


def test_drawn_columns_fill_the_record_with_all_kinds():
    drawn = [drawn_blocks(30, np.random.default_rng(seed)) for seed in range(40)]
    assert {width_of(blocks) for blocks in drawn} == {30}
    assert {one.kind for blocks in drawn for one in blocks} == {"number", "yes-no", "category", "ordered"}
    assert any(one.indicated for blocks in drawn for one in blocks)
    assert sum({one.kind for one in blocks} == {"number"} for blocks in drawn) >= 8


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"records": 11}, "records must be .* 12"),
        ({"seed": -1}, "seed must be"),
        ({"columns": [Block("category", 4)]}, "columns must become 5 numbers, as a record has, got 4"),
    ],
)
def test_what_no_table_can_be_is_refused(arguments, says):
    with pytest.raises(InvalidInput, match=says):
        prior_table((5,), 3, **{"seed": 0, **arguments})
