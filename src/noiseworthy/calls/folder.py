"""What a run folder says of its run, as pandas frames."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from noiseworthy._json import strict_json
from noiseworthy._wording import count, level, number
from noiseworthy.data.federation import numbered
from noiseworthy.plans.plan import Plan
from noiseworthy.reports.findings import score_name
from noiseworthy.studies.occupied import PLAN, REPORT
from noiseworthy.studies.plan_file import load_plan
from noiseworthy.studies.record import FILE as RECORD
from noiseworthy.studies.record import load_record
from noiseworthy.studies.statement import claim
from noiseworthy.studies.typed_record import RunRecord, TrainingPart, view

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class RunFolder:
    """A run as its folder keeps it.

    Attributes:
        folder: of the run.
        record: everything that `record.json` says.
    """

    folder: Path
    record: RunRecord

    def __repr__(self) -> str:
        record, reached = self.record, ""
        if (training := record.scored) is not None:
            reached = f", test {score_name(record)} {number(self.accuracy)} and loss {level(self.loss)}"
            reached += f" over {count(len(training.seeds), 'seed')}"
        head = f"run in {self.folder}: {record.plan.algorithm}{reached}"
        return f"{head}\n{record.plan.outcome}\n{claim(record)}"

    @property
    def plan(self) -> Plan:
        """The plan that was trained, from `plan.json`.

        Raises:
            PlanError: a folder that holds none, or one that was changed.
        """
        return load_plan(self.folder / PLAN).plan

    @property
    def report(self) -> Path:
        """The page to show."""
        return self.folder / REPORT

    @property
    def curves(self) -> pd.DataFrame:
        """Test scores, a row each: `seed`, `round`, `loss`, `accuracy` (R² of a regression)."""
        if (training := self.record.training) is None:
            return curves_of([], [], [], [])
        return curves_of(training.seeds, training.rounds, training.loss, training.accuracy)

    @property
    def clients(self) -> pd.DataFrame:
        """What each client gave: `client`, `records`, `uploads`, `spent_epsilon`, `epsilon`, `delta`.

        Uploads, of all stages, and what they spent are the most over seeds, each a training of its own;
        `epsilon` at `delta` is the client's budget. A training without noise spends an infinite epsilon.
        """
        record, training = self.record, self.record.training
        budgets, facts, count = record.plan.privacy.clients, record.federation, len(record.plan.releases)
        first = [stage.first for stage in record.estimation] or 0
        return frame(
            {
                "client": numbered(count) if facts is None else facts.clients,
                "records": [None] * count if facts is None else facts.sizes,
                "uploads": np.add(training.uploads, first).max(axis=0) if training else np.zeros(count, int),
                "spent_epsilon": _spent(training) if training else np.zeros(count),
                "epsilon": [budget.epsilon for budget in budgets],
                "delta": [budget.delta for budget in budgets],
            }
        )

    @property
    def accuracy(self) -> float | None:
        """Test accuracy (R² of a regression) after the last round, the mean over seeds; None without one."""
        return _known(_last(self.record.training, "accuracy").mean())

    @property
    def loss(self) -> float | None:
        """Test loss after the last round, the mean over seeds; None without a training."""
        return _known(_last(self.record.training, "loss").mean())


def load_run(folder: Path | str) -> RunFolder:
    """The run of a folder, of an earlier version as well.

    Raises:
        DataError: no folder, no record, or a file that is none.
    """
    place = Path(folder)
    return RunFolder(place, view(load_record(place)))


def runs(folder: Path | str) -> pd.DataFrame:
    """All runs at and below a folder, hidden folders left out, one row each, in the order of their folders.

    Returns:
        `study`, `algorithm`, `epsilon` (the largest budget of a client, infinite without noise), `rounds`,
        `accuracy` and `accuracy_std` (over seeds), `loss`, `uploads` (of all clients together, the mean over
        seeds) and `folder`.

    Raises:
        DataError: a record that cannot be read.
    """
    # a record that is being written lies in a hidden folder, and stays there where its writer was killed
    records = (path for path in Path(folder).rglob(RECORD) if "/." not in f"/{path.relative_to(folder)}")
    return frame([row_of(load_run(at)) for at in sorted(path.parent for path in records)], columns=[*COLUMNS])


COLUMNS = (
    "study", "algorithm", "epsilon", "rounds", "accuracy", "accuracy_std", "loss", "uploads", "folder",
)  # fmt: skip


def row_of(run: RunFolder) -> dict[str, Any]:
    """A run as one row of `runs`."""
    record, training, told = run.record, run.record.training, run.record.plan.privacy
    accuracy, first = _last(training, "accuracy"), [stage.first for stage in record.estimation] or 0
    return {
        "study": record.name,
        "algorithm": record.plan.algorithm,
        "epsilon": max(client.epsilon for client in told.clients) if told.private else np.inf,
        "rounds": training.rounds[-1] if training else 0,
        "accuracy": accuracy.mean(),
        "accuracy_std": accuracy.std(),
        "loss": _last(training, "loss").mean(),
        "uploads": float(np.add(training.uploads, first).sum(axis=1).mean()) if training else 0.0,
        "folder": strict_json(str(run.folder)),
    }


def frame(*told: Any, **more: Any) -> pd.DataFrame:
    """A pandas frame."""
    import pandas  # here, because it takes half a second to import

    return pandas.DataFrame(*told, **more)


def curves_of(seeds: Any, rounds: Any, loss: Any, accuracy: Any) -> pd.DataFrame:
    """Curves as a frame: `seed`, `round`, `loss`, `accuracy`.

    Args:
        seeds: S.
        rounds: shape (E,).
        loss: shape (S, E).
        accuracy: shape (S, E).
    """
    columns = {"loss": loss, "accuracy": accuracy}
    return frame(
        {
            "seed": np.repeat(np.asarray(seeds, np.int64), len(rounds)),
            "round": np.tile(np.asarray(rounds, np.int64), len(seeds)),
            **{name: np.asarray(values, np.float64).reshape(-1) for name, values in columns.items()},
        }
    )


def _spent(training: TrainingPart) -> Any:
    # JSON has no infinity: a record has None for it, which becomes NaN here.
    return np.nan_to_num(np.asarray(training.spent_epsilon, np.float64), nan=np.inf).max(axis=0)


def _last(training: TrainingPart | None, quantity: Any) -> Any:
    """Loss or score of every seed after the last round, NaN where it is none or infinite."""
    if training is None:
        return np.array([np.nan])
    return np.array([curve[-1] for curve in training.over_seeds(quantity)], np.float64)


def _known(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
