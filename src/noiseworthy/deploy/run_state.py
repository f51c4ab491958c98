"""What a training over a network keeps of its owners, in the checkpoint beside its own state."""

from __future__ import annotations

import json
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from noiseworthy.deploy.remote import Round
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import ResumeError
from noiseworthy.privacy.durable.chain import HEAD
from noiseworthy.studies.checkpoints import load_told

_MOST = 2**40
"""Releases of a run that no plan comes to."""


@dataclass
class RunState:
    """What owners told in a run.

    Attributes:
        run: its name at the owners.
        heads: of owners' ledgers, as they told last.
        received: last release of each owner that arrived.
        late: releases that arrived too late to be used.
        rounds: what came of each.
        ahead: by how much the numbers of an owner's releases are ahead of the schedule.
        sums: the number of the last secure sum that was begun.
        ended: why the training ended before its last round; empty if it did not.
        opening: where a stage that estimates ended, once it has.
        found: what is read of owners' answers before round 1, once they told, as a plan names it.
        score: what they told of the model, as a record has it; empty before, and where nobody did.
    """

    run: str
    heads: dict[str, str] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    late: int = 0
    rounds: list[Round] = field(default_factory=list)
    ahead: dict[str, int] = field(default_factory=dict)
    sums: int = 0
    ended: str = ""
    opening: Checkpoint | None = None
    found: dict[str, Any] = field(default_factory=dict)
    score: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def nothing(cls) -> RunState:
        """A run that no owner has heard of."""
        return cls(f"run {secrets.token_hex(6)}")

    @classmethod
    def kept_in(cls, folder: Path) -> RunState:
        """What the checkpoint of a run folder keeps.

        Raises:
            ResumeError: a checkpoint of a simulation, or one that keeps what no owner can have told.
        """
        try:
            fields = json.loads(load_told(folder))
            rounds, opening = fields.pop("rounds"), fields.pop("opening")
        except (ValueError, KeyError, TypeError):
            raise ResumeError(f"{folder} holds no training over a network; run without --resume") from None
        again = None if opening is None else Checkpoint(**_arrays(opening))
        told = cls(**fields, rounds=[Round(*one) for one in rounds], opening=again)
        told._check(folder)
        return told

    def _check(self, folder: Path) -> None:
        """Refuse what earlier versions kept without looking: every resume would fail on it."""
        wrong = [name for name, head in self.heads.items() if not re.fullmatch(HEAD, head)]
        wrong += [name for name, last in self.received.items() if not 0 <= last <= _MOST]
        if wrong:
            raise ResumeError(
                f"the checkpoint of {folder} keeps an answer of {wrong[0]} that no owner can have given; "
                "start anew in another folder with --out, what owners paid stays spent"
            )

    def as_json(self) -> str:
        """All of it, for the checkpoint."""
        opening = None if self.opening is None else _lists(self.opening._asdict())
        return json.dumps({**vars(self), "opening": opening})


def _lists(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists(part) for key, part in value.items()}
    if isinstance(value, tuple):
        return [_lists(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _arrays(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields of a checkpoint; missing losses are NaN in JSON and here."""
    several = {name: tuple(map(np.asarray, fields[name])) for name in ("memory", "server")}
    others = {name: part for name, part in fields.items() if part is not None and name not in several}
    single = {name: np.asarray(part) for name, part in others.items()}
    return {**single, **several, "round": fields["round"]}
