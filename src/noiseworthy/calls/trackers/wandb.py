"""Runs in Weights & Biases."""

from pathlib import Path
from typing import Any, Literal

from noiseworthy.calls.trackers.base import Scores, Settings, Tracker, check_installed


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
        check_installed("wandb", "wandb")
        super().__init__()
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
