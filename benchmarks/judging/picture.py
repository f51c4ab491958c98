"""The picture of a half: how many cells lose how much, and of what kind those are that lose most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes

from judging.pages import Found, Row, rows_of
from noiseworthy.reports.style import INK, MUTED, PLAN, TONES, WIDE, head, new_figure, png, small, styled

DEFAULTS = {
    "usual": "T = 100, clip 1, step 0.5",
    "short": "T = 10, clip 1, step 1",
    "published": "as Zhou et al. published",
}
LOST = "lost gain, % of what training can gain"
NAMED = 30.0
"""Cells that lose more, in per cent, are named."""


@styled
def drawn(found: Sequence[Found]) -> bytes:
    """Shares of cells by lost gain, of plans and of stated defaults, beside every cell by its kind."""
    rows = [row for row in rows_of(found) if row.score is not None and row.worth]
    figure = new_figure(WIDE, 7.2)
    above, below = figure.subplots(2, 1, height_ratios=(1, 1.1))
    _shares(above, rows)
    _kinds(below, rows)
    return png(figure)


def _shares(axes: Axes, rows: Sequence[Row]) -> None:
    head(axes, f"What plans lose in {len(rows)} cells, and settings that nobody planned", "% of cells", LOST)
    curves = [([row.lost for row in rows], "the plan", PLAN, 2.0)]
    curves += [
        ([row.lost_by(row.found["defaults"][name]) for row in rows], said, tone, 1.2)
        for (name, said), tone in zip(DEFAULTS.items(), TONES[1:], strict=False)
    ]
    share = 100 * np.arange(1, len(rows) + 1) / len(rows)
    for lost, said, colour, width in curves:
        axes.step(
            np.clip(100 * np.sort(lost), 0, 100),
            share,
            where="post",
            color=colour,
            linewidth=width,
            label=said,
        )
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 101)
    axes.legend(loc="center", bbox_to_anchor=(0.47, 0.68), frameon=False, labelcolor=INK)


def _kinds(axes: Axes, rows: Sequence[Row]) -> None:
    head(axes, "Which plans lose most", "", LOST)
    kinds = [(kind, noise) for noise in ("gaussian", "laplace") for kind in ("images", "numbers", "classes")]
    for place, kind in enumerate(kinds):
        of_kind = sorted(
            (row for row in rows if (row.kind, row.cell.mechanism) == kind), key=lambda row: row.lost
        )
        lost = 100 * np.array([row.lost for row in of_kind])
        # by turns above, on and below their line, so that dots of like losses lie apart
        heights = place + np.resize([0.18, 0.0, -0.18], lost.size)
        axes.scatter(lost, heights, 16, PLAN, linewidths=0, alpha=0.8, zorder=3)
        axes.plot([np.median(lost)] * 2, [place - 0.3, place + 0.3], color=INK, linewidth=1.2, zorder=2)
        for row, x, y in zip(of_kind, lost, heights, strict=True):
            if x > NAMED:
                side = "right" if x > 2 * NAMED else "left"
                _said(axes, row.cell.federation, (x, y), side)
    axes.set_yticks(range(len(kinds)), [f"{kind}, {noise.capitalize()}" for kind, noise in kinds])
    axes.axvline(0, color=MUTED, linewidth=0.8)
    _said(axes, "best of the grid", (0, len(kinds) - 0.5), "left")


def _said(axes: Axes, text: str, at: tuple[float, float], side: Literal["left", "right"]) -> None:
    away = (5 if side == "left" else -5, 0)
    axes.annotate(
        text, at, away, textcoords="offset points", ha=side, va="center", color=MUTED, fontsize=0.85 * small()
    )
