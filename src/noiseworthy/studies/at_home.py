"""What owners reach at home beside a training in simulation, and what trials say of it before that."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy._json import strict_json
from noiseworthy._wording import number, percent
from noiseworthy.data.federation import Federation
from noiseworthy.home.owners import Scored, owners_at_home
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.record import Record
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.networks import ModelTask
from noiseworthy.trials.at_home import WORTH, AtHome, Otherwise


def with_home(prepared: Prepared, theta: ArrayLike, record: Record, seed: int) -> Record:
    """The record with what each owner reaches alone, with the shared model and with it tuned at home.

    The models are measured and not kept: they are their owners', and no epsilon covers them.

    Args:
        prepared: the study with the model that was trained.
        theta: parameters of the shared model, shape (p,).
        record: of the run.
        seed: of the training.

    Returns:
        The record as it is, of a study that delivers to others or whose task has no outputs to score.
    """
    federation, task = counted_once(*prepared.trained())
    if not delivers_to_owners(prepared):
        return record
    began = time.monotonic()
    found = owners_at_home(federation, task, theta)
    part = {"seed": seed, **_plain(found), "seconds": time.monotonic() - began}
    return {**record, "home": strict_json(part)}


def delivers_to_owners(prepared: Prepared) -> bool:
    """Whether owners use what a study trains, and its outputs are such as can be scored for each of them."""
    return prepared.study.deliver.to == "owners" and isinstance(prepared.task, LinearModel | ModelTask)


def counted_once(federation: Federation, task: Task) -> tuple[Federation, Task]:
    """Records and model without weights of records, which models at home know nothing of."""
    if federation.most_weight is None or not isinstance(task, LinearModel):
        return federation, task
    x, test_x = federation.x[..., :-1], federation.test_x[..., :-1]
    return replace(federation, x=x, test_x=test_x), replace(task, most_weight=None)


def _plain(found: Scored) -> dict[str, Any]:
    candidates = {
        name: {
            "overall": found.overall[name],
            "scores": scores.tolist(),
            "least": found.limits[name][:, 0].tolist(),
            "most": found.limits[name][:, 1].tolist(),
        }
        for name, scores in found.scores.items()
    }
    return {
        "tests": found.tests.tolist(),
        "named": found.named,
        **candidates,
        "gains": found.gains.tolist(),
        "gains_least": found.gain_limits[:, 0].tolist(),
        "gains_most": found.gain_limits[:, 1].tolist(),
        **{f"error_{name}": error for name, error in found.errors.items()},
    }


_DONE = {
    "alone": "stay home: what sharing adds is less than a point",
    "shared": "share, and use the shared model",
    "tuned": "share, and tune at home",
}
_POINT = 100
"""Points of a score of 1."""


def advice(home: AtHome, *, numbers: bool = False) -> str:
    """What owners should do, what that rests on, for whom it differs and what would change it, in sentences.

    Args:
        home: what typical owners reach in trials.
        numbers: whether scores are R^2, not shares of right answers.

    Example:
        >>> scores = {"alone": np.array([0.7, 0.9]), "shared": np.array([0.8, 0.8])}
        >>> scores["tuned"] = np.array([0.82, 0.9])
        >>> shares, sizes = np.array([0.5, 0.5]), np.array([18, 20, 300])
        >>> said = advice(AtHome(np.array([20, 300]), scores, np.array([[0.12, 0.0]]), shares, sizes))
        >>> said.split("; ")[0], said.split(". ")[1]
        ('Owners: share, and tune at home', '2 of 3 owners gain: those with fewer than 300 records.')
    """
    write = (lambda score: f"R^2 {number(score)}") if numbers else percent
    reached = home.overall
    said = (
        f"Owners: {_DONE[home.best]}; on public data own models reach {write(reached['alone'])}, the shared "
        f"one {write(reached['shared'])} and tuned ones {write(reached['tuned'])}."
    )
    return f"{said}{_who_gains(home)}{_changes(home, numbers)}"


def _who_gains(home: AtHome) -> str:
    """How many owners gain and which, by the records that they have; empty where it is as for all of them."""
    gains, sizes = home.gainers, home.sizes
    if gains.all() == gains.any():
        return ""
    said = f" {gains.sum():,} of {len(sizes):,} owners gain"
    if np.all(gains == np.sort(gains)[::-1]):
        return f"{said}: those with fewer than {sizes[~gains][0]:,} records."
    if np.all(gains == np.sort(gains)):
        return f"{said}: those with {sizes[gains][0]:,} records or more."
    return f"{said}."


def _changes(home: AtHome, numbers: bool) -> str:
    """What would have to be otherwise for sharing to be advised, of all that was tried."""
    if not home.changes:
        return ""
    ways = {
        "owners": "{value:,.0f} owners like these", "epsilon": "epsilon {value:g}",
        "secure-sum": "noise that owners share in a secure sum",
    }  # fmt: skip

    def told(one: Otherwise) -> str:
        by = number(one.gain, 2) if numbers else f"{_POINT * one.gain:.1f} points"
        return f"{ways[one.way].format(value=one.value)} ({by})"

    enough = [told(one) for one in home.changes if one.gain > WORTH]
    little = [told(one) for one in home.changes if one.gain <= WORTH]
    if not enough:
        return f" Of what was tried nothing would change it, by what tuned models gain: {', '.join(little)}."
    less = f"; not with {', '.join(little)}" if little else ""
    return f" Tuned models would be a point ahead of own ones with {' or '.join(enough)}{less}."
