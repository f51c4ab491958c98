"""The products that runs are noted with: MLflow, TensorBoard, and Weights & Biases."""

import time
from pathlib import Path
from typing import Any, Literal

from noiseworthy.calls.trackers.base import Scores, Settings, Tracker


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
