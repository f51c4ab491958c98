"""DPFL-BCS beside its rivals as it is drawn, told and listed: the same numbers everywhere."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from matplotlib.colors import to_rgb
from pages import render, ticks_apart
from rich.console import Console

from noiseworthy.reports import rivals_words as words
from noiseworthy.reports.figures import all_figures, hero_figure
from noiseworthy.reports.findings import setting
from noiseworthy.reports.html import write_report
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.reports.rivals import rivals_figure, sweeps_figure
from noiseworthy.reports.style import PLAN, png
from noiseworthy.reports.tables import rivals_table
from noiseworthy.studies.typed_record import view

MEANS = {
    "DPSGD": 0.40, "WeiAvg": 0.60, "PFA": 0.65, "PrivateFL": 0.30, "PrivateFL-BCS": 0.50, "DPFL-BCS": 0.70,
}  # fmt: skip
SPREAD = np.array([-0.02, 0.0, 0.02])
NBSP = "\N{NO-BREAK SPACE}"


def one(name, mean, spread=SPREAD, spent=0.99999):
    accuracy = mean + spread
    return {
        "name": name, "algorithm": name.lower(), "asked": [0, 40], "spent": spent,
        "loss": (2 - accuracy).tolist(), "mean_loss": 2 - mean, "std_loss": float(spread.std()),
        "accuracy": accuracy.tolist(), "mean_accuracy": mean, "std_accuracy": float(spread.std()),
        "gap": None,
    }  # fmt: skip


def at(mechanism, epsilon_max=3.0, alpha=3.0, shift=0.0, gap_std=0.01):
    """Everybody at a point, DPFL-BCS ahead of each by the difference of means with one deviation."""
    entries = [one(name.replace("DPSGD", "DMLDP" if mechanism == "laplace" else "DPSGD"), mean + shift)
               for name, mean in MEANS.items()]  # fmt: skip
    for entry in entries[:-1]:
        entry["gap"] = {"mean": MEANS["DPFL-BCS"] + shift - entry["mean_accuracy"], "std": gap_std}
    if mechanism == "none":
        entries = [one("FedSGD", 0.9, spent=None)]
    return {
        "mechanism": mechanism, "epsilon_max": epsilon_max, "alpha": alpha,
        "own": (epsilon_max, alpha) == (3.0, 3.0), "algorithms": entries,
        "search_epsilon": {"gaussian": 8.4504, "laplace": 17.787, "none": None}[mechanism],
    }  # fmt: skip


def with_rivals(record, mechanisms=("gaussian", "laplace"), epsilons=(1.0, 6.0), alphas=(0.5,)):
    """All that may be varied; Laplace noise 0.2 worse, a smaller range 0.1 worse."""
    down = {"gaussian": 0.0, "laplace": -0.2}
    points = [at("none"), *(at(m, shift=down[m]) for m in mechanisms)]
    points += [at(m, epsilon_max=e, shift=down[m] + 0.02 * (e - 3)) for e in epsilons for m in mechanisms]
    for alpha in alphas:
        points += [at("none", alpha=alpha)]
        points += [at(m, alpha=alpha, shift=down[m] - 0.05) for m in mechanisms]
    study = copy.deepcopy(record["study"]) if record.get("study") else {}
    study.setdefault("privacy", {})["epsilon"] = {"uniform": [0.1, 3.0]}
    rivals = {
        "mechanisms": list(mechanisms), "epsilon_max": 3.0, "alpha": 3.0, "seeds": [0, 1, 2],
        "quantity": "accuracy", "replies": 62500, "seconds": 12.5, "points": points,
    }  # fmt: skip
    return {**record, "training": None, "compare": None, "study": study, "rivals": rivals}


@pytest.fixture
def record(make_record):
    return with_rivals(make_record("chosen_clients"))


@pytest.fixture
def alone(make_record):
    """One mechanism, nothing varied."""
    return with_rivals(make_record("chosen_clients"), ("gaussian",), (), ())


def own(record, mechanism="gaussian"):
    points = record["rivals"]["points"]
    return next(point for point in points if point["own"] and point["mechanism"] == mechanism)


def entry(record, name, mechanism="gaussian"):
    return next(one for one in own(record, mechanism)["algorithms"] if one["name"] == name)


def rivals_of(record):
    return view(record).rivals


def texts(axes):
    return [text.get_text() for text in axes.texts]


# All at one point -------------------------------------------------------------------------------------


def test_numbers_below_two_mechanisms_do_not_run_into_each_other(record):
    for point in record["rivals"]["points"]:
        for one in point["algorithms"]:
            one["accuracy"][0] = 0.55 if one["name"] == "PrivateFL" else 0.961
    assert ticks_apart(rivals_figure(view(record))) > 5


def test_rows_are_sorted_by_mean_and_written_with_their_deviation(record):
    for axes, worst in zip(rivals_figure(view(record)).axes, ("PrivateFL", "PrivateFL"), strict=True):
        names = [label.get_text() for label in axes.get_yticklabels()]
        assert names[:3] == ["DPFL-BCS", "PFA", "WeiAvg"]
        assert names[-1] == worst
        assert axes.yaxis_inverted()
    first = rivals_figure(view(record)).axes[0]
    assert texts(first)[1] == f"70.0 ± 1.6{NBSP}%"


def test_every_training_is_a_dot_and_every_mean_a_mark(record):
    axes = rivals_figure(view(record)).axes[1]
    dots = [dot for dot in axes.collections if dot.get_gid() == "training"]
    marks = [line for line in axes.lines if line.get_gid() == "mean"]
    best = own(record, "laplace")["algorithms"][-1]
    np.testing.assert_allclose(dots[0].get_offsets()[:, 0], best["accuracy"])
    assert [mark.get_xdata()[0] for mark in marks] == sorted((m.get_xdata()[0] for m in marks), reverse=True)
    assert len(dots) == len(marks) == 6


def test_dpfl_bcs_alone_has_the_colour_of_the_plan(record):
    (axes, _) = rivals_figure(view(record)).axes
    for label in axes.get_yticklabels():
        ours = label.get_text() == "DPFL-BCS"
        assert (to_rgb(label.get_color()) == to_rgb(PLAN)) == ours
        assert (label.get_fontweight() == "bold") == ours


def test_the_reference_is_named_with_its_number(record):
    assert f"FedSGD, no noise: 90.0{NBSP}%" in texts(rivals_figure(view(record)).axes[0])


def test_every_panel_shows_every_training_and_the_reference(record):
    for axes, least in zip(rivals_figure(view(record)).axes, (0.3, 0.1), strict=True):
        low, high = axes.get_xlim()
        assert least - 0.1 < low < least - 0.02
        assert 0.92 < high < 1.0


def test_a_training_that_diverged_is_said_and_comes_last(alone):
    entry(alone, "DPFL-BCS").update(accuracy=[0.7, None, 0.7], mean_accuracy=None, std_accuracy=None)
    axes = rivals_figure(view(alone)).axes[0]
    assert axes.get_yticklabels()[-1].get_text() == "DPFL-BCS"
    assert "diverged" in texts(axes)
    assert words.finding(rivals_of(alone)) == "Under Gaussian noise DPFL-BCS diverged"


def test_losses_far_apart_are_on_a_logarithmic_axis_and_the_least_is_best(alone):
    alone["rivals"]["quantity"] = "loss"
    entry(alone, "PFA").update(loss=[900.0, 1000.0, 1100.0], mean_loss=1000.0, std_loss=80.0)
    axes = rivals_figure(view(alone)).axes[0]
    assert axes.get_xscale() == "log"
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert (names[0], names[-1]) == ("DPFL-BCS", "PFA")
    assert "1,000 ± 80" in texts(axes)


def test_nobody_at_home_is_no_finding(alone):
    for point in alone["rivals"]["points"]:
        for other in point["algorithms"]:
            other["home"] = {"alone": 0.8, "shared": None, "tuned": None}
    assert words.home_finding(rivals_of(alone)) == ""


# Along what is varied ---------------------------------------------------------------------------------


def test_each_mechanism_and_each_thing_varied_has_a_panel_with_a_line_per_algorithm(record):
    figure = sweeps_figure(view(record))
    assert len(figure.axes) == 4
    for axes in figure.axes:
        labels = {container.get_label() for container in axes.containers}
        assert len(labels) == 7
        assert {"FedSGD", "DPFL-BCS"} <= labels
        assert labels <= set(texts(axes)) | {""}


def test_lines_go_through_the_means_at_the_values_that_were_measured(record):
    axes = sweeps_figure(view(record)).axes[0]
    (ours,) = [one for one in axes.containers if one.get_label() == "DPFL-BCS"]
    x, y = ours.lines[0].get_data()
    assert list(x) == [1.0, 3.0, 6.0]
    np.testing.assert_allclose(y, [0.66, 0.70, 0.76])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "3", "6"]
    assert axes.get_xlabel() == "largest budget: ε is drawn from 0.1 up to it"


def test_trainings_that_all_diverged_are_drawn_as_nothing(record):
    record["rivals"]["quantity"] = "loss"
    for point in record["rivals"]["points"]:
        for other in point["algorithms"]:
            other.update(loss=[None] * 3, mean_loss=None, std_loss=None, gap=None)
    figure = sweeps_figure(view(record))
    assert figure is not None
    assert png(figure)


def test_only_what_was_varied_is_drawn(make_record, alone):
    assert sweeps_figure(view(alone)) is None
    budgets = with_rivals(make_record("chosen_clients"), ("laplace",), (1.0,), ())
    assert len(sweeps_figure(view(budgets)).axes) == 1
    assert "largest budget is another" in words.sweeps_caption(view(budgets))
    assert "α" not in words.sweeps_caption(view(budgets))


def test_the_reference_follows_the_partition(record):
    points = record["rivals"]["points"]
    (reference,) = (p for p in points if p["mechanism"] == "none" and p["alpha"] == 0.5)
    reference["algorithms"][0].update(mean_accuracy=0.8)
    axes = sweeps_figure(view(record)).axes[1]
    (line,) = [one for one in axes.containers if one.get_label() == "FedSGD"]
    np.testing.assert_allclose(line.lines[0].get_ydata(), [0.8, 0.9])


# Words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "std", "says"),
    [
        (0.05, 0.01, "is ahead of the best private rival, PFA, by 5.0 ± 1.0 points"),
        (0.05, 0.04, "is not clearly ahead of the best private rival, PFA: +5.0 ± 4.0 points"),
        (0.05, 0.02, "is not clearly ahead of the best private rival, PFA: +5.0 ± 2.0 points"),
        (0.0, 0.0, "is not ahead of the best private rival, PFA: +0.0 ± 0.0 points"),
        (-0.05, 0.04, "is not ahead of the best private rival, PFA: -5.0 ± 4.0 points"),
        (-0.05, 0.01, "is behind the best private rival, PFA, by 5.0 ± 1.0 points"),
    ],
)
def test_ahead_takes_two_standard_errors(alone, mean, std, says):
    """Of three seeds the error is the deviation over the root of 2, which Student's t takes 4.5 times."""
    entry(alone, "PFA")["gap"] = {"mean": mean, "std": std}
    assert words.finding(rivals_of(alone)) == f"Under Gaussian noise DPFL-BCS {says}"


def test_one_seed_has_no_deviation_and_tells_nobody_apart(alone):
    alone["rivals"]["seeds"] = [0]
    assert words.finding(rivals_of(alone)).endswith(
        "is not clearly ahead of the best private rival, PFA: +5.0 points"
    )
    assert (
        words.with_deviation(rivals_of(alone), words.entry_of(words.own_points(rivals_of(alone))[0], "PFA"))
        == f"65.0{NBSP}%"
    )


def test_privatefl_on_the_same_clients_is_named_where_it_is_better(alone):
    assert "PrivateFL-BCS" not in words.finding(rivals_of(alone))
    entry(alone, "PrivateFL-BCS")["gap"] = {"mean": -0.03, "std": 0.001}
    assert words.finding(rivals_of(alone)).endswith(
        "by 5.0 ± 1.0 points; PrivateFL-BCS, which asks the same clients, is 3.0 ± 0.1 points better"
    )
    entry(alone, "PrivateFL-BCS")["gap"] = {"mean": -0.03, "std": 0.05}
    assert "better" not in words.finding(rivals_of(alone))


def test_who_asks_the_same_clients_is_not_the_best_rival(alone):
    entry(alone, "PrivateFL-BCS").update(mean_accuracy=0.95)
    rivals = rivals_of(alone)
    assert words.best_rival(rivals, words.own_points(rivals)[0]).name == "PFA"


def test_the_finding_has_a_sentence_for_each_mechanism(record):
    first, second = words.finding(rivals_of(record)).split(". ")
    assert first.startswith("Under Gaussian noise DPFL-BCS is ahead of")
    assert second.startswith("Under Laplace noise DPFL-BCS is ahead of")


def test_the_caption_says_what_is_pure_what_is_spent_and_what_choosing_would_cost(record):
    said = words.caption(view(record))
    assert "Laplace noise is planned for pure ε, δ = 0." in said
    assert f"No client spends more than 100{NBSP}% of its ε in any of them." in said
    assert "would run 12 private trainings and spend epsilon 8.46 under Gaussian noise and 17.8 under" in said
    assert "where one of them spends at most 3; FedSGD hides nothing." in said
    for point in record["rivals"]["points"]:
        point["search_epsilon"] = None
    assert "12 private trainings and add up what they spend; FedSGD" in words.caption(view(record))


def test_gaussian_noise_alone_says_nothing_of_laplace(alone):
    assert "Laplace" not in words.caption(view(alone))


def test_regression_is_compared_by_the_loss_that_is_trained(make_record):
    record = with_rivals(make_record("one_seed"))
    record["rivals"]["quantity"] = "loss"
    assert words.quantity_name(view(record), rivals_of(record)) == "test loss, half the mean squared error"
    assert "points" not in words.finding(rivals_of(record))


# Pages and tables -------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_page_shows_figures_tables_and_the_choice_of_clients(record, tmp_path):
    page = render(record)
    for title in ("DPFL-BCS beside its rivals", "Other budgets, other data", "Whom to ask"):
        assert f"<h2>{title}</h2>" in page
    assert '<p class="finding">Under Gaussian noise DPFL-BCS is ahead' in page
    assert "Seeds of DPFL-BCS and its rivals: 0, 1, 2." in page
    write_report(record, tmp_path)
    assert (tmp_path / "rivals.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "rivals-varied.png").exists()
    assert "rivals" not in render(
        {k: v for k, v in record.items() if k not in ("rivals", "study")} | {"study": {}}
    )


@pytest.mark.full
def test_a_record_without_rivals_has_no_trace_of_them(make_record):
    plain = make_record("full")
    assert not {"rivals", "rivals-varied"} & set(all_figures(view(plain)))
    assert rivals_table(view(plain)) is None
    assert "rivals" not in render(plain)


def test_the_hero_sets_whom_to_ask_beside_what_came_of_it(record):
    left, right = hero_figure(view(record)).axes
    assert left.get_title(loc="left") == "Who is asked how often"
    assert right.get_yticklabels()[0].get_text() == "DPFL-BCS"


def test_measured_numbers_are_called_simulated(record):
    assert setting(view(record)).endswith(", simulated")
    clauses = {clause.title: clause for clause in privacy_statement(record)}
    assert "Simulated noise is no privacy mechanism" in clauses
    points = clauses["What is not protected"].points
    assert any("simulated 48 private trainings and FedSGD on the same records" in point for point in points)


@pytest.mark.parametrize("kind", ["record", "alone"])
def test_the_table_has_everybody_with_gap_replies_and_spending_in_80_columns(kind, request):
    console = Console(width=80, no_color=True)
    with console.capture() as printed:
        console.print(rivals_table(view(request.getfixturevalue(kind))))
    lines = printed.get().splitlines()
    assert max(map(len, lines)) <= 80
    text = " ".join(printed.get().replace(NBSP, " ").split())
    assert "62,500 replies in 12.5 s, 5,000 a second" in text
    assert "WeiAvg 60.0 ± 1.6 % +10.0 ± 1.0 points 0 to 40 100 %" in text
    assert "FedSGD 90.0 ± 1.6 % 0 to 40 no noise" in text
    assert ("Laplace noise, the concentration of the partition" in text) == (kind == "record")


def test_tables_of_what_was_varied_have_a_column_per_value(record):
    tables = words.varied(rivals_of(record))
    assert len(tables) == 4
    rows = tables["Gaussian noise, the largest budget"]
    assert list(rows[0]) == ["algorithm", "1", "3", "6"]
    means = {"1": f"66.0 ± 1.6{NBSP}%", "3": f"70.0 ± 1.6{NBSP}%", "6": f"76.0 ± 1.6{NBSP}%"}
    assert rows[0] == {"algorithm": "DPFL-BCS", **means}


# At home ----------------------------------------------------------------------------------------------


def test_what_owners_make_of_models_is_a_table_in_the_order_of_the_standings(alone):
    assert words.at_home(rivals_of(alone)) == {}
    assert words.home_finding(rivals_of(alone)) == ""
    for point in alone["rivals"]["points"]:
        for place, other in enumerate(point["algorithms"]):
            other["home"] = {"alone": 0.8, "shared": 0.5, "tuned": 0.8 + place / 100, "Ditto": None}
    tables = words.at_home(rivals_of(alone))
    assert list(tables) == ["Gaussian noise, at home"]
    first, second, *_, last = tables["Gaussian noise, at home"]
    assert first == {
        "model of": "DPFL-BCS", "shared": f"50.0{NBSP}%", "tuned": f"85.0{NBSP}%", "Ditto": "–",
    }  # fmt: skip
    assert (second["model of"], last["model of"]) == ("PFA", "FedSGD")
    found = words.home_finding(rivals_of(alone))
    assert found == (
        f"On their own test records, under Gaussian noise owners reach 80.0{NBSP}% alone and 85.0{NBSP}% "
        "with the model of DPFL-BCS, tuned"
    )
    assert found in render(view(alone))
