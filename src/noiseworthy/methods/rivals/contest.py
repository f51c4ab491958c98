"""DPFL-BCS and the methods that it is held against, told the same rounds, clients, steps and levers."""

from __future__ import annotations

from functools import partial
from typing import Literal

from noiseworthy.methods.base import Entrant
from noiseworthy.methods.dpfl_bcs.table import SelectionTable
from noiseworthy.methods.mr_mtl.table import MrMtlTable
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.methods.rivals.table import RivalName, RivalTable
from noiseworthy.methods.table import AlgorithmTable
from noiseworthy.privacy.mechanisms import Family, law_of

_COMMON = {"rounds", "clients_per_round", "step_size", "step_decay", "momentum", "averaging"}
"""Keys of `[algorithm]` that all share."""
_MEAN = "mean of replies"
OURS, REFERENCE, SAME_CLIENTS = "DPFL-BCS", "FedSGD", "PrivateFL-BCS"
"""Names of the one that all are held against, of what all are measured by, and of the rival that asks the
same clients."""


def entrants(mechanism: Family) -> dict[str, Entrant]:
    """Who enters under a mechanism, DPFL-BCS last; without noise FedSGD alone.

    Example:
        >>> list(entrants("laplace")), list(entrants("none"))
        (['DMLDP', 'WeiAvg', 'PFA', 'PrivateFL', 'MR-MTL', 'PrivateFL-BCS', 'DPFL-BCS'], ['FedSGD'])
    """
    if not law_of(mechanism).noisy:
        return {REFERENCE: _rival("fedsgd", _MEAN)}
    plain = {name.upper(): _rival(name, _MEAN) for name, rival in RIVALS.items() if rival.only == mechanism}
    return {
        **plain,
        "WeiAvg": _rival("weiavg"),
        "PFA": _rival("pfa"),
        "PrivateFL": _rival("privatefl"),
        "MR-MTL": Entrant(_drawn_to_the_mean, "mr-mtl"),
        SAME_CLIENTS: _rival("privatefl", selection="biased"),
        OURS: Entrant(_chosen, _MEAN),
    }


def _rival(
    name: RivalName, kind: str | None = None, selection: Literal["uniform", "biased"] = "uniform"
) -> Entrant:
    return Entrant(partial(_told, name=name, selection=selection), kind or name)


def _told(own: AlgorithmTable, name: RivalName, selection: Literal["uniform", "biased"]) -> RivalTable:
    common = own.model_dump(include=_COMMON)
    if name == "privatefl" and isinstance(own, RivalTable):
        common["personal_step_size"] = own.personal_step_size
    return RivalTable(name=name, selection=selection, **common)


def _drawn_to_the_mean(own: AlgorithmTable) -> MrMtlTable:
    """Everybody replies in every round of it, without averaging where none is stated; it has no constants."""
    shared = {"rounds", "step_size", "step_decay"} | ({"averaging"} & own.model_fields_set)
    return MrMtlTable(name="mr-mtl", **own.model_dump(include=shared))


def _chosen(own: AlgorithmTable) -> SelectionTable:
    """As stated where the study is of DPFL-BCS."""
    if isinstance(own, SelectionTable):
        return own
    return SelectionTable(name="dpfl-bcs", **own.model_dump(include=_COMMON))
