"""Federations: every source dealt out to owners by a public function of its name."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from federations.folder import FOLDER
from federations.packaged import PACKAGED
from federations.pictures import PICTURES
from federations.source import OWNER, Source, Table, digest, half_of
from noiseworthy.data import Federation, Records, federate

SOURCES: dict[str, Source] = {one.name: one for one in (*PACKAGED, *FOLDER, *PICTURES)}
"""All sources by name."""
COUNTS = (4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 350, 500)
LEAST_RECORDS = 25
"""Records of an owner on average, at least."""
ALPHAS = (0.3, 1.0, 3.0)
"""How unlike owners are that are dealt classes by Dirichlet draws."""


@dataclass(frozen=True)
class Deal:
    """Whose records: a rule that follows from the name of a source and from its sizes.

    Attributes:
        rule: `alike`, `dirichlet`, `column` (the owners of the source) or `power` (alike, of unequal sizes).
        clients: how many owners.
        alpha: of `dirichlet`.
    """

    rule: str
    clients: int
    alpha: float | None = None

    @property
    def partition(self) -> dict[str, Any]:
        """What a study says of it beside its data; owners that the data name need nothing."""
        if self.rule == "alike":
            return {"clients": self.clients, "partition": "iid"}
        if self.rule == "dirichlet":
            return {"clients": self.clients, "partition": "dirichlet", "alpha": self.alpha}
        return {}


@dataclass(frozen=True, eq=False)
class Evidence:
    """A federation of real records that plans are judged by.

    Attributes:
        source: whose records.
    """

    source: Source

    @property
    def name(self) -> str:
        """The name of its source."""
        return self.source.name

    @property
    def half(self) -> str:
        """`tuning` or `judging`."""
        return half_of(self.source)

    @property
    def relatives(self) -> tuple[str, ...]:
        """Names of all sources, this one among them, that share a parent with it."""
        return relatives_of(self.name)

    @cached_property
    def deal(self) -> Deal:
        """Who owns its records."""
        table = self._as_read
        records = len(table[self.source.label])
        rules = ["alike", "power"]
        rules += [] if self.source.n_classes is None else ["dirichlet"]
        rules += ["column"] if OWNER in table else []
        rule = rules[digest(f"rule of {self.name}") % len(rules)]
        if rule == "column":
            return Deal(rule, len(np.unique(table[OWNER])))
        counts = [n for n in COUNTS if n * LEAST_RECORDS <= records]
        clients = counts[digest(f"owners of {self.name}") % len(counts)]
        alpha = ALPHAS[digest(f"alpha of {self.name}") % len(ALPHAS)] if rule == "dirichlet" else None
        return Deal(rule, clients, alpha)

    @cached_property
    def table(self) -> Table:
        """Its columns, with the owners of its deal where the data name them."""
        table = {name: values for name, values in self._as_read.items() if name != OWNER}
        if self.deal.rule == "column":
            return self._as_read
        if self.deal.rule == "power":
            return {**table, OWNER: power_law(len(table[self.source.label]), self.deal.clients)}
        return table

    @cached_property
    def records(self) -> Records:
        """Its records."""
        return self.source.records(self.table)

    def federation(self) -> Federation:
        """Its records dealt out."""
        return federate(self.records, seed=0, **self.deal.partition)

    def study(self, folder: Path | None = None) -> dict[str, Any]:
        """`[federation]`, `[columns]` and what a regression needs of `[planning]`: a study of it, as tables.

        Args:
            folder: where the file of its records goes; None takes a folder of the user's cache.
        """
        source, path = self.source, self._file(_cache() if folder is None else folder)
        federation: dict[str, Any] = {"data": str(path), **self.deal.partition}
        if source.schema is not None:
            owned = {OWNER: {"role": "client"}} if OWNER in self.table else {}
            return {"federation": federation, "columns": source.schema.tables() | owned}
        federation["label_column"] = source.label
        if source.n_classes is None:
            return {
                "federation": {**federation, "regression": True},
                "planning": {"label_scale": source.label_scale},
            }
        return {"federation": {**federation, "classes": [*(source.classes or ())]}}

    @cached_property
    def _as_read(self) -> Table:
        return self.source.table()

    def _file(self, folder: Path) -> Path:
        """Its table as a file: parquet for columns, npz for images."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.source.is_image:
            path = folder / f"{self.name}.npz"
            np.savez(path, **self.table)
        else:
            path = folder / f"{self.name}.parquet"
            pd.DataFrame(self.table).to_parquet(path)
        return path


FEDERATIONS: dict[str, Evidence] = {name: Evidence(source) for name, source in SOURCES.items()}
"""All federations by name; nothing is read before it is asked for."""


def relatives_of(name: str) -> tuple[str, ...]:
    """Names of all sources, this one among them, that share a parent with it.

    Example:
        >>> relatives_of("heart-disease")
        ('heart-disease', 'heart-degree')
    """
    parent = SOURCES[name].parent
    return tuple(other for other, one in SOURCES.items() if one.parent == parent)


def half(which: str) -> list[str]:
    """Names of the federations of a half, `tuning` or `judging`."""
    return [name for name, one in FEDERATIONS.items() if one.half == which]


def power_law(records: int, clients: int) -> NDArray[np.str_]:
    """Owners of records in random order: owner k has a share of 1 / k, and everybody has two records.

    Example:
        >>> np.unique(power_law(100, 4), return_counts=True)[1].tolist()
        [46, 24, 17, 13]
    """
    share = 1 / np.arange(1, clients + 1)
    sizes = 2 + np.floor((records - 2 * clients) * share / share.sum()).astype(int)
    sizes[0] += records - sizes.sum()
    names = [f"owner {place:03d}" for place in range(clients)]
    return np.random.default_rng(1).permutation(np.repeat(names, sizes))


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "noiseworthy" / "federations"
