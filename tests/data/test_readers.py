"""A table comes in alike from every format: file, database, frame; what cannot be read is refused by name."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import date
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from noiseworthy.cli import main
from noiseworthy.data import load_federation, load_records
from noiseworthy.data.datasets import FRAME
from noiseworthy.data.dialects import dialect, too_long
from noiseworthy.data.frames import of_frame
from noiseworthy.data.readers import FORMATS, TEXT, is_table, opened, read_columns
from noiseworthy.data.schema import read_schema
from noiseworthy.data.schema.values import keys
from noiseworthy.data.sql import PASSWORD_VARIABLE, Query
from noiseworthy.data.table import FederationTable
from noiseworthy.errors import ConfigError, DataError, InvalidInput
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.opening import open_federation

ROWS = 40
STATED = {
    "ward": {"role": "client"},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [0, 100], "missing": True},
    "sex": {"kind": "category", "values": ["f", "m"], "missing": True},
    "smoker": {"kind": "yes-no"},
    "seen": {"kind": "date", "range": ["2020-01-01", "2021-01-01"]},
    "stage": {"kind": "ordered", "values": [1, 2, 3]},
}
SCHEMA = read_schema(STATED)
QUERY = "select ward, ill, age, sex, smoker, seen, stage from patients order by nr"


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ward": [["north", "south"][i % 2] for i in range(ROWS)],
            "ill": [["no", "yes"][i // 2 % 2] for i in range(ROWS)],
            "age": [None if i % 7 == 3 else float(i) for i in range(ROWS)],
            "sex": [None if i % 5 == 1 else "fm"[i % 3 % 2] for i in range(ROWS)],
            "smoker": [i % 3 == 0 for i in range(ROWS)],
            "seen": [date(2020, 1 + i % 12, 5) for i in range(ROWS)],
            "stage": [1 + i % 3 for i in range(ROWS)],
        }
    )


def written(folder: Path, suffix: str) -> str:
    """The source of the same table in a format."""
    path, table = folder / f"wards{suffix}", frame()
    if suffix in TEXT:
        table.to_csv(path, index=False, sep="\t" if suffix.startswith(".tsv") else ",")
    elif suffix == ".parquet":
        table.to_parquet(path)
    elif suffix == ".feather":
        table.to_feather(path)
    elif suffix == ".arrow":
        import pyarrow as pa

        arrow = pa.Table.from_pandas(table, preserve_index=False)
        with path.open("wb") as file, pa.ipc.new_stream(file, arrow.schema) as stream:
            stream.write_table(arrow)
    elif suffix == ".xlsx":
        pytest.importorskip("openpyxl")
        table.to_excel(path, index=False)
    elif suffix == ".npz":
        seen = np.array([str(day) for day in table["seen"]])
        text = {name: table[name].fillna("").to_numpy(str) for name in ("ward", "ill", "sex")}
        numbers = {name: table[name].to_numpy() for name in ("age", "smoker", "stage")}
        np.savez(path, seen=seen, **text, **numbers)
    else:
        pytest.importorskip("sqlalchemy")
        with closing(sqlite3.connect(folder / "wards.db")) as database:
            table.to_sql("patients", database, index_label="nr")
        return f"sql:sqlite:///{folder / 'wards.db'}"
    return str(path)


def same(one, other) -> None:
    np.testing.assert_array_equal(one.x, other.x)
    np.testing.assert_array_equal(one.y, other.y)
    np.testing.assert_array_equal(one.test_x, other.test_x)
    assert one.client_ids.tolist() == other.client_ids.tolist()


@pytest.mark.parametrize("suffix", [*FORMATS, ".db"])
def test_every_format_gives_the_same_records(suffix, tmp_path):
    """Cell by cell: dates, gaps, truth values and whole numbers mean the same whatever holds them."""
    source = written(tmp_path, suffix)
    query = QUERY if suffix == ".db" else None
    found = load_records(source, columns=SCHEMA, query=query)
    same(found, load_records(frame(), columns=SCHEMA))
    assert found.name == "wards"
    assert found.x.shape == (32, SCHEMA.width)
    again = load_records(source, columns=SCHEMA, query=query)
    assert found.x.tobytes() == again.x.tobytes()


@pytest.mark.parametrize("suffix", FORMATS)
def test_endings_in_capitals_are_read_as_others_are(suffix, tmp_path):
    small = Path(written(tmp_path, suffix))
    capital = small.rename(small.with_name(f"wards{suffix.upper()}"))
    found = load_records(str(capital), columns=SCHEMA)
    same(found, load_records(frame(), columns=SCHEMA))
    assert found.name == "wards"


@pytest.mark.parametrize("suffix", [".csv", ".feather", ".arrow", ".xlsx", ".db"])
def test_numbers_as_they_are_come_from_every_format(suffix, tmp_path):
    """The older keys, without a schema: columns of numbers, owners and classes."""
    settings = {"label_column": "ill", "client_column": "ward", "classes": ["no", "yes"]}
    settings |= {"feature_columns": ["stage"]}
    query = QUERY if suffix == ".db" else None
    found = load_records(written(tmp_path, suffix), query=query, **settings)
    same(found, load_records(frame(), **settings))
    assert set(found.x[:, 0].tolist()) == {1.0, 2.0, 3.0}


def test_frames_of_all_kinds_are_sources():
    polars = pytest.importorskip("polars")
    import pyarrow as pa

    wanted = load_records(frame(), columns=SCHEMA)
    assert wanted.name == FRAME
    for table in (polars.from_pandas(frame()), pa.Table.from_pandas(frame())):
        same(load_records(table, columns=SCHEMA), wanted)
    same(load_records(frame().to_dict("list"), columns=SCHEMA), wanted)
    assert load_federation(frame(), columns=STATED, seed=0).clients == ("north", "south")


@pytest.mark.parametrize("kind", ["list", "ndarray", "NoneType"])
def test_what_is_no_frame_is_refused_by_its_type(kind):
    table = {"list": frame().to_dict("records"), "ndarray": frame().to_numpy()}.get(kind)
    with pytest.raises(InvalidInput, match=f"dictionary of columns by name, got {kind}; pandas.DataFrame m"):
        load_federation(table, columns=STATED, seed=0)


def test_a_path_is_a_source_as_its_text_is(tmp_path):
    frame().to_csv(tmp_path / "wards.csv", index=False)
    of_text = load_records(str(tmp_path / "wards.csv"), columns=SCHEMA)
    same(load_records(tmp_path / "wards.csv", columns=SCHEMA), of_text)


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", ".xlsx", ".npz", ".csv.gz"])
def test_a_damaged_file_is_refused_by_name(suffix, tmp_path):
    source = Path(written(tmp_path, suffix))
    whole = source.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"\x00" * 64):
        source.write_bytes(damaged)
        with pytest.raises(DataError, match="wards") as refused:
            load_records(str(source), columns=SCHEMA)
        assert "\n" not in str(refused.value)


def test_a_missing_file_is_refused_by_name(tmp_path):
    for source in ("wards.arrow", "wards.xlsx", "sql:sqlite:///wards.db"):
        with pytest.raises(DataError, match="wards"):
            load_records(source, columns=SCHEMA, data_dir=tmp_path, query=QUERY)
    assert [*tmp_path.iterdir()] == []


def test_what_is_not_installed_is_named_with_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    (tmp_path / "wards.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match=r"openpyxl; pip install 'noiseworthy\[excel\]'"):
        load_records(str(tmp_path / "wards.xlsx"), columns=SCHEMA)
    with pytest.raises(DataError, match=r"sqlalchemy; pip install 'noiseworthy\[sql\]'"):
        load_records("sql:sqlite:///wards.db", columns=SCHEMA, query=QUERY)


def test_a_driver_that_is_not_installed_is_named():
    pytest.importorskip("sqlalchemy")
    with pytest.raises(DataError, match=r"psycopg2.*pip install"):
        Query("postgresql+psycopg2://reader@nowhere/wards", QUERY).read(cells=True)


def test_a_spreadsheet_needs_a_name_for_every_column(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    for rows, said in (
        ([["age", "age"], [1, 2]], "two columns called 'age'"),
        ([["age", None, "sex"], [1, 2, "f"]], "a column without a name"),
        ([["age"], [1, 2]], "beside the columns"),
        ([[]], "empty first sheet"),
    ):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        book.save(tmp_path / "wards.xlsx")
        with pytest.raises(DataError, match=said):
            read_columns(tmp_path / "wards.xlsx", cells=True)[0]


def test_sheets_that_are_not_read_are_named_once(tmp_path, caplog):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["age"])
    book.active.append([61])
    book.create_sheet("Sheet2")
    book.save(tmp_path / "wards.xlsx")
    read_columns(tmp_path / "wards.xlsx", cells=True)
    assert not caplog.messages, "an empty sheet holds nothing to read"
    book.create_sheet("south").append(["age"])
    book.save(tmp_path / "wards.xlsx")
    for _ in range(2):
        read_columns(tmp_path / "wards.xlsx", cells=True)
    (said,) = caplog.messages
    assert said.endswith("wards.xlsx: its first sheet, 'Sheet', is read, and not south")


def test_all_of_a_sheet_is_read_whatever_its_file_says_of_its_size(tmp_path):
    """Programs that write a size before the rows, or add rows after it, say too little of it."""
    pytest.importorskip("openpyxl")
    pd.DataFrame({"a": range(20), "b": range(20)}).to_excel(tmp_path / "whole.xlsx", index=False)
    for size in ("A1", "A1:B9", "A1:A21"):
        with ZipFile(tmp_path / "whole.xlsx") as whole, ZipFile(tmp_path / "wards.xlsx", "w") as book:
            for name in whole.namelist():
                book.writestr(name, whole.read(name).replace(b'ref="A1:B21"', f'ref="{size}"'.encode()))
        read = read_columns(tmp_path / "wards.xlsx", cells=True)[0]
        assert {name: values.tolist() for name, values in read.items()} == {
            "a": [*range(20)],
            "b": [*range(20)],
        }


def test_cells_of_a_spreadsheet_are_read_by_themselves(tmp_path):
    """One cell of text must not change what the numbers beside it are; empty rows are no records."""
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in ([" age ", "sex"], [61, "f"], [None, None], ["old", "m"], [2.5, None]):
        book.active.append(row)
    book.save(tmp_path / "wards.xlsx")
    assert {
        name: values.tolist() for name, values in read_columns(tmp_path / "wards.xlsx", cells=True)[0].items()
    } == {"age": [61, "old", 2.5], "sex": ["f", "m", None]}


TOWNS = [["Süd", "120,5", "ja"], ["Köln, Mitte", "-0,125", "nein"]]


@pytest.mark.parametrize("mark", [";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_a_table_comes_in_as_a_clinic_writes_it(tmp_path, mark, encoding):
    """Semicolons, decimal commas and letters of Windows, as spreadsheets of half the world save them."""
    path = tmp_path / "häuser.csv"
    lines = [mark.join(row) for row in (["Haus", "Größe", "Raucher"], *TOWNS)]
    path.write_text("\n".join(lines), encoding=encoding)
    found = {"Haus": ["Süd", "Köln, Mitte"], "Größe": ["120.5", "-0.125"], "Raucher": ["ja", "nein"]}
    assert {name: values.tolist() for name, values in read_columns(path, cells=True)[0].items()} == found
    typed, _ = read_columns(path, cells=False)
    assert typed["Größe"].tolist() == [120.5, -0.125]


def test_a_comma_is_decimal_only_where_it_parts_no_columns(tmp_path):
    (tmp_path / "a.csv").write_text('house,dose,note\nn,"120,5",x\n')
    (tmp_path / "b.csv").write_text("house;dose;note\nn;1.5;1,2,3\ns;1.234,5;2,5 mg\n")
    assert read_columns(tmp_path / "a.csv", cells=True)[0]["dose"].tolist() == ["120,5"]
    found = read_columns(tmp_path / "b.csv", cells=True)[0]
    assert found["dose"].tolist() == ["1.5", "1.234,5"]
    assert found["note"].tolist() == ["1,2,3", "2,5 mg"]


GERMAN = "haus;kosten;temp;krank\nn;971;36,5;ja\ns;9.392;37,1;nein\nn;1.234.567;38;ja\ns;1.234,5;36;nein\n"
WORDS = {"haus": {"role": "client"}, "krank": {"role": "label", "classes": ["ja", "nein"]}}


def money(path: Path, mark: str = ";", **stated) -> dict:
    """A study's columns of the table above, in a file whose columns a mark parts."""
    path.write_text(GERMAN.replace(";", mark))
    number = {"kind": "number", "range": [0, 1000]}
    return {**WORDS, "kosten": number, "temp": {"kind": "number", "range": [30, 45]}, **stated}


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_points_between_thousands_are_refused_by_column_row_and_remedy(tmp_path, mark):
    """Not read a thousand times too small: of numbers alone, whether columns are stated or not."""
    path = tmp_path / "kosten.csv"
    said = r"'kosten' has 3 numbers whose points may part thousands, such as '9\.392' in record 2; write"
    with pytest.raises(DataError, match=said):
        load_records(str(path), columns=money(path, mark))
    plain = {"label_column": "krank", "client_column": "haus", "feature_columns": ["temp", "kosten"]}
    with pytest.raises(DataError, match=r"'kosten' has '9\.392' in record 2, whose points may part"):
        load_records(str(path), **plain)
    with pytest.raises(DataError, match=r"'kosten' has '9\.392' in record 2, whose points may part"):
        load_records(
            str(path), label_column="kosten", feature_columns=["temp"], regression=True, client_column="haus"
        )
    label = {"krank": {"kind": "left-out"}, "kosten": {"role": "label", "range": [0, 1000]}}
    with pytest.raises(DataError, match="'kosten' has 3 numbers whose points may part thousands"):
        load_records(str(path), columns=money(path, mark, **label))


def test_points_of_dates_codes_and_what_is_left_out_are_no_matter(tmp_path):
    path = tmp_path / "kosten.csv"
    codes = {"kind": "category", "values": ["971", "9.392", "1.234.567", "1.234,5"]}
    found = read_schema(money(path, kosten=codes)).encode(read_columns(path, cells=True)[0])
    np.testing.assert_array_equal(found[:, :4], np.eye(4))
    schema = read_schema(money(path, kosten={"kind": "left-out"}))
    assert schema.encode(read_columns(path, cells=True)[0]).shape == (4, 1)


def test_what_tells_that_points_part_thousands(tmp_path):
    """A decimal comma, or semicolons without a point that must be decimal; each number stays as it is."""
    path = tmp_path / "kosten.csv"
    stated = money(path)
    for text, number in (
        ("haus;kosten;temp;krank\nn;9.392;36.5;ja\n", 9.392),
        ("haus\tkosten\ttemp\tkrank\nn\t9.392\t36\tja\n", 9.392),
        ("haus;kosten;temp;krank\nn;0.392;36,5;ja\n", 0.392),
        ("haus;kosten;temp;krank\nn;9.392;36;ja\n", None),
        ("haus|kosten|temp|krank\nn|9.392|36,5|ja\n", None),
    ):
        path.write_text(text)
        read = read_schema(stated).read(read_columns(path, cells=True)[0], "")["kosten"]
        assert read.wrong.tolist() == [number is None], text
        assert number is None or read.numbers[0, 0] == np.float32(2 * number / 1000 - 1)
        typed = read_columns(path, cells=False)[0]["kosten"]
        assert typed.tolist() == (["9.392"] if number is None else [number])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("haus;Druck (in mmHg, sys);Puls, x\nn;120,5;60\n", ["haus", "Druck (in mmHg, sys)", "Puls, x"]),
        ('haus;"Druck\n(mmHg)";krank\nn;120,5;ja\n', ["haus", "Druck\n(mmHg)", "krank"]),
        ('"haus\nort";krank\nn;ja\n', ["haus\nort", "krank"]),
        ('haus,"a;b"\nn,1\n', ["haus", "a;b"]),
        ('haus;"a, b, c, d"\nn;1\n', ["haus", "a, b, c, d"]),
        ("\n\nsep=;\nhaus;krank\nn;ja\n", ["haus", "krank"]),
        ('"sep=;"\r\nhaus;krank\r\nn;ja\r\n', ["haus", "krank"]),
        ("\n\nhaus;krank\nn;ja\n", ["haus", "krank"]),
        ("\thaus\n1\tn\n", ["Unnamed: 0", "haus"]),
        ("dosis\n1\n", ["dosis"]),
    ],
)
def test_what_parts_columns_is_read_off_the_first_record(tmp_path, text, names):
    """Not off the first line, which may be blank, a hint or half a name; a comma may be within a name."""
    (tmp_path / "a.csv").write_text(text, newline="")
    assert [*read_columns(tmp_path / "a.csv", cells=True)[0]] == names


def test_spaces_around_a_name_are_no_part_of_it(tmp_path):
    """Of a text, of Arrow's files, a frame or a dictionary, as of a workbook; nor of a stated one."""
    frame = pd.DataFrame({"age ": [40, 50], " ill": ["no", "yes"], "ward": ["01", "1"]})
    ill = {"role": "label", "classes": ["no", "yes"]}
    schema = read_schema({"age": {"kind": "number", "range": [0, 100]}, "ill ": ill})
    (tmp_path / "a.csv").write_text('"age ", ill\t,"ward "\n40,no,01\n50,yes,1\n')
    frame.to_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        read = read_columns(tmp_path / name, cells=False, coded=("ward",))[0]
        assert ([*read], read["ward"].tolist()) == (["age", "ill", "ward"], ["01", "1"])
    for table in (read, frame, dict(frame)):
        np.testing.assert_allclose(schema.encode(table), [[-0.2], [0.0]])
    np.testing.assert_allclose(schema.encode({"age": [40, 50], "age ": [0, 0]}), [[-0.2], [0.0]])
    assert FederationTable(data="a.csv", label_column=" ill").columns.label == "ill"
    with pytest.raises(DataError, match="two columns are called 'age'"):
        of_frame(frame.assign(age=1))
    (tmp_path / "a.csv").write_text('" ",age," "\n1,40,2\n')
    assert len(read_columns(tmp_path / "a.csv", cells=True)[0]) == 3, "names of spaces alone are no one name"


def test_a_header_that_nothing_parts_says_what_was_taken_to_part_it(tmp_path):
    for text, taken in (('"haus;krank"\n"n;ja"\n', "','"), ("sep=|\nhaus\tkrank\nn\tja\n", r"'\|'")):
        (tmp_path / "a.csv").write_text(text)
        with pytest.raises(DataError, match=f"has one column, .* as {taken} was taken to part columns"):
            read_columns(tmp_path / "a.csv", cells=True)


def test_a_header_may_be_longer_than_a_cell_of_the_csv_module(tmp_path):
    """By a mark that does not part it, a header of 2,000 columns with long names is one cell of 200 kB."""
    names = [f"gene {i:0100}" for i in range(2_000)]
    (tmp_path / "genes.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * len(names)) + "\n")
    table, _ = read_columns(tmp_path / "genes.csv", cells=True)
    assert [*table] == names


def test_gaps_among_objects_are_none_and_the_frame_stays_as_it_was():
    frame = pd.DataFrame({"note": pd.Series([1, "x", float("nan"), pd.NaT], dtype=object)})
    before = frame.copy()
    assert of_frame(frame)["note"].tolist() == [1, "x", None, None]
    pd.testing.assert_frame_equal(frame, before)


CODES = [900000000000207008, 11111111, 900000000000207009]
"""Of SNOMED's length, two of which are one float."""


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".arrow", "nullable frame", "frame of Arrow"])
def test_a_gap_changes_no_other_whole_number(tmp_path, suffix):
    """As floats, which a gap makes of a column, one record without a code would recode all others."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    path = tmp_path / f"codes{suffix}"
    for codes in (CODES, [*CODES, None]):
        table = pa.table({"code": pa.array(codes, pa.int64())})
        if suffix == ".parquet":
            parquet.write_table(table, path)
        elif suffix == ".feather":
            feather.write_feather(table, path)
        elif suffix == ".arrow":
            with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
                stream.write_table(table)
        if suffix == "nullable frame":
            read = of_frame(pd.DataFrame({"code": pd.array(codes, "Int64")}))["code"]
        elif suffix == "frame of Arrow":
            read = of_frame(table)["code"]
        else:
            read = read_columns(path, cells=True)[0]["code"]
        assert keys(read)[:3] == [str(code) for code in CODES]
        assert keys(read)[3:] == [""] * (len(codes) - 3)


def test_small_whole_numbers_beside_a_gap_are_numbers():
    read = of_frame(pd.DataFrame({"age": pd.array([61, None, 2**53], "Int64")}))["age"]
    np.testing.assert_array_equal(read, [61.0, np.nan, 2.0**53])
    assert of_frame(pd.DataFrame({"age": pd.array([None, None], "Int64")}))["age"].tolist() == [None, None]
    kept = of_frame(pd.DataFrame({"age": pd.array([61, None, -(2**53) - 1], "Int64")}))["age"]
    assert kept.tolist() == [61, None, -(2**53) - 1]


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("hint", ["", "sep=,\n"])
def test_a_stray_quote_swallows_no_records(tmp_path, cells, hint):
    """One record with a quote too many took all up to the next quote for one cell: 100 records were 47."""
    path, said = tmp_path / "wards.csv", r"wards\.csv has a quote that ends no cell at its line {}, so that"
    path.write_text(f'{hint}age,state\n61,"stable\n62,worse\n63,"stable"\n64,worse\n')
    with pytest.raises(DataError, match=said.format(5 if hint else 4)):
        read_columns(path, cells=cells)
    path.write_text(f'{hint}age,state\n61,"stable\n\nsince ""May"""\n\n62,5" high\n')
    assert read_columns(path, cells=cells)[0]["state"].tolist() == ['stable\n\nsince "May"', '5" high']


def test_a_hint_for_spreadsheets_is_no_header(tmp_path):
    (tmp_path / "wards.csv").write_text("sep=;\nage;dose\n61;0,5\n")
    assert {name: list(one) for name, one in read_columns(tmp_path / "wards.csv", cells=True)[0].items()} == {
        "age": ["61"],
        "dose": ["0.5"],
    }


@pytest.mark.parametrize(
    ("first", "cells"),
    [("1,61,0.5,9", False), ("1,61,0.5,9", True), ("1,61,0.5,", True), ("1,61,0.5\n0,2,3,9", True)],
)
def test_a_cell_more_in_a_record_moves_no_other(tmp_path, first, cells):
    path = tmp_path / "wards.csv"
    path.write_text(f"ill,age,dose\n{first}\n0,47,0.25\n")
    with pytest.raises(DataError, match=r"wards\.csv has a record of more cells than names") as refused:
        read_columns(path, cells=cells)
    why = "name each" if first.endswith("9") else "separators at the end of records"
    place = 1 + first.count("\n")
    assert f"in its header: record {place} has 4, and there are 3 names; {why}" in str(refused.value)


def test_which_record_has_more_cells_than_names_is_told_below_a_hint(tmp_path):
    (tmp_path / "wards.csv").write_text('\nsep=;\nill;"age\nyears"\n\n1;"6\n1"\n0;47;\n')
    found = dialect(tmp_path / "wards.csv")
    assert too_long(tmp_path / "wards.csv", found, 2).startswith("record 2 has 3, and there are 2 names; sep")


def test_two_columns_of_one_name_are_refused_in_a_frame(tmp_path):
    pa = pytest.importorskip("pyarrow")
    twice = pa.table([[61.0], [0.5]], names=["age", "age"])
    with pa.ipc.new_file(str(tmp_path / "wards.arrow"), twice.schema) as file:
        file.write_table(twice)
    with pytest.raises(DataError, match=r"wards\.arrow: two columns are called 'age'"):
        read_columns(tmp_path / "wards.arrow", cells=True)


@pytest.mark.parametrize("cells", [True, False])
@pytest.mark.parametrize("text", ["age,age\n61,0\n", "sep=;\nage;sex;age\n61;f;0\n", '\n"age"\tage\n1\t2\n'])
def test_two_columns_of_one_name_are_refused_in_a_text(tmp_path, text, cells):
    """Not called age and age.1, which a study could then name."""
    (tmp_path / "wards.csv").write_text(text)
    with pytest.raises(DataError, match=r"wards\.csv: two columns are called 'age'"):
        read_columns(tmp_path / "wards.csv", cells=cells)


RUSSIAN = "номер,возраст,диагноз,больница\n1,45,гипертония,Москва\n2,61,здоров,Казань\n"
JAPANESE = "患者番号,年齢,性別,診断\n1,45,男,高血圧症\n2,61,女,糖尿病\n"
CHINESE = "编号,年龄,性别,诊断,医院\n1,45,男,高血压,北京协和医院\n2,61,女,糖尿病,上海人民医院\n"
ABROAD = [("cp1251", RUSSIAN), ("koi8_r", RUSSIAN), ("shift_jis", JAPANESE), ("gb18030", CHINESE)]
ABROAD += [("gbk", CHINESE), ("cp949", "번호,나이,진단,병원\n1,45,고혈압,서울대병원\n2,61,정상,부산병원\n")]
WESTERN = (
    "größte,öß,Übergewicht\n", "créée,âgé,« où »,l’œuvre…\n", "situação,ações,SITUAÇÃO,AÇÕES,CORAÇÃO\n",
    "þýðing,þíð,óþýður,æð,síðan,Ísafjörður,blóð\n", "æøå,ÆØÅ\n", "ÄÖÜäöüß,x\n", "––––,•••,“”‘’,°°°°,÷×÷×\n",
)  # fmt: skip


@pytest.mark.parametrize(("encoding", "text"), ABROAD)
def test_letters_that_are_not_western_are_refused(tmp_path, encoding, text):
    """As Windows-1252 they would be names and categories that nobody wrote."""
    (tmp_path / "a.csv").write_bytes(text.encode(encoding))
    with pytest.raises(DataError, match=r"a\.csv cannot be read .* hardly .*Windows-1252; save it .* UTF-8"):
        read_columns(tmp_path / "a.csv", cells=True)
    for known in ("utf-8", "utf-8-sig", "utf-16"):
        (tmp_path / "a.csv").write_bytes(text.encode(known))
        assert [*read_columns(tmp_path / "a.csv", cells=True)[0]] == text.split("\n")[0].split(",")


@pytest.mark.parametrize("text", WESTERN)
def test_western_letters_are_read_however_they_stand(tmp_path, text):
    (tmp_path / "a.csv").write_bytes(text.encode("cp1252"))
    assert ",".join(read_columns(tmp_path / "a.csv", cells=True)[0]) == text.strip()


def test_no_record_changes_how_another_is_read(tmp_path):
    """Letters, marks and decimal commas go by cell and header: else one record could move all others."""
    head, quiet = b"Haus;Dosis\n", "Süd;1,5\nKöln;2\n".encode()
    strange = "Nürnberg;viel|zu,viel\tan,Marken\n".encode("cp1252") + b"\x81;1,2,3\n"
    (tmp_path / "a.csv").write_bytes(head + quiet)
    (tmp_path / "b.csv").write_bytes(head + quiet + strange)
    alone, beside = (
        read_columns(tmp_path / "a.csv", cells=True)[0],
        read_columns(tmp_path / "b.csv", cells=True)[0],
    )
    assert {name: one.tolist()[:2] for name, one in beside.items()} == {
        n: v.tolist() for n, v in alone.items()
    }
    assert beside["Haus"].tolist()[2:] == ["Nürnberg", "\x81"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select age from patients", "leaves the order of its rows open"),
        ("select age from (select * from patients order by nr)", "leaves the order of its rows open"),
        ("select 'order by' as age from patients -- order by nr", "leaves the order of its rows open"),
        ("delete from patients", "must be one select"),
        ("select 1 order by 1; drop table patients", "must be one select"),
        ("", "must be one select"),
    ],
)
def test_a_query_that_may_be_read_otherwise_the_next_time_is_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        Query("sqlite:///wards.db", text)


@pytest.mark.parametrize(
    "text",
    ["SELECT age FROM patients\nORDER  BY nr;", "with a as (select 1) select * from a order by 1",
     "select age from patients where name = 'a;b' order by nr"],
)  # fmt: skip
def test_a_query_with_an_order_is_taken(text):
    assert Query("sqlite:///wards.db", text).name == "wards"


@pytest.mark.parametrize(
    "url",
    ["postgresql://reader:hunter2@host/wards", "mysql://host/wards?user=a&password=hunter2",
     "postgresql://reader:hunter2/a@host/wards", "postgresql://reader:hunter2?a@host/wards",
     "postgresql://:hunter2#a@host/wards",
     "mssql+pyodbc:///?odbc_connect=DRIVER%3DX%3BPWD%3Dhunter2"],
)  # fmt: skip
def test_a_password_is_refused_and_not_repeated(url):
    with pytest.raises(ConfigError, match=PASSWORD_VARIABLE) as refused:
        opened(f"sql:{url}", None, QUERY)
    assert "hunter2" not in str(refused.value)


def test_what_a_database_says_does_not_show_the_password(monkeypatch):
    """Drivers put connection strings into their complaints."""
    sqlalchemy = pytest.importorskip("sqlalchemy")
    monkeypatch.setenv(PASSWORD_VARIABLE, "hunter2")
    asked = []

    def refuse(url):
        asked.append(url.password)
        raise sqlalchemy.exc.ArgumentError(f"no host for {url.render_as_string(hide_password=False)}")

    monkeypatch.setattr(sqlalchemy, "create_engine", refuse)
    with pytest.raises(DataError, match=r"\*\*\*") as refused:
        Query("postgresql://reader@host/wards", QUERY).read(cells=True)
    assert asked == ["hunter2"]
    assert "hunter2" not in str(refused.value)


def test_a_query_writes_nothing_and_its_mistakes_are_said(tmp_path):
    source = written(tmp_path, ".db")
    before = (tmp_path / "wards.db").read_bytes()
    with pytest.raises(DataError, match="no such column: agee"):
        load_records(source, columns=SCHEMA, query="select agee from patients order by nr")
    with pytest.raises(DataError, match="readonly"):
        load_records(
            source, columns=SCHEMA,
            query="with x as (select 1) insert into patients (nr) select 1 from x order by 1",
        )  # fmt: skip
    assert (tmp_path / "wards.db").read_bytes() == before


def test_what_is_a_table():
    assert is_table("a.xlsx")
    assert is_table("a.CSV.gz")
    assert is_table("sql:sqlite:///a.db")
    assert not is_table("leaf:folder")


def study(federation: dict) -> dict:
    return {"federation": federation, "privacy": {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5}}


def test_a_study_names_a_database_and_its_query(tmp_path):
    """A relative path starts from the study's folder; what the study writes down is what it was told."""
    written(tmp_path, ".db")
    told = {"data": "sql:sqlite:///wards.db", "query": QUERY, "client_column": "ward", "label_column": "ill",
            "feature_columns": ["stage"], "classes": ["no", "yes"]}  # fmt: skip
    found = open_federation(parse_study(study(told)).beside(tmp_path))
    assert found.clients == ("north", "south")
    assert found.name == "wards"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"data": "sql:sqlite:///wards.db"}, "query goes with data"),
        ({"data": "wards.csv", "query": QUERY}, "query goes with data"),
        ({"data": "sql:sqlite:///wards.db", "query": "select 1"}, "order of its rows open"),
        ({"data": "sql:postgresql://a:hunter2@b/c", "query": QUERY}, PASSWORD_VARIABLE),
    ],
)
def test_a_study_of_a_database_is_refused_before_it_is_read(told, said):
    with pytest.raises(ConfigError, match=said) as refused:
        parse_study(study(told))
    assert "hunter2" not in str(refused.value)


def test_no_complaint_of_the_command_line_shows_a_password(tmp_path, monkeypatch, capsys):
    """A line of TOML that cannot be read is quoted."""
    monkeypatch.setattr(sys, "argv", ["noiseworthy", "plan", str(tmp_path / "study.toml")])
    (tmp_path / "study.toml").write_text("[federation]\ndata = sql:postgresql://ann:hunter2@host/wards\n")
    with pytest.raises(SystemExit):
        main()
    said = capsys.readouterr().err
    assert "ann:***@host" in said
    assert "hunter2" not in said
