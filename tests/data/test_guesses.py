"""What columns seem to be: kinds by header and cells; ranges and values by common knowledge or none."""

from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from noiseworthy.data.intake.common import common_range
from noiseworthy.data.intake.guesses import QUESTION, guesses
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
        ("income", np.arange(N).astype(str), {"kind": "number", "range": "?"}),
        ("sex", cells("f", "m"), {"kind": "category", "values": "?"}),
        ("grade", cells(1, 2, 3), {"kind": "category", "values": "?"}),
        ("num_children", cells(0, 1, 2), {"kind": "number", "range": "?"}),
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
        ("notes", np.array([f"came in {i}" for i in range(N)]), {"kind": "left-out"}),
        ("empty", cells(None, ""), {"kind": "left-out"}),
        ("ward", cells("a", "b"), {"role": "client"}),
        ("split", cells("train", "test"), {"role": "split"}),
    ],
)  # fmt: skip
def test_what_a_column_seems_to_be(name, values, asked):
    assert guess(name, values).asked == asked


@pytest.mark.parametrize(
    ("values", "asked", "answered"),
    [
        (cells("no", "yes"), {"role": "label", "classes": "?"}, {"classes": ["no", "yes"]}),
        (cells(2, 10, 1), {"role": "label", "classes": "?"}, {"classes": [1, 2, 10]}),
        (np.linspace(1.5, 93, N), {"role": "label", "range": "?"}, {"range": [1, 93]}),
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
    ("options", "said"),
    [
        ((None, None), r"--label COLUMN, one of a, b"),
        (("c", None), r"--label must be a column of the table, got 'c'; it has a, b"),
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
