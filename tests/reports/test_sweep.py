"""The figure and the table of a sweep put what was reached at its place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from noiseworthy.reports.style import png
from noiseworthy.reports.sweep import Reached, sweep_figure, sweep_table
from noiseworthy.studies.typed_record import view


@pytest.fixture
def record(make_record):
    return view(make_record("full"))


def ended(record, *accuracy):
    """The record with other scores at the end, one per seed."""
    curves = [[*curve[:-1], end] for curve, end in zip(record.training.accuracy, accuracy, strict=False)]
    training = record.training.model_copy(
        update={"accuracy": curves, "seeds": record.training.seeds[: len(curves)]}
    )
    return record.model_copy(update={"training": training})


def drawn(figure):
    (axes,) = figure.axes
    return axes, [line for line in axes.lines if len(line.get_xdata()) > 2 or line.get_alpha()]


def test_a_line_for_every_choice_of_the_other_keys_with_bars_from_least_to_most(record):
    reached = [
        Reached({"privacy.epsilon": epsilon, "algorithm.rounds": rounds}, ended(record, low, low + 0.1))
        for epsilon, low in ((0.5, 0.3), (2.0, 0.5), (8.0, 0.7))
        for rounds in (5, 10)
    ]
    axes, lines = drawn(sweep_figure(reached))
    assert len(lines) == 2
    for line in lines:
        np.testing.assert_allclose(line.get_ydata(), [0.35, 0.55, 0.75])
        np.testing.assert_allclose(line.get_xdata(), [0.5, 2.0, 8.0], rtol=0.02)
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["0.5", "2", "8"]
    said = [text.get_text() for text in axes.texts]
    assert any(text.startswith("rounds = 5: 75") for text in said)
    drawn_lines = [line for line in axes.collections if hasattr(line, "get_segments")]
    bars = [part[:, 1].tolist() for line in drawn_lines for part in line.get_segments()]
    np.testing.assert_allclose(sorted(bars)[0], [0.3, 0.4])


def test_a_line_goes_along_the_axis_and_its_label_tells_its_right_end(record):
    numbers = record.model_copy(update={"federation": record.federation.model_copy(update={"classes": None})})
    ends = ((8.0, 0.7), (0.5, 0.3), (2.0, 0.5))
    axes, (line,) = drawn(
        sweep_figure([Reached({"privacy.epsilon": x}, ended(numbers, score)) for x, score in ends])
    )
    assert line.get_ydata().tolist() == [0.3, 0.5, 0.7]
    assert axes.get_title(loc="left") == "Test R² by epsilon"
    assert "0.7" in [text.get_text() for text in axes.texts]


def test_values_that_are_no_numbers_stand_side_by_side(record):
    reached = [Reached({"algorithm.name": name}, ended(record, 0.5)) for name in ("dp-fedavg", "fedsgd-dpc")]
    axes, (line,) = drawn(sweep_figure(reached))
    assert line.get_xdata().tolist() == [0.0, 1.0]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["dp-fedavg", "fedsgd-dpc"]


def test_values_with_dollars_are_no_formulas(record):
    keys = ("privacy.epsilon.$a$b", "claim.purpose")
    values = ((epsilon, purpose) for epsilon in (1.0, 2.0) for purpose in ("$\\nothing{$", "x"))
    reached = [Reached(dict(zip(keys, one, strict=True)), ended(record, 0.5)) for one in values]
    assert png(sweep_figure(reached))
    turned = [Reached(dict(reversed(one.changes.items())), one.record) for one in reached]
    assert png(sweep_figure(turned))


def test_without_a_training_there_is_no_figure(make_record):
    assert sweep_figure([Reached({"privacy.epsilon": 1.0}, view(make_record("plan_only")))]) is None


def test_the_table_names_why_a_variant_was_refused():
    row = {"accuracy": 0.5, "accuracy_std": 0.1, "loss": 1.0, "rounds": 5, "uploads": 1000.0}
    frame = pd.DataFrame([
        {"privacy.epsilon": 0.5, **row, "refused": ""},
        {"privacy.epsilon": 2.0, "refused": "epsilon is too large"},
        {"privacy.epsilon": 4.0, **row, "accuracy": np.nan, "rounds": 0, "loss": np.nan, "refused": ""},
        {"privacy.epsilon": 8.0, **row, "accuracy_std": 0.0, "refused": ""},
    ])  # fmt: skip
    console = Console(width=80)
    with console.capture() as capture:
        console.print(sweep_table(frame, ["privacy.epsilon"]))
    lines = [line.split() for line in capture.get().splitlines() if line.strip()]
    assert ["0.5", "0.500", "±", "0.100", "1.00", "5", "1,000"] in lines
    assert ["2", "refused", "(1)"] in lines
    assert ["(1)", "epsilon", "is", "too", "large"] in lines
    assert ["4", "do", "not", "train", "–", "0", "1,000"] in lines
    assert ["8", "0.500", "1.00", "5", "1,000"] in lines, "one seed has no deviation"


def test_brackets_in_keys_and_values_are_shown():
    key = "columns.age [years]"
    frame = pd.DataFrame([{key: "[a]", "refused": "no such kind"}])
    console = Console(width=80)
    with console.capture() as capture:
        console.print(sweep_table(frame, [key]))
    assert "[years]" in capture.get()
    assert "[a]" in capture.get()
