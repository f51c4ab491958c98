"""One pass over a table finds everything that is wrong; sentences hold counts, and cells stand apart."""

from __future__ import annotations

from time import process_time

import numpy as np
import pytest

from noiseworthy.data.intake.checks import check_columns, check_norm
from noiseworthy.data.schema import read_schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.data.schema.values import NAMELESS
from noiseworthy.data.thousands import Thousands
from noiseworthy.errors import DataError

N = 40
STATED = {
    "site": {"role": "client"},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [0, 100]},
    "sex": {"kind": "category", "values": ["f", "m"]},
    "smoker": {"kind": "yes-no", "missing": True},
}


def table(**changed) -> dict[str, np.ndarray]:
    whole = {
        "site": [["a", "b"][i % 2] for i in range(N)],
        "ill": [["no", "yes"][i // 2 % 2] for i in range(N)],
        "age": [5 + 2 * i for i in range(N)],
        "sex": ["ffm"[i % 3] for i in range(N)],
        "smoker": [["yes", "no", None, "no"][i // 3 % 4] for i in range(N)],
    }
    return {name: np.array(values, object) for name, values in (whole | changed).items()}


def found(schema=STATED, **changed):
    return check_columns(table(**changed), read_schema(schema))[0]


def said(findings, level):
    return [(one.where, one.says) for one in findings if one.level == level]


def changed(column: str, **cells) -> dict:
    """The column with other cells at `at3` and the like."""
    values = table()[column].tolist()
    for place, cell in cells.items():
        values[int(place[2:])] = cell
    return {column: values}


def test_a_sound_table_has_notes_alone():
    findings, examples = check_columns(table(), read_schema(STATED))
    assert {one.level for one in findings} == {"note"}
    assert examples.x.shape == (N, 5)
    wanted = stated_examples(table(), read_schema(STATED), "wards")
    np.testing.assert_array_equal(examples.x, wanted[0])
    np.testing.assert_array_equal(examples.y, wanted[1])


def test_everything_that_is_refused_is_found_at_once():
    """What `stated_examples` refuses is refused here as well, by name, with counts and the first cells."""
    wrong = {
        **changed("age", at3=None, at7="old", at9="old"), **changed("sex", at0="F", at1="?", at2="F"),
        **changed("site", at5=""), **changed("ill", at4="maybe"), "weight": [1] * N,
    }  # fmt: skip
    schema = STATED | {"chol": {"kind": "number", "range": [1, 2]}}
    findings = found(schema, **wrong)
    assert said(findings, "refused") == [
        ("weight", 'is not stated; say what it is, or { kind = "left-out" }'),
        ("chol", "is stated, and the table does not have it"),
        ("age", "1 missing value; state missing = true, or the public value that stands for them"),
        ("age", "2 values other than numbers; mend them, or list under gaps what stands for a missing value"),
        ("sex", "3 values other than one of 'f', 'm'; add them to values, or set other = true"),
        (
            "ill",
            "1 value other than one of the classes 'no', 'yes'; state all classes, or drop those records",
        ),
        ("site", f"1 missing value; {NAMELESS}"),
    ]
    cells = {one.says.split(";")[0]: one.examples for one in findings if one.level == "refused"}
    assert cells["1 missing value"] == ("in record 6",)
    assert cells["2 values other than numbers"] == ("'old' in 2 records, first in record 8",)
    assert cells["3 values other than one of 'f', 'm'"] == (
        "'F' in 2 records, first in record 1",
        "'?' in record 2",
    )
    with pytest.raises(DataError):
        stated_examples(table(**wrong), read_schema(schema), "wards")


def test_sentences_hold_no_cell():
    findings = found(**changed("sex", at0="Jane Doe"), **changed("age", at1="12345"))
    assert "Jane Doe" in str([one.examples for one in findings])
    assert not any(cell in str([one.says for one in findings]) for cell in ("Jane Doe", "12345"))


def test_a_typo_in_a_header_is_guessed():
    renamed = {"agee" if name == "age" else name: values for name, values in table().items()}
    findings, examples = check_columns(renamed, read_schema(STATED))
    assert examples is None
    assert said(findings, "refused") == [
        ("agee", "is not stated (did you mean 'age'?); say what it is, or { kind = \"left-out\" }"),
        ("age", "is stated, and the table does not have it (did you mean 'agee'?)"),
    ]


def test_points_between_thousands_are_found_with_the_cells_beside():
    cells = [Thousands(one) for one in ("9.392", "1.230")] + ["40"] * (N - 2)
    (one,) = [one for one in found(age=cells) if one.level == "refused"]
    assert one.says == "2 numbers whose points may part thousands; write 1234 or, of a fraction, 1,234"
    assert (one.where, one.count) == ("age", 2)
    assert one.examples == ("'9.392' in record 1", "'1.230' in record 2")


def test_what_lies_outside_is_counted():
    (one,) = [one for one in found(**changed("age", at0=120, at1=-3)) if one.level == "warning"]
    assert (one.where, one.count) == ("age", 2)
    assert one.says == "2 of 40 records (5 %) lie outside the stated range and count as its end"
    assert one.examples == ("'120' in record 1", "'-3' in record 2")
    codes = {f"at{i}": 999 for i in range(6)}
    (one,) = [one for one in found(**changed("age", **codes)) if one.level == "warning"]
    assert one.says.endswith("most are one value, to be listed under gaps where it stands for a missing one")


@pytest.mark.parametrize(
    ("changes", "where", "says"),
    [
        ({"smoker": ["no"] * N}, "smoker", "is the same in all records and tells nothing"),
        ({"smoker": [None] * N}, "smoker", "is missing in 40 of 40 records (100 %)"),
        ({"age": [50 + i % 2 / 10 for i in range(N)]}, "age", "98 of 100 values lie in 0.1 %"),
        ({"sex": ["mf"[i // 2 % 2] for i in range(N)]}, "sex", "the label follows from it in every record"),
        ({"ill": ["no"] * N}, "ill", "all records are of one class"),
    ],
)
def test_what_tells_little_is_warned_of(changes, where, says):
    warned = said(found(**changes), "warning")
    assert any(column == where and says in sentence for column, sentence in warned), warned


def test_classes_that_do_not_occur():
    schema = STATED | {"ill": {"role": "label", "classes": ["no", "yes", "perhaps"]}}
    assert ("ill", "there is no record of 'perhaps'; another owner may have some") in said(
        found(schema), "warning"
    )
    assert ("ill", "records of each class: no 20, yes 20, perhaps 0") in said(found(schema), "note")


@pytest.mark.parametrize("names", [("North", "north"), ("1", "01"), ("ward 7", "Ward07")])
def test_clients_whose_names_look_alike_are_warned_of(names):
    sites = {"site": [*names, "12", "120"] * (N // 4)}
    warned = [one for one in found(**sites) if one.level == "warning"]
    assert [(one.where, one.count) for one in warned] == [("site", N // 2)]
    assert warned[0].says.startswith("names of 2 clients differ by case, spaces or leading zeros alone")
    assert f"{names[0]!r} in 10 records, first in record 1" in warned[0].examples


def test_labels_none_of_which_is_a_class_are_not_said_to_be_of_one():
    strange = found(ill=["No", "Yes"] * (N // 2))
    assert [(one.where, one.count) for one in strange if one.level == "refused"] == [("ill", N)]
    assert not [one for one in strange if "of one class" in one.says]
    assert [one for one in found(ill=["no"] * N) if "of one class" in one.says]


def test_a_table_without_any_stated_column_is_told_where_names_must_be():
    titled = {"Report": np.array(["age", "5"], object), "Unnamed: 1": np.array(["sex", "f"], object)}
    refusals = said(check_columns(titled, read_schema(STATED))[0], "refused")
    where, says = refusals[0]
    assert (where, says.split(";")[0]) == ("", "none of the stated columns is there")
    assert says.endswith("names must be in the first row, of a workbook's first sheet")
    assert not [one for one in said(found(chol=[1] * N), "refused") if one[0] == ""]


def test_doubled_columns_are_found_whatever_they_are_called():
    """In another unit, as codes, the other way round: what tells the same in every record."""
    schema = STATED | {
        "months": {"kind": "number", "range": [0, 1200]},
        "code": {"kind": "category", "values": [7, 9]},
    }
    doubled = {"months": [1200 - 12 * age for age in table()["age"]]}
    doubled["code"] = [9 if sex == "f" else 7 for sex in table()["sex"]]
    warned = dict(said(found(schema, **doubled), "warning"))
    assert [*warned] == ["months", "code"]
    assert "tells in every record the same as 'sex'" in warned["code"]
    shuffled = {"months": [13 * (age * 7 % 90) for age in table()["age"]]}
    assert [where for where, _ in said(found(schema, **(doubled | shuffled)), "warning")] == ["code"]
    repeated = {"age": [i % 9 for i in range(N)], "months": [12 * (i % 9) for i in range(N)]}
    assert [where for where, _ in said(found(schema | {}, **(doubled | repeated)), "warning")] == [
        "months", "code",
    ]  # fmt: skip


def test_columns_that_repeat_a_value_in_the_same_records_need_not_tell_the_same():
    """Amounts in cents differ but for two records; two columns are 0 wherever nothing was ever paid."""
    number = {"kind": "number", "range": [0, 10_000]}
    schema = STATED | dict.fromkeys(("paid", "owed", "since", "amount"), number)
    paid = {"paid": [100 * i + 1 for i in range(N - 1)] + [1]}
    owed = {"owed": [7919 * (i + 1) % 10_000 for i in range(N - 1)] + [7919]}
    since = {"since": [i + 1 if i % 3 == 0 else 0 for i in range(N)]}
    amount = {"amount": [7919 * i % 10_000 if i % 3 == 0 else 0 for i in range(3, N + 3)]}
    assert not [one for one in found(schema, **paid, **owed, **since, **amount) if "the same as" in one.says]
    twice = {"owed": [10_000 - 100 * i for i in range(N - 1)] + [10_000]}
    assert [one.where for one in found(schema, **paid, **twice, **since, **amount)
            if "the same as" in one.says] == ["owed"]  # fmt: skip


def test_values_that_do_not_occur_are_a_note():
    schema = STATED | {"sex": {"kind": "category", "values": ["f", "m", "x"]}}
    assert ("sex", "1 of its 3 stated values do not occur: 'x'") in said(found(schema), "note")


def test_an_owners_table_needs_no_column_of_owners():
    alone = {name: values for name, values in table().items() if name != "site"}
    assert said(check_columns(alone, read_schema(STATED), whole=True)[0], "refused") == []
    assert [one.where for one in check_columns(alone, read_schema(STATED))[0] if one.level == "refused"] == [
        "site"
    ]


def test_a_column_that_is_left_out_need_not_be_there():
    schema = read_schema(STATED | {"notes": {"kind": "left-out"}})
    assert said(check_columns(table(), schema)[0], "refused") == []
    assert len(stated_examples(table(), schema, "wards")[1]) == N


def test_no_record_is_refused():
    nothing = {name: values[:0] for name, values in table().items()}
    assert said(check_columns(nothing, read_schema(STATED))[0], "refused") == [("", "there is no record")]


def test_shares_of_the_norm_by_hand():
    """Two columns of squares 9 and 1 beside the bias: 9 / 10.09 of the norm is one column's."""
    schema = read_schema(
        {
            "y": {"role": "label", "classes": [0, 1]}, "a": {"kind": "number", "step": 1},
            "b": {"kind": "number", "step": 1}, "c": {"kind": "number", "step": 1},
        }
    )  # fmt: skip
    x = np.tile(np.array([[3, 1, 0]], np.float32), (5, 1))
    (one,) = check_norm(x, schema, 0.3, None)
    assert (one.where, one.level) == ("a", "warning")
    assert one.says.startswith("takes 89 % of a record's squared norm")
    assert one.says.endswith("; a wider range, or a transform, makes room for them")
    (one,) = check_norm(x, read_schema(schema.tables() | {"a": {"kind": "yes-no"}}), 0.3, None)
    assert one.says.endswith("; closer ranges of theirs make room for them"), "yes and no have no range"
    (one,) = check_norm(np.eye(3, dtype=np.float32), schema, 2.0, 1.0)
    assert one.says.startswith("the bias takes 80 % of a record's squared norm")
    assert check_norm(np.eye(3, dtype=np.float32), schema, 0.3, 1.0) == []
    zeros = np.vstack([np.zeros((1, 3)), np.eye(3)]).astype(np.float32)
    (one,) = check_norm(zeros, schema, 0.0, 1.0)
    assert one.says == "1 of 4 records (25 %) are all zeros"


BOUGHT = STATED | {"age": {"kind": "number", "range": {"buy": [0, 10_000], "quantiles": [0.1, 0.9]}}}


def test_a_bought_range_is_said_to_be_bought_and_only_what_lies_outside_the_one_around_is_counted():
    findings = found(BOUGHT, **changed("age", at0=-5, at1=20_000))
    (around,) = [one.says for one in findings if one.where == "age" and one.level == "warning"]
    assert around.startswith(
        "2 of 40 records (5 %) lie outside buy = [0, 10000], within which its range is bought"
    )
    (note,) = [one.says for one in findings if one.where == "age" and one.level == "note"]
    assert "read here by [0, 10000]" in note
    assert "quantiles 0.1 and 0.9" in note
    assert not [one for one in found(BOUGHT) if one.where == "age" and one.level == "warning"]
    assert not [one for one in found() if "bought" in one.says]


def test_the_share_of_the_norm_of_a_bought_column_is_not_that_of_the_range_around():
    """All ages lie at one end of the range around, where squares are 1; within its own they are not."""
    half = {"kind": "number", "range": [0, 8]}
    others = {"sex": {"kind": "left-out"}, "smoker": {"kind": "left-out"}, "stay": half, "visits": half}
    cells = table(stay=[2, 6] * 20, visits=[6, 2] * 20)
    stated, bought = (
        read_schema(STATED | others | {"age": {"kind": "number", "range": [0, 10_000]}}),
        read_schema(BOUGHT | others),
    )
    x, *_ = stated_examples(cells, bought, "wards")
    assert [one.where for one in check_norm(x, stated, bias=0.0, radius=None)] == ["age"]
    assert check_norm(x, bought, bias=0.0, radius=None) == []


@pytest.mark.full
def test_ten_thousand_columns_are_read_and_checked_without_comparing_all_with_all():
    """By the clock of the process; what compares every column with every other takes a minute or more."""
    many = {f"gene {i}": {"kind": "number", "range": [0, 1]} for i in range(10_000)}
    cells = {"ill": np.array(["no", "yes"] * 10, object)} | {one: np.arange(20) / 20 for one in many}
    start = process_time()
    schema = read_schema({"ill": STATED["ill"]} | many)
    x, *_ = stated_examples(cells, schema, "genes")
    check_norm(x, schema, bias=0.0, radius=1.0)
    assert process_time() - start < 5
