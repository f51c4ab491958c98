"""A run has one result; every other number beside it is explained, and the verdict is what was measured."""

from __future__ import annotations

import copy

import pytest
from matplotlib.text import Text
from pages import render, ticks_apart

from noiseworthy.reports import result
from noiseworthy.reports.figures import all_figures, hero_figure, training_figure
from noiseworthy.reports.findings import compare_caption, setting, training_caption
from noiseworthy.reports.html import constants_of, rests_on
from noiseworthy.reports.style import NARROW, png
from noiseworthy.reports.tables import comparison_table, training_panel
from noiseworthy.reports.usual import usual_caption, usual_figure
from noiseworthy.studies.typed_record import view

SPACE = "\N{NO-BREAK SPACE}"
LOSS = "Training did not help: test loss 0.7 against 0.5 untrained."


def with_usual(record, accuracies=((0.55, 0.6, 0.65), (0.4, 0.45, 0.5))):
    """The record with usual settings beside a plan of 0.66, 0.71 and 0.76."""
    record = copy.deepcopy(record)
    planned = next(cell for cell in record["compare"]["cells"] if cell["planned"])
    planned["accuracy"] = [0.66, 0.71, 0.76]
    record["compare"]["usual"] = [
        {
            "name": f"tutorial {i}", "rounds": 50, "clip_norm": 1.0, "step_size": 0.1,
            "loss": [1.0, 1.1, 1.2], "accuracy": list(scores),
        }
        for i, scores in enumerate(accuracies)
    ]  # fmt: skip
    return record


def course(record):
    record = copy.deepcopy(record)
    rounds = [0, 20, record["plan"]["rounds"]]
    record["evidence"]["course"] = {
        "rounds": rounds, "loss": [2.303, 1.0, 0.5], "least": [2.303, 0.5, 0.2], "most": [2.303, 2.0, 1.0],
    }  # fmt: skip
    return record


def lines(axes, gid):
    return [line.get_xydata().tolist() for line in axes.lines if line.get_gid() == gid]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("full", f"71{SPACE}% accuracy at epsilon 4"),
        ("one_seed", "R² 0.73 at epsilon 4"),
        ("no_noise", f"71{SPACE}% accuracy without privacy"),
        ("plan_only", "Train 80 rounds, asking 1 of 10 clients in each."),
        ("do_not_train", "Do not train."),
    ],
)
def test_the_title_is_the_result_with_its_privacy_or_else_the_decision(make_record, name, said):
    assert result.title(view(make_record(name))) == said


def test_a_loss_is_the_result_where_there_is_no_score(make_record):
    record = make_record("full")
    record["training"]["accuracy"] = [[None] * len(curve) for curve in record["training"]["accuracy"]]
    assert result.title(view(record)) == "Test loss 0.752 at epsilon 4"
    record["training"]["loss"] = [[*curve[:-1], None] for curve in record["training"]["loss"]]
    assert result.title(view(record)) == "Training diverged"


def test_of_two_trainings_of_the_plan_one_is_the_result_and_the_other_is_explained(make_record):
    record = with_usual(make_record("full"))
    record["training"]["accuracy"] = [[*curve[:-1], 0.5] for curve in record["training"]["accuracy"]]
    said = dict(result.explained(view(record)))
    assert said[f"50{SPACE}%"].startswith("The result: the mean of 3 simulated trainings")
    assert said[f"71{SPACE}%"].startswith(
        "The same plan trained again beside the other settings, under seeds 100 to"
    )
    assert result.title(view(record)).startswith(f"50{SPACE}%")
    record["compare"]["seeds"] = record["training"]["seeds"]
    assert f"71{SPACE}%" not in dict(result.explained(view(record)))


def test_predictions_and_the_most_frequent_class_are_explained(make_record):
    record = make_record("full")
    record["training"]["prior"] = 0.1
    record["foretold"] = {
        "loss": {"mean": 0.5, "least": 0.2, "most": 1.0},
        "accuracy": {"mean": 0.8, "least": 0.6, "most": 0.9},
    }
    said = dict(result.explained(view(record)))
    assert f"within 60{SPACE}% to 90{SPACE}%" in said[f"80{SPACE}%"]
    assert said[f"80{SPACE}%"].endswith("No private record was read for it.")
    assert "most frequent class" in said[f"10{SPACE}%"]


@pytest.mark.parametrize(
    "told",
    [
        {"bought_ranges": {"age": [20.0, 80.0]}},
        {"bought_label_scale": 2.0},
        {"bought_label_mean": 3.0},
        {"bought_mean": [0.1, 0.2], "bought_class_shares": [0.9, 0.1]},
    ],
)
def test_what_was_predicted_after_something_was_bought_says_so(make_record, told):
    record = make_record("full")
    record["plan"] |= told
    record["foretold"] = {
        "loss": {"mean": 0.5, "least": 0.2, "most": 1.0},
        "accuracy": {"mean": 0.8, "least": 0.6, "most": 0.9},
    }
    said = dict(result.explained(view(record)))[f"80{SPACE}%"]
    assert said.endswith("No private record was read for it beside what was bought.")


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        (((0.55, 0.6, 0.65), (0.4, 0.45, 0.5)), "Better than every usual setting; the best of them reaches"),
        (((0.76, 0.6, 0.77),), f"Not told apart from the best usual setting, which reaches 71{SPACE}%"),
        (((0.76, 0.81, 0.86),), "A usual setting does better: tutorial 0, 50 rounds, clip 1, step 0.1"),
        (((None, None, None),), "Every usual setting diverged"),
    ],
)  # fmt: skip
def test_the_verdict_is_that_of_the_paired_difference(make_record, accuracies, said):
    assert result.verdict(view(with_usual(make_record("full"), accuracies))).startswith(said)


def test_where_one_seed_diverged_no_score_of_the_others_is_the_result(make_record):
    record = with_usual(make_record("full"), ((0.9, None, 0.9), (0.4, 0.5, 0.6)))
    record["training"] = None
    for one in (record["compare"]["usual"][0], record["compare"]["cells"][0]):
        one["loss"], one["accuracy"] = [1.0, None, 1.0], [0.9, None, 0.9]
    (_, plan, _), (_, first, _), (name, last, _) = result.beside_usual(view(record), view(record).compare)
    assert (plan, first.mean, name.split(",")[0], last) == (None, 0.5, "tutorial 0", None)
    assert result.title(view(record)) == "Training diverged"
    assert result.verdict(view(record)) == "The plan diverged"


def test_a_training_of_which_one_seed_diverged_has_no_score_of_the_others(make_record):
    record = make_record("full")
    for name in ("loss", "accuracy"):
        record["training"][name] = [list(curve) for curve in record["training"][name]]
        record["training"][name][1][-1] = None
    assert result.title(view(record)) == "Training diverged"
    assert "test accuracy" not in written(training_panel(view(record)))


def test_without_usual_settings_the_grid_gives_the_verdict(make_record):
    assert result.verdict(view(make_record("full"))) == f"The plan keeps 96{SPACE}% of the attainable gain"
    assert result.verdict(view(make_record("plan_only"))) is None


def test_the_figure_has_a_row_for_the_plan_and_for_each_usual_setting(make_record):
    assert usual_figure(view(make_record("full"))) is None
    record = with_usual(make_record("full"))
    (axes,) = usual_figure(view(record)).axes
    assert lines(axes, "plan") == [[[pytest.approx(0.71), 0]]]
    assert [row for _, row in (place for [place] in lines(axes, "usual"))] == [1, 2]
    assert [across for across, _ in (place for [place] in lines(axes, "usual"))] == pytest.approx([0.6, 0.45])
    texts = [text.get_text() for text in axes.texts]
    assert "tutorial 0, 50 rounds, clip 1, step 0.1" in texts
    assert "spends the same privacy budget" in usual_caption(view(record))
    record["training"]["prior"] = 0.1
    assert "The dashed line is always answering" in usual_caption(view(record))
    for one in (*record["compare"]["cells"], *record["compare"]["usual"]):
        one["accuracy"] = [None] * 3
    assert len(usual_figure(view(record)).axes[0].get_lines()) == 6  # three rows and three marks
    assert "dashed line" not in usual_caption(view(record))


def test_numbers_below_usual_settings_do_not_run_into_each_other(make_record):
    record = with_usual(make_record("one_seed"), ((-300.0,), (0.95,)))
    assert ticks_apart(usual_figure(view(record))) > 10


def test_budgets_are_nowhere_written_smaller_than_they_are(make_record):
    record = make_record("full")
    for row in record["plan"]["privacy"]["clients"]:
        row |= {"epsilon": 1.23456123, "delta": 1.23456123e-5}
    record = view(record)
    (told,) = [key for key in result.key_numbers(record) if key.name == "epsilon at most"]
    assert (told.value, told.remark) == ("1.23457", "delta 1.23457e-05 per record")
    assert result.title(record).endswith("at epsilon 1.23457")
    assert "ε = 1.235, δ = 1.235e-05 per record" in setting(record)
    assert compare_caption(record).endswith("the plan spends at most 1.23457.")


@pytest.mark.full
def test_figures_to_read_on_a_phone_have_texts_of_nine_pixels_at_least(make_record):
    """A screen of 360 px, less margins of page and section, 0.4 and 0.7 rem on both sides, and a frame."""
    record = course(with_usual(make_record("full")))
    drawn = all_figures(view(record), ("usual", "training", "why", "compare"))
    for name, figure in drawn.items():
        width = figure.get_figwidth()
        assert width == NARROW, name
        px = (360 - 2 * 16 * (0.4 + 0.7) - 2) / (72 * width)
        png(figure, dpi=30)
        sizes = [text.get_fontsize() for text in figure.findobj(Text) if text.get_text().strip()]
        assert min(sizes) * px >= 9, name


def test_the_predicted_course_is_drawn_from_the_untrained_loss_on_beside_the_measured_one(make_record):
    """The first picture had a prediction of few rounds at their own steps beside losses that begin at 2.3."""
    record = course(with_usual(make_record("full")))
    expected = [[0, 2.303], [20, 1.0], [record["plan"]["rounds"], 0.5]]
    loss = training_figure(view(record)).axes[0]
    assert lines(loss, "foretold") == [expected]
    first = hero_figure(view(record)).axes[0]
    assert lines(first, "foretold") == [expected]
    [measured] = lines(first, "mean")
    assert measured[0] == [0, pytest.approx(2.303)]
    assert "Dashed, how it fell in trials on public data" in training_caption(view(record))


def test_a_course_that_was_foretold_as_shares_of_the_untrained_loss_is_drawn_in_its_unit(make_record):
    """Those of regressions lay at 1 beside losses in squared units of the labels, whatever these are."""
    record = course(make_record("full"))
    record["plan"]["predicted"]["unit"] = "share of the loss without training"
    start = record["training"]["untrained_loss"] = 2.5e12
    loss = training_figure(view(record)).axes[0]
    expected = [[0, 2.303 * start], [20, start], [record["plan"]["rounds"], 0.5 * start]]
    assert lines(loss, "foretold") == [expected]


@pytest.mark.full
def test_a_contradicted_prediction_comes_first_on_the_page_and_in_the_terminal(make_record):
    record = make_record("full")
    record["training"]["flags"] = [LOSS]
    page = render(record)
    assert page.index(LOSS) < page.index("Simulated noise") < page.index('<dl class="keys">')
    shown = written(training_panel(view(record)))
    assert (
        shown.index("Training did not help") < shown.index("Simulated noise") < shown.index("test accuracy")
    )


def test_the_terminal_names_the_verdict_and_every_usual_setting(make_record):
    shown = written(comparison_table(view(with_usual(make_record("full")))))
    assert "Better than every usual setting" in shown
    assert "tutorial 1, 50 rounds, clip 1, step 0.1" in shown


def written(renderable):
    from rich.console import Console

    console = Console(width=100)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


@pytest.mark.full
def test_what_the_plan_rests_on_is_said_in_words_before_any_symbol(make_record):
    record = view(make_record("full"))
    assert rests_on(record) == "On a bound on the loss. Its 5 numbers are fitted to trials on wine, iris."
    rows = {row["name in the theory"]: row for row in constants_of(record)}
    assert rows["noise weight"]["what it stands for"] == "how much noise in an upload costs"
    assert rows["gamma"]["value"] == "0.9"
    page = render(record)
    assert page.index("On a bound on the loss") < page.index("name in the theory")
    assert "No record was looked at" in rests_on(view(make_record("whole_updates")))


def test_a_rule_of_thumb_is_not_called_a_bound(make_record):
    record = make_record("full")
    for constant in record["plan"]["constants"].values():
        constant["provenance"] = "rule of thumb, calibrated on digits and Fashion-MNIST"
    said = rests_on(view(record))
    assert said.startswith("On a rule of thumb. Its 5 numbers are rule of thumb, calibrated")


@pytest.mark.full
def test_every_setting_that_was_simulated_is_counted_among_the_limits(make_record):
    record = make_record("full")
    cells = len(record["compare"]["cells"])
    assert f"simulated {cells} settings" in render(record)
    assert f"simulated {cells + 2} settings" in render(with_usual(record))
