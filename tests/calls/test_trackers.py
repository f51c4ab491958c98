"""Trackers note settings, curves and the end of a run, once each, and only what the record publishes.

TensorBoard's files are written and read back. MLflow and Weights & Biases are held to the calls of their
documented interfaces by recorders, and to the real packages where these are installed.
"""

from __future__ import annotations

import importlib.machinery
import json
import struct
import sys
import types
from typing import ClassVar

import numpy as np
import pytest

import noiseworthy as nw
from noiseworthy.calls import trackers
from noiseworthy.errors import ConfigError, DataError

PUBLISHED = {
    "study", "algorithm", "mechanism", "train", "rounds", "clients", "clients_per_round", "clip_norm",
    "step_size", "momentum", "averaging", "steering", "epsilon", "delta", "unit", "plan_digest", "version",
}  # fmt: skip
SUMMARY = {"final_accuracy", "final_accuracy_std", "final_loss", "final_uploads", "spent_epsilon"}


class Stop(nw.Callback):
    """Ends a run in its middle."""

    def on_segment(self, done, curves):
        if done >= 0.5:
            raise KeyboardInterrupt


class Noted(trackers.Tracker):
    """A tracker that keeps what it is to note."""

    def __init__(self):
        super().__init__()
        self.settings, self.scores, self.closed = [], [], []

    def begin(self, settings, folder):
        self.settings.append(settings)

    def note(self, round, scores):
        self.scores.append((round, scores))

    def close(self, summary, *, failed):
        self.closed.append((summary, failed))


def curve(run, quantity):
    return run.curves.groupby("round")[quantity].mean().to_dict()


def test_settings_and_scores_are_what_the_record_publishes(study):
    noted = Noted()
    run = nw.run(study, callbacks=[noted])
    (settings,) = noted.settings
    assert set(settings) == PUBLISHED
    record = run.record.model_dump()
    assert settings["clip_norm"] == record["plan"]["clip_norm"]
    assert settings["plan_digest"] == record["plan_digest"]
    assert [round for round, _ in noted.scores] == run.record.training.rounds
    assert {round: scores["loss"] for round, scores in noted.scores} == curve(run, "loss")
    assert set(noted.scores[0][1]) == {
        "loss", "accuracy", "loss/seed 0", "loss/seed 1", "accuracy/seed 0", "accuracy/seed 1",
    }  # fmt: skip
    ((summary, failed),) = noted.closed
    assert set(summary) == SUMMARY
    assert summary["final_accuracy"] == pytest.approx(run.accuracy)
    assert summary["spent_epsilon"] == run.clients.spent_epsilon.max()
    assert not failed


def test_a_run_that_goes_on_is_noted_from_its_start(study):
    noted = Noted()
    with pytest.raises(KeyboardInterrupt):
        nw.run(study, "out", callbacks=[noted, Stop()])
    assert noted.closed == [({}, True)]
    half = [round for round, _ in noted.scores]
    run = nw.run(study, "out", resume=True, callbacks=[noted])
    assert [round for round, _ in noted.scores] == [*half, *run.record.training.rounds]
    assert noted.closed[1][1] is False


def test_a_tracker_out_of_reach_ends_no_training(study, caplog):
    """What it could not note in the middle it notes later, once; at the end nothing can be lost any more."""

    class Away(Noted):
        tries = 0

        def note(self, round, scores):
            self.tries += 1
            if self.tries in (2, 3):
                raise ConnectionError("no route to host")
            super().note(round, scores)

    run = nw.run(study, callbacks=[noted := Away()])
    assert [round for round, _ in noted.scores] == run.record.training.rounds
    assert caplog.text.count("Away noted no scores and tries again later") == 2
    assert [failed for _, failed in noted.closed] == [False]


@pytest.mark.parametrize("fails", [1, 3])
def test_a_tracker_out_of_reach_at_the_plan_ends_no_training(study, caplog, fails):
    """Its entry is opened once it can be, with all scores until then."""

    class Away(Noted):
        tries = 0

        def begin(self, settings, folder):
            self.tries += 1
            if self.tries <= fails:
                raise ConnectionError("no route to host")
            super().begin(settings, folder)

    run = nw.run(study, callbacks=[noted := Away()])
    assert len(noted.settings) == 1
    assert [round for round, _ in noted.scores] == run.record.training.rounds
    assert caplog.text.count("Away opened no entry and tries again later") == 1
    assert [failed for _, failed in noted.closed] == [False]


def test_a_study_that_cannot_be_opened_leaves_no_entry(study):
    noted = Noted()
    with pytest.raises(DataError):
        nw.run(study, set={"federation.data": "nothing.csv"}, callbacks=[noted])
    assert noted.settings == noted.closed == []


def test_what_is_infinite_is_not_noted(study):
    noted = Noted()
    run = nw.run(study, set={"privacy.mechanism": "none", "algorithm.step_size": 5.0}, callbacks=[noted])
    assert np.isinf(run.clients.spent_epsilon).all()
    assert "spent_epsilon" not in noted.closed[0][0]
    assert set(noted.settings[0]) == PUBLISHED - {"epsilon", "delta"}, "what is stated does not hold"
    assert nw.runs(run.folder).epsilon.tolist() == [np.inf]


@pytest.mark.parametrize(
    ("tracker", "package", "extra"),
    [
        (nw.TensorBoard, "tensorboardX", "tensorboard"),
        (nw.MLflow, "mlflow", "mlflow"),
        (nw.WeightsAndBiases, "wandb", "wandb"),
    ],
)
def test_a_product_that_is_missing_is_named_in_a_sentence(tracker, package, extra, monkeypatch):
    monkeypatch.setattr(trackers, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as refused:
        tracker()
    assert str(refused.value) == f"{package} is not installed; pip install 'noiseworthy[{extra}]'"


# TensorBoard ----------------------------------------------------------------------------------------------


def events(path):
    """Scalars (tag, step, value) of a file of TensorBoard, and its texts."""
    from tensorboardX.proto.event_pb2 import Event

    data, scalars, texts = path.read_bytes(), [], []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        event = Event.FromString(data[12 : 12 + length])
        data = data[16 + length :]
        for value in event.summary.value:
            if value.WhichOneof("value") == "simple_value":
                scalars.append((value.tag, event.step, value.simple_value))
            elif value.tensor.string_val:
                texts += [text.decode() for text in value.tensor.string_val]
    return scalars, texts


def test_tensorboard_holds_the_curves(study):
    run = nw.run(study, callbacks=[nw.TensorBoard()])
    (path,) = (run.folder / "tensorboard").iterdir()
    scalars, texts = events(path)
    losses = {step: value for tag, step, value in scalars if tag == "loss"}
    assert losses == pytest.approx(curve(run, "loss"), rel=1e-6)
    ended = {tag: value for tag, _, value in scalars}
    assert ended["summary/final_accuracy"] == pytest.approx(run.accuracy)
    assert "| clip_norm | 0.5 |" in texts[0]


# MLflow ---------------------------------------------------------------------------------------------------


class FakeClient:
    """Of `mlflow.tracking`: the calls that a tracker makes, as they are documented."""

    made: ClassVar[list] = []

    def __init__(self, tracking_uri=None):
        self.calls = [("uri", tracking_uri)]
        self.made.append(self)

    def get_experiment_by_name(self, name):
        return None

    def create_experiment(self, name):
        self.calls.append(("experiment", name))
        return "7"

    def create_run(self, experiment_id, run_name=None):
        self.calls.append(("run", experiment_id, run_name))
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="r"))

    def log_param(self, run_id, key, value):
        self.calls.append(("param", key, value))

    def log_batch(self, run_id, metrics=()):
        self.calls += [("metric", *metric) for metric in metrics]

    def log_metric(self, run_id, key, value):
        self.calls.append(("last", key, value))

    def set_terminated(self, run_id, status=None):
        self.calls.append(("ended", status))


@pytest.fixture
def pretend(monkeypatch):
    """Modules that stand for a package that need not be installed."""

    def install(**modules):
        for name, content in modules.items():
            made = types.ModuleType(name.replace("__", "."))
            made.__spec__ = importlib.machinery.ModuleSpec(made.__name__, None)
            vars(made).update(content)
            monkeypatch.setitem(sys.modules, made.__name__, made)

    return install


def test_mlflow_is_told_by_its_client(study, pretend, monkeypatch):
    monkeypatch.setattr(FakeClient, "made", [])
    pretend(
        mlflow={}, mlflow__tracking={"MlflowClient": FakeClient},
        mlflow__entities={"Metric": lambda key, value, timestamp, step: (key, value, step)},
    )  # fmt: skip
    run = nw.run(study, callbacks=[nw.MLflow("trial", tracking_uri="sqlite:///runs.db")])
    calls = FakeClient.made[0].calls
    assert calls[:3] == [("uri", "sqlite:///runs.db"), ("experiment", "trial"), ("run", "7", "study")]
    assert {call[1] for call in calls if call[0] == "param"} == PUBLISHED
    losses = [rest for kind, *rest in calls if kind == "metric" and rest[0] == "loss"]
    assert {step: value for _, value, step in losses} == curve(run, "loss")
    assert {call[1] for call in calls if call[0] == "last"} == SUMMARY
    assert calls[-1] == ("ended", "FINISHED")
    with pytest.raises(KeyboardInterrupt):
        nw.run(study, "other", callbacks=[nw.MLflow(), Stop()])
    assert FakeClient.made[1].calls[-1] == ("ended", "FAILED")


@pytest.mark.filterwarnings("default")
def test_mlflow_itself_keeps_the_curves(study):
    pytest.importorskip("mlflow", reason="mlflow is an extra")
    from mlflow.tracking import MlflowClient

    run = nw.run(study, callbacks=[nw.MLflow("trial", tracking_uri="sqlite:///runs.db")])
    client = MlflowClient("sqlite:///runs.db")
    (found,) = client.search_runs([client.get_experiment_by_name("trial").experiment_id])
    assert set(found.data.params) == PUBLISHED
    assert found.info.status == "FINISHED"
    kept = {point.step: point.value for point in client.get_metric_history(found.info.run_id, "loss")}
    assert kept == pytest.approx(curve(run, "loss"))


# Weights & Biases -----------------------------------------------------------------------------------------


def test_weights_and_biases_is_told_and_sends_nothing_else(study, pretend):
    calls, options, summary = [], {}, {}

    class FakeRun:
        def __init__(self):
            self.summary = summary

        def log(self, scores, step=None):
            calls.append((step, scores))

        def finish(self, exit_code=None):
            calls.append(("finished", exit_code))

    def init(**given):
        options.update(given)
        return FakeRun()

    pretend(wandb={"init": init, "Settings": lambda **kept: kept})
    run = nw.run(study, callbacks=[nw.WeightsAndBiases("hearts", mode="offline")])
    assert (options["project"], options["name"], options["mode"]) == ("hearts", "study", "offline")
    assert set(options["config"]) == PUBLISHED
    silent = options["settings"]
    assert all(silent[name] for name in ("disable_git", "disable_code", "x_disable_meta", "x_disable_stats"))
    assert (silent["console"], silent["save_code"], silent["x_save_requirements"]) == ("off", False, False)
    assert {step: scores["loss"] for step, scores in calls[:-1]} == curve(run, "loss")
    assert set(summary) == SUMMARY
    assert calls[-1] == ("finished", 0)


@pytest.mark.filterwarnings("default")
def test_weights_and_biases_itself_takes_the_run(study, tmp_path):
    wandb = pytest.importorskip("wandb", reason="wandb is an extra")
    run = nw.run(study, callbacks=[nw.WeightsAndBiases(mode="offline")])
    wandb.teardown()  # which writes what is left
    (kept,) = (tmp_path / run.folder / "wandb").glob("offline-run-*/*.wandb")
    content = kept.read_bytes()
    assert json.dumps(run.record.plan_digest).encode() in content
    assert str(tmp_path).encode() not in content
