"""One call does what the command does, and says it as frames; callbacks are told what is published."""

from __future__ import annotations

import json
import sys

import numpy as np
import pandas as pd
import pytest

import noiseworthy as nw
from noiseworthy.cli import main
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.studies.checkpoints import FILE as CHECKPOINT
from noiseworthy.studies.typed_record import RunRecord


def record_in(folder):
    """A record but for its clocks; the chain of a ledger holds times, too."""
    record = json.loads((folder / "record.json").read_text())
    record["training"]["seconds"] = record["created"] = record["ledger"]["head"] = record["name"] = None
    return record


def command(*words):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["noiseworthy", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            main()
    return ended.value.code


class Recorder(nw.Callback):
    """Everything that a callback is told."""

    def __init__(self, stop_at=np.inf):
        self.heard, self.stop_at = [], stop_at

    def on_plan(self, record, folder):
        self.heard.append(("plan", record, folder))

    def on_segment(self, done, curves):
        self.heard.append(("segment", done, curves))
        if done >= self.stop_at:
            raise KeyboardInterrupt

    def on_end(self, run):
        self.heard.append(("end", run))

    def on_failure(self, error):
        self.heard.append(("failure", error))


@pytest.mark.full
def test_the_call_leaves_what_the_command_leaves(study, tmp_path, capsys):
    run = nw.run(study, "one", seeds=[3, 4], set={"privacy.epsilon": 4.0})
    sets = ("--set", "privacy.epsilon=4", "--seeds", "3,4")
    assert command("train", study, "--out", "two", *sets) == 0
    one, two = (record_in(tmp_path / name) for name in ("one", "two"))
    assert one == two
    assert one["study"]["privacy"]["epsilon"] == 4.0
    assert one["training"]["seeds"] == [3, 4]
    files = [{path.name for path in (tmp_path / name).iterdir()} for name in ("one", "two")]
    assert files[0] == files[1] >= {"plan.json", "record.json", "report.html", "claim_card.html"}
    assert run.report.read_text().startswith("<!")
    assert nw.load_plan(tmp_path / "two" / "plan.json").digest == run.record.plan_digest


@pytest.mark.full
def test_a_run_reads_as_frames_and_an_old_folder_reads_the_same(study):
    run = nw.run(study)
    assert str(run.folder) == "runs/study"
    training = run.record.training
    assert list(run.curves.columns) == ["seed", "round", "loss", "accuracy"]
    of_second = run.curves[run.curves.seed == 1]
    assert of_second["round"].tolist() == training.rounds
    assert of_second.loss.tolist() == training.loss[1]
    assert of_second.accuracy.tolist() == training.accuracy[1]
    clients = run.clients
    assert clients.client.tolist() == run.record.federation.clients
    assert clients.records.tolist() == run.record.federation.sizes
    assert clients.uploads.tolist() == np.max(training.uploads, axis=0).tolist()
    assert clients.spent_epsilon.tolist() == np.max(training.spent_epsilon, axis=0).tolist()
    assert (clients.spent_epsilon <= clients.epsilon).all()
    assert run.accuracy == pytest.approx(np.mean([curve[-1] for curve in training.accuracy]))
    assert run.plan.rounds == 6
    again = nw.load_run("runs/study")
    assert again.record == run.record
    pd.testing.assert_frame_equal(again.curves, run.curves)
    pd.testing.assert_frame_equal(again.clients, run.clients)


@pytest.mark.full
def test_many_folders_are_one_frame(study, tmp_path):
    for epsilon in (2.0, 8.0):
        nw.run(study, tmp_path / "runs" / "deep" / f"{epsilon:g}", set={"privacy.epsilon": epsilon})
    frame = nw.runs("runs")
    assert frame.epsilon.tolist() == [2.0, 8.0]
    assert frame.study.tolist() == ["study", "study"]
    assert frame.algorithm.unique().tolist() == ["fedsgd-dpc"]
    second = nw.load_run(frame.folder[1])
    last = second.curves.groupby("seed").accuracy.last()
    assert frame.accuracy[1] == pytest.approx(last.mean())
    assert frame.accuracy_std[1] == pytest.approx(last.std(ddof=0))
    assert frame.uploads[1] == 12.0
    assert nw.runs(tmp_path / "nothing").empty


def test_what_a_kill_left_of_a_record_is_no_run(tmp_path):
    """One empty draft of a record, and no run below its folder was told any more."""
    (tmp_path / "killed" / ".draft").mkdir(parents=True)
    (tmp_path / "killed" / ".draft" / "record.json").touch()
    assert nw.runs(tmp_path).empty


def test_a_folder_without_a_run_is_named(tmp_path):
    with pytest.raises(DataError, match=r"record\.json does not exist"):
        nw.load_run(tmp_path)


def test_a_plan_that_does_not_train_has_empty_curves(study):
    run = nw.run(study, set={"algorithm": {"max_rounds": 5}, "privacy.epsilon": 1e-4, "planning.public": []})
    assert not run.plan.train
    assert run.curves.empty
    assert run.accuracy is None
    assert repr(run).splitlines()[0] == "run in runs/study: fedsgd-dpc"
    assert run.clients.spent_epsilon.tolist() == [0.0] * 4
    assert np.isnan(nw.runs("runs").accuracy[0])


def test_to_resume_a_run_that_has_ended_leaves_its_time(study, tmp_path):
    """It told the seconds of its last start for those of the training."""
    nw.run(study, "ended")
    path = tmp_path / "ended" / "record.json"
    kept = json.loads(path.read_text())
    kept["training"]["seconds"] = 1234.5
    path.write_text(json.dumps(kept))
    again = nw.run(study, "ended", resume=True).record
    assert again.training.seconds == 1234.5
    assert again.training.loss == kept["training"]["loss"]


def test_callbacks_hear_in_order_and_of_published_things_alone(study):
    heard = Recorder()
    run = nw.run(study, callbacks=[heard])
    kinds = [what for what, *_ in heard.heard]
    assert kinds == ["plan", *["segment"] * run.curves["round"].nunique(), "end"]
    _, record, folder = heard.heard[0]
    assert isinstance(record, RunRecord)
    assert record.training is None
    assert folder == run.folder
    shares = [told[1] for told in heard.heard[1:-1]]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    pd.testing.assert_frame_equal(heard.heard[-2][2], run.curves)
    assert heard.heard[-1][1] == run
    head, outcome, claim = repr(run).splitlines()
    assert head.startswith(f"run in runs/study: fedsgd-dpc, test accuracy {run.accuracy:.3g} and loss ")
    assert head.endswith(" over 2 seeds")
    assert outcome == run.plan.outcome
    assert "epsilon 8 at delta 1e-05" in claim


def test_a_folder_of_the_users_own_where_a_run_keeps_its_model_is_refused_before_training(study, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "thesis.txt").write_text("")
    with pytest.raises(DataError, match="model is there and holds no model; it is left as it is"):
        nw.run(study, ".")
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["thesis.txt"]
    assert not (tmp_path / CHECKPOINT).exists()


class Lost(nw.Callback):
    """Cannot say that a run failed, as a tracker whose server is gone."""

    def on_failure(self, error):
        raise ConnectionError("no server")


def test_what_ended_a_run_is_raised_and_told_to_all_whatever_a_callback_makes_of_it(study):
    heard = Recorder()
    with pytest.raises(DataError, match=r"nothing\.csv") as ended:
        nw.run(study, set={"federation.data": "nothing.csv"}, callbacks=[Lost(), heard])
    assert heard.heard == [("failure", ended.value)]
    assert ended.value.__notes__ == ["Lost could not be told of it: ConnectionError('no server')"]


def test_a_plan_is_kept_before_anybody_is_told_of_it(study, tmp_path):
    """A tracker whose server is gone would take the minutes of a planning with it."""

    class Gone(nw.Callback):
        def on_plan(self, record, folder):
            raise ConnectionError("no server")

    with pytest.raises(ConnectionError, match="no server"):
        nw.run(study, "kept", callbacks=[Gone()])
    run = nw.run(study, "kept", plan=tmp_path / "kept" / "plan.json")
    assert run.record.training is not None


def test_a_run_has_ended_well_for_all_whatever_one_makes_of_its_end(study, tmp_path):
    class Full(nw.Callback):
        def on_end(self, run):
            raise OSError("disk full")

    before, after = Recorder(), Recorder()
    with pytest.raises(OSError, match="disk full"):
        nw.run(study, "whole", callbacks=[before, Full(), after])
    assert [one.heard[-1][0] for one in (before, after)] == ["end", "end"]
    assert nw.load_run(tmp_path / "whole").record.training is not None


@pytest.mark.full
def test_a_run_that_a_callback_ends_goes_on_and_tells_all_curves(study, tmp_path):
    stopped = Recorder(stop_at=0.5)
    with pytest.raises(KeyboardInterrupt):
        nw.run(study, "broken", callbacks=[stopped])
    assert stopped.heard[-1][0] == "failure"
    assert isinstance(stopped.heard[-1][1], KeyboardInterrupt)
    assert (tmp_path / "broken" / CHECKPOINT).exists()
    heard = Recorder()
    run = nw.run(study, "broken", resume=True, callbacks=[heard])
    whole = nw.run(study, "whole")
    pd.testing.assert_frame_equal(run.curves, whole.curves)
    first = heard.heard[1][2]
    assert first["round"].min() == 0
    assert len(first) > len(stopped.heard[-2][2])


@pytest.mark.full
def test_both_stages_of_a_plan_are_told(study):
    """The curves of stage 2 go on from those of stage 1."""
    table = {"name": "dpfl-bcs", "rounds": 8, "clients_per_round": 2, "estimation_rounds": 3}
    constants = {"smoothness": 0.6, "strong_convexity": 0.1}
    heard = Recorder()
    run = nw.run(study, set={"algorithm": table, "constants": constants}, callbacks=[heard])
    told = [one for one in heard.heard if one[0] == "segment"]
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)
    assert told[-1][1] == 1.0
    pd.testing.assert_frame_equal(told[-1][2], run.curves)


def test_seeds_twice_and_a_plan_with_time_for_planning_are_refused(study):
    with pytest.raises(ConfigError, match=r"training\.seeds is set, and so are seeds"):
        nw.run(study, seeds=2, set={"training.seeds": [1]})
    with pytest.raises(ConfigError, match="leave one of them out"):
        nw.run(study, plan="plan.json", budget_seconds=1.0)
    with pytest.raises(ConfigError, match="--ledger"):
        nw.run(study, lifetime_epsilon=1.0)
