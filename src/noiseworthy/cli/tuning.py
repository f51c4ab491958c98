"""The command of an owner that tunes a shared model at home: tune."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy._wording import count
from noiseworthy.cli.console import out


def tune(
    model: Annotated[Path, typer.Argument(help="folder of the shared model or its run", show_default=False)],
    records: Annotated[
        Path, typer.Argument(help="your table with labels, or your gateway's owner file", show_default=False)
    ],
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="folder to write, for you alone", show_default=False)
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="replace the model that was tuned into that folder before")
    ] = False,
    modules: Annotated[Path | None, typer.Option(help="folder of the file of your own network")] = None,
) -> None:
    """Tune a shared model on your own records, on your own machine; nothing is sent anywhere."""
    from noiseworthy.calls.tune import tune as tuned
    from noiseworthy.model.folder import load_folder
    from noiseworthy.reports.tuned import FILE, rows, unit

    done = tuned(model, records, out_folder, replace=replace, modules=modules)
    said = load_folder(done.folder).description
    for row in rows(said, done.scores, done.limits) if not math.isnan(done.scores["alone"]) else ():
        name, score, ends = row.values()
        out.print(f"{name}: {unit(said)}{score} ({ends})", soft_wrap=True, highlight=False)
    out.print(
        f"Learnt from {count(done.records, 'record')}; {done.tests:,} {'was' if done.tests == 1 else 'were'} "
        "held out. For you alone: handed on, the model carries no guarantee for your records.",
        soft_wrap=True,
    )
    out.print(f"Page: {done.folder / FILE}", soft_wrap=True)


_log = logging.getLogger("noiseworthy.deploy.gateway.tuning")


class Tuning:
    """Tunes the models that an owner's gateway keeps, in a process of its own that opens no socket.

    The gateway does not wait for it and learns nothing of it, so that no reply can tell of a tuned model. One
    model is tuned at a time: a server that sends many keeps one process busy.

    Attributes:
        latest: the process that was begun last.
    """

    def __init__(self, owner: Path, folder: Path):
        """Nothing is tuned yet.

        Args:
            owner: the owner's file.
            folder: in which each run gets a folder for its tuned model and page.
        """
        self._owner, self._folder = owner, folder
        self.latest: subprocess.Popen[bytes] | None = None

    def __call__(self, model: Path) -> None:
        """Begin to tune a model that was kept, in the folder of its run."""
        made = self._folder / model.name
        if self.latest is not None and self.latest.poll() is None:
            _log.warning("another model is being tuned; tune this one by hand: %s", model)
            return
        try:
            self._begin(model, made)
        except OSError as error:
            _log.warning("the model of run %r is not tuned: %s", model.name, error)

    def _begin(self, model: Path, made: Path) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tune = [sys.executable, "-m", "noiseworthy", "tune", "--replace", str(model), str(self._owner)]
        tune += ["-o", str(made)]
        command = ["sh", "-c", 'trap "" TERM; exec "$@"', "sh", *tune]  # who ends the gateway lets it finish
        self.latest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        _log.info("the model of run %r is being tuned; its page will be in %s", model.name, made)
