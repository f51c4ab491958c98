"""Cells: a federation, a mechanism and a budget, as a study that a user would write."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

import noiseworthy as nw
from federations import FEDERATIONS, Evidence, half
from federations.source import digest
from noiseworthy.privacy.trust import TrustModel
from noiseworthy.studies.prepare import Prepared

Tables = dict[str, Any]
DELTA = 1e-5
MECHANISMS = ("laplace", "gaussian")
LEVELS = (100.0, 300.0, 1000.0)
"""How much privacy leaves: a hash of the cell's name picks one."""
_LEAST, _MOST = {"laplace": 0.5, "gaussian": 0.1}, {"laplace": 100.0, "gaussian": 20.0}


class Cell(NamedTuple):
    """One row of the table: a federation under a mechanism. Its budget follows from public sizes."""

    federation: str
    mechanism: str
    trust: TrustModel = "local"

    @property
    def name(self) -> str:
        """By which its results are kept."""
        return self.budgeted + f"-{self.trust}" * (self.trust != "local")

    @property
    def budgeted(self) -> str:
        """By which its budget is drawn: the same whomever owners trust."""
        return f"{self.federation}-{self.mechanism}"

    @property
    def evidence(self) -> Evidence:
        """Its federation."""
        return FEDERATIONS[self.federation]


def cells(which: str, trust: TrustModel = "local") -> list[Cell]:
    """All cells of a half; of sums those of Gaussian noise, whose shares the trainer knows."""
    mechanisms = MECHANISMS if trust == "local" else ("gaussian",)
    return [Cell(name, mechanism, trust) for name in half(which) for mechanism in mechanisms]


def epsilon_of(cell: Cell, clients: int, records: int, features: int, classes: int | None) -> float:
    """The budget of a cell, by a public rule.

    The noise of all clients moves an output by about sqrt(N) / (d epsilon), and more outputs say less each:
    epsilon = level sqrt(N K) / d for Gaussian noise. A clip in the L1 norm costs Laplace noise another
    sqrt(features). Rounded to 1, 2, 5, 10, ... and to what anybody would use.

    Example:
        >>> epsilon_of(Cell("heart-disease", "gaussian"), 4, 735, 33, 2)
        0.5
    """
    level = LEVELS[digest(f"budget of {cell.budgeted}") % len(LEVELS)]
    wanted = level * np.sqrt(clients * max(classes or 2, 2)) / records
    wanted *= np.sqrt(features) if cell.mechanism == "laplace" else 1.0
    series = np.outer(10.0 ** np.arange(-2, 4), (1, 2, 5)).ravel()
    nearest = series[np.argmin(np.abs(np.log(series / wanted)))]
    return float(np.clip(nearest, _LEAST[cell.mechanism], _MOST[cell.mechanism]))


@lru_cache(maxsize=1)
def _opened(federation: str) -> tuple[Tables, Prepared]:
    tables = FEDERATIONS[federation].study()
    return tables, nw.prepare(nw.parse_study({**tables, "privacy": _privacy("laplace", 1.0)}))


def prepared(cell: Cell) -> Prepared:
    """The study of a cell: data and columns, mechanism and budget, and nothing else stated.

    Public data that share records or a source with it are left out of its planning.
    """
    tables, made = _opened(cell.federation)
    federation, _ = made.trained()
    features, records = int(np.prod(federation.record_shape)), int(federation.sizes.sum())
    epsilon = epsilon_of(cell, federation.n_clients, records, features, federation.classes)
    study = nw.parse_study({**tables, "privacy": _privacy(cell.mechanism, epsilon, cell.trust)})
    return replace(made, study=study, relatives=cell.evidence.relatives)


def _privacy(mechanism: str, epsilon: float, trust: TrustModel = "local") -> Tables:
    delta = 0.0 if mechanism == "laplace" else DELTA
    return {"mechanism": mechanism, "epsilon": epsilon, "delta": delta, "trust": trust}
