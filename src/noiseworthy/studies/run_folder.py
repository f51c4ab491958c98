"""Where a training is kept: a checkpoint and the ledger beside it, in the one order that survives a kill.

reserve (on disk) -> run the rounds -> seal -> checkpoint with the chain's end (on disk) -> acknowledge
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import ResumeError
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.durable import DurableLedger, Head
from noiseworthy.privacy.durable.reading import check_holds, read_ledger
from noiseworthy.studies.checkpoints import load_checkpoint, load_head, save_checkpoint
from noiseworthy.studies.occupied import CHECKPOINT, MODELS, RECORD, holds_plan_alone
from noiseworthy.studies.run_ledger import FILE, Hook, Owners, RunLedger, SharedLedger


def nothing(start: int, stop: int) -> None:
    """Before rounds that nobody pays for."""


@dataclass(kw_only=True)
class Keeper:
    """Where a training is kept: here nowhere.

    Attributes:
        start: the checkpoint to go on from, or None.
    """

    start: Checkpoint | None = None

    @property
    def memories(self) -> Path | None:
        """Folder for what clients remember, beside the checkpoints; None where none are kept."""
        return None

    def first_stage(self, algorithms: Sequence[Algorithm]) -> Hook:
        """What to call before rounds that estimate, with the first and the one after the last of them."""
        return nothing

    def last_stage(self, plans: Sequence[Plan], algorithms: Sequence[Algorithm]) -> Hook:
        """What to call before rounds by these plans, one per training."""
        return nothing

    def sealed(self, reached: Checkpoint) -> None:
        """After rounds whose outcome is computed again on resume."""

    def keep(self, reached: Checkpoint) -> None:
        """After rounds whose outcome is kept."""


NOWHERE = Keeper()


@dataclass(kw_only=True)
class FolderKeeper(Keeper):
    """A training without noise in a run folder: checkpoints alone.

    Attributes:
        folder: of the run.
        mark: `fingerprint` of the run.
        records: `Federation.content` of what it trains on.
    """

    folder: Path
    mark: str
    records: str

    @property
    def memories(self) -> Path:
        """The run folder."""
        return self.folder

    def keep(self, reached: Checkpoint) -> None:
        """Write the checkpoint."""
        save_checkpoint(self.folder, reached, self.mark, records=self.records)


@dataclass(kw_only=True)
class LedgerKeeper(FolderKeeper):
    """A training in a run folder with a ledger.

    Attributes:
        books: what it spends.
    """

    books: RunLedger

    def first_stage(self, algorithms: Sequence[Algorithm]) -> Hook:
        """Pays for rounds that estimate."""
        return self.books.first_stage(algorithms)

    def last_stage(self, plans: Sequence[Plan], algorithms: Sequence[Algorithm]) -> Hook:
        """Pays for rounds by these plans."""
        return self.books.last_stage(plans, algorithms)

    def sealed(self, reached: Checkpoint) -> None:
        """Seal the rounds; they are acknowledged with the next checkpoint."""
        self.books.seal(reached)

    def keep(self, reached: Checkpoint) -> None:
        """Seal the rounds, write the checkpoint, acknowledge."""
        head = self.books.seal(reached)
        save_checkpoint(self.folder, reached, self.mark, str(head), self.records)
        self.books.acknowledge()


@contextmanager
def kept_in(
    folder: Path | None, mark: str, plans: Sequence[Plan], seeds: Sequence[int], owners: Owners, *,
    ledger: SharedLedger | None = None, resume: bool = False, records: str = "",
) -> Iterator[Keeper]:  # fmt: skip
    """The keeper of a training.

    Args:
        folder: of the run; None keeps nothing.
        mark: `fingerprint` of the run.
        plans: one per seed.
        seeds: one training each.
        owners: data set and clients.
        ledger: that several runs share; by default one in the folder, in which this run is alone.
        resume: go on from the folder's checkpoint.
        records: `Federation.content` of what is trained on.

    Raises:
        ResumeError: a folder of another study or other records, without a checkpoint, or without its ledger.
        LedgerError: a ledger that cannot be written, holds other budgets, or was set back.
        BudgetExceeded: clients that cannot pay.
    """
    start = load_checkpoint(folder, mark, records) if resume else None
    if folder is None or not plans[0].problem.law.noisy:
        yield FolderKeeper(start=start, folder=folder, mark=mark, records=records) if folder else NOWHERE
        return
    path = folder / FILE if ledger is None else ledger.path
    head = _head(folder, path) if resume else None
    books = RunLedger.open(path, mark, plans, seeds, owners, ledger)
    try:
        if head is not None:
            books.resume(head)
        books.bought()
        yield LedgerKeeper(start=start, folder=folder, mark=mark, records=records, books=books)
    finally:
        books.ledger.close()


def check_unused(folder: Path) -> None:
    """Refuse a folder that holds a run already: a new one would write over its model and its report.

    Args:
        folder: that a new run is to be kept in.

    Raises:
        ResumeError: it holds a checkpoint, a model or a record of more than a plan.
    """
    kept = [name for name in (RECORD, *MODELS, CHECKPOINT) if (folder / name).exists()]
    if kept and not holds_plan_alone(folder):
        raise ResumeError(
            f"{folder} holds a run already ({kept[0]}); go on with it by --resume if it is this training and "
            "has not ended, or name another folder with --out"
        )


def check_goes_on(folder: Path, mark: str, plan: Plan, records: str, ledger: SharedLedger | None) -> None:
    """Refuse a folder from which a run could not go on, before anything in it is written.

    Args:
        folder: of the run.
        mark: its `fingerprint`.
        plan: that it follows.
        records: `Federation.content` of what it is to go on with.
        ledger: that several runs share; None for the one in the folder.

    Raises:
        ResumeError, LedgerError: as `kept_in`.
    """
    load_checkpoint(folder, mark, records)
    if plan.problem.law.noisy:
        path = folder / FILE if ledger is None else ledger.path
        head = _head(folder, path)
        with read_ledger(path) as books:
            check_holds(books, head)


def opened_ledger(path: Path) -> DurableLedger:
    """The ledger of a run folder or file, to look at; verified, and held against the folder's checkpoint.

    Raises:
        LedgerError: none, a damaged one, or one that was set back.
    """
    ledger = read_ledger(path / FILE if path.is_dir() else path)
    try:
        if (path / CHECKPOINT).exists() and (head := load_head(path)) is not None:
            check_holds(ledger, head)
    except BaseException:
        ledger.close()
        raise
    return ledger


def _head(folder: Path, ledger: Path) -> Head:
    """Where the ledger's chain ended when the folder's checkpoint was kept.

    Raises:
        ResumeError: a checkpoint without a ledger, or a ledger that is gone.
    """
    if (head := load_head(folder)) is None:
        raise ResumeError(f"the checkpoint of {folder} has no privacy ledger; train without --resume")
    if not ledger.exists():
        raise ResumeError(
            f"{ledger} is missing, which holds what this run has spent; put it back, or start anew in "
            "another folder with --out"
        )
    return head
