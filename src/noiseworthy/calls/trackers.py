"""Trackers of experiments, MLflow, TensorBoard and Weights & Biases: each notes what a run publishes."""

import logging
import math
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from noiseworthy.calls.callbacks import Callback
from noiseworthy.calls.folder import RunFolder, row_of
from noiseworthy.errors import ConfigError
from noiseworthy.studies.typed_record import RunRecord

Settings = dict[str, str | int | float | bool]
Scores = dict[str, float]
_log = logging.getLogger(__name__)


class Tracker(Callback):
    """A callback that notes curves once, however often it is told of them; products say how."""

    def __init__(self, package: str = "", extra: str = "") -> None:
        """Refuse, with a `ConfigError`, to go on without a package, which an extra of noiseworthy brings."""
        if package and find_spec(package) is None:
            raise ConfigError(f"{package} is not installed; pip install 'noiseworthy[{extra}]'")
        self._noted = -1
        self._plan: tuple[Settings, Path] | None = None
        self._begun = False

    def begin(self, settings: Settings, folder: Path) -> None:
        """Open an entry for a run."""
        raise NotImplementedError

    def note(self, round: int, scores: Scores) -> None:
        """Test scores after a round."""
        raise NotImplementedError

    def close(self, summary: Scores, *, failed: bool) -> None:
        """What the run ended with, if it did, and the end of the entry."""
        raise NotImplementedError

    def on_plan(self, record: RunRecord, folder: Path) -> None:
        """Opens an entry with the settings of the plan, or later where that fails."""
        self._noted, self._begun, self._plan = -1, False, (settings_of(record), folder)
        self._try("opened no entry", self._open)

    def on_segment(self, done: float, curves: pd.DataFrame) -> None:
        """Notes what is new; what cannot be noted ends no training, and is noted with what comes later."""
        self._try("noted no scores", lambda: self._note_new(curves))

    def _try(self, failed: str, do: Callable[[], None]) -> None:
        try:
            do()
        except Exception as error:  # such as a server out of reach
            _log.warning("%s %s and tries again later: %r", type(self).__name__, failed, error)

    def _open(self) -> None:
        if self._plan is not None and not self._begun:
            self.begin(*self._plan)
            self._begun = True

    def _note_new(self, curves: pd.DataFrame) -> None:
        self._open()
        for round, scores in scores_of(curves).items():
            if round > self._noted:
                self.note(round, scores)
                self._noted = round

    def on_end(self, run: RunFolder) -> None:
        """Notes what is left, and closes the entry."""
        self._note_new(run.curves)
        self._begun = False
        self.close(summary_of(run), failed=False)

    def on_failure(self, error: BaseException) -> None:
        """Closes the entry of a run that did not end."""
        if self._begun:
            self._begun = False
            self.close({}, failed=True)


def settings_of(record: RunRecord) -> Settings:
    """The plan of a run in single values, all of which its record publishes; no epsilon without noise."""
    plan, budgets = record.plan, record.plan.privacy.clients if record.plan.privacy.private else []
    stated = {
        "study": record.name, "algorithm": plan.algorithm, "mechanism": plan.mechanism, "train": plan.train,
        "rounds": plan.rounds, "clients": len(plan.releases), "clients_per_round": plan.clients_per_round,
        "clip_norm": plan.clip_norm, "step_size": plan.step_size, "momentum": plan.momentum,
        "averaging": plan.averaging, "steering": plan.steering.gain if plan.steering else 0.0,
        "epsilon": max((budget.epsilon for budget in budgets), default=None),
        "delta": max((budget.delta for budget in budgets), default=None), "unit": plan.privacy.unit,
        "plan_digest": record.plan_digest, "version": record.version,
    }  # fmt: skip
    return {name: value for name, value in stated.items() if value is not None}


def scores_of(curves: pd.DataFrame) -> dict[int, Scores]:
    """Test scores by round: the mean over seeds, and that of each seed where there are several.

    Example:
        >>> reached = {"loss": [1.0, 3.0], "accuracy": [0.5, 0.7]}
        >>> curves = pd.DataFrame({"seed": [0, 1], "round": [5, 5], **reached})
        >>> scores_of(curves)[5]["loss"], scores_of(curves)[5]["accuracy/seed 1"]
        (2.0, 0.7)
    """
    found: dict[int, Scores] = {}
    several = curves.seed.nunique() > 1
    for round, rows in curves.groupby("round"):
        scores = {name: float(rows[name].to_numpy().mean()) for name in ("loss", "accuracy")}
        if several:
            for seed, loss, accuracy in zip(rows.seed, rows.loss, rows.accuracy, strict=True):
                scores |= {f"loss/seed {seed}": float(loss), f"accuracy/seed {seed}": float(accuracy)}
        found[int(round)] = _finite(scores)  # pyright: ignore[reportArgumentType]
    return found


def summary_of(run: RunFolder) -> Scores:
    """What a run ended with: scores, uploads, and the largest epsilon that a client spent."""
    row = row_of(run)
    ended = {f"final_{name}": row[name] for name in ("accuracy", "accuracy_std", "loss", "uploads")}
    return _finite({**ended, "spent_epsilon": float(run.clients.spent_epsilon.max())})


def _finite(scores: Scores) -> Scores:
    return {name: value for name, value in scores.items() if math.isfinite(value)}


class MLflow(Tracker):
    """Notes a run in MLflow, through a client of its own: an active run of the user's stays as it is.

    Args:
        experiment: that the run is put into, made where there is none.
        tracking_uri: of the server or folder; by default what MLFLOW_TRACKING_URI says.

    Raises:
        ConfigError: mlflow is not installed.
    """

    def __init__(self, experiment: str = "noiseworthy", tracking_uri: str | None = None):
        super().__init__("mlflow", "mlflow")
        self._experiment, self._uri = experiment, tracking_uri
        self._client: Any = None
        self._run = ""

    def begin(self, settings: Settings, folder: Path) -> None:
        """Opens a run with the settings as its parameters."""
        from mlflow.tracking import MlflowClient  # pyright: ignore[reportMissingImports]

        self._client = MlflowClient(tracking_uri=self._uri)
        found = self._client.get_experiment_by_name(self._experiment)
        place = found.experiment_id if found else self._client.create_experiment(self._experiment)
        self._run = self._client.create_run(place, run_name=folder.name).info.run_id
        for name, value in settings.items():
            self._client.log_param(self._run, name, value)

    def note(self, round: int, scores: Scores) -> None:
        """Adds a point to each curve; a space in a name becomes a line below, as servers want it."""
        from mlflow.entities import Metric  # pyright: ignore[reportMissingImports]

        now = int(1000 * time.time())
        points = [Metric(name.replace(" ", "_"), value, now, round) for name, value in scores.items()]
        self._client.log_batch(self._run, metrics=points)

    def close(self, summary: Scores, *, failed: bool) -> None:
        """Adds what the run ended with, and ends it."""
        for name, value in summary.items():
            self._client.log_metric(self._run, name, value)
        self._client.set_terminated(self._run, "FAILED" if failed else "FINISHED")


class TensorBoard(Tracker):
    """Notes a run as files for TensorBoard, which tensorboardX writes.

    Args:
        folder: of the files; by default `tensorboard` in the run's folder.

    Raises:
        ConfigError: tensorboardX is not installed.
    """

    def __init__(self, folder: Path | str | None = None):
        super().__init__("tensorboardX", "tensorboard")
        self._folder = folder
        self._writer: Any = None

    def begin(self, settings: Settings, folder: Path) -> None:
        """Opens a file, with the settings as a table."""
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(self._folder or folder / "tensorboard"))
        rows = "\n".join(f"| {name} | {value} |" for name, value in settings.items())
        self._writer.add_text("settings", f"| setting | value |\n| --- | --- |\n{rows}")

    def note(self, round: int, scores: Scores) -> None:
        """Adds a point to each curve."""
        for name, value in scores.items():
            self._writer.add_scalar(name, value, round)
        self._writer.flush()

    def close(self, summary: Scores, *, failed: bool) -> None:
        """Adds what the run ended with, and closes the file."""
        for name, value in summary.items():
            self._writer.add_scalar(f"summary/{name}", value)
        self._writer.close()


class WeightsAndBiases(Tracker):
    """Notes a run in Weights & Biases; code, git state, console and machine are not sent.

    Args:
        project: that the run is put into.
        mode: where it is sent; by default what WANDB_MODE says.

    Raises:
        ConfigError: wandb is not installed.
    """

    def __init__(
        self, project: str = "noiseworthy", mode: Literal["online", "offline", "disabled"] | None = None
    ):
        super().__init__("wandb", "wandb")
        self._project, self._mode = project, mode
        self._run: Any = None

    def begin(self, settings: Settings, folder: Path) -> None:
        """Opens a run with the settings as its configuration; its own files lie in the run's folder."""
        import wandb  # pyright: ignore[reportMissingImports]

        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=self._project, name=folder.name, config=settings, dir=str(folder), mode=self._mode,
            reinit="create_new", settings=wandb.Settings(**_NOTHING_ELSE),
        )  # fmt: skip

    def note(self, round: int, scores: Scores) -> None:
        """Adds a point to each curve."""
        self._run.log(scores, step=round)

    def close(self, summary: Scores, *, failed: bool) -> None:
        """Adds what the run ended with, and ends it."""
        self._run.summary.update(summary)
        self._run.finish(exit_code=int(failed))


_NOTHING_ELSE: dict[str, Any] = {
    "console": "off",
    "disable_code": True,
    "disable_git": True,
    "save_code": False,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_save_requirements": False,
}
"""What Weights & Biases would send by itself, and does not."""
