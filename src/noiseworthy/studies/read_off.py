"""What a study reads off its private records before anything is planned, and that it is a simulation then."""

from __future__ import annotations

import json

from noiseworthy.data import Federation
from noiseworthy.data.federation import numbered
from noiseworthy.data.readers import is_table
from noiseworthy.errors import ConfigError
from noiseworthy.studies.tables import Study

_BY_LABELS = ("dirichlet", "sorted", "label-shards")
"""Partitions that read labels, so that sizes depend on them."""
_OWNERS = "a column of clients says whose records they are"
_SHOWN = 12


def read_off(study: Study, federation: Federation | None) -> tuple[str, ...]:
    """What one record could change beside itself, a sentence each; nothing of a study that states all.

    Args:
        study: whose `[federation]` names records.
        federation: what it names.
    """
    table = study.federation
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
    if federation is not None and is_table(str(table.data)):
        said += _dealt(study, federation)
    return tuple(f"This study is a simulation: {one}. No epsilon covers that." for one in said)


def _dealt(study: Study, federation: Federation) -> list[str]:
    """How the way in which a table is dealt out, or cut, depends on one record or person of it."""
    table, moved, said = study.federation, _moved(study, federation), []
    if table.partition in _BY_LABELS:
        said.append(
            f'partition = "{table.partition}" deals the table out by its private labels, so that one changed '
            f"label can change the sizes of clients; {_OWNERS}"
        )
    elif moved and federation.clients == numbered(federation.n_clients):
        said.append(f"the table is dealt out by places in it, so that {moved} deals others anew; {_OWNERS}")
    cut = [key for key in ("records_per_client", "fraction") if getattr(table, key) not in (None, 1.0)]
    if cut and moved:
        said.append(
            f"[federation] {' and '.join(cut)} keeps records by their places, so that {moved} can exchange "
            "many that are kept; whoever leaves it out keeps all"
        )
    return said


def _moved(study: Study, federation: Federation) -> str:
    """What moves others in a table; empty where one record takes the place of another."""
    what = "record" if federation.persons is None else "person"
    if study.privacy.relation == "add-remove":
        return f"one {what} more or less"
    return "" if federation.persons is None else "an exchange of one person"


def check_nothing_is(study: Study, federation: Federation) -> None:
    """Refuse to deploy a study that reads private records before it is planned.

    Raises:
        ConfigError: with what was read, and what to state instead.
    """
    if not (said := read_off(study, federation)):
        return
    stated = json.dumps(federation.classes_found, ensure_ascii=False)
    remedy = f" To deploy it, state classes = {stated} in [federation]" if federation.classes_found else ""
    raise ConfigError(f"nothing is deployed. {said[0]}{'' if study.federation.simulation else remedy}")
