"""What a study reads off its private records before anything is planned, and that it is a simulation then."""

from __future__ import annotations

import json

from noiseworthy.data import Federation
from noiseworthy.data.readers import is_table
from noiseworthy.data.table import FederationTable
from noiseworthy.errors import ConfigError

_BY_LABELS = ("dirichlet", "sorted", "label-shards")
"""Partitions that read labels, so that sizes depend on them."""
_SHOWN = 12


def read_off(table: FederationTable, federation: Federation | None) -> tuple[str, ...]:
    """What one record could change in the plan itself, a sentence each; nothing of a study that states all.

    Args:
        table: `[federation]` of the study.
        federation: what it names.
    """
    found = () if federation is None else federation.classes_found
    said = []
    if found:
        shown = ", ".join(map(repr, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
        said.append(
            f"the classes ({shown}) were read off the private labels, so that one changed label can change "
            "model, clip and noise; [federation] classes states them"
        )
    if table.simulation:
        said.append(
            "ranges, values and classes of [columns] were read off the private records, so that one of them "
            "can change how all others are seen; whoever states them from what is public leaves [federation] "
            "simulation out"
        )
    if table.partition in _BY_LABELS and is_table(str(table.data)):
        said.append(
            f'partition = "{table.partition}" deals the table out by its private labels, so that one changed '
            "label can change the sizes of clients; a column of clients says whose records they are"
        )
    return tuple(f"This study is a simulation: {one}. No epsilon covers that." for one in said)


def check_nothing_is(table: FederationTable, federation: Federation) -> None:
    """Refuse to deploy a study that reads private records before it is planned.

    Raises:
        ConfigError: with what was read, and what to state instead.
    """
    if not (said := read_off(table, federation)):
        return
    if table.simulation:
        raise ConfigError(f"nothing is deployed. {said[0]}")
    stated = f"state classes = {json.dumps(federation.classes_found, ensure_ascii=False)} in [federation]"
    remedy = stated if federation.classes_found else "name the clients in a column of the table"
    raise ConfigError(f"nothing is deployed. {said[0]} To deploy it, {remedy}")
