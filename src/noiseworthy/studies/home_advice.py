"""Whether owners should share, before anybody trains: what trials say of own, shared and tuned models."""

from __future__ import annotations

import numpy as np

from noiseworthy._wording import number, percent
from noiseworthy.trials.at_home import AtHome

_DONE = {
    "alone": "stay home: what sharing adds is less than a point",
    "shared": "share, and use the shared model",
    "tuned": "share, and tune at home",
}


def advice(home: AtHome, *, numbers: bool = False) -> str:
    """What owners should do, what that rests on and for whom it differs, in sentences.

    Args:
        home: what typical owners reach in trials.
        numbers: whether scores are R^2, not shares of right answers.

    Example:
        >>> scores = {"alone": np.array([0.7, 0.9]), "shared": np.array([0.8, 0.8])}
        >>> scores["tuned"] = np.array([0.82, 0.9])
        >>> said = advice(AtHome(np.array([20, 300]), scores, np.array([[0.12, 0.0]])))
        >>> said.split("; ")[0], said.split(". ")[1]
        ('Owners: share, and tune at home', 'Owners with about 300 records or more gain nothing.')
    """
    write = (lambda score: f"R^2 {number(score)}") if numbers else percent
    reached = home.overall
    said = (
        f"Owners: {_DONE[home.best]}; on public data own models reach {write(reached['alone'])}, the shared "
        f"one {write(reached['shared'])} and tuned ones {write(reached['tuned'])}."
    )
    return f"{said}{_exceptions(home)}"


def _exceptions(home: AtHome) -> str:
    """Which owners should do otherwise, by the records that they have; empty where none should."""
    gaining = home.gaining
    if home.best == "alone" and gaining[0]:
        most = home.records[gaining][-1]
        return f" Owners with about {most} records or fewer gain by tuning a shared model."
    if home.best != "alone" and not gaining[-1]:
        least = home.records[~gaining][0] if np.all(gaining == np.sort(gaining)[::-1]) else home.records[-1]
        return f" Owners with about {least} records or more gain nothing."
    return ""
