"""An advice for people: the picture, the page, the table, and the files that a run folder keeps."""

from __future__ import annotations

import json
import re
import tomllib
from io import StringIO
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console

from noiseworthy.errors import DataError
from noiseworthy.reports.advice import advice_panel, headline, in_bytes, prices, rows, write_advice
from noiseworthy.reports.advice_figures import advice_figure, outlook_figure
from noiseworthy.studies.loading import parse_study
from noiseworthy.sweeps.advice_words import recommendation, remarks, warnings
from noiseworthy.sweeps.typed_advice import AdviceRecord, AdviceValues

STUDY = {"federation": {"data": "digits", "clients": 10}, "privacy": {"mechanism": "gaussian", "delta": 1e-5}}


def bands(mean: float) -> dict[str, Any]:
    return {
        "mean": mean, "least": mean - 0.2, "most": mean + 0.15, "of_each_public": [mean - 0.15, mean + 0.15],
        "seeds_least": mean - 0.02, "seeds_most": mean + 0.02, "standard_error": 0.004,
    }  # fmt: skip


def row(name: str, place: int, score: float, unit: str = "record", train: bool = True) -> dict[str, Any]:
    plan = {"rounds": 90, "clients_per_round": 10, "clip_norm": 0.2, "clip": "l2", "step_size": 1.25}
    uploads = 90 if train else 0
    return {
        "name": name, "place": place, "train": train, "same_as": None, "plan": plan, "loss": bands(1 - score),
        "outcome": "Train 90 rounds with 10 clients, chosen by trial." if train else "Do not train: no gain.",
        "accuracy": bands(score), "assumes": ["all clients online in every round"], "spread": 0.14,
        "privacy": {"unit": unit, "relation": "replace-one", "spent_epsilon": 4.0 * train, "epsilon": 4.0,
                    "delta": 1e-5},
        "cost": {"uploads": [uploads] * 2, "all_uploads": 10 * uploads, "bytes": 2560 * uploads,
                 "local_steps": uploads, "resources": None, "unit": None},
        "trainings": 1600, "unfinished": False,
    }  # fmt: skip


def curve(axis: str, own: float, loss: float) -> dict[str, Any]:
    x = own * np.geomspace(1 / 8, 8, 7)
    y = loss * (own / x) ** 0.3
    inside = [False, *[True] * 5, False]
    return {
        "axis": axis, "x": x.tolist(), "loss": y.tolist(), "accuracy": (1 - y).tolist(), "inside": inside,
        "own": own,
    }  # fmt: skip


AXES = (("epsilon", 4.0), ("clients", 10.0), ("uploads per client", 90.0))


def advice(**changes: Any) -> dict[str, Any]:
    outlook = {
        "other": "dp-pasgd", "fits": ["fits: 1% off", "fits poorly: 9% off"],
        "flips": [{"axis": "epsilon", "below": 1.5, "above": None, "low": 1.0, "high": 16.0}],
        "ours": [curve(axis, own, 0.2) for axis, own in AXES],
        "theirs": [curve(axis, own, 0.3) for axis, own in AXES],
    }  # fmt: skip
    algorithms = [
        row("fedsgd-dpc", 1, 0.83), row("weiavg", 1, 0.82), row("dp-pasgd", 3, 0.7),
        row("dp-fedavg", 4, 0.5, "client"), row("dp-scaffnew", 5, 0.4, "client", train=False),
    ]  # fmt: skip
    values = {
        "name": "ward <7>", "version": "0.1.0", "recommended": "fedsgd-dpc", "score": "accuracy",
        "ranked_by": "loss",
        "clients": 10, "clients_that_work": None, "public": ["wine", "prior:0"], "seeds": 10,
        "algorithms": algorithms,
        "left_out": [{"name": "dmldp", "reason": "it is defined for Laplace noise only"}], "outlook": outlook,
        "study": STUDY,
    } | changes  # fmt: skip
    found = AdviceValues.model_validate(
        {key: values[key] for key in AdviceValues.model_fields if key in values}
    )
    words = {"recommendation": recommendation, "remarks": remarks, "warnings": warnings}
    return {**values, **{name: say(found) for name, say in words.items()}}


def nobody() -> dict[str, Any]:
    algorithms = [row(name, 1, 0.1, train=False) for name in ("fedsgd-dpc", "weiavg")]
    return advice(recommended=None, clients_that_work=80, algorithms=algorithms, outlook=None, study=None)


def marks(figure, gid):
    axes = figure.axes[0]
    return [one for one in axes.get_children() if one.get_gid() == gid]


# The picture --------------------------------------------------------------------------------------------


def test_a_row_has_its_mean_its_bands_and_a_tick_for_each_public_data_set():
    figure = advice_figure(AdviceRecord.view(advice()))
    means = [float(mark.get_xdata()[0]) for mark in marks(figure, "mean")]
    assert means == [0.83, 0.82, 0.7, 0.5, 0.4]
    bands = [mark.get_segments()[0][:, 0].tolist() for mark in marks(figure, "band")]
    np.testing.assert_allclose(bands, [[m - 0.2, m + 0.15] for m in means[:4]])
    for mark, mean in zip(marks(figure, "public"), means, strict=True):
        np.testing.assert_allclose(mark.get_offsets()[:, 0], [mean - 0.15, mean + 0.15])
    assert next(label.get_text() for label in figure.axes[0].get_yticklabels()) == "fedsgd-dpc"
    low, high = figure.axes[0].get_xlim()
    assert low < 0.2
    assert high > 0.98


def test_only_a_tie_lies_on_a_common_ground():
    assert len(marks(advice_figure(AdviceRecord.view(advice())), "ties")) == 1
    alone = advice(algorithms=[row("fedsgd-dpc", 1, 0.8), row("pfa", 2, 0.7)])
    assert marks(advice_figure(AdviceRecord.view(alone)), "ties") == []


def test_the_outlook_has_a_panel_for_each_axis_and_a_ring_where_the_answer_flips():
    figure = outlook_figure(AdviceRecord.view(advice()))
    assert figure is not None
    assert [axes.get_xlabel() for axes in figure.axes] == [axis for axis, _ in AXES]
    (ring,) = marks(figure, "flip")
    assert ring.get_xdata()[0] == 1.5
    solid = next(line for line in figure.axes[1].lines if line.get_gid() == "dp-pasgd")
    assert np.isnan(solid.get_ydata()).tolist() == [True, *[False] * 5, True]
    assert outlook_figure(AdviceRecord.view(nobody())) is None


# The page and the files ---------------------------------------------------------------------------------


@pytest.mark.full
def test_a_folder_holds_everything_and_the_page_loads_nothing(tmp_path):
    made = advice()
    path = write_advice(made, tmp_path / "here")
    assert {one.name for one in path.parent.iterdir()} == {
        "advice.json", "advice.png", "claim_card.json", "outlook.png", "recommended.toml", "report.html",
    }  # fmt: skip
    assert json.loads((path.parent / "advice.json").read_text()) == made
    text = path.read_text()
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "ward &lt;7&gt;" in text
    for part in ("Train with fedsgd-dpc", "weiavg ties with it", "dmldp", "loses 14 %", "stronger claim"):
        assert part in text
    study = tomllib.loads((path.parent / "recommended.toml").read_text())
    assert parse_study(study) == parse_study(STUDY)


@pytest.mark.parametrize(("public", "said"), [(["wine"], "not this data set"), (["wine", "iris"], "none of")])
def test_how_many_data_sets_were_tried_is_told_right(tmp_path, public, said):
    text = write_advice(advice(public=public), tmp_path).read_text()
    assert f"it is {said}" in text


@pytest.mark.full
def test_nobody_should_train_leaves_no_study_of_an_earlier_advice(tmp_path):
    write_advice(advice(), tmp_path)
    path = write_advice(nobody(), tmp_path)
    assert not (tmp_path / "recommended.toml").exists()
    assert not (tmp_path / "outlook.png").exists()
    text = path.read_text()
    assert "<h1>Do not train</h1>" in text
    assert "with N = 80 like these it would work" in text
    assert headline(AdviceRecord.view(nobody())) == "Do not train"


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="choose another with --out"):
        write_advice(advice(), tmp_path / "file")


# The terminal -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("made", [advice(), nobody()], ids=["train", "do not train"])
def test_the_terminal_shows_all_in_eighty_columns(made):
    console = Console(file=StringIO(), width=80)
    console.print(advice_panel(made))
    text = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert max(map(len, text.splitlines())) <= 80
    for one in [*made["algorithms"], *made["left_out"]]:
        assert one["name"] in text


def test_costs_in_resources_are_a_column_of_their_own():
    paid = row("weiavg", 1, 0.8)
    paid["cost"] |= {"resources": 120.5, "unit": "joules"}
    (shown,) = prices(AdviceRecord.view(advice(algorithms=[paid], recommended="weiavg")))
    assert shown["joules"] == "120"
    assert shown["sends"] == in_bytes(2560 * 90) == "230 kB"


def test_a_regression_has_no_per_cent():
    made = advice(score="R^2")
    assert rows(AdviceRecord.view(made))[0]["reaches"] == "0.83"
    assert "0.83 R²" in made["recommendation"]
    assert advice_figure(AdviceRecord.view(made)).axes[0].get_xlabel() == "predicted test R²"


def test_a_ranking_by_a_metric_is_told_in_it():
    made = advice(score="AUC", ranked_by="AUC")
    assert rows(AdviceRecord.view(made))[0]["reaches"] == "0.83"
    axes = advice_figure(AdviceRecord.view(made)).axes[0]
    assert (axes.get_xlabel(), axes.get_title(loc="left")) == (
        "predicted test AUC",
        "What each algorithm would reach, by mean AUC",
    )
    balanced = advice(score="balanced accuracy", ranked_by="balanced accuracy")
    assert rows(AdviceRecord.view(balanced))[0]["reaches"] == "83.0 %"
    assert "by mean loss" in advice_figure(AdviceRecord.view(advice())).axes[0].get_title(loc="left")


def test_a_record_that_is_none_is_refused_by_the_key_that_is_wrong():
    torn = advice()
    torn["algorithms"][0]["costs"] = torn["algorithms"][0].pop("cost")
    with pytest.raises(ValidationError) as refused:
        AdviceRecord.view(torn)
    wrong = {error["loc"] for error in refused.value.errors()}
    assert wrong == {("algorithms", 0, "cost"), ("algorithms", 0, "costs")}
