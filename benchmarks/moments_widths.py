"""When one upload wins: least squares on Adult, by the width of records and the uploads that gradients take.

`measure` has ten owners learn income from the first d principal directions of the records, of norm 1, by one
upload of moments and by T of clipped gradients under the same Gaussian budget, each with the best of its
settings on test records: gaps between methods, no levels that a plan would reach. It keeps
benchmarks/results/moments_widths.json, and `picture` draws docs/figures/one_upload.png from it.
"""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path

import numpy as np
import typer
from matplotlib.figure import Figure
from numpy.typing import NDArray

from noiseworthy.data import load_records
from noiseworthy.privacy.gaussian import gaussian_mu

ROOT = Path(__file__).parents[1]
RESULT = ROOT / "benchmarks" / "results" / "moments_widths.json"
FIGURE = ROOT / "docs" / "figures" / "one_upload.png"
WIDTHS, UPLOADS = (3, 6, 12, 24, 48), (1, 2, 4, 8, 16, 32, 64, 128)
EPSILON, DELTA, OWNERS, SEEDS = (0.1, 0.5, 2.0), 1e-5, 10, 4
BIAS, STEPS, MOMENTA = 0.3, (0.3, 1.0, 3.0, 10.0), (0.0, 0.8)
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
"""In spectral norms of the noise."""
ONE, MANY, BOTH = "#0b6e4f", "#c1440e", "#9aa0a6"
TIE = 0.01
"""Of the untrained loss, which is 1."""
app = typer.Typer(add_completion=False, help=__doc__, pretty_exceptions_enable=False)
Real = NDArray[np.float64]


def table(width: int) -> tuple[Real, Real, Real, Real]:
    """Records of norm 1 in so many directions with a constant, and incomes of -1 and 1; test ones as well."""
    records = load_records("adult")
    mean = np.asarray(records.x, np.float32).mean(axis=0)
    _, turn = np.linalg.eigh(np.cov(np.asarray(records.x, np.float64).T))

    def seen(x: Real, y: Real) -> tuple[Real, Real]:
        rows = (np.asarray(x, np.float64) - mean) @ turn[:, ::-1][:, :width]
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        labels = np.where(np.asarray(y) > 0, 1.0, -1.0)
        return np.column_stack([rows, np.full(len(rows), BIAS)]), labels

    return *seen(records.x, records.y), *seen(records.test_x, records.test_y)


def one_upload(x: Real, y: Real, mu: float, score, generator: np.random.Generator) -> float:
    """The least test loss over ridges, mean over seeds."""
    size, radius, n = x.shape[1], 1 + BIAS**2, len(x) / OWNERS
    weight = (radius / 2) ** 0.5
    noise = 2**0.5 * (radius + weight**2) / (n * mu * OWNERS**0.5)
    gram, cross = x.T @ x / len(x), x.T @ y / len(x)
    found = np.zeros((SEEDS, len(RIDGES)))
    for seed in range(SEEDS):
        drawn = generator.normal(0, noise / 2**0.5, (size, size))
        drawn = np.triu(drawn) + np.triu(drawn, 1).T + np.diag(np.diag(drawn) * (2**0.5 - 1))
        values, vectors = np.linalg.eigh(gram + drawn)
        noised = vectors.T @ (cross + generator.normal(0, noise / (2**0.5 * weight), size))
        for place, ridge in enumerate(RIDGES):
            kept = np.maximum(values, 0.0) + ridge * (2 * size) ** 0.5 * noise
            found[seed, place] = score(vectors @ (noised / kept))
    return float(found.mean(axis=0).min())


def many(x: Real, y: Real, mu: float, score, generator: np.random.Generator) -> list[float]:
    """The least test loss over steps and momenta of T gradients, mean over seeds, for each T."""
    n, settings = len(x) / OWNERS, [*product(STEPS, MOMENTA, range(SEEDS))]
    steps, momenta = (np.array([one[k] for one in settings]) for k in (0, 1))
    losses, rows = [], x.astype(np.float32)
    for uploads in UPLOADS:
        noise = 2 * (1 + BIAS**2) ** 0.5 * uploads**0.5 / (n * mu * OWNERS**0.5)
        theta = moved = np.zeros((x.shape[1], len(settings)))
        for _ in range(uploads):
            left = np.clip(rows @ theta.astype(np.float32) - y.astype(np.float32)[:, None], -1.0, 1.0)
            gradient = rows.T @ left / len(x) + generator.normal(0, noise, theta.shape)
            moved = momenta * moved - steps * gradient
            theta = theta + moved
        scores = np.array([score(one) for one in theta.T]).reshape(-1, SEEDS).mean(axis=1)
        losses.append(float(np.nanmin(scores)))
    return losses


@app.command()
def measure() -> None:
    """Measure all widths and budgets."""
    found = []
    for width in WIDTHS:
        x, y, test_x, test_y = table(width)

        def score(theta: Real, test_x: Real = test_x, test_y: Real = test_y) -> float:
            return float(np.mean(np.square(test_x @ theta - test_y)))

        least = score(np.linalg.lstsq(x, y, rcond=None)[0])
        for epsilon in EPSILON:
            mu = float(gaussian_mu(epsilon, DELTA))
            generator = np.random.default_rng(0)
            losses = {
                "width": width + 1,
                "epsilon": epsilon,
                "least": least,
                "one": one_upload(x, y, mu, score, generator),
                "many": many(x, y, mu, score, generator),
            }
            found.append(losses)
            typer.echo(json.dumps(losses))
    RESULT.write_text(json.dumps({"uploads": UPLOADS, "cells": found}, indent=1) + "\n")


@app.command()
def picture() -> None:
    """Draw who wins by d^2 and T, a panel for each epsilon."""
    kept = json.loads(RESULT.read_text())
    figure = Figure(figsize=(10, 3.9), layout="constrained")
    panels = figure.subplots(1, len(EPSILON), sharey=True)
    for axes, epsilon in zip(panels, EPSILON, strict=True):
        cells = [one for one in kept["cells"] if one["epsilon"] == epsilon]
        for one in cells:
            ahead = np.subtract(one["many"], one["one"])
            colors = np.select([ahead > TIE, ahead < -TIE], [ONE, MANY], BOTH)
            sizes = 12 + 900 * np.minimum(np.abs(ahead), 0.25)
            axes.scatter(kept["uploads"], [one["width"] ** 2] * len(ahead), sizes, colors, linewidths=0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_xticks(kept["uploads"], [str(count) for count in kept["uploads"]])
        axes.set_yticks(squares := [one["width"] ** 2 for one in cells], [f"{one:,}" for one in squares])
        axes.minorticks_off()
        axes.margins(0.08)
        axes.set_title(f"\u03b5 = {epsilon:g}", loc="left", fontsize=10)
        axes.set_xlabel("uploads T of gradients")
        axes.spines[["top", "right"]].set_visible(False)
    said = {ONE: "one upload is ahead", MANY: "gradients are ahead", BOTH: "within 0.01"}
    for color, text in said.items():
        panels[0].scatter([], [], 40, color, label=text)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    panels[0].set_ylabel("d\u00b2, d features of a record")
    figure.savefig(FIGURE, dpi=150)


if __name__ == "__main__":
    app()
