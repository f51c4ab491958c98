"""Write what ships in src/noiseworthy/data/shipped: tables whose licences allow it, and some of scikit-learn.

    python benchmarks/embed_tables.py

Nothing of the data folder is among them. Numbers are kept as 16-bit floats, half a thousandth apart at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets

from federations import SOURCES, Source
from noiseworthy.data.embedded import FILE as BUNDLED
from noiseworthy.data.shipped import FILE, PARENTS

MOST_TRAIN, MOST_TEST = 1000, 500


def condensed(source: Source) -> dict[str, NDArray]:
    """The first of its records, in their fixed random order, and of its test records."""
    records = source.records()
    train, test = slice(MOST_TRAIN), slice(MOST_TEST)
    parts = {
        "x": records.x[train].astype(np.float16),
        "y": _labels(source, records.y[train]),
        "test x": records.test_x[test].astype(np.float16),
        "test y": _labels(source, records.test_y[test]),
        "classes": np.uint8(source.n_classes or 0),
    }
    if records.client_ids is not None:
        _, owners = np.unique(records.client_ids[train], return_inverse=True)
        parts["owners"] = owners.astype(np.uint8)
    return {f"{source.name} {part}": np.asarray(values) for part, values in parts.items()}


def _labels(source: Source, y: NDArray) -> NDArray:
    """Classes as bytes; numbers brought from their stated range to [-1, 1]."""
    if source.n_classes is not None:
        return y.astype(np.uint8)
    least, most = source.columns[source.label]["range"]
    return (2 * (y - least) / (most - least) - 1).astype(np.float16)


def of_sklearn() -> dict[str, NDArray]:
    """Features and labels of data sets of scikit-learn, exactly as it has them."""
    made: dict[str, NDArray] = {}
    for name in ("digits", "breast_cancer", "wine", "iris", "diabetes"):
        settings = {"scaled": False} if name == "diabetes" else {}
        bunch = getattr(datasets, f"load_{name}")(**settings)
        small = np.uint16 if name == "diabetes" else np.uint8
        made[f"{name} x"] = bunch.data.astype(np.uint8) if name == "digits" else bunch.data
        made[f"{name} y"] = bunch.target.astype(small)
        exact = np.array_equal(made[f"{name} x"], bunch.data) and np.array_equal(
            made[f"{name} y"], bunch.target
        )
        assert exact, name
    return made


def main() -> None:
    """Write the files."""
    np.savez_compressed(BUNDLED, **of_sklearn())
    arrays: dict[str, NDArray] = {}
    for name in PARENTS:
        arrays |= condensed(SOURCES[name])
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
