"""A regression by one upload tells coefficients with standard errors, in record, terminal and report."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pages import render
from rich.console import Console

from noiseworthy import run
from noiseworthy.errors import ConfigError
from noiseworthy.model.folder import load_folder
from noiseworthy.reports.coefficients import coefficients_table, note_of
from noiseworthy.studies.delivery import coefficients_in, estimates_of
from noiseworthy.studies.plan_file import load_plan
from noiseworthy.studies.typed_record import CoefficientPart, CoefficientsPart, RunRecord
from noiseworthy.trials import race

STUDY = """
[federation]
data = "DATA"
[columns]
age = { kind = "number", range = [20, 80] }
smokes = { kind = "category", values = ["never", "once", "now"] }
pressure = { role = "label", range = [70, 190] }
ward = { role = "client" }
[task]
model = "linear"
feature_norm = 2.0
[privacy]
mechanism = "gaussian"
epsilon = EPSILON
delta = 1e-5
clip_norm = 12.5
[algorithm]
name = "moments"
shrinkage = 0.1
step_size = 1.0
label_weight = 0.011
"""
TRUTH = {"age": 0.45, "smokes = once": 3.0, "smokes = now": 8.0, "(intercept)": 80.0}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs of the same table at an epsilon; its noise is much of the errors, and records are the rest."""
    folder, draws, n = tmp_path_factory.mktemp("pressure"), np.random.default_rng(3), 4000
    age, kind, ward = draws.uniform(20, 80, n).round(1), draws.integers(0, 3, n), np.arange(n) % 3
    pressure = 80 + 0.45 * age + np.array([0.0, 3.0, 8.0])[kind] + draws.normal(0, 8, n)
    smokes = np.array(["never", "once", "now"])[kind]
    rows = zip(age, smokes, pressure.clip(70, 190).round(2), ward, strict=True)
    table = folder / "pressure.csv"
    table.write_text("\n".join(["age,smokes,pressure,ward", *(",".join(map(str, row)) for row in rows)]))

    def at(epsilon: float, planned: bool = False) -> tuple[Path, RunRecord]:
        path, place = folder / "study.toml", folder / f"run {epsilon:g} {planned}"
        text = STUDY.replace("DATA", str(table)).replace("EPSILON", str(epsilon))
        by_trial = text.replace("shrinkage = 0.1\n", "") + '[planning]\npublic = ["prior:0"]\nseeds = 2\n'
        path.write_text(by_trial if planned else text)
        return place, run(path, place).record

    return at


@pytest.fixture(scope="module")
def told(trained):
    return trained(20.0)


@pytest.mark.full
def test_a_record_tells_coefficients_per_unit_of_columns_with_errors_that_count_the_noise(told):
    _, record = told
    assert record.coefficients is not None
    assert record.coefficients.residual == pytest.approx(8.0, rel=0.1)
    assert [one.feature for one in record.coefficients.rows] == list(TRUTH)
    for one in record.coefficients.rows:
        assert abs(one.coefficient - TRUTH[one.feature]) < 3 * one.error
        assert 0 < one.error_of_noise < one.error < 0.6 * TRUTH[one.feature]
        assert (one.least + one.most) / 2 == pytest.approx(one.coefficient)
        assert one.most - one.least == pytest.approx(2 * 1.959964 * one.error)


@pytest.mark.full
def test_coefficients_are_of_the_labels_themselves_where_clients_told_their_mean(trained, told, monkeypatch):
    """Labels are seen from about 95, so that noise hides less of what tells them apart."""
    monkeypatch.setattr(race, "RUNGS", ())
    folder, record = trained(20.0, planned=True)
    start = load_plan(folder / "plan.json").plan.ranges.label_mean
    assert 80 < start < 110
    for one, stated in zip(record.coefficients.rows, told[1].coefficients.rows, strict=True):
        assert abs(one.coefficient - TRUTH[one.feature]) < 3 * one.error
        assert one.error_of_noise < stated.error_of_noise


@pytest.mark.full
def test_a_run_that_kept_no_start_is_refused_by_name(told, tmp_path):
    """Runs of before labels were seen from one kept the moments alone."""
    folder = shutil.copytree(told[0], tmp_path / "run")
    kept = dict(np.load(folder / "checkpoint.npz"))
    del kept["server_01"]
    np.savez(folder / "checkpoint.npz", **kept)
    with pytest.raises(ConfigError, match="keeps no moments of training 0"):
        estimates_of(folder)


@pytest.mark.full
def test_terminal_and_report_show_them_by_name(told):
    _, record = told
    console = Console(width=80, record=True, file=None, quiet=False)
    with console.capture() as shown:
        console.print(coefficients_table(record))
    page, row = render(record), record.coefficients.rows[1]
    for text in (shown.get(), page):
        assert "smokes = once" in text
        assert "95 % interval" in text
        assert f"{row.coefficient:.3g}"[:3] in text
    assert "errors count the noise" in page


def test_long_names_that_begin_alike_are_told_apart_and_rows_left_out_are_counted():
    number = dict.fromkeys(("coefficient", "error", "error_of_noise", "least", "most"), 0.5)
    names = [f"pressure at the left arm, measured in the morning of day {i}" for i in range(35)]
    rows = [CoefficientPart(feature=name, **number) for name in names]
    console = Console(width=80, record=True, file=io.StringIO())
    told = CoefficientsPart(confidence=0.95, rows=rows)
    console.print(coefficients_table(SimpleNamespace(coefficients=told)))
    text = console.export_text()
    assert "pressure …0 " in text
    assert "pressure …1 " in text
    assert "and 5 more; all are in the report" in text


def test_noise_that_hides_what_is_left_of_a_label_is_said():
    """An estimate that noise took below 0 is cut off there, which is no perfect fit."""
    told = CoefficientsPart(confidence=0.95, residual=0.0)
    assert "How much it leaves of a label is hidden by the noise." in note_of(told)
    assert "It leaves 8 of a label" in note_of(told.model_copy(update={"residual": 8.0}))


@pytest.mark.full
def test_noise_that_hides_features_is_said_in_the_place_of_errors(trained):
    _, record = trained(0.05)
    assert record.coefficients is not None
    assert (record.coefficients.rows, "smallest eigenvalue" in record.coefficients.why_not) == ([], True)
    assert "No standard errors: the noise hides" in render(record)


def test_owners_whose_upload_did_not_arrive_are_not_counted(told):
    """Errors are those of the owners that are left, who are fewer and noisier together."""
    folder, record = told
    answers = dict(zip(record.client_names, ["", "no answer", ""], strict=True))
    network = {"run": "r", "rounds": [{"number": 0, "answers": answers, "seconds": 1.0}], "owners": []}
    over_network = RunRecord.model_validate({**record.model_dump(mode="json"), "network": network})
    found = coefficients_in(folder, over_network, load_folder(folder / "model").description)
    assert found is not None
    assert record.coefficients is not None
    for one, before in zip(found["rows"], record.coefficients.rows, strict=True):
        assert one["error"] == pytest.approx(1.5**0.5 * before.error, rel=0.1)


@pytest.mark.full
def test_whether_norm_or_clip_may_scale_records_is_told(told):
    """Of columns of norm 1 each and labels 190 from 0, with a constant as long as the norm."""
    folder, record = told
    description = load_folder(folder / "model").description
    assert record.coefficients.may_scale is False
    assert "Neither norm nor clip scales a record." in note_of(record.coefficients)
    least = 2 + 2.0**2 + (0.011 * 190) ** 2
    for clip, may_scale in ((1.001 * least, False), (0.999 * least, True)):
        plan = record.plan.model_copy(update={"clip_norm": clip})
        found = coefficients_in(folder, record.model_copy(update={"plan": plan}), description)
        assert found["may_scale"] is may_scale
    task = description.task.model_copy(update={"feature_norm": 1.4})
    found = coefficients_in(folder, record, description.model_copy(update={"task": task}))
    assert found["may_scale"], "the norm of two columns is 1.42"
    assert "Norm or clip may scale records" in note_of(CoefficientsPart.model_validate(found))
