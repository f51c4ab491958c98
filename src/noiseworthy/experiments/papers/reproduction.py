"""The one runner: measure what an item names, judge its claims, keep the result."""

from __future__ import annotations

from pathlib import Path

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.experiments.papers.keeping import Store, save
from noiseworthy.experiments.papers.laboratory import Laboratory
from noiseworthy.experiments.papers.measuring import Progress, measure
from noiseworthy.experiments.papers.spec import Claim, Figure, Point, Reproduction, Verdict
from noiseworthy.experiments.papers.zhou import FIGURES
from noiseworthy.experiments.papers.zhou_table import reproduce_table

TABLE = "table-1"
ITEMS = (TABLE, *FIGURES)


def reproduce(
    paper: str,
    item: str = TABLE,
    *,
    data_dir: str | Path | None = None,
    scale: float = 1.0,
    folder: str | Path | None = None,
    on_progress: Progress = lambda done: None,
) -> list[Reproduction]:
    """Reproduce a table or figure: train what it shows and judge what the paper says of it.

    Cost as measured on two shared cores: at scale 0.3 (3 seeds, all records) figures 3 and 7 two minutes
    each, figure 1 ten and figure 5 twenty; for the CNN at scale 0.01 (2 seeds, 1 % of the records) ten
    minutes each, figures 2, 4 and 6 sharing theirs. docs/reproductions.md states it item by item.

    Args:
        paper: `zhou`.
        item: `table-1`, `figure-1` to `figure-8`, or `all`.
        data_dir: folder of data files; None takes the environment variable NOISEWORTHY_DATA.
        scale: share of the paper's repeats (at least two are run), and for the CNN also of the records.
        folder: where to keep results as JSON. Measurements in it are not made again, so that a broken run
            goes on and figures share their trainings. None keeps nothing.
        on_progress: told the share of the work that is done.

    Returns:
        One result per item.

    Raises:
        InvalidInput: an unknown paper or item, or a scale outside (0, 1].
        DataError: data files that are not there.

    Example:
        >>> (table,) = reproduce("zhou", "table-1")
        >>> table.verdicts[0].word, table.verdicts[0].evidence[:8]
        ('agrees', '24 of 24')
    """
    check.one_of("paper", paper, ["zhou"])
    check.one_of("item", item, [*ITEMS, "all"])
    if not 0 < scale <= 1:
        raise InvalidInput(f"scale must lie in (0, 1], got {scale:g}; 1 is the paper's size")
    items = ITEMS if item == "all" else [item]
    store, results = Store.open(folder), []
    for i, name in enumerate(items):
        results.append(_reproduced(name, store, data_dir, scale, _part(on_progress, i, len(items))))
        save(results[-1], folder)
    return results


def _reproduced(
    item: str, store: Store, data_dir: str | Path | None, scale: float, on_progress: Progress
) -> Reproduction:
    if item == TABLE:
        on_progress(1.0)
        return reproduce_table(scale)
    return reproduce_figure(
        item, FIGURES[item], store, data_dir=data_dir, scale=scale, on_progress=on_progress
    )


def _part(on_progress: Progress, index: int, parts: int) -> Progress:
    return lambda done: on_progress((index + done) / parts)


def reproduce_figure(
    item: str,
    figure: Figure,
    store: Store,
    *,
    data_dir: str | Path | None = None,
    scale: float,
    on_progress: Progress = lambda done: None,
) -> Reproduction:
    """Measure every setting of a figure under every budget, then judge its claims."""
    laboratory = Laboratory(figure.bench, data_dir, scale)
    points = measure(figure, laboratory, store, on_progress)
    return Reproduction(
        paper="zhou",
        item=item,
        title=f"{item.replace('-', ' ').capitalize()}: {figure.title}",
        layout=figure.layout,
        data=laboratory.source,
        scale=scale,
        seeds=len(laboratory.seeds),
        verdicts=[_verdict(claim, points) for claim in figure.claims],
        points=points,
        tables=[],
        notes=_notes(figure, laboratory),
    )


def _verdict(claim: Claim, points: list[Point]) -> Verdict:
    word, evidence = claim.judge(points)
    return Verdict(claim.words, word, evidence, "" if word == "agrees" else claim.reason, claim.ours)


def _notes(figure: Figure, laboratory: Laboratory) -> list[str]:
    """What a reader must know: of the data, of the records that a miniature leaves out, of our plans."""
    notes = [figure.bench.caveat, figure.note]
    if figure.bench.miniature and laboratory.scale < 1:
        held, owned = laboratory.shards(1.0).train.mask.shape[1], int(laboratory.federation.sizes.max())
        notes.append(
            f"A miniature: clients train on up to {held} of their up to {owned} records, with the noise that "
            f"belongs to all of them; {len(laboratory.shards(1.0).test_x)} test records are scored."
        )
    if any(series.cell is None for arm in figure.arms for series in arm.series):
        names = " and ".join(laboratory.public)
        notes.append(
            f"Our plans are made by trial on {names}; of the private data they see sizes and shapes."
        )
    return [note for note in notes if note]
