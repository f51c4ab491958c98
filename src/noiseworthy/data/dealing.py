"""Records that hang on each other: one that changes would exchange others, or change how they are seen."""

from noiseworthy.data.federation import Federation, numbered
from noiseworthy.data.readers import is_table
from noiseworthy.data.table import FederationTable
from noiseworthy.privacy.budget import Relation

_BY_LABELS = ("dirichlet", "sorted", "label-shards")
"""Partitions that read labels, so that sizes depend on them."""
_OWNERS = "a column of clients says whose records they are"
_SHOWN = 12


def hanging(table: FederationTable, federation: Federation, relation: Relation) -> list[str]:
    """What one record, or person, changes beside itself, in words; nothing where each stands for itself.

    Args:
        table: names the records, and how they are dealt out.
        federation: what it names.
        relation: of neighbours.
    """
    said = []
    if found := federation.classes_found:
        shown = ", ".join(map(repr, found[:_SHOWN])) + (", ..." if len(found) > _SHOWN else "")
        said.append(
            f"the classes ({shown}) were read off the private labels, so that one changed label can change "
            "model, clip and noise; [federation] classes states them"
        )
    return said + (_dealt(table, federation, relation) if is_table(str(table.data)) else [])


def _dealt(table: FederationTable, federation: Federation, relation: Relation) -> list[str]:
    """How the way in which a table is dealt out, or cut, depends on one record or person of it."""
    moved, said = _moved(federation, relation), []
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


def _moved(federation: Federation, relation: Relation) -> str:
    """What moves others in a table; empty where one record takes the place of another."""
    what = "record" if federation.persons is None else "person"
    if relation == "add-remove":
        return f"one {what} more or less"
    return "" if federation.persons is None else "an exchange of one person"
