"""The folder of a model: JSON, safetensors, a card and coefficients; written whole, read without pickle."""

from __future__ import annotations

import csv
import glob
import hashlib
import json
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._places import clear_drafts
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.model.card import card_of
from noiseworthy.model.coefficients import COLUMNS, coefficients_of
from noiseworthy.model.description import Description, digest_of
from noiseworthy.tasks.names import is_encoder
from noiseworthy.tasks.reference import Reference

if TYPE_CHECKING:
    from noiseworthy.tasks.encoder import Encoder
    from noiseworthy.tasks.table import TaskTable

NAME = "model"
"""Of the folder within a run's."""
FILE, ARRAYS, CARD, COEFFICIENTS = "model.json", "parameters.safetensors", "README.md", "coefficients.csv"
ENCODER = "encoder.onnx"
_SEEN, _STANDARDISED = ("mean", "directions"), ("center", "spread")
_AGAIN = "take the whole folder from where it was written, or train again"


class Kept(NamedTuple):
    """What a folder holds.

    Attributes:
        description: all but the numbers.
        theta: parameters, float32, shape (p,).
        reference: public records that others are seen against, with the directions that are kept.
        encoder: that records pass first; None without one.
    """

    description: Description
    theta: NDArray[np.float32]
    reference: Reference | None = None
    encoder: Encoder | None = None


def save_folder(kept: Kept, folder: Path, *, private: bool = False) -> Path:
    """Write the folder of a model; one that is there is replaced whole.

    Args:
        kept: the model.
        folder: to write.
        private: for its owner's eyes alone (mode 0700).

    Raises:
        DataError: a place that cannot be written to, or that holds something other than a model.
    """
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    old = fresh.with_name(f"{fresh.name}.old")
    try:
        check_replaceable(folder)
        fresh.mkdir(mode=0o700 if private else 0o777, parents=True)
        _fill(fresh, kept)
        if folder.exists():
            os.rename(folder, old)
        os.rename(fresh, folder)
    except OSError as error:
        told = f"the model cannot be written to {folder} ({error}); free disk space, or choose another place"
        raise DataError(told) from None
    finally:
        # `os.rename` replaces no folder that holds files: whoever is stopped between the two finds the old
        # one in its place again.
        if old.exists() and not folder.exists():
            os.rename(old, folder)
        for left in (fresh, old):
            shutil.rmtree(left, ignore_errors=True)
    clear_drafts(folder.parent, f".{glob.escape(folder.name)}.{'[0-9a-f]' * 8}*")
    return folder


def check_replaceable(folder: Path) -> None:
    """Refuse a place, with a `DataError`, that holds something and no model: a model would take all of it."""
    if folder.exists() and not (folder / FILE).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder} is there and holds no model; it is left as it is, choose another place")


def load_folder(path: Path) -> Kept:
    """The model of a folder, or of a run's folder, every byte of it held against its digests.

    Raises:
        DataError: no model, one of another format, or one that is damaged or was changed; or a run of a newer
            plan, whose training has not ended.
    """
    folder = _found(path)
    content = _content(folder / FILE)
    description = Description.read({k: v for k, v in content.items() if k not in ("parameters", "digest")})
    # It has no key: it tells damage, and nothing of whoever wrote the folder.
    if content.get("digest") != digest_of(content):
        raise DataError(f"{folder / FILE} was changed after it was written; {_AGAIN}")
    arrays = _arrays(folder / ARRAYS, content["parameters"])
    if folder != path:
        _check_latest(path, description.plan_digest)
    task = description.task
    numbers = _SEEN + _STANDARDISED * (task.features is not None) if task.reference else ()
    if missing := [name for name in ("theta", *numbers) if name not in arrays]:
        raise DataError(f"{folder / ARRAYS} lacks the array {missing[0]}; {_AGAIN}")
    reference = Reference(**{name: arrays[name] for name in numbers}) if numbers else None
    return Kept(description, arrays["theta"], reference, _encoder(folder, task))


def _fill(folder: Path, kept: Kept) -> None:
    """Write the files of a model into a new folder."""
    from safetensors.numpy import save  # here, because owners' gateways write one in a run

    arrays = {"theta": np.ascontiguousarray(kept.theta, np.float32)}
    if kept.reference is not None:
        arrays |= kept.reference.arrays(kept.description.task.projection)
    packed = save(arrays)
    shapes = {name: list(array.shape) for name, array in arrays.items()}
    parameters = {"sha256": hashlib.sha256(packed).hexdigest(), "arrays": shapes}
    content = {**kept.description.plain, "parameters": parameters}
    whole = {**content, "digest": digest_of(content)}
    text = json.dumps(whole, indent=1, ensure_ascii=False, allow_nan=False)
    (folder / ARRAYS).write_bytes(packed)
    if kept.encoder is not None:
        (folder / ENCODER).write_bytes(kept.encoder.content)
    (folder / FILE).write_text(text, encoding="utf-8")
    (folder / CARD).write_text(card_of(kept.description), encoding="utf-8")
    if rows := coefficients_of(kept.description, kept.theta):
        with (folder / COEFFICIENTS).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([COLUMNS, *rows])


def _encoder(folder: Path, task: TaskTable) -> Encoder | None:
    if not is_encoder(task.features):
        return None
    from noiseworthy.tasks.encoder import Encoder  # here, because few models have one

    try:
        return Encoder.read(folder, ENCODER, task.encoder_digest)
    except ConfigError as error:
        raise DataError(f"{folder / ENCODER} is not the encoder of this model; {_AGAIN}") from error


def _found(path: Path) -> Path:
    """The folder of the model itself."""
    for folder in (path, path / NAME):
        if (folder / FILE).is_file():
            return folder
    if (path / "model.npz").is_file():
        raise DataError(
            f"{path} was written by an earlier version, whose model.npz names no columns, classes or model; "
            "train the study again"
        )
    raise DataError(f"{path} holds no model; give the folder of a run that was trained, or of a model")


def _check_latest(run: Path, plan: str | None) -> None:
    """Refuse the model of a run's folder beside the record of a plan that has not trained one."""
    try:
        record = json.loads((run / "record.json").read_bytes())
    except (OSError, ValueError):
        return
    if isinstance(record, dict) and record.get("training", ()) is None and record.get("plan_digest") != plan:
        raise DataError(
            f"{run} holds the model of an earlier plan, and no training by its latest has ended; train it, "
            f"or give {run / NAME}, which is the earlier one"
        )


def _content(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error}); {_AGAIN}") from None
    if not isinstance(content, dict) or not isinstance(content.get("parameters"), dict):
        raise DataError(f"{path} describes no model; {_AGAIN}")
    return content


def _arrays(path: Path, parameters: dict) -> dict[str, NDArray]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        packed = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); {_AGAIN}") from None
    if hashlib.sha256(packed).hexdigest() != parameters.get("sha256"):
        raise DataError(f"{path} is damaged or of another model; {_AGAIN}")
    try:
        return load(packed)
    except (SafetensorError, KeyError) as error:  # the latter of types of numbers that numpy has not
        raise DataError(f"{path} holds no arrays ({error}); {_AGAIN}") from None
