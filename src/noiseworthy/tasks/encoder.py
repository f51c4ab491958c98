"""Frozen encoders as public features: an ONNX file, known by its digest, which sees every record alone."""

from __future__ import annotations

import hashlib
import logging
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache, partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._places import once
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.tasks.kept import place_of
from noiseworthy.tasks.names import is_encoder

if TYPE_CHECKING:
    from noiseworthy.tasks.table import TaskTable

LEAST_KEPT = 256
"""Records whose features are kept on disk; fewer are computed in a moment."""
_REMEMBERED = 2**28
"""Bytes of features that a process remembers: trials deal the same records many times."""
_NOWHERE = f"{os.devnull}/none"
"""A folder that cannot be: weights beside the file would be none that its digest was taken of."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Encoder:
    """An ONNX graph that takes one record and gives its features; equal where the digests are.

    It runs outside of compiled programs, on records one at a time, so that no batch norm, mean or padding in
    it can let one record touch another. What fails on a record, or gives another shape for it, gives NaN,
    which `LinearModel.prepare` makes a row of zeros: a failure would tell of the record.

    Attributes:
        digest: SHA-256 of the file.
        name: of the file, for errors.
        content: of the file.
    """

    digest: str
    name: str = field(compare=False)
    content: bytes = field(compare=False, repr=False)

    @classmethod
    def read(cls, folder: Path, name: str, digest: str | None = None) -> Encoder:
        """The encoder of a file.

        Args:
            folder: where the file is looked up.
            name: of the file.
            digest: SHA-256 that it must have; None takes any.

        Raises:
            ConfigError: no such file, one outside of the folder, or another than the digest was taken of.
        """
        if Path(name).is_absolute() or ".." in Path(name).parts:
            raise ConfigError(
                f'[task] features = "{name}" must be a file beside the study or in a folder there, such as '
                '"encoder.onnx"; copy the encoder there'
            )
        try:
            content = (folder / name).read_bytes()
        except OSError as error:
            raise ConfigError(
                f'[task] features = "{name}": {folder / name} cannot be read ({error.strerror}); put the '
                "encoder beside the study's file"
            ) from None
        found = hashlib.sha256(content).hexdigest()
        if digest not in (None, found):
            raise ConfigError(
                f'[task] features = "{name}": the file has digest {found[:12]}, and {digest!s:.12} is '
                "stated; put back the file, or state the new encoder_digest"
            )
        return cls(found, name, content)

    def fits(self, record_shape: tuple[int, ...]) -> bool:
        """Whether it takes records of a shape."""
        try:
            return bool(self.shape_after(record_shape))
        except InvalidInput:
            return False

    def shape_after(self, record_shape: tuple[int, ...]) -> tuple[int, ...]:
        """Shape of the features of a record.

        Raises:
            ConfigError: a file that is no encoder, or an installation without onnxruntime.
            InvalidInput: records that it does not take.
        """
        return _fitting(self, tuple(record_shape)).shape

    def size(self, record_shape: tuple[int, ...]) -> int:
        """Numbers that it gives for a record."""
        return math.prod(self.shape_after(record_shape))

    def view(self, record_shape: tuple[int, ...]) -> tuple[tuple[int, ...] | None, tuple[int, ...]]:
        """How it takes a record: the order of its axes, None for their own, and the shape of the input."""
        fitting = _fitting(self, tuple(record_shape))
        return fitting.axes, fitting.into

    def __call__(self, x: Array) -> Array:
        """Features of records.

        Args:
            x: records, shape (n, *record_shape), float32.

        Returns:
            float32, shape (n, *shape_after(record_shape)).

        Raises:
            ConfigError, InvalidInput: as `shape_after`.

        Guarantee: deterministic, and each record's numbers depend on that record alone.
        """
        fitting = _fitting(self, tuple(x.shape[1:]))
        out = jax.ShapeDtypeStruct((len(x), *fitting.shape), jnp.float32)
        return jax.pure_callback(
            partial(_encoded, self, fitting, x.ndim - 1), out, x, vmap_method="broadcast_all"
        )


def check_told(table: TaskTable) -> None:
    """Refuse an encoder of which too little is told, and words on one that is not there; by ValueError."""
    told = {"encoder_licence": table.encoder_licence, "encoder_source": table.encoder_source}
    if not is_encoder(table.features):
        stated = [name for name, one in {**told, "encoder_digest": table.encoder_digest}.items() if one]
        raise ValueError(
            f'{", ".join(stated)} tell of an encoder, which features = "FILE.onnx" names; leave them out'
        )
    if not all(told.values()):
        raise ValueError(
            f'features = "{table.features}" needs encoder_licence and encoder_source, which the claim card '
            "tells; state under which licence it is and what it was trained on"
        )


def encoder_of(table: TaskTable, folder: Path) -> Encoder | None:
    """The encoder that `[task] features` names; None where it names none.

    Args:
        table: names it.
        folder: where its file is looked up.

    Raises:
        ConfigError: a file that is not there, or has another digest than the table states.
    """
    if not is_encoder(table.features):
        return None
    read = Encoder.read if table.encoder_digest is None else _read
    return read(folder, str(table.features), table.encoder_digest)


def features_of(table: TaskTable, folder: Path) -> str | Encoder | None:
    """The public map of `[task]`, as `Preparation` knows it: an encoder, or a formula by its name.

    Raises:
        ConfigError: as `encoder_of`.
    """
    return encoder_of(table, folder) or table.mapped_by


_read = lru_cache(maxsize=8)(Encoder.read)
"""Of files whose digest is stated, which are read once."""


# The graph --------------------------------------------------------------------------------------------


class _Fitting(NamedTuple):
    """How records of a shape go into a graph, and the shape of what comes out for one."""

    run: Callable[[NDArray], NDArray]
    axes: tuple[int, ...] | None
    into: tuple[int, ...]
    shape: tuple[int, ...]

    def of(self, record: NDArray[np.float32]) -> NDArray[np.float32]:
        """Features of one record; NaN where the graph fails on it."""
        turned = record if self.axes is None else record.transpose(self.axes)
        try:
            out = self.run(np.ascontiguousarray(turned).reshape(1, *self.into))
        except Exception:
            _log.warning("the encoder failed on a record, which counts as zeros")
            out = np.empty(0)
        return out[0].reshape(self.shape) if out.shape[1:] == self.shape else np.full(self.shape, np.nan)


@lru_cache(maxsize=4)
def _opened(encoder: Encoder) -> Any:
    """A session of onnxruntime on one thread; nothing but the file's own content is read."""
    if find_spec("onnxruntime") is None:
        raise ConfigError(
            f'[task] features = "{encoder.name}" needs onnxruntime, which is not installed; pip install '
            "'noiseworthy[encoders]'"
        )
    import onnxruntime  # here, because few studies have an encoder

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", _NOWHERE)
    try:
        session = onnxruntime.InferenceSession(encoder.content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise ConfigError(
            f'[task] features = "{encoder.name}" is no ONNX graph that onnxruntime opens by itself ({said}); '
            "export it again, with its weights inside the file"
        ) from None
    if misfit := _no_encoder(session):
        raise ConfigError(f'[task] features = "{encoder.name}" {misfit}')
    return session


def _no_encoder(session: Any) -> str:
    """Why a graph takes no single records; empty where it does."""
    taken, given = session.get_inputs(), session.get_outputs()
    if [one.type for one in (*taken, *given)] != 2 * ["tensor(float)"]:
        told = ", ".join(f"{one.name} {one.type}" for one in (*taken, *given))
        return f"must take one float tensor and give one, got {told}; export it with the features alone"
    first = taken[0].shape[0] if taken[0].shape else 0
    if isinstance(first, int) and first != 1:
        return (
            f"takes {first} records at once, and records are encoded one at a time; export it with a first "
            "axis that is free, or 1"
        )
    return ""


@lru_cache(maxsize=64)
def _fitting(encoder: Encoder, record_shape: tuple[int, ...]) -> _Fitting:
    session = _opened(encoder)
    (taken,) = session.get_inputs()
    for axes, into in _views(record_shape):
        wanted = taken.shape[1:]
        free = [have if not isinstance(want, int) else want for have, want in zip(into, wanted, strict=False)]
        if (len(wanted), tuple(free)) != (len(into), into):
            continue

        def run(records: NDArray, name: str = taken.name) -> NDArray:
            return session.run(None, {name: records})[0]

        # shapes and faults of a graph are learnt from numbers of nobody, never from a record
        public = np.random.default_rng(0).random((1, *into), np.float32)
        try:
            first, again = run(public), run(public)
        except Exception as error:
            _log.info("%s takes no %s: %s", encoder.name, into, error)
            continue
        shape = first.shape[1:]
        if first.shape[:1] != (1,) or not shape or not first.size or not np.all(np.isfinite(first)):
            raise ConfigError(
                f'[task] features = "{encoder.name}" must give finite numbers of shape (1, ...) for one '
                f"record, got shape {first.shape}; export it with the features alone"
            )
        if not np.array_equal(first, again):
            raise ConfigError(
                f'[task] features = "{encoder.name}" gives other numbers for the same record each time; '
                "export it for inference, without dropout or noise"
            )
        return _Fitting(run, axes, into, shape)
    raise InvalidInput(
        f'features = "{encoder.name}" takes records of shape ({", ".join(map(str, taken.shape[1:]))}), got '
        f"records of shape {record_shape}; export the encoder for such records, or leave features out"
    )


def _views(shape: tuple[int, ...]) -> Iterable[tuple[tuple[int, ...] | None, tuple[int, ...]]]:
    """A record as graphs may take it: as it is, channels first, as an image with one channel, flat."""
    yield None, shape
    side = int(np.prod(shape)) ** 0.5
    grey = shape if len(shape) == 2 else (int(side), int(side)) if len(shape) == 1 and side % 1 == 0 else ()
    if len(shape) == 3:
        yield (2, 0, 1), (shape[2], *shape[:2])
    if grey:
        yield from ((None, one) for one in (grey, (1, *grey), (*grey, 1)))
    yield None, (int(np.prod(shape)),)


# The records ------------------------------------------------------------------------------------------


def _encoded(encoder: Encoder, fitting: _Fitting, rank: int, x: Any) -> NDArray[np.float32]:
    """Features of records of some rank behind any number of axes; each is run by itself, and once."""
    held = np.asarray(x, np.float32)
    lead = held.shape[: held.ndim - rank]
    records = held.reshape(-1, *held.shape[held.ndim - rank :])
    kind = f"{encoder.digest} {records.shape[1:]}".encode()
    names = [hashlib.sha256(kind + one.tobytes()).digest() for one in records]
    found = _MEMORY.of(names)
    if missing := {name: place for place, name in enumerate(names) if name not in found}:
        place = place_of([version("onnxruntime"), *missing]) if len(missing) >= LEAST_KEPT else None
        fresh = once(place, lambda: _run(fitting, records[[*missing.values()]]))
        found |= dict(zip(missing, fresh, strict=True))
        _MEMORY.keep(missing, fresh)
    rows = np.stack([found[name] for name in names]) if names else np.zeros((0, *fitting.shape), np.float32)
    return rows.reshape(*lead, *fitting.shape)


def _run(fitting: _Fitting, records: NDArray[np.float32]) -> NDArray[np.float32]:
    """Features of records, one after the other on every core."""
    cores = os.cpu_count() or 1
    made = np.empty((len(records), *fitting.shape), np.float32)

    def some(first: int) -> None:
        for place in range(first, len(records), cores):
            made[place] = fitting.of(records[place])

    with ThreadPoolExecutor(cores) as threads:
        list(threads.map(some, range(cores)))
    return made


class _Memory:
    """Features by the digests of encoder and record; those that were asked for longest ago go first."""

    def __init__(self) -> None:
        self._rows: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._bytes, self._lock = 0, Lock()

    def of(self, names: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """Those that are remembered."""
        with self._lock:
            found = {name: row for name in names if (row := self._rows.get(name)) is not None}
            for name in found:
                self._rows.move_to_end(name)
        return found

    def keep(self, names: Iterable[bytes], rows: NDArray[np.float32]) -> None:
        """Remember features, as far as there is room."""
        with self._lock:
            for name, row in zip(names, rows, strict=True):
                self._bytes += row.nbytes - getattr(self._rows.pop(name, None), "nbytes", 0)
                # a row itself would keep all rows that were computed with it in memory
                self._rows[name] = row.copy()
            while self._bytes > _REMEMBERED:
                self._bytes -= self._rows.popitem(last=False)[1].nbytes


_MEMORY = _Memory()
