"""Linear regressions of diffprivlib for benchmarks/moments_oracle.py, in an environment of their own.

Reads a folder of tables (x, y, test_x, test_y, bounds of features and of labels) and budgets, and prints R²
on test records under each seed as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from diffprivlib.models import LinearRegression


def scores(path: Path, epsilon: float, seeds: int) -> list[float]:
    """R² of each seed, pure epsilon for one record exchanged, as the library accounts for it."""
    table = np.load(path)
    low, high = table["bounds_x"]
    bounds = {"bounds_X": (low, high), "bounds_y": tuple(float(one) for one in table["bounds_y"])}
    found = []
    for seed in range(seeds):
        made = LinearRegression(epsilon=epsilon, random_state=seed, **bounds).fit(table["x"], table["y"])
        left = table["test_y"] - made.predict(table["test_x"])
        found.append(float(1 - np.mean(left**2) / np.var(table["test_y"])))
    return found


if __name__ == "__main__":
    folder, seeds, *budgets = sys.argv[1:]
    print(json.dumps({
        f"{path.stem} {budget}": scores(path, float(budget), int(seeds))
        for path in sorted(Path(folder).glob("*.npz"))
        for budget in budgets
    }))  # fmt: skip
