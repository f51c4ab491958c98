"""Runs in TensorBoard, whose files tensorboardX writes."""

from pathlib import Path
from typing import Any

from noiseworthy.calls.trackers.base import Scores, Settings, Tracker, check_installed


class TensorBoard(Tracker):
    """Notes a run as files for TensorBoard.

    Args:
        folder: of the files; by default `tensorboard` in the run's folder.

    Raises:
        ConfigError: tensorboardX is not installed.
    """

    def __init__(self, folder: Path | str | None = None):
        check_installed("tensorboardX", "tensorboard")
        super().__init__()
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
