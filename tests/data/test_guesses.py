"""What columns seem to be: kinds by header and cells; ranges and values by common knowledge or none."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from noiseworthy.data.intake.guesses import QUESTION, common_range, guesses
from noiseworthy.data.thousands import Thousands
from noiseworthy.errors import ConfigError

N = 60


def cells(*some) -> np.ndarray:
    """A column that repeats some cells."""
    return np.array([some[i % len(some)] for i in range(N)], object)


def guess(name: str, values: np.ndarray):
    return guesses({name: values, "label": cells("no", "yes")}, None, None)[0]


@pytest.mark.parametrize(
    ("name", "values", "asked"),
    [
        ("Age", np.arange(N), {"kind": "number", "range": [0, 110]}),
        ("oldpeak", np.linspace(0, 6, N), {"kind": "number", "range": "?"}),
        ("income", np.arange(N)[::-1].astype(str), {"kind": "number", "range": "?"}),
        ("sex", cells("f", "m"), {"kind": "category", "values": "?"}),
        ("grade", cells(1, 2, 3), {"kind": "category", "values": "?"}),
        ("num_children", cells(0, 1, 2), {"kind": "number", "range": "?"}),
        ("seen", np.array(["2020-01-01", "2024-05-05"] * 30, "M8[ns]"), {"kind": "date", "range": "?"}),
        ("smoker", cells("Yes", "no"), {"kind": "yes-no"}),
        ("fbs", cells(0, 1), {"kind": "yes-no"}),
        ("smoker", cells("y", "n", None), {"kind": "yes-no", "missing": True}),
        ("chol", cells("240", "?", "301", "250"), {"kind": "number", "range": [50, 600], "gaps": ["?"],
                                                    "missing": True}),
        ("visit", cells("2024-01-05", "2024-02-06"), {"kind": "date", "range": "?"}),
        ("visit", cells(date(2024, 1, 5), date(2024, 2, 6)), {"kind": "date", "range": "?"}),
        ("visit", cells("25.12.2024", "05.01.2025"),
         {"kind": "date", "format": "%d.%m.%Y", "range": "?"}),
        ("patient_id", np.arange(N), {"kind": "left-out"}),
        ("patientId", np.array([f"p{i}" for i in range(N)]), {"kind": "left-out"}),
        ("Patient", np.arange(N) // 2 * 2 + np.arange(N) % 3 % 2, {"kind": "left-out"}),
        ("Unnamed: 0", cells(1, 2, 3), {"kind": "left-out"}),
        ("zeile", np.arange(N) + 7, {"kind": "left-out"}),
        ("zeile", np.arange(N).astype(str), {"kind": "left-out"}),
        ("zeile", np.arange(N) * 2, {"kind": "number", "range": "?"}),
        ("zeile", np.arange(N) + 0.5, {"kind": "number", "range": "?"}),
        ("Fallnummer", np.arange(N) * 2, {"kind": "left-out"}),
        ("Fall", np.arange(N) * 2, {"kind": "left-out"}),
        ("FallNr", np.arange(N) * 2, {"kind": "left-out"}),
        ("PLZ", np.arange(N) * 2, {"kind": "left-out"}),
        ("Nummer", np.arange(N) * 2, {"kind": "left-out"}),
        ("index", np.arange(N) * 2, {"kind": "left-out"}),
        ("Falltiefe", np.arange(N) * 2, {"kind": "number", "range": "?"}),
        ("sex", cells("f"), {"kind": "category", "values": "?"}),
        ("smoker", cells("no"), {"kind": "yes-no"}),
        ("smoker", cells("t", "f"), {"kind": "yes-no"}),
        ("seen", cells("01.02.20", "25.12.19"), {"kind": "date", "format": "%d.%m.%y", "range": "?"}),
        ("cost", cells(Thousands("9.392"), "971", Thousands("30.913")), {"kind": "number", "range": "?"}),
        ("notes", np.array([f"came in {i}" for i in range(N)]), {"kind": "left-out"}),
        ("empty", cells(None, ""), {"kind": "left-out"}),
        ("ward", cells("a", "b"), {"role": "client"}),
        ("split", cells("train", "test"), {"role": "split"}),
    ],
)  # fmt: skip
def test_what_a_column_seems_to_be(name, values, asked):
    assert guess(name, values).asked == asked


@pytest.mark.parametrize("cell", ["<5", "45 %", "01.02.20", "haemolytic", "inf"])
def test_a_number_with_some_cells_that_are_none_is_one_and_says_what_to_mend(cell):
    """At nine tenths; no cell of them is written, and common ranges and labels stay what they are."""
    lab = np.array([f"{i * i % 97}.5" for i in range(N)], object)
    lab[[5, 6, 7, 8, 9, 10]] = cell
    one = guess("lab", lab)
    assert one.asked == {"kind": "number", "range": "?"}
    assert one.answered["range"] == [0, 97]
    assert "some cells are no numbers: mend them, or list them, missing = true and gaps" in one.why
    assert cell not in one.why
    lab[11] = cell
    assert guess("lab", lab).asked["kind"] != "number"
    age = np.arange(N).astype(object)
    age[3] = cell
    assert guess("age", age).asked == {"kind": "number", "range": [0, 110]}
    assert "some cells are no numbers" in guess("age", age).why
    predicted = guesses({"x": cells(1, 2), "label": lab[12:]}, None, None)[1]
    assert predicted.asked == {"role": "label", "range": "?"}


def test_numbers_that_no_range_may_hold_are_left_out_or_to_be_mended():
    for values in (1.6e18 + 1e14 * np.arange(N), np.linspace(0, 2e15, N)):
        one = guess("nanoseconds", values)
        assert one.asked == {"kind": "left-out"}
        assert "of numbers beyond 1e+15, write them in a larger unit" in one.why
    one = guess("dose", np.append(np.linspace(2, 8, N - 1), 1e300))
    assert one.answered == {"kind": "number", "range": [2, 8]}
    assert "some cells are no numbers: mend them" in one.why


def test_lists_and_structures_are_left_out_and_are_no_roles():
    for cell in ([1, 2], {"a": 1}, np.array([1, 2])):
        lists = np.empty(N, object)
        lists[:] = [cell, None] * (N // 2)
        one = guess("visits", lists)
        assert one.answered == {"kind": "left-out"}
        assert one.why == "lists or structures, of more than one value per record"
        with pytest.raises(ConfigError, match="'visits' must hold one value per record, and has lists"):
            guesses({"visits": lists, "label": cells("no", "yes")}, "visits", None)


def test_amounts_that_are_written_as_text_are_told_how_to_be_numbers():
    for some in ([f"{i} %" for i in range(N)], [f"<{i % 20} mg" for i in range(N)]):
        assert guess("lab", np.array(some, object)).why.endswith(
            "; of amounts, write numbers without units and signs"
        )
    assert "amounts" not in guess("lab", cells("<", "a", "b")).why


def test_numbers_and_dates_in_other_writings_are_told_how_to_be_some():
    points = guess("lab", np.array([f"{i},5" for i in range(N)], object))
    assert points.why.endswith(
        "rows; of numbers, write a point for a decimal comma, or part the columns of a csv by ;"
    )
    few = guess(
        "temperature",
        np.array([f"{36 + i % 4},{i % 3}" if i % 3 else f"{36 + i % 4}" for i in range(N)], object),
    )
    assert few.why.endswith(
        "lists them; of numbers, write a point for a decimal comma, or part the columns of a csv by ;"
    )
    assert "comma" not in guess("grade", np.array(["1", "2", "3", "4"] * (N // 4) + ["2,5"], object)).why
    assert "comma" not in guess("lab", np.array([f"{i + 1},000" for i in range(N)], object)).why
    days = [f"2024-01-{1 + i // 2:02d}" if i % 2 else f"{1 + i // 2:02d}/01/2024" for i in range(N)]
    mixed = guess("seen", np.array(days, object))
    assert mixed.asked == {"kind": "left-out"}
    assert mixed.why.endswith("rows; of dates, write all in one form, such as 2024-12-31")


@pytest.mark.parametrize("cell", ["2024-13-01", "1900-01-00", "soon"])
def test_dates_with_some_cells_that_are_none_are_some_and_say_what_to_mend(cell):
    days = np.array([cell, *(f"2024-01-{1 + i % 28:02d}" for i in range(N - 1))], object)
    one = guess("seen", days)
    assert one.answered == {"kind": "date", "range": ["2024-01-01", "2024-01-28"]}
    assert one.why.endswith(
        "; some cells are no dates: mend them, or list them, missing = true and gaps = [...]"
    )
    days[: N // 8] = cell
    assert guess("seen", days).asked["kind"] == "category"


def test_few_codes_with_a_word_among_them_are_still_codes():
    grade = cells(*[1, 2, 3] * 10)
    grade[7] = "unknown"
    assert guess("grade", grade).answered == {"kind": "category", "values": ["1", "2", "3", "unknown"]}
    label = guesses({"age": np.arange(N), "target": grade}, None, None)[1]
    assert label.answered["classes"] == ["1", "2", "3", "unknown"]


def test_points_between_thousands_are_said_and_counted_as_such():
    one = guess("cost", cells(Thousands("9.392"), "971", Thousands("1.234.567"), Thousands("1.000,5")))
    assert "; write its numbers without points between thousands" in one.why
    assert one.answered["range"] == [0, 1300000]
    label = guesses({"age": np.arange(N), "y": cells(Thousands("9.392"), "971")}, None, None)[1]
    assert label.answered["range"] == [900, 9400]


def test_years_of_two_digits_are_said_to_be_of_a_century():
    assert guess("seen", cells("01.02.20", "25.12.19")).why.endswith("years from 69 on are 19.., others 20..")


def test_a_table_without_records_is_refused():
    none = np.empty(0, object)
    with pytest.raises(ConfigError, match="has names and no records"):
        guesses({"age": none, "label": none}, None, None)


@pytest.mark.parametrize(
    ("values", "asked", "answered"),
    [
        (cells("no", "yes"), {"role": "label", "classes": "?"}, {"classes": ["no", "yes"]}),
        (cells(2, 10, 1), {"role": "label", "classes": "?"}, {"classes": [1, 2, 10]}),
        (np.linspace(1.5, 93, N), {"role": "label", "range": "?"}, {"range": [1, 93]}),
        (cells("none", "stroke"), {"role": "label", "classes": "?"}, {"classes": ["none", "stroke"]}),
        (cells("1", "0", "None"), {"role": "label", "classes": "?"}, {"classes": [0, 1]}),
    ],
)
def test_what_is_predicted_is_asked_for(values, asked, answered):
    found = guesses({"age": np.arange(N), "target": values}, None, None)[1]
    assert found.asked == asked
    assert found.answered == {"role": "label", **answered}


def test_no_cell_is_in_what_is_asked_but_codes_of_gaps():
    """Values, classes, dates and ranges of records never get into a guess's own keys."""
    table = {
        "sex": cells("f", "m", "secret"), "amount": np.linspace(123.4, 987.6, N), "code": cells(71, 72, 73),
        "day": cells("2031-05-06", "2033-01-01"), "label": cells("hidden", "rare"),
    }  # fmt: skip
    told = [one.asked for one in guesses(table, None, None)]
    assert not any(cell in str(told) for cell in ("secret", "123", "987", "71", "203", "hidden", "rare"))
    assert [QUESTION in one.values() for one in told] == [True] * 5
    assert any("secret" in str(one.answered) for one in guesses(table, None, None))


def test_which_date_is_meant_is_left_to_the_owner():
    one = guess("visit", cells("05/06/2024", "07/08/2024"))
    assert "format may be %d/%m/%Y or %m/%d/%Y" in one.why
    assert guess("visit", cells("25/06/2024", "07/08/2024")).asked["format"] == "%d/%m/%Y"


@pytest.mark.parametrize(
    ("stated", "roles"),
    [(("site", None), {"site": "label"}), ((None, "class"), {"class": "client", "y": "label"})],
)
def test_a_column_that_is_stated_as_one_is_not_guessed_as_the_other(stated, roles):
    table = {"site": cells("1", "2"), "class": cells("0", "1"), "y": cells("4", "5")}
    assert {one.name: one.stated["role"] for one in guesses(table, *stated) if "role" in one.stated} == roles


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((None, None), r"--label COLUMN, one of a, b"),
        (
            ("c", None),
            r"--label must be .* got 'c'; it has a, b; of a csv or an .xlsx these are the first row",
        ),
        (("a", "c"), r"--client must be a column of the table, got 'c'"),
        (("a", "a"), r"must be two columns, got 'a' for both"),
    ],
)
def test_columns_that_nobody_can_guess_are_asked_for(options, said):
    with pytest.raises(ConfigError, match=said):
        guesses({"a": cells(1, 2), "b": cells(1, 2)}, *options)


def test_common_ranges_are_known_by_names_in_any_writing():
    for name in ("BMI", "body_mass_index", "BodyMassIndex"):
        assert common_range(name) == (10, 70, "kg/m^2")
    assert common_range("stage") is None
    assert common_range("percentage") == common_range("pct")
    assert common_range("hours.per.week") == (0, 168, "hours of a week")
