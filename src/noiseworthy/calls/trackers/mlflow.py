"""Runs in MLflow."""

import time
from pathlib import Path
from typing import Any

from noiseworthy.calls.trackers.base import Scores, Settings, Tracker, check_installed


class MLflow(Tracker):
    """Notes a run in MLflow, through a client of its own: an active run of the user's stays as it is.

    Args:
        experiment: that the run is put into, made where there is none.
        tracking_uri: of the server or folder; by default what MLFLOW_TRACKING_URI says.

    Raises:
        ConfigError: mlflow is not installed.
    """

    def __init__(self, experiment: str = "noiseworthy", tracking_uri: str | None = None):
        check_installed("mlflow", "mlflow")
        super().__init__()
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
