"""Partitions: who owns which record. Each rule is a pure function of the labels and a generator.

A rule takes the labels (n, ...), the number of clients N and a generator, and returns N arrays of positions.
The arrays are disjoint, none is empty, and together they hold every record; only `label-shards` and `sorted`
leave some out. These two and `dirichlet` read the labels, which must then be one number per record.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._places import kept_folder, once
from noiseworthy._validate import count, one_of, positive
from noiseworthy.data.records import members_of
from noiseworthy.errors import DataError, InvalidInput

Parts = list[NDArray[np.int64]]


def partition(name: str, labels: NDArray, clients: int, seed: int, **settings: Any) -> Parts:
    """Positions of each client's records under a named rule, in random order within a client.

    Args:
        name: a key of `PARTITIONS`.
        labels: label of each record, shape (n, ...).
        clients: number of clients N, at most n.
        seed: of the only randomness; equal seeds give equal partitions.
        settings: what the rule takes by keyword, such as `alpha`.

    Returns:
        N arrays of positions.

    Raises:
        InvalidInput: an unknown rule, a setting it does not take or lacks, or more clients than records.
        DataError: labels that the rule cannot deal out.

    Example:
        >>> labels = np.repeat(np.arange(4), 6)
        >>> parts = partition("label-shards", labels, clients=4, seed=0, labels_per_client=2)
        >>> [len(part) for part in parts]
        [6, 6, 6, 6]
    """
    rule = PARTITIONS[one_of("partition", name, PARTITIONS.keys())]
    _check_settings(name, rule, settings)
    clients = count("clients", clients, most=len(labels), remedy="every client needs a record")
    rng = np.random.default_rng(count("seed", seed, least=0))
    return [rng.permutation(part) for part in rule(labels, clients, rng, **settings)]


def iid(labels: NDArray, clients: int, rng: np.random.Generator) -> Parts:
    """Shuffled and cut into sizes that differ by at most one."""
    return np.array_split(rng.permutation(len(labels)), clients)


def dirichlet(labels: NDArray, clients: int, rng: np.random.Generator, *, alpha: float) -> Parts:
    """Each class is cut by its own Dirichlet(alpha) draw over the clients: skewed labels and sizes.

    An alpha of 0.1 is nearly one class per client, 100 nearly iid. A client left empty is given one record of
    the largest client.

    Source: Yurochkin et al. (2019), arXiv:1905.12022; the label skew of NIID-Bench, arXiv:2102.02079.
    """
    concentration = np.full(clients, positive("alpha", alpha).item())
    pieces = [_cut(members, rng.dirichlet(concentration), rng) for members in _classes("dirichlet", labels)]
    return _nobody_empty([np.concatenate(part) for part in zip(*pieces, strict=True)])


def label_shards(
    labels: NDArray, clients: int, rng: np.random.Generator, *, labels_per_client: int = 2
) -> Parts:
    """Equal groups, each of at most `labels_per_client` classes, as even within a group as the data allow.

    The classes lie on a ring in random order and client i holds the next `labels_per_client` of them, from
    place floor(i K / N) on. With 10 clients, 10 classes and 2 labels each, every class is shared by exactly
    two clients. All groups have the largest size that every client can be given; records beyond it, and
    classes that no client holds, are left out.

    Raises:
        DataError: the classes are too small to give every client a record.

    Source: Zhou et al., experiments ("two digits each"); after McMahan et al. (2017), arXiv:1602.05629.
    """
    classes = _classes("label-shards", labels)
    held = count("labels_per_client", labels_per_client, most=len(classes))
    stock = [rng.permutation(classes[c]) for c in rng.permutation(len(classes))]
    starts = np.arange(clients) * len(classes) // clients
    holds = (starts[:, None] + np.arange(held)) % len(classes)
    shares = _equal_shares(np.array([len(members) for members in stock]), holds)
    return _deal(stock, holds, shares)


def _equal_shares(stock: NDArray[np.int64], holds: NDArray[np.int64]) -> NDArray[np.int64]:
    """`shards.equal_shares`, kept for its user alone: solvers take a sixth of a start to load."""
    code = Path(__file__).with_name("shards.py").read_text()
    asked = hashlib.sha256(repr((stock.tolist(), holds.tolist(), code, version("scipy"))).encode())

    def solved() -> NDArray[np.int64]:
        from noiseworthy.data.shards import equal_shares

        return equal_shares(stock, holds)

    return once(kept_folder() / "shares" / f"{asked.hexdigest()}.npy", solved)


def quantity_skew(labels: NDArray, clients: int, rng: np.random.Generator, *, alpha: float) -> Parts:
    """Labels alike, sizes unlike.

    Every client gets one record; the others are dealt by one Dirichlet(alpha) draw over the clients. A small
    alpha is skewed.

    Source: the quantity skew of NIID-Bench (Li et al. 2022), arXiv:2102.02079.
    """
    share = rng.dirichlet(np.full(clients, positive("alpha", alpha).item()))
    sizes = 1 + rng.multinomial(len(labels) - clients, share)
    return np.split(rng.permutation(len(labels)), np.cumsum(sizes)[:-1])


def sorted_by_label(labels: NDArray, clients: int, rng: np.random.Generator) -> Parts:
    """Records in ascending order of their labels, cut into equal groups: every client sees one narrow range.

    Each group has floor(n / N) records. The n mod N records left over belong to nobody; which ones is drawn
    at random before the sorting, so that no range of labels is cut off. Equal labels are in random order.

    Example:
        >>> targets = np.array([3.5, 1.0, 2.0, 9.0])
        >>> [sorted(part.tolist()) for part in sorted_by_label(targets, 2, np.random.default_rng(0))]
        [[1, 2], [0, 3]]

    Source: Fu et al., experiments (loans sorted by interest rate, 5,000 groups of 80).
    """
    numbers = _one_per_record("sorted", labels)
    kept = rng.permutation(len(numbers))[: len(numbers) - len(numbers) % clients]
    return np.split(kept[np.argsort(numbers[kept], kind="stable")], clients)


def natural(labels: NDArray, clients: int, rng: np.random.Generator, *, client_ids: NDArray) -> Parts:
    """Every owner, of shape (n,), keeps its records; nothing is random.

    With fewer clients than owners, neighbours in sorted order are joined in runs of nearly equal length.

    Example:
        >>> owners = np.array(["b", "a", "c", "a"])
        >>> natural(np.zeros(4), 2, np.random.default_rng(0), client_ids=owners)
        [array([1, 3, 0]), array([2])]
    """
    if len(client_ids) != len(labels):
        raise DataError(f"client_ids needs the owner of each of {len(labels)} records, got {len(client_ids)}")
    owners = members_of(client_ids)
    count("clients", clients, most=len(owners), remedy="the data name no more owners")
    runs = np.array_split(np.arange(len(owners)), clients)
    return [np.concatenate([owners[i] for i in run]) for run in runs]


PARTITIONS: dict[str, Callable[..., Parts]] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "label-shards": label_shards,
    "quantity-skew": quantity_skew,
    "natural": natural,
    "sorted": sorted_by_label,
}


def _check_settings(name: str, rule: Callable[..., Parts], settings: dict[str, Any]) -> None:
    keywords = [p for p in inspect.signature(rule).parameters.values() if p.kind is p.KEYWORD_ONLY]
    names = [p.name for p in keywords]
    for one in settings:
        if one not in names:
            raise InvalidInput(f"partition {name!r} takes {', '.join(names) or 'no settings'}, got {one!r}")
    for parameter in keywords:
        if parameter.default is parameter.empty and parameter.name not in settings:
            raise InvalidInput(f"partition {name!r} needs {parameter.name}")


def _one_per_record(name: str, labels: NDArray) -> NDArray:
    if labels.ndim > 1:
        raise DataError(
            f"partition {name!r} needs one label per record and each record has {labels.shape[1:]} of them; "
            "take iid, quantity-skew or natural"
        )
    return labels


def _classes(name: str, labels: NDArray) -> list[NDArray[np.int64]]:
    _one_per_record(name, labels)
    if labels.dtype.kind not in "iu":
        needs = f"partition {name!r} needs classes and the labels are {labels.dtype}"
        raise DataError(f"{needs}; take iid or sorted")
    return members_of(labels)


def _cut(members: NDArray[np.int64], share: NDArray[np.float64], rng: np.random.Generator) -> Parts:
    ends = np.floor(np.cumsum(share)[:-1] * len(members)).astype(int)
    # rounding may take sums of shares above 1
    return np.split(rng.permutation(members), np.minimum(ends, len(members)))


def _nobody_empty(parts: Parts) -> Parts:
    for i, part in enumerate(parts):
        if len(part) == 0:
            richest = int(np.argmax([len(other) for other in parts]))
            parts[richest], parts[i] = parts[richest][:-1], parts[richest][-1:]
    return parts


def _deal(stock: Parts, holds: NDArray[np.int64], shares: NDArray[np.int64]) -> Parts:
    """Hand `shares[i, j]` records of class `holds[i, j]` to client i, never one record twice."""
    given = np.zeros(len(stock), np.int64)
    parts = []
    for labels, amounts in zip(holds, shares, strict=True):
        ends = given[labels] + amounts
        parts.append(np.concatenate([stock[c][given[c] : end] for c, end in zip(labels, ends, strict=True)]))
        given[labels] = ends
    return parts
