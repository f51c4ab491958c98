"""The prior beside real tables and images: how hard they are, how they are spread, how even.

Prints the two tables of docs/trials.md and draws docs/figures/prior-images.png. Reads the data folder of
NOISEWORTHY_DATA.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge

from noiseworthy.data import Records, load_records
from noiseworthy.data.prior import prior_table
from noiseworthy.data.prior_images import prior_images
from noiseworthy.reports.style import new_figure, png, styled

REAL = (
    "breast-cancer", "wine", "iris", "diabetes", "heart-disease", "adult", "vehicle", "diabetes-progression",
    "lending-club", "school",
)  # fmt: skip
SHAPES: tuple[tuple[int, int | None], ...] = ((4, 3), (10, 2), (25, 2), (25, None), (60, 6), (100, 2))
SEEDS = range(100)
REAL_IMAGES = ("digits", "mnist", "pneumoniamnist")
"""Those of the tuning half of docs/plan_quality.md."""
KINDS = {
    "strokes": range(0, 90, 3),
    "silhouettes": range(1, 90, 3),
    "scenes": range(2, 180, 6),
    "views": range(5, 180, 6),
}
"""Thirty seeds of each."""
IMAGE, IMAGE_CLASSES = (28, 28), 10
FIGURE = Path(__file__).parents[1] / "docs/figures/prior-images.png"
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


@styled
def draw(classes: int = 8) -> None:
    """Two images of each of some classes, of every kind."""
    rows = 2 * len(KINDS)
    figure = new_figure(8, 0.78 * rows)
    figure.set_layout_engine("none")
    grid = figure.add_gridspec(
        rows, classes, left=0.125, right=0.995, top=0.99, bottom=0.01, wspace=0.06, hspace=0.06
    )
    for kind, (name, seeds) in enumerate(KINDS.items()):
        images = prior_images(IMAGE, IMAGE_CLASSES, seeds[0])
        for which in range(classes):
            for row, place in enumerate(np.flatnonzero(images.y == which)[:2]):
                axes = figure.add_subplot(grid[2 * kind + row, which])
                axes.imshow(images.x[place], cmap="gray", vmin=0, vmax=1)
                axes.set_axis_off()
        figure.text(0.115, 1 - (2 * kind + 1) / rows, name, ha="right", va="center")
    FIGURE.write_bytes(png(figure))


def _spread(name: str, found: dict[str, NDArray[np.float64]]) -> None:
    """A row of percentiles: the 5th, 50th and 95th."""
    every = [np.percentile(values, (5, 50, 95)) for values in found.values()]
    _row(name, ["" if m != m else f"{a:.2g} · {m:.2g} · {b:.2g}" for a, m, b in every])


def main() -> None:
    """Print the tables: real data one by one, of synthetic ones the 5th, 50th and 95th percentile."""
    names = [*Statistics.__dataclass_fields__]

    def real(sources: tuple[str, ...]) -> None:
        _row("data", [name.replace("_", " ") for name in names])
        _row("---", ["---"] * len(names))
        for source in sources:
            found = asdict(Statistics.of(load_records(source)))
            _row(source, ["" if v != v else f"{v:.2g}" for v in found.values()])

    real(REAL)
    for features, classes in SHAPES:
        kind = f"{classes} classes" if classes else "numbers"
        _spread(f"prior, {features} features, {kind}", of_prior(features, classes))
    print()
    real(REAL_IMAGES)
    for name, seeds in KINDS.items():
        every = [asdict(Statistics.of(prior_images(IMAGE, IMAGE_CLASSES, seed))) for seed in seeds]
        _spread(f"prior, {name}", {key: np.array([one[key] for one in every]) for key in names})
    draw()


if __name__ == "__main__":
    main()
