"""What all trackers note: settings of the plan, test scores by round, and what the run ended with."""

import math
from importlib.util import find_spec
from pathlib import Path

import pandas as pd

from noiseworthy.calls.callbacks import Callback
from noiseworthy.calls.folder import RunFolder, row_of
from noiseworthy.errors import ConfigError
from noiseworthy.studies.typed_record import RunRecord

Settings = dict[str, str | int | float | bool]
Scores = dict[str, float]


class Tracker(Callback):
    """A callback that notes curves once, however often it is told of them; products say how."""

    def __init__(self, package: str = "", extra: str = "") -> None:
        """Refuse, with a `ConfigError`, to go on without a package, which an extra of noiseworthy brings."""
        if package and find_spec(package) is None:
            raise ConfigError(f"{package} is not installed; pip install 'noiseworthy[{extra}]'")
        self._noted = -1
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
        """Opens an entry with the settings of the plan."""
        self._noted = -1
        self.begin(settings_of(record), folder)
        self._begun = True

    def on_segment(self, done: float, curves: pd.DataFrame) -> None:
        """Notes what is new."""
        for round, scores in scores_of(curves).items():
            if round > self._noted:
                self.note(round, scores)
                self._noted = round

    def on_end(self, run: RunFolder) -> None:
        """Notes what is left, and closes the entry."""
        self.on_segment(1.0, run.curves)
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
