"""The prior of synthetic tables beside real ones: how hard they are, how they are spread, how even."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from noiseworthy.data import Records, load_records
from noiseworthy.data.prior import prior_table

REAL = (
    "breast-cancer", "wine", "iris", "diabetes", "heart-disease", "adult", "vehicle", "diabetes-progression",
    "lending-club", "school",
)  # fmt: skip
SHAPES: tuple[tuple[int, int | None], ...] = ((4, 3), (10, 2), (25, 2), (25, None), (60, 6), (100, 2))
SEEDS = range(100)
_MOST = 1000


@dataclass(frozen=True)
class Statistics:
    """What a plan's success turns on, of one table.

    Attributes:
        gain: accuracy of a linear model above the largest class, as a share of what is above; R^2 of numbers.
        norm: mean norm of a record over the square root of its length.
        norm_spread: standard deviation of the norms over their mean.
        mean_share: share of the mean record in the mean squared norm.
        directions: participation ratio of the spectrum of the covariance over the number of features.
        first: share of its first principal direction.
        evenness: |g|_1 / (|g|_2 sqrt(p)) of the mean gradient at the start, 1 where all entries are alike.
        entropy: of the classes, over that of equal ones; nan for numbers.
        offset: |mean| of the numbers to predict over their standard deviation; nan for classes.
    """

    gain: float
    norm: float
    norm_spread: float
    mean_share: float
    directions: float
    first: float
    evenness: float
    entropy: float
    offset: float

    @classmethod
    def of(cls, records: Records, most: int = _MOST) -> Statistics:
        """Of at most so many records to train and as many to test."""
        x, y = _some(records.x, records.y, most)
        test_x, test_y = _some(records.test_x, records.test_y, most)
        norms = np.linalg.norm(x, axis=1)
        spectrum = np.maximum(np.linalg.eigvalsh(np.cov(x.T)), 0)
        if records.classes is None:
            gain, residuals = Ridge().fit(x, y).score(test_x, test_y), y[:, None].astype(float)
            entropy, offset = np.nan, abs(y.mean()) / y.std()
        else:
            share = np.bincount(y, minlength=records.classes) / len(y)
            usual, held = np.mean(test_y == share.argmax()), share[share > 0]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                accuracy = LogisticRegression(C=10, max_iter=100).fit(x, y).score(test_x, test_y)
            gain, residuals = (
                (accuracy - usual) / (1 - usual),
                np.eye(records.classes)[y] - 1 / records.classes,
            )
            entropy, offset = -np.sum(held * np.log(held)) / np.log(records.classes), np.nan
        gradient = x.T @ residuals / len(x)
        return cls(
            gain=float(gain),
            norm=float(norms.mean() / np.sqrt(x.shape[1])),
            norm_spread=float(norms.std() / norms.mean()),
            mean_share=float(np.sum(x.mean(axis=0) ** 2) / np.mean(norms**2)),
            directions=float(spectrum.sum() ** 2 / np.sum(spectrum**2) / x.shape[1]),
            first=float(spectrum.max() / spectrum.sum()),
            evenness=float(np.abs(gradient).sum() / np.linalg.norm(gradient) / np.sqrt(gradient.size)),
            entropy=float(entropy),
            offset=float(offset),
        )


def of_prior(features: int, classes: int | None, seeds: range = SEEDS) -> dict[str, NDArray[np.float64]]:
    """Statistics of synthetic tables by name, shape (seeds,)."""
    every = [asdict(Statistics.of(prior_table((features,), classes, seed), 700)) for seed in seeds]
    return {name: np.array([one[name] for one in every]) for name in every[0]}


def _some(x: NDArray, y: NDArray, most: int) -> tuple[NDArray[np.float64], NDArray]:
    chosen = np.random.default_rng(0).permutation(len(x))[:most]
    return x[chosen].reshape(len(chosen), -1).astype(float), y[chosen]


def _row(name: str, cells: list[str]) -> None:
    print(f"| {name} | {' | '.join(cells)} |")


def main() -> None:
    """Print the table: real tables one by one, of synthetic ones the 5th, 50th and 95th percentile."""
    names = [*Statistics.__dataclass_fields__]
    _row("table", [name.replace("_", " ") for name in names])
    _row("---", ["---"] * len(names))
    for source in REAL:
        _row(
            source,
            ["" if v != v else f"{v:.2g}" for v in asdict(Statistics.of(load_records(source))).values()],
        )
    for features, classes in SHAPES:
        found = of_prior(features, classes)
        low, middle, high = (np.array([np.percentile(found[name], q) for name in names]) for q in (5, 50, 95))
        cells = [
            "" if m != m else f"{a:.2g} · {m:.2g} · {b:.2g}"
            for a, m, b in zip(low, middle, high, strict=True)
        ]
        _row(f"prior, {features} features, {f'{classes} classes' if classes else 'numbers'}", cells)


if __name__ == "__main__":
    main()
