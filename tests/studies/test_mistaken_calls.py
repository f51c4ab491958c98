"""What the Python API says to the mistakes that are made most often at its calls."""

from __future__ import annotations

import re

import numpy as np
import pytest

import noiseworthy as nw
from noiseworthy.errors import ConfigError, InvalidInput

STUDY = """
[federation]
data = "breast-cancer"
clients = 4
[privacy]
mechanism = "gaussian"
epsilon = 2.0
delta = 1e-5
clip_norm = 1.0
[algorithm]
rounds = 2
clients_per_round = 2
step_size = 1.0
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory) -> nw.Planned:
    path = tmp_path_factory.mktemp("study") / "study.toml"
    path.write_text(STUDY)
    return nw.plan(path)


def test_a_planned_study_is_no_plan_and_the_remedy_is_told(planned):
    federation, task = planned.prepared.trained()
    with pytest.raises(
        InvalidInput, match=r"plan must be a Plan, got a Planned; of a Planned give its \.plan"
    ):
        nw.train(planned, federation, task)
    with pytest.raises(InvalidInput, match=r"seeds must be a list of whole numbers, got 3; write \[3\]"):
        nw.train(planned.plan, federation, task, seeds=3)
    with pytest.raises(InvalidInput, match="got a Prepared and a function; prepared"):
        nw.train(planned.plan, planned.prepared, lambda x: x)


def test_tables_are_parsed_and_studies_opened_before(planned, tmp_path):
    for call in (nw.plan, nw.prepare):
        with pytest.raises(InvalidInput, match=r"got a dict; give parse_study\(dict\)"):
            call({"federation": {"data": "digits"}})
    (tmp_path / "study.toml").write_text(STUDY)
    assert nw.prepare(f"{tmp_path}/study.toml").sizes.tolist() == planned.prepared.sizes.tolist()
    with pytest.raises(InvalidInput, match=r"got a str; give prepare\(load_study\(path\)\)"):
        nw.advise("study.toml")


@pytest.mark.parametrize("changes", ["privacy.epsilon=2", ["privacy.epsilon=2"], {1: 2}])
def test_changes_are_a_dictionary_by_key(tmp_path, changes):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    for call in (nw.run, lambda study, **more: nw.sweep(study, {"privacy.delta": [1e-6]}, **more)):
        with pytest.raises(ConfigError, match=r'set must be values by key, such as \{"privacy.eps'):
            call(path, set=changes)


def test_callbacks_are_objects_and_one_alone_is_taken(tmp_path):
    for odd in ([nw.Callback], nw.Callback):
        with pytest.raises(InvalidInput, match=r"objects like noiseworthy\.Callback\(\), got <class "):
            nw.run(tmp_path / "study.toml", callbacks=odd)
    with pytest.raises(InvalidInput, match=r"objects like noiseworthy\.Callback\(\), got 3$"):
        nw.run(tmp_path / "study.toml", callbacks=3)
    with pytest.raises(ConfigError, match="does not exist"):
        nw.run(tmp_path / "study.toml", callbacks=nw.Callback())


def test_a_planned_study_and_its_file_are_shown_in_two_lines(planned, tmp_path):
    digest, plan = planned.file.digest, planned.plan
    shown = f"plan {digest[:12]}: fedsgd-dpc\n{plan.outcome}"
    assert (repr(planned), repr(nw.load_plan(str(planned.file.save(tmp_path))))) == (shown, shown)
    assert repr(plan) == f"plan by fedsgd-dpc: {plan.outcome}"
    run = nw.train(plan, *planned.prepared.trained(), seeds=[0, 1], evaluations=1)
    assert re.fullmatch(r"Run of \d+ rounds and 2 seeds: test loss [\d.]+, score [\d.]+", repr(run))


@pytest.mark.parametrize(("clients", "said"), [(2.5, "whole number, got 2.5"), (0, "at least 1, got 0")])
def test_a_number_of_clients_is_a_count(clients, said):
    with pytest.raises(InvalidInput, match=f"clients must be (a )?{said}"):
        nw.PrivacyBudget.of(1.0, 1e-5, clients)


@pytest.mark.parametrize("federation", [{"sizes": [50, 60, 70]}, {"data": "breast-cancer", "clients": 3}])
def test_too_few_owners_for_a_secure_sum_are_told_before_anything_is_planned(federation):
    """No epsilon helps, which a plan that only found the noise too large would advise."""
    task = {"dimension": 3} if "sizes" in federation else {}
    privacy = {"mechanism": "gaussian", "epsilon": 2.0, "delta": 1e-5, "trust": "secure-sum"}
    study = nw.parse_study({"federation": federation, "privacy": {**privacy, "colluders": 9}, "task": task})
    with pytest.raises(InvalidInput, match=r"needs at least .* owners in each round, got 3; ask more owners"):
        nw.prepare(study)


def test_losses_that_start_at_infinity_have_a_figure():
    from matplotlib.figure import Figure

    from noiseworthy.reports.scales import loss_limits

    axes = Figure().subplots()
    loss_limits(axes, [3.0, np.inf, 2.0], np.inf)
    assert axes.get_ylim() == (pytest.approx(1.692), pytest.approx(3.54))
