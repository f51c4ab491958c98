"""A schema: rows become numbers one by one, by what is stated of the columns and by nothing else."""

from __future__ import annotations

import hashlib
import json
import math
from datetime import date, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.data import Columns, from_columns, load_federation, load_records
from noiseworthy.data.frames import read_arrow
from noiseworthy.data.readers import read_columns
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.data.schema.values import key, keys
from noiseworthy.errors import ConfigError, DataError, InvalidInput

STATED = {
    "hospital": {"role": "client"},
    "diagnosis": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [18, 100]},
    "chol": {"kind": "number", "range": [100, 600], "transform": "log", "missing": 240, "gaps": [0, "?"]},
    "area": {"kind": "number", "range": [0, 400], "transform": "sqrt", "missing": True},
    "dose": {"kind": "number", "center": 50, "step": 10, "missing": True, "indicator": False},
    "sex": {"kind": "category", "values": ["female", "male"], "missing": True},
    "code": {"kind": "category", "values": [3, 6, 7], "other": True, "missing": 6},
    "smoker": {"kind": "yes-no", "missing": "no"},
    "grade": {"kind": "ordered", "values": ["low", "mid", "high"], "missing": True},
    "visit": {"kind": "date", "range": ["2010-01-01", "2025-12-31"], "missing": "2020-02-29"},
    "seen": {"kind": "date", "range": [date(2010, 1, 1), date(2011, 1, 1)], "format": "%d.%m.%Y"},
    "notes": {"kind": "left-out"},
}
SCHEMA = Schema.model_validate(STATED)
GAPS = ["", None, math.nan, "NA", "nan", " n/a ", "NULL"]


def expected(row: dict) -> list[float]:
    """A row's numbers as a reader of the page would work them out by hand."""

    def gap(value, *codes):
        return value in ("", None, "NA", "nan", " n/a ", "NULL", *codes) or value != value

    def scaled(value, low, high):
        return 2 * (min(max(value, low), high) - low) / (high - low) - 1

    out = [scaled(float(row["age"]), 18, 100)]
    lost = gap(row["chol"], "?") or float(row["chol"]) == 0
    chol = 240 if lost else float(row["chol"])
    out += [scaled(math.log(max(chol, 100)), math.log(100), math.log(600)), float(lost)]
    lost = gap(row["area"])
    out += [0.0 if lost else scaled(math.sqrt(max(0.0, float(row["area"]))), 0, 20), float(lost)]
    out += [0.0 if gap(row["dose"]) else (float(row["dose"]) - 50) / 10]
    out += [float(row["sex"] == "female"), float(row["sex"] == "male"), float(gap(row["sex"]))]
    lost = gap(row["code"])
    code = "6" if lost else str(row["code"]).removesuffix(".0")
    out += [float(code == one) for one in ("3", "6", "7")] + [float(lost)]
    lost = gap(row["smoker"])
    out += [1.0 if str(row["smoker"]).lower() in ("yes", "y", "true", "1", "1.0") else -1.0, float(lost)]
    lost = gap(row["grade"])
    out += [0.0 if lost else {"low": -1.0, "mid": 0.0, "high": 1.0}[row["grade"]], float(lost)]
    lost, first = gap(row["visit"]), date(2010, 1, 1).toordinal()
    day = date(2020, 2, 29) if lost else datetime.fromisoformat(str(row["visit"])).date()
    out += [scaled(day.toordinal(), first, date(2025, 12, 31).toordinal()), float(lost)]
    seen = datetime.strptime(row["seen"], "%d.%m.%Y").toordinal()
    return [*out, scaled(seen, first, date(2011, 1, 1).toordinal())]


def or_gap(values):
    return st.one_of(values, st.sampled_from(GAPS))


FINITE = st.floats(-1e6, 1e6, allow_nan=False)
WRITTEN = st.one_of(FINITE, FINITE.map(str), FINITE.map(lambda v: f" {v} "), st.integers(-9, 700))
DAYS = st.dates(date(1990, 1, 1), date(2040, 1, 1))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "age": WRITTEN,
            "chol": or_gap(st.one_of(WRITTEN, st.sampled_from([0, "0", "?"]))),
            "area": or_gap(WRITTEN),
            "dose": or_gap(WRITTEN),
            "sex": or_gap(st.sampled_from(["female", "male"])),
            "code": or_gap(st.sampled_from([3, 6, 7, "3", "6.0", 7.0, "other"])),
            "smoker": or_gap(st.sampled_from(["yes", "No", "Y", "n", "TRUE", "false", 1, 0.0, True, False])),
            "grade": or_gap(st.sampled_from(["low", "mid", "high"])),
            "visit": or_gap(st.one_of(DAYS, DAYS.map(str), st.datetimes(datetime(2000, 1, 1)).map(str))),
            "seen": DAYS.map(lambda day: f"{day:%d.%m.%Y}"),
        }
    ),
    min_size=1,
    max_size=12,
)


def table(rows: list[dict]) -> dict:
    """Columns of objects, so that no row changes the type of another."""
    columns = {}
    for name in rows[0]:
        columns[name] = np.empty(len(rows), object)
        columns[name][:] = [row[name] for row in rows]
    return columns


@pytest.mark.full
@given(ROWS)
def test_every_row_is_what_one_works_out_by_hand(rows):
    encoded = SCHEMA.encode(table(rows))
    assert (encoded.dtype, encoded.shape) == (np.float32, (len(rows), SCHEMA.width))
    np.testing.assert_allclose(encoded, [expected(row) for row in rows], rtol=1e-6, atol=1e-6)


@given(ROWS, st.randoms(use_true_random=False))
def test_a_row_depends_on_itself_alone(rows, random):
    """Alone, among others and in another order: the same bits."""
    together = SCHEMA.encode(table(rows))
    alone = np.concatenate([SCHEMA.encode(table([row])) for row in rows])
    np.testing.assert_array_equal(together, alone)
    order = [*range(len(rows))]
    random.shuffle(order)
    np.testing.assert_array_equal(SCHEMA.encode(table([rows[i] for i in order])), together[order])


def test_numbers_have_names_in_the_order_of_the_columns():
    assert SCHEMA.feature_names == (
        "age", "chol", "chol is missing", "area", "area is missing", "dose", "sex = female", "sex = male",
        "sex is missing", "code = 3", "code = 6", "code = 7", "code is missing", "smoker",
        "smoker is missing", "grade", "grade is missing", "visit", "visit is missing", "seen",
    )  # fmt: skip
    assert SCHEMA.width == 20
    assert [one.name for one in SCHEMA.features] == [
        "age", "chol", "area", "dose", "sex", "code", "smoker", "grade", "visit", "seen",
    ]  # fmt: skip
    assert (SCHEMA.label.name, SCHEMA.label.classes) == ("diagnosis", ("no", "yes"))
    assert (SCHEMA.client, SCHEMA.split, SCHEMA.n_classes) == ("hospital", None, 2)


ONE = {"y": {"role": "label", "classes": [0, 1]}}


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 1]), np.array([1.0, 2.0, 1.0], np.float32), np.array(["1", "2.0", " 1 "]),
        pd.Series([1, 2, 1], dtype="Int64"), pd.Series(["1", "2", "1"], dtype="category"),
        np.array([1, "2", 1.0], object),
    ],
    ids=["int", "float", "text", "nullable", "categorical", "mixed"],
)  # fmt: skip
def test_a_code_is_the_same_value_in_every_type(values):
    schema = Schema.model_validate({**ONE, "x": {"kind": "category", "values": [1, "2"]}})
    np.testing.assert_array_equal(schema.encode({"x": values}), [[1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize("kind", [str, bytes, object])
def test_text_is_the_same_value_as_bytes(kind):
    """As NumPy and some writers of Parquet keep it; with `other` it was none of the values without a word."""
    stated = {"kind": "category", "values": ["Ä", "b"], "other": True, "missing": True}
    schema = Schema.model_validate({**ONE, "x": stated})
    texts = ["Ä", "b", "NA"] if kind is str else ["Ä".encode(), b"b ", b"NA"]
    told = schema.encode({"x": np.array(texts, kind)})
    np.testing.assert_array_equal(told, [[1, 0, 0], [0, 1, 0], [0, 0, 1]])


def test_letters_that_look_the_same_are_the_same_value():
    """A Mac writes an accent as a sign of its own; cells, values and owners are compared all the same."""
    stated = {"x": {"kind": "category", "values": ["Ko\u0308ln", "Bonn"]}, "site": {"role": "client"}}
    columns = {
        "x": ["K\xf6ln", "Ko\u0308ln", "Bonn"],
        "site": ["Ko\u0308ln", "K\xf6ln", "Bonn"],
        "y": [0, 1, 1],
    }
    x, _, owners, _ = stated_examples(columns, Schema.model_validate({**ONE, **stated}), "wards")
    np.testing.assert_array_equal(x, [[1, 0], [1, 0], [0, 1]])
    assert owners is not None
    assert owners.tolist() == ["K\xf6ln", "K\xf6ln", "Bonn"]


@pytest.mark.parametrize("stated", [[False, True], ["false", "TRUE"]])
def test_truth_values_are_the_same_in_every_writing(stated):
    schema = Schema.model_validate({**ONE, "x": {"kind": "category", "values": stated, "missing": True}})
    assert schema.feature_names == ("x = False", "x = True", "x is missing")
    for values in (
        np.array([True, False]),
        np.array(["TRUE", "false"]),
        np.array([np.True_, "False"], object),
    ):
        np.testing.assert_array_equal(schema.encode({"x": values}), [[0, 1, 0], [1, 0, 0]])


def test_truth_values_in_a_column_of_numbers_as_they_are_are_the_same_as_text():
    schema = Schema.model_validate({**ONE, "x": {"kind": "number", "step": 1.0}})
    for values in (np.array([True, False]), np.array(["TRUE", "False"]), np.array([True, "0"], object)):
        np.testing.assert_array_equal(schema.encode({"x": values}), [[1], [0]])
    with pytest.raises(DataError, match="1 value other than numbers, such as 'yes'"):
        schema.encode({"x": np.array(["yes", "False"])})


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, object])
def test_a_fraction_is_the_same_value_in_every_type(kind):
    schema = Schema.model_validate({**ONE, "x": {"kind": "ordered", "values": [0.1, "0.25"]}})
    np.testing.assert_array_equal(schema.encode({"x": np.array([0.25, 0.1], kind)}), [[1], [-1]])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, object, str])
def test_a_fraction_that_stands_for_a_gap_is_one_in_every_type(kind):
    stated = {"kind": "number", "range": [0, 50], "missing": True, "gaps": [-9.9, "99.9", 1e300, "?"]}
    schema = Schema.model_validate({**ONE, "x": stated})
    told = schema.encode({"x": np.array([25, -9.9, 99.9], kind)})
    np.testing.assert_array_equal(told, [[0, 0], [0, 1], [0, 1]])


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2010-01-01", "NaT"], "datetime64[ns]"), pd.to_datetime(pd.Series(["2010-01-01", None])),
        np.array([date(2010, 1, 1), None], object), np.array(["2010-01-01T09:30", ""]),
        pd.Series([pd.Timestamp("2010-01-01 23:59", tz="UTC"), pd.NaT]),
    ],
    ids=["datetime64", "pandas", "objects", "text", "zoned"],
)  # fmt: skip
def test_a_day_is_the_same_in_every_type(values):
    stated = {"kind": "date", "range": ["2010-01-01", "2010-01-03"], "missing": True}
    schema = Schema.model_validate({**ONE, "x": stated})
    np.testing.assert_array_equal(schema.encode({"x": values}), [[-1, 0], [0, 1]])
    coded = Schema.model_validate({**ONE, "x": {**stated, "gaps": ["2010-01-01"]}})
    np.testing.assert_array_equal(coded.encode({"x": values}), [[0, 1], [0, 1]])


@pytest.mark.parametrize("values", [["2010", "", "2012"], ["2010.0", "", "2012.0"], [2010, None, 2012]])
def test_a_year_is_the_same_day_beside_a_gap(values):
    """Frames make fractions of whole numbers beside a gap."""
    stated = {"kind": "date", "range": ["2010-01-01", "2012-01-01"], "format": "%Y", "missing": True}
    schema = Schema.model_validate({**ONE, "x": stated})
    np.testing.assert_array_equal(schema.encode({"x": values}), [[-1, 0], [0, 1], [1, 0]])
    np.testing.assert_array_equal(schema.encode({"x": pd.Series(values)}), [[-1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize("unit", ["ns", "us"])
def test_times_are_no_numbers_and_no_counts_of_nanoseconds(unit):
    times = np.array(["2010-01-01"], f"datetime64[{unit}]")
    for stated in ({"kind": "number", "range": [0, 9]}, {"kind": "category", "values": [1262304000 * 10**9]}):
        with pytest.raises(DataError, match="column 'x' has 1 value other than"):
            Schema.model_validate({**ONE, "x": stated}).encode({"x": times})


CELLS = st.one_of(st.text(max_size=2), st.sampled_from(["1", "1.0", "True", "01"]))


@pytest.mark.full
@given(
    st.lists(CELLS)
    | st.lists(CELLS | st.booleans() | st.integers(0, 1) | st.sampled_from([0.0, 1.0, math.nan, None]))
)
def test_a_column_is_told_as_each_of_its_values(values):
    """True, 1 and 1.0 are equal in Python, and other texts."""
    column = np.empty(len(values), object)
    column[:] = values
    assert keys(column) == [key(value) for value in values]


def test_frames_are_read_as_mappings_are():
    rows = [{"age": 18, "sex": "male"}, {"age": None, "sex": None}]
    stated = {"age": {"kind": "number", "range": [18, 20], "missing": True},
              "sex": {"kind": "category", "values": ["male"], "missing": True}}  # fmt: skip
    schema, frame = Schema.model_validate(stated | ONE), pd.DataFrame(rows)
    wanted = [[-1, 0, 1, 0], [0, 1, 0, 1]]
    np.testing.assert_array_equal(schema.encode(frame), wanted)
    np.testing.assert_array_equal(schema.encode(frame.convert_dtypes()), wanted)
    assert schema.encode(frame.head(0)).shape == (0, 4)


def test_a_gap_changes_no_other_cell_of_a_frame(tmp_path):
    """A long code lost its last digits, and truth values became 1 and 0, beside a gap."""
    stated = {"code": {"kind": "category", "values": [2**60, 2**60 + 1], "missing": True},
              "drug": {"kind": "category", "values": [True, False], "missing": True}}  # fmt: skip
    frame = pd.DataFrame(
        {"code": pd.array([2**60 + 1, None], "Int64"), "drug": pd.array([False, None], "boolean")}
    )
    frame.to_parquet(tmp_path / "t.parquet")
    columns, _ = read_columns(tmp_path / "t.parquet", cells=True)
    for table in (frame, pa.Table.from_pandas(frame), read_arrow(tmp_path / "t.parquet"), columns):
        told = Schema.model_validate(stated | ONE).encode(table)
        np.testing.assert_array_equal(told, [[0, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 1]])


def test_a_stated_value_is_no_gap_whatever_it_looks_like():
    schema = Schema.model_validate({**ONE, "x": {"kind": "category", "values": ["NA", "none", "?"]}})
    np.testing.assert_array_equal(schema.encode({"x": ["NA", "?", "none"]}), np.eye(3)[[0, 2, 1]])


def test_what_lies_outside_a_range_is_clipped_and_counted_and_no_error():
    readings = SCHEMA.read(
        {"age": np.array([17.0, 18, 101, 1e300])}, "t", [one for one in SCHEMA.features if one.name == "age"]
    )
    np.testing.assert_array_equal(readings["age"].numbers[:, 0], [-1, -1, 1, 1])
    assert readings["age"].outside.tolist() == [True, False, True, True]
    assert not readings["age"].wrong.any()


@pytest.mark.parametrize("cells", [["inf", "-Infinity", "1e400", "61"], [math.inf, -math.inf, math.inf, 61]])
def test_an_infinite_value_is_none_and_no_end_of_a_range(cells):
    """Neither in a feature, nor in a label, nor in a weight, nor of a transform; and no gap."""
    number = {"kind": "number", "range": [0, 100]}
    stated = {
        "y": {"role": "label", "range": [0, 100]}, "w": {"role": "weight", "range": [0, 100]}, "a": number,
        "b": {"kind": "number", "range": [1, 100], "transform": "log", "missing": True},
    }  # fmt: skip
    schema = Schema.model_validate(stated)
    for read in schema.read(dict.fromkeys("ywab", np.array(cells)), "t", schema.learned).values():
        assert read.wrong.tolist() == [True, True, True, False]
        assert not read.outside.any()
        assert not read.gap.any()
    with pytest.raises(DataError, match="'a' has 3 values other than numbers, such as"):
        schema.encode(dict.fromkeys("ab", cells))


def test_a_public_value_of_nought_is_not_the_absence_of_one():
    """False and 0 are equal in Python: were they mixed up, the digest and what is written would lie."""
    stated = {"kind": "number", "range": [-10, 10], "missing": 0, "indicator": False}
    schema = Schema.model_validate({**ONE, "x": stated})
    assert str(schema.tables()["x"]["missing"]) == "0.0"
    np.testing.assert_array_equal(schema.encode({"x": ["", 10]}), [[0], [1]])
    assert Schema.model_validate(schema.tables()) == schema


# Labels ---------------------------------------------------------------------------------------------------


def test_classes_are_numbered_in_the_order_that_is_stated():
    labels = SCHEMA.encode_labels(["yes", "no", "yes "])
    assert (labels.tolist(), labels.dtype) == ([1, 0, 1], np.int32)


def test_several_values_may_mean_one_class():
    stated = {"role": "label", "classes": {"well": 0, "ill": [1, 2, "3", 4.0]}}
    schema = Schema.model_validate({"y": stated, "x": {"kind": "yes-no"}})
    assert schema.encode_labels([0, "4", 2.0, "1"]).tolist() == [0, 1, 1, 1]
    assert (schema.label.classes, schema.n_classes) == (("well", "ill"), 2)
    assert Schema.model_validate(schema.tables()) == schema


def test_a_number_to_predict_keeps_its_unit_and_is_clipped_to_its_range():
    schema = Schema.model_validate({"y": {"role": "label", "range": [0, 100]}, "x": {"kind": "yes-no"}})
    labels = schema.encode_labels(["12.5", 101, -3])
    assert (labels.tolist(), labels.dtype, schema.n_classes) == ([12.5, 100.0, 0.0], np.float32, None)
    free = Schema.model_validate({"y": {"role": "label", "kind": "number"}, "x": {"kind": "yes-no"}})
    assert free.encode_labels([1e9, -2]).tolist() == [1e9, -2]


# Refusals -------------------------------------------------------------------------------------------------

GOOD = {
    "age": [30, 40], "chol": [200, 300], "area": [1, 2], "dose": [50, 60], "sex": ["male", "female"],
    "code": [3, 7], "smoker": ["yes", "no"], "grade": ["low", "high"], "visit": ["2020-01-01"] * 2,
    "seen": ["24.12.2010"] * 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"age": [30, ""]}, "column 'age' has 1 missing value; state missing = true"),
        ({"age": ["old", "x"]}, "column 'age' has 2 values other than numbers, such as 'old'; mend them"),
        ({"dose": [1, math.inf]}, "column 'dose' has 1 value other than numbers, such as 'inf'"),
        ({"dose": ["1_0", 1]}, "column 'dose' has 1 value other than numbers, such as '1_0'"),
        ({"dose": pd.to_timedelta([1, 2], "ns")}, "'dose' has 2 values other than numbers, such as '1 nanos"),
        ({"dose": pd.to_timedelta([1, 2], "s")}, "column 'dose' has 2 values other than numbers, such as '"),
        ({"sex": ["femal", "male"]}, r"one of 'female', 'male', such as 'femal' \(did you mean 'female'\?\)"),
        ({"smoker": ["maybe", 2]}, "'smoker' has 2 values other than yes and no, such as 'maybe'"),
        ({"grade": ["hi", "low"]}, "column 'grade' has 1 value .*put them into values, in their order"),
        ({"visit": ["2020-02-30", 5]}, "'visit' has 2 values other than dates such as 2024-12-31, such as"),
        ({"seen": ["2020-01-01", "1.1.2020"]}, r"'seen' has 1 value other than dates of the form %d.%m.%Y"),
        ({"age": [[1, 2], [3, 4]]}, r"column 'age' must hold one value per record, got shape \(2, 2\)"),
        ({"age": [1, 2, 3]}, r"columns must have one length, got \[2, 3\]"),
    ],
)
def test_values_that_cannot_be_used_are_refused_by_column_with_their_number(changes, message):
    with pytest.raises(DataError, match=message):
        SCHEMA.encode(GOOD | changes)


@pytest.mark.parametrize(
    ("cells", "remedy"),
    [
        (["0,125", "?"], "write a point for a decimal comma, or part the columns of a csv by ;"),
        (["1,204", "120,000"], "mend them, or list under gaps what stands for a missing value"),
        (["1,2,3", "a,b"], "mend them, or list under gaps what stands for a missing value"),
    ],
)
def test_commas_that_are_decimal_are_to_be_points(cells, remedy):
    schema = Schema.model_validate({**ONE, "x": {"kind": "number", "range": [0, 200]}})
    with pytest.raises(DataError) as said:
        schema.encode({"x": np.array([*cells, "9"], object)})
    assert str(said.value).endswith(f"such as {cells[0]!r}; {remedy}")


def test_everything_that_is_wrong_with_a_table_is_said_at_once():
    rest = {name: values for name, values in GOOD.items() if name != "age"}
    wrong = {**rest, "agee": [1, 2], "sex": ["x", "male"], "grade": ["low", None], "hospital": ["a", ""],
             "diagnosis": ["no", "perhaps"], "smoker": ["y", "??"]}  # fmt: skip
    with pytest.raises(DataError) as caught:
        from_columns(wrong, SCHEMA, "ward")
    for said in (
        "ward: column 'agee' is not stated (did you mean 'age'?)",
        "it has no column 'age' (did you mean 'agee'?)",
        "column 'sex' has 1 value",
        "column 'smoker' has 1 value",
        "column 'diagnosis' has 1 value",
        "column 'hospital' has 1 missing value",
    ):
        assert said in str(caught.value)
    assert "'grade'" not in str(caught.value)


@pytest.mark.parametrize("whole", [False, True])
def test_a_table_without_its_column_of_persons_is_refused_unless_it_tests(whole):
    """Nobody could count their records: the bound that is stated would be claimed and not looked at."""
    schema = read_schema({**ONE, "x": {"kind": "yes-no"}, "who": {"role": "person", "at_most": 2}})
    table = {"x": ["y", "n"], "y": [0, 1]}
    with pytest.raises(DataError, match="ward: it has no column 'who'"):
        stated_examples(table, schema, "ward", whole=whole)
    assert len(stated_examples(table, schema, "ward", whole=True, testing=True)[0]) == 2


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"kind": "numbr"}, r"x: kind must be one of number, .*got 'numbr' \(did you mean 'number'\?\)"),
        ({}, "x: kind must be one of number, category, yes-no, ordered, date, left-out"),
        ("number", "x: must be a table such as"),
        (
            {"role": "wieght"},
            "x: role must be one of feature, label, client, split, person, weight, got 'wieght'",
        ),
        ({"kind": "number"}, r"x: a number needs range = \[least, most\] or a step, and not both"),
        ({"kind": "number", "range": [0, 1], "step": 1}, "x: a number needs range"),
        ({"kind": "number", "range": [1, 1]}, r"x: range must be \[least, most\], got \[1.0, 1.0\]"),
        ({"kind": "number", "range": [0, math.inf]}, "x: range must be"),
        ({"kind": "number", "range": [0, math.nan]}, "x: range must be a finite number"),
        ({"kind": "number", "range": [0, 9], "transform": "log"}, "x: range must begin above 0 for log"),
        ({"kind": "number", "range": [-1, 9], "transform": "sqrt"}, "x: range must begin at 0 or above"),
        ({"kind": "number", "step": 1, "transform": "log"}, "x: transform goes with a range"),
        ({"kind": "number", "range": [0, 9], "center": 2}, "x: center goes with a step"),
        ({"kind": "number", "range": [0, 9], "gaps": ["?"]}, "x: gaps goes with missing"),
        ({"kind": "number", "range": [0, 9], "indicator": False}, "x: indicator goes with missing"),
        ({"kind": "number", "range": [0, 9], "missing": 10}, "x: missing must be true or a value of"),
        ({"kind": "number", "range": [0, 9], "missing": "ten"}, "x: missing must be .* got 'ten'"),
        ({"kind": "number", "rang": [0, 9]}, r"x: rang is no key here \(did you mean 'range'\?\); allowed"),
        ({"kind": "category"}, "x: values is missing"),
        ({"kind": "category", "values": []}, "x: values must be at least 1"),
        ({"kind": "category", "values": ["a", "a "]}, "x: values must be different, got 'a' twice"),
        ({"kind": "category", "values": [1, 1.0]}, "x: values must be different, got '1' twice"),
        (
            {"kind": "category", "values": [[1], 2]},
            r"x: values must be text, numbers, true or false, got \[1\]",
        ),
        ({"kind": "category", "values": [True, "TRUE"]}, "x: values must be different, got 'True' twice"),
        ({"kind": "number", "range": [0]}, r"x: range must be two ends, \[least, most\], got \[0\]$"),
        ({"kind": "number", "range": [0, 1, 2]}, r"x: range must be two ends, .*, got \[0, 1, 2\]$"),
        ({"kind": "number", "range": {"buy": 5}}, "x: range buy must be two ends, .*, got 5$"),
        ({"kind": "date", "range": ["2020-01-02"]}, "x: range must be two ends"),
        ({"kind": "date"}, "x: range is missing"),
        ({"kind": "category", "values": ["a", "?"], "gaps": ["?"], "missing": True}, "both values and gaps"),
        ({"kind": "ordered", "values": ["a"]}, "x: values must be at least 2"),
        ({"kind": "ordered", "values": ["a", "b"], "other": True}, "x: other is no key here"),
        ({"kind": "date", "range": ["2020-01-01", "soon"]}, "x: days must be written like 2024-12-31"),
        ({"kind": "date", "range": ["2020-01-02", "2020-01-01"]}, "x: range must be"),
        ({"kind": "yes-no", "missing": "perhaps"}, "x: missing must be true or a value of the column"),
        ({"role": "label", "classes": [0, 1]}, 'one column must have role = "label", got 2'),
        ({"kind": "left-out"}, "at least one column must be a feature"),
    ],
)
def test_columns_that_cannot_be_are_refused_by_name(column, message):
    with pytest.raises(ConfigError, match=message):
        read_schema({**ONE, "x": column})


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ({}, r"y: a label needs classes = \[...\], all that there are; or range"),
        ({"classes": ["one"]}, "y: classes must be at least 2"),
        ({"classes": [1, "1"]}, "y: classes must be different, got '1' twice"),
        ({"classes": ["a", "b"], "range": [0, 1], "kind": "class"}, "y: a label needs classes"),
        ({"classes": ["a", "b"], "kind": "number"}, "y: a label has classes, or is a number"),
        ({"classes": {"a": [1], "b": [1, 2]}}, "y: values of classes must be different, got '1' twice"),
        ({"classes": {"a": [1], "b": []}}, "y: each of the 2 classes needs values of its own"),
        ({"range": [2, 1]}, "y: range must be"),
        ({"clases": [1, 2]}, r"y: clases is no key here \(did you mean 'classes'\?\)"),
    ],
)
def test_labels_that_cannot_be_are_refused_by_name(label, message):
    with pytest.raises(ConfigError, match=message):
        read_schema({"y": {"role": "label", **label}, "x": {"kind": "yes-no"}})


def test_everything_that_is_wrong_with_columns_is_said_at_once():
    with pytest.raises(ConfigError) as caught:
        read_schema({"a": {"kind": "numbr"}, "b": {"kind": "number"}, "c": {"kind": "date", "range": [1, 2]}})
    for said in ("[columns] a: kind", "b: a number needs", "c: days must", 'role = "label", got 0'):
        assert said in str(caught.value)


def test_two_columns_whose_numbers_would_share_a_name_are_refused():
    with pytest.raises(ConfigError, match="two features would be called 'x is missing'; rename a column"):
        read_schema({**ONE, "x": {"kind": "yes-no", "missing": True}, "x is missing": {"kind": "yes-no"}})


# Where schemas lie ----------------------------------------------------------------------------------------


def test_a_schema_survives_files_even_such_as_sort_their_keys():
    plain = json.loads(json.dumps(SCHEMA.model_dump(mode="json"), sort_keys=True))
    again = Schema.model_validate(plain)
    assert (again, again.digest, again.feature_names) == (SCHEMA, SCHEMA.digest, SCHEMA.feature_names)
    assert Schema.model_validate(SCHEMA.tables()) == SCHEMA


def test_the_digest_tells_what_decides_numbers_and_nothing_else():
    def digest(**changes):
        return Schema.model_validate(STATED | changes).digest

    same = digest(notes={"role": "split"}, more={"kind": "left-out"}, hospital={"kind": "left-out"},
                  age={"kind": "number", "range": [18.0, 100.0], "gaps": []})  # fmt: skip
    assert same == SCHEMA.digest
    others = [
        digest(age={"kind": "number", "range": [18, 101]}),
        digest(diagnosis={"role": "label", "classes": ["yes", "no"]}),
        digest(chol={**STATED["chol"], "missing": 241}),
        digest(notes={"kind": "yes-no"}),
        Schema.model_validate(dict(reversed(STATED.items()))).digest,
    ]
    assert len({SCHEMA.digest, *others}) == 6


def test_columns_may_lie_in_a_file_of_their_own(tmp_path):
    (tmp_path / "columns.toml").write_text(
        '[columns]\ny = { role = "label", classes = ["no", "yes"] }\nx = { kind = "yes-no" }\n'
    )
    assert read_schema("columns.toml", tmp_path).feature_names == ("x",)
    (tmp_path / "other.toml").write_text('x = { kind = "yes-no" }\n')
    for name, message in (("gone.toml", "does not exist"), ("other.toml", "must hold one table")):
        with pytest.raises(ConfigError, match=message):
            read_schema(name, tmp_path)


def test_cells_of_a_csv_are_read_each_by_itself(tmp_path):
    """One cell of text makes pandas read all others of its column as text, one gap makes fractions."""
    schema = Schema.model_validate(
        {"y": {"role": "label", "classes": ["no", "yes"]}, "client": {"role": "client"},
         "x": {"kind": "category", "values": ["01", "1"], "missing": True}}
    )  # fmt: skip
    path = tmp_path / "t.csv"
    path.write_text("x,client,y\n01, a,no\n,a ,yes\n" + "1,b, no\n1,007,yes\n" * 10)
    records = load_records(str(path), columns=schema)
    assert set(np.asarray(records.client_ids)) == {"a", "b", "007"}
    whole = np.concatenate([records.x, records.test_x])
    assert whole.sum(axis=0).tolist() == [1, 20, 1]
    assert (records.schema, records.classes_found) == (schema, ())


def test_a_stated_split_and_clients_make_the_federation(tmp_path):
    path = tmp_path / "t.parquet"
    frame = pd.DataFrame(
        {"x": np.tile([True, False], 10), "where": np.repeat(["oslo", "rome"], 10), "y": np.arange(20.0),
         "part": ["train"] * 16 + ["test"] * 4}
    )  # fmt: skip
    frame.to_parquet(path)
    schema = Schema.model_validate(
        {"where": {"role": "client"}, "part": {"role": "split"}, "x": {"kind": "yes-no"},
         "y": {"role": "label", "range": [0, 10]}}
    )  # fmt: skip
    fed = load_federation(str(path), columns=schema, seed=0)
    assert (fed.clients, fed.sizes.tolist(), fed.classes, fed.schema) == (
        ("oslo", "rome"),
        [10, 6],
        None,
        schema,
    )
    assert (fed.test_y.tolist(), fed.test_x[:, 0].tolist()) == ([10] * 4, [1, -1, 1, -1])


def test_columns_and_the_older_words_do_not_mix(tmp_path):
    with pytest.raises(InvalidInput, match="columns say all that is to be said of a table"):
        load_records(str(tmp_path / "t.csv"), columns=SCHEMA, label_column="y")
    with pytest.raises(InvalidInput, match="got digits"):
        load_records("digits", columns=SCHEMA)


# Without stated columns -----------------------------------------------------------------------------------

PLAIN = {
    "age": np.array([0.1, -0.0, 3e38, 2**53 + 1, 5]), "dose": np.arange(5) + 2**24 + 1,
    "on": np.array([True, False] * 2 + [True]), "site": np.repeat("oslo", 5),
    "label": np.array(["ill", "well", "ill", "well", "ill"]),
}  # fmt: skip


def test_a_table_without_stated_columns_has_a_schema_of_the_same_numbers_to_the_bit():
    columns = Columns(client="site", features=("dose", "age", "on"))
    records = from_columns(PLAIN, columns, "t")
    schema = records.schema
    assert schema is not None
    assert (schema.feature_names, schema.client, schema.label.classes) == (
        ("dose", "age", "on"), "site", ("ill", "well"),
    )  # fmt: skip
    encoded, whole = schema.encode(PLAIN), np.concatenate([records.x, records.test_x])
    labels, known = schema.encode_labels(PLAIN["label"]), np.concatenate([records.y, records.test_y])
    rows = [sorted((*x.view(np.int32).tolist(), int(y)) for x, y in zip(*one, strict=True))
            for one in ((encoded, labels), (whole, known))]  # fmt: skip
    assert rows[0] == rows[1]


def test_blocks_images_and_data_without_columns_have_no_schema():
    wide = {"x": np.zeros((10, 3)), "label": np.tile([0, 1], 5)}
    assert from_columns(wide, Columns(), "t").schema is None
    assert load_records("digits").schema is None
    numbers = {"x": np.arange(10.0), "label": np.arange(10.0)}
    records = from_columns(numbers, Columns(regression=True), "t")
    assert records.schema is not None
    assert records.schema.n_classes is None
    spaced = {"x": np.arange(10.0), "label": np.array(["a", "a "] * 5)}
    assert from_columns(spaced, Columns(), "t").schema is None


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "digest"), [("vehicle", "d67e4acfd453f201"), ("school", "9129da089e4b1aa4")]
)
def test_data_that_were_encoded_by_hand_are_the_same_by_their_schemas(name, digest, data_dir):
    """Digests of what the encoders gave before they were schemas."""
    records = load_records(name, data_dir=data_dir)
    arrays = (records.x, records.y, records.test_x, records.test_y)
    assert records.schema is not None
    assert hashlib.sha256(b"".join(one.tobytes() for one in arrays)).hexdigest().startswith(digest)
