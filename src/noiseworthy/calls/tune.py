"""A shared model at one of its owners: tuned on the owner's records, scored, and kept where they are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import jax
import numpy as np
from numpy.typing import NDArray

from noiseworthy._places import write_whole, writing
from noiseworthy.data.leaf import femnist_images
from noiseworthy.data.owners import labels_misfit
from noiseworthy.data.persons import held_out, names_of, numbered
from noiseworthy.data.readers import is_table, opened, read_columns
from noiseworthy.data.records import holdout
from noiseworthy.data.tables import Columns, plain_examples
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.home.base import Own, Real
from noiseworthy.home.candidates import CANDIDATES
from noiseworthy.home.scores import Limits, limits_of, limits_of_gain, merits
from noiseworthy.model.description import Statement
from noiseworthy.model.folder import NAME, Kept, load_folder, save_folder
from noiseworthy.model.model import Model, load_model, probed
from noiseworthy.reports.tuned import FILE, page_of
from noiseworthy.tasks.own import is_own, own_task
from noiseworthy.tasks.preparation import preparing

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema
    from noiseworthy.data.sql import Query
    from noiseworthy.model.description import Description

CLAIM = (
    "Tuned at home by one owner, on its own records and without noise. It carries no guarantee for that "
    "owner's records, and neither do its scores: it stays with its owner. Of the shared model that it "
    "started from, this was claimed: "
)


Read: TypeAlias = tuple[NDArray, NDArray, NDArray[np.bool_] | None, int | None, list[str] | None]
"""Features, labels, which records test and whose they are where that is told, and the number of classes."""


@dataclass(frozen=True)
class Tuned:
    """What became of a shared model at an owner.

    Attributes:
        folder: of the tuned model and its page.
        records: that were learnt from.
        tests: that were held out.
        scores: of own model, shared and tuned on these; NaN without any.
        limits: of each score, at 95 %.
        gains: limits of what tuning gains over each other model, on the same records.
    """

    folder: Path
    records: int
    tests: int
    scores: dict[str, float]
    limits: dict[str, Limits]
    gains: dict[str, Limits]


def tune(
    model: Path | str, records: Path | str, out: Path | str, *, seed: int = 0, replace: bool = False,
    modules: Path | str | None = None,
) -> Tuned:  # fmt: skip
    """Tune a shared model on an owner's records, on the owner's own machine; nothing is sent anywhere.

    An own model, the shared one and the tuned one are scored on records that none of the three candidates of
    this owner learnt from: rows that a column `split` marks `test`, else a fixed fifth; of persons,
    where a column says whose records are.

    Args:
        model: folder of the shared model, or of its run.
        records: the owner's table with labels, in the columns of the model; or the owner's file of a gateway.
        out: folder to write, for the owner's eyes alone: the tuned model, and a page with the three scores.
        seed: of the folds of the cross-validation.
        replace: whether a model that is in the folder already may be replaced.
        modules: folder of the module that makes a network of one's own, which is run; None takes the copy
            beside an owner's file that approves it.

    Returns:
        Scores and where the folder is.

    Raises:
        ConfigError, DataError: a model or records that cannot be read, or that do not fit each other; or a
            folder that holds what was tuned before.
    """
    shared, folder = _loaded(Path(model), Path(records), modules), Path(out)
    taken = {Path(model).resolve(), (Path(model) / NAME).resolve()}
    # The tuned model goes into `NAME` below: there, too, a private model would be replaced by a bare one.
    if taken & {folder.resolve(), (folder / NAME).resolve()}:
        raise ConfigError(f"-o {folder} is the folder of the shared model; name another one")
    if not replace and (there := [one for one in (folder / FILE, folder / NAME) if one.exists()]):
        raise ConfigError(f"{there[0]} is there already and is left as it is; name another, or --replace it")
    held, is_test = labelled(Path(records), shared.description)
    task, kept = shared.task, shared.kept
    rows = held._replace(x=np.asarray(preparing(task)(jax.device_put(held.x))))
    own, (test_x, test_y, whose) = rows.some(~is_test), rows.some(is_test)
    made = {name: make(task, kept.theta, own, seed) for name, make in CANDIDATES.items()}
    variance = float(np.var(test_y)) if len(test_y) else 0.0
    found = {name: merits(task, theta, test_x, test_y, variance) for name, theta in made.items()}
    done = Tuned(
        folder,
        len(own.x),
        len(test_x),
        {name: float(each.mean()) if len(each) else float("nan") for name, each in found.items()},
        {name: _limits(each, whose, classes=bool(shared.classes)) for name, each in found.items()},
        {name: _limits(found["tuned"] - found[name], whose, limits_of_gain) for name in ("alone", "shared")},
    )
    theta = np.asarray(made["tuned"], np.float32)
    tuned = kept._replace(theta=theta, description=_described(shared, theta))
    metrics = Model(tuned, task).measured(held.x[is_test], test_y)
    scored = {"metrics": metrics, "test_origin": None}
    _write(done, tuned._replace(description=tuned.description.model_copy(update=scored)))
    return done


def _loaded(model: Path, records: Path, modules: Path | str | None) -> Model:
    """The shared model; a network of one's own by a copy of the source that it was trained with."""
    said = load_folder(model).description
    table, classes = said.task, None if said.classes is None else len(said.classes)
    if table.model is None or not is_own(table.model):
        return load_model(model)
    if modules is None and records.suffix == ".toml":
        from noiseworthy.deploy.gateway.owner import load_owner  # here, because few owners keep a gateway

        owner = load_owner(records)
        modules = owner.folder if owner.allowed.allows(table) else None
    if modules is None:
        raise ConfigError(
            f"{model} is a network of your own, {table.model}, whose module is run: read it, and name the "
            "folder of your copy by --modules"
        )
    shape = tuple(said.record_shape)
    own = own_task(table.model, Path(modules), table.model_digest, shape, classes, table.ridge)
    return load_model(model, own)


def labelled(path: Path, said: Description) -> tuple[Own, NDArray[np.bool_]]:
    """An owner's records as a model takes them, and which are held out for tests.

    Args:
        path: a table, or the owner's file of a gateway.
        said: description of the model.

    Raises:
        ConfigError, DataError: as `tune`.
    """
    if path.suffix == ".toml":
        x, y, is_test, classes, names = _of_owner(path, said)
    else:
        x, y, is_test, classes, names = _of_table(opened(str(path)), said.columns or _plain(said))
    _check_fits(said, x, classes, str(path))
    x = femnist_images(x) if said.turned else x
    whose = said.columns and said.columns.person
    if whose and names is None and said.privacy.unit == "person":
        raise DataError(
            f"{path} does not say whose its records are, and the model hides persons: records of one on both "
            f"sides of a test would flatter every model; bring the column {whose.name!r} (whoever has one "
            "record needs but another name than all others)"
        )
    if is_test is None:
        is_test = held_out(names) if names else holdout(y if classes else np.zeros(len(y)))
    if is_test.all():
        raise DataError(f"{path} has no records to learn from; bring some, or mark fewer of them 'test'")
    return Own(x, y, numbered(names) if names else None), is_test


def _of_owner(path: Path, said: Description) -> Read:
    """The records of an owner's file: its own table, or its part of data that are dealt out."""
    from noiseworthy.deploy.gateway.holding import Holding  # here, because few owners keep a gateway
    from noiseworthy.deploy.gateway.models import labels_of
    from noiseworthy.deploy.gateway.owner import load_owner

    owner = load_owner(path)
    if misfit := labels_misfit(owner.owner.client, labels_of(owner), said.classes):
        raise DataError(misfit)
    table = owner.federation
    if table.clients == 1 and is_table(str(table.data)):
        source = opened(str(table.data), table.data_dir, table.query)
        x, y, is_test, classes, names = _of_table(source, owner.columns or table.columns)
        # what the gateway holds out, too, which the shared model was not trained on
        is_test = holdout(np.zeros(len(y))) if owner.holds_out and is_test is None else is_test
        return x, y, is_test, classes, names
    held = Holding.load(table, owner.owner.client, owner.rows)
    if held.persons is not None:
        person, place = np.nonzero(held.x[..., -1])  # a share of one, which is 0 where there is no record
        return held.x[person, place, :-1], held.y[person, place], None, held.classes, [*map(str, person)]
    x = held.x if held.most_weight is None else held.x[:, :-1]
    return x, held.y, None, held.classes, None


def _of_table(source: Path | Query, columns: Columns | Schema) -> Read:
    """All records of a table, whose columns of owners are left out."""
    table, name = read_columns(source, cells=not isinstance(columns, Columns), coded=columns.coded)
    if isinstance(columns, Columns):
        return *plain_examples(table, columns, name), None
    from noiseworthy.data.schema.tables import stated_examples

    x, y, _, is_test = stated_examples(table, columns, name, whole=True, testing=True)
    x = x[:, : columns.width]  # at home every record counts once
    told = columns.person is not None and columns.person.name in table
    return x, y, is_test, columns.n_classes, names_of(table, columns) if told else None


def _plain(said: Description) -> Columns:
    classes = None if said.classes is None else tuple(said.classes)
    return Columns(said.label_name, regression=said.classes is None, classes=classes)


def _check_fits(said: Description, x: NDArray, classes: int | None, name: str) -> None:
    if said.label_shape:
        raise ConfigError(
            "records with a label for every token or voxel make no table; tune them in Python, by "
            "noiseworthy.home.owners"
        )
    told = None if said.classes is None else len(said.classes)
    if (list(x.shape[1:]), classes) != (said.record_shape, told):
        raise DataError(
            f"{name} has records of shape {list(x.shape[1:])} and {classes} classes, the model is for "
            f"{said.record_shape} and {told}; bring the columns that it was trained on"
        )


def _limits(
    each: NDArray, whose: NDArray | None, of: Callable[[Real], Limits] = limits_of, *, classes: bool = False
) -> Limits:
    """Limits of a score: a person's records say much of each other, and count as one where they are told."""
    if whose is None or not len(each):
        return of(each)
    _, person, counts = np.unique(whose, return_inverse=True, return_counts=True)
    low, high = of(np.bincount(person, each) / counts)
    return (max(0.0, low), min(1.0, high)) if classes else (low, high)


def _described(shared: Model, theta: NDArray[np.float32]) -> Description:
    """The description of a tuned model, which promises nothing of its owner's records."""
    said = shared.description
    promised = said.privacy
    statement = promised.model_dump() | {
        "private": False,
        "claim": CLAIM + promised.claim,
        "warning": "It stays with its owner; one that is handed on carries no guarantee for its records.",
    }
    return said.calibrated(None).model_copy(
        update={
            "version": version("noiseworthy"),
            "name": f"{said.name}, tuned at home",
            "privacy": Statement.model_validate(statement),
            "metrics": None,
            "probe": probed(shared.task, theta, said.record_shape),
        }
    )


def _write(done: Tuned, tuned: Kept) -> None:
    """The folder: the model, and the page beside it; both for the owner's eyes alone."""
    page = page_of(tuned.description, done.records, done.tests, done.scores, done.limits, done.gains)
    with writing(done.folder, "name another with -o"):
        done.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        save_folder(tuned, done.folder / NAME, private=True)
        write_whole(done.folder / FILE, page, 0o600)
