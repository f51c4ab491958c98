"""What persons as the unit cost: a table of MNIST writers, one record against one person at the same epsilon.

    python benchmarks/persons.py [EPSILON ...]

Each of 539 people wrote 20 digits, as blocks of 4 x 4 pixels; four owners have a quarter of them each, and a
fifth of the people test. Three plans by trial for every epsilon: for one record, for one person, and for one
record with so small an epsilon that 20 of them cost what is asked, the older way to the second claim. Reads
the data folder of NOISEWORTHY_DATA; docs/columns.md has the numbers.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from noiseworthy.data import load_records
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.studies import plan, train_in

DIGITS, OWNERS, DELTA = 20, 4, 1e-5
EPSILONS = (1.0, 4.0, 16.0)


def table() -> pd.DataFrame:
    """Digits of writers at owners; a fifth of the writers test."""
    records = load_records("mnist-writers")
    writers = np.asarray(records.client_ids)
    names = np.unique(writers)
    places = dict(zip(names.tolist(), np.random.default_rng(0).permutation(len(names)).tolist(), strict=True))
    rows = np.concatenate([np.flatnonzero(writers == name)[:DIGITS] for name in names])
    blocks = records.x[rows].reshape(-1, 7, 4, 7, 4).mean((2, 4)).reshape(-1, 49).round(4)
    at = np.array([places[name] for name in writers[rows].tolist()])
    labels = {"digit": records.y[rows], "writer": writers[rows], "school": [f"S{k % OWNERS}" for k in at]}
    parts = {"part": np.where(at % 5 == 0, "test", "train")}
    return pd.DataFrame(blocks, columns=PIXELS).assign(**labels, **parts)


PIXELS = [f"p{place:02d}" for place in range(49)]
COLUMNS: dict[str, Any] = {
    **{name: {"kind": "number", "range": [-1, 1]} for name in PIXELS},
    "digit": {"role": "label", "classes": [str(digit) for digit in range(10)]},
    "writer": {"role": "person", "at_most": DIGITS},
    "school": {"role": "client"},
    "part": {"role": "split"},
}


def accuracies(file: Path, epsilon: float, unit: str) -> list[float]:
    """Of five trainings by a plan."""
    privacy = {"mechanism": "gaussian", "epsilon": epsilon, "delta": DELTA, "unit": unit}
    study = {
        "federation": {"data": str(file)}, "task": {"model": "softmax"}, "privacy": privacy,
        "planning": {"public": ["digits"], "seeds": 3}, "training": {"seeds": [*range(5)]},
        "columns": COLUMNS,
    }  # fmt: skip
    made = plan(parse_study(study))
    record = train_in(made, file.parent / f"{unit} {epsilon:g}", name="writers")
    return [curve[-1] for curve in record["training"]["accuracy"]]


def divided(epsilon: float) -> float:
    """Epsilon of one record at which all digits of a person cost what is asked."""
    mu = gaussian_mu(np.array([epsilon]), np.array([DELTA])) / DIGITS
    return float(np.atleast_1d(gaussian_epsilon(mu, np.array([DELTA])))[0])


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        wards = Path(folder) / "writers.csv"
        table().to_csv(wards, index=False)
        print("| ε | one record | one person | one person, by a divided budget |\n|---:|---:|---:|---:|")
        for asked in map(float, sys.argv[1:] or EPSILONS):
            cells = [(asked, "record"), (asked, "person"), (divided(asked), "record")]
            found = [100 * np.array(accuracies(wards, *cell)) for cell in cells]
            told = [f"{each.mean():.1f} ± {each.std(ddof=1):.1f}" for each in found]
            print(f"| {asked:g} | {' | '.join(told)} |", flush=True)
