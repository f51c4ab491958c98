"""Commands on what a run left: predict, export, tune, and card sign, verify."""

from __future__ import annotations

import logging
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from noiseworthy._places import whole, writing
from noiseworthy._wording import count
from noiseworthy.cli.console import out
from noiseworthy.errors import ConfigError, DataError

if TYPE_CHECKING:
    from noiseworthy.model.model import Model


RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="folder of run or model", show_default=False)]
_TABLES = (".csv", ".csv.gz", ".parquet")
_ARRAYS = (".npy", ".npz")


def predict(
    run: RunFolder,
    records: Annotated[Path, typer.Argument(help="new: a table in any format, or .npy", show_default=False)],
    out_file: Annotated[
        Path, typer.Option("--out", "-o", help="file to write: .csv, .csv.gz or .parquet", show_default=False)
    ],
) -> None:
    """Predict new records: their own columns, what is predicted, and a probability for every class."""
    from noiseworthy.data.schema.values import columns_of
    from noiseworthy.model.model import load_model

    if not out_file.name.endswith(_TABLES):
        raise ConfigError(f"-o must end in one of {', '.join(_TABLES)}, got {out_file}")
    if out_file.exists() and records.exists() and out_file.samefile(records):
        raise ConfigError(f"-o {out_file} is the file of the records; name another one")
    model = load_model(run)
    table, given = _read(records, model)
    if not len(table):
        raise DataError(f"{records} holds no records to predict")
    added = _predicted(model, given, str(records))
    if twice := [name for name in added if name in table.columns]:
        raise DataError(f"{records} has a column {twice[0]!r} already; leave it out, or rename it")
    table = table.assign(**added)
    with writing(out_file, "name another with -o"), whole(out_file) as draft:
        try:
            (table.to_parquet if out_file.suffix == ".parquet" else table.to_csv)(draft, index=False)
        except (TypeError, ValueError):  # what pyarrow raises of a column of a workbook or a database
            raise DataError(f"{records} has numbers and words in one column; name a .csv with -o") from None
    out.print(f"Wrote {out_file}: {count(len(table), 'record')} predicted.", soft_wrap=True)
    for name, read in ({} if model.schema is None else model.schema.read(columns_of(given), "")).items():
        if beyond := int(read.outside.sum()):
            where = f"{name!r} in {count(beyond, 'record')} of {len(table):,}"
            out.print(f"Outside of its range, and read as its end: {where}.", soft_wrap=True)


def export(
    run: RunFolder, onnx: Annotated[Path, typer.Option("--onnx", help="file to write", show_default=False)]
) -> None:
    """Write a model as ONNX: one graph from encoded records to probabilities."""
    from noiseworthy.model.export import export_onnx
    from noiseworthy.model.model import load_model

    out.print(f"Wrote {export_onnx(load_model(run), onnx)}", soft_wrap=True)


def _read(path: Path, model: Model) -> tuple[Any, Any]:
    """The table that is written again, and the records in it."""
    import pandas as pd

    from noiseworthy.data.files import existing, read_npz
    from noiseworthy.data.frames import read_arrow, read_text_table
    from noiseworthy.data.readers import FORMATS, TEXT, read_columns

    tables = tuple(one for one in FORMATS if one not in _ARRAYS)
    name = path.name.lower()
    if name.endswith(tables):
        if name.endswith(TEXT):
            table = read_text_table(path, dtype=str, keep_default_na=False)
        else:
            whole = name.endswith(".parquet")
            table = read_arrow(path) if whole else pd.DataFrame(read_columns(path, cells=True)[0])
        return table, table
    if not name.endswith(_ARRAYS):
        raise ConfigError(f"{path} must end in one of {', '.join((*tables, *_ARRAYS))}")
    try:
        array = read_npz(path)["x"] if name.endswith(".npz") else _array(existing(path))
    except KeyError:
        raise DataError(f"{path} has no array x, which holds the records; name it so") from None
    return pd.DataFrame(index=range(len(array) if array.ndim else 0)), array


def _array(path: Path) -> Any:
    import numpy as np

    try:
        # not np.load, which returns no array of an archive, whatever its name
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise DataError(f"{path} is no .npy file of plain numbers: {error}") from None


def _predicted(model: Model, records: Any, name: str) -> dict[str, Any]:
    """Columns of what is predicted of a file's records."""
    if model.description.label_shape:
        raise ConfigError("labels of every token or voxel make no table; use nw.load_model(run).predict")
    z = model.answers(model.encoded(records, name))
    added = {"prediction": model.named(z)}
    if model.gives_probabilities:
        shares = model.probabilities(z)
        added |= {f"probability {name}": shares[:, k] for k, name in enumerate(model.classes or ())}
    return added


card = typer.Typer(no_args_is_help=True, help="Sign the claim card of a run, and check a signature.")


@card.command()
def sign(
    run: RunFolder, key: Annotated[Path, typer.Option(help="private Ed25519 key, of ssh-keygen or openssl")]
) -> None:
    """Sign claim_card.json; the signature lies beside it as claim_card.sig."""
    from noiseworthy.reports.signing import sign as signed

    path = signed(run, key, lambda: typer.prompt(f"Password of {key}", hide_input=True))
    out.print(f"Signed: {path}", soft_wrap=True)


@card.command()
def verify(run: RunFolder, key: Annotated[Path, typer.Option(help="public key of whoever signed")]) -> None:
    """Whether claim_card.json is what the owner of a key has signed, and valid still."""
    from datetime import UTC, datetime

    from noiseworthy.reports.signing import verify as verified

    told = verified(run, key, datetime.now(UTC).date())
    for name in ("claim", "purpose", "responsible", "valid_until"):
        if told.get(name):
            out.print(f"{name.replace('_', ' ').capitalize()}: {told[name]}", soft_wrap=True, highlight=False)
    out.print(f"Signed by {key}, unchanged.", soft_wrap=True, highlight=False)


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
