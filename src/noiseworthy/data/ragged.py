"""Records of clients of very different sizes, end to end: one array of rows, in memory or in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import DataError

_MOST_STACKED = 2**26
"""Numbers that clients are stacked to whatever their sizes: they cost little and train fastest."""
_MOST_PADDING = 8
"""More numbers are stacked where they are at most so many times those of the records."""


@dataclass(frozen=True)
class Ragged:
    """Arrays of N clients, each of its own length: those of client i are `rows[starts[i] :][: sizes[i]]`.

    It reads like clients stacked and padded to the longest, (N, n_max, ...), of which no padding is kept.

    Attributes:
        rows: of all clients, shape (R, ...); may be mapped from a file.
        starts: first row of each client, shape (N,).
        sizes: rows of each client, shape (N,).

    Example:
        >>> held = Ragged.laid([np.zeros((1, 2)), np.ones((3, 2))])
        >>> held.shape, held[1, :2].tolist()
        ((2, 3, 2), [[1.0, 1.0], [1.0, 1.0]])
    """

    rows: NDArray[Any]
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]

    @classmethod
    def of(cls, rows: NDArray[Any], sizes: NDArray[np.int64]) -> Ragged:
        """Clients that follow each other without a gap."""
        return cls(rows, np.cumsum(sizes) - sizes, sizes)

    @classmethod
    def laid(cls, arrays: Sequence[NDArray[Any]]) -> Ragged:
        """One array of each client, end to end."""
        return cls.of(np.concatenate(arrays), np.array([len(one) for one in arrays], np.int64))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the same stacked: (N, n_max, ...)."""
        return (len(self.sizes), int(self.sizes.max()), *self.rows.shape[1:])

    @property
    def ndim(self) -> int:
        """Axes of the same stacked."""
        return self.rows.ndim + 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of a number."""
        return self.rows.dtype

    def __len__(self) -> int:
        return len(self.sizes)

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """Rows of one client, or of all with what `[..., key]` takes of each row."""
        if isinstance(key, tuple) and key[0] is Ellipsis:
            return Ragged(self.rows[key], self.starts, self.sizes)
        client, *within = key if isinstance(key, tuple) else (key,)
        start = self.starts[client]
        return self.rows[start : start + self.sizes[client]][(*within,)]

    def of_clients(self, clients: NDArray[np.int64], room: int) -> NDArray[Any]:
        """Rows of some clients end to end, shape (room, ...), zero past the last of them.

        Rows of a file are read and not mapped, so that none of its pages stays in this process.
        """
        starts, sizes = self.starts[clients], self.sizes[clients]
        out = np.zeros((room, *self.rows.shape[1:]), self.dtype)
        firsts = np.flatnonzero(np.append(True, starts[1:] != starts[:-1] + sizes[:-1]))
        counts = np.add.reduceat(sizes, firsts)
        ends = np.cumsum(counts)
        runs = zip(starts[firsts].tolist(), (ends - counts).tolist(), ends.tolist(), strict=True)
        if (file := _file_of(self.rows)) is None:
            for start, first, end in runs:
                out[first:end] = self.rows[start : start + end - first]
            return out
        width = out[:1].nbytes
        with open(file.filename, "rb", buffering=0) as source:
            for start, first, end in runs:
                source.seek(file.offset + start * width)
                left = out[first:end].data.cast("B")
                # a system reads 2 GiB at once at most
                while left and (read := source.readinto(left)):
                    left = left[read:]
                if left:
                    raise DataError(f"{file.filename} is cut off; write the federation again")
        return out

    def first(self, sizes: NDArray[np.int64]) -> Ragged:
        """At most so many rows of each client; nothing is copied."""
        return Ragged(self.rows, self.starts, np.minimum(sizes, self.sizes))


def _file_of(rows: NDArray[Any]) -> Any:
    """The mapped file that rows are the whole of, as a `numpy.memmap`; None of others."""
    whole = rows.base
    there = isinstance(whole, np.memmap) and rows.flags.c_contiguous and rows.size == whole.size
    return whole if there else None


def held(*columns: Sequence[NDArray[Any]]) -> tuple[Any, ...]:
    """Arrays (n_i, ...) of all clients: stacked to (N, n_max, ...) with zeros past n_i, or end to end.

    They lie end to end where stacking them would take far more memory than they do: features and labels
    alike, so that a record has one place.

    Args:
        columns: features and labels, each an array of every client.
    """
    sizes = np.array([len(one) for one in columns[0]], np.int64)
    numbers = max(int(np.prod(arrays[0].shape[1:])) for arrays in columns)
    if is_ragged(sizes, numbers):
        return tuple(Ragged.laid(arrays) for arrays in columns)
    return tuple(_stacked(arrays, int(sizes.max())) for arrays in columns)


def _stacked(arrays: Sequence[NDArray[Any]], room: int) -> NDArray[Any]:
    stacked = np.zeros((len(arrays), room, *arrays[0].shape[1:]), arrays[0].dtype)
    for row, array in zip(stacked, arrays, strict=True):
        row[: len(array)] = array
    return stacked


def is_ragged(sizes: NDArray[np.int64], numbers: int) -> bool:
    """Whether clients of such sizes, whose rows are so many numbers, are better not stacked."""
    stacked = len(sizes) * int(sizes.max()) * numbers
    return stacked > max(_MOST_STACKED, _MOST_PADDING * int(sizes.sum()) * numbers)
