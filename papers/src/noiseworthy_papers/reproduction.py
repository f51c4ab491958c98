"""The one runner: measure what an item names, judge its claims, keep the result."""

from __future__ import annotations

from pathlib import Path

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy_papers.fu import paper as fu
from noiseworthy_papers.hou import paper as hou
from noiseworthy_papers.hu import paper as hu
from noiseworthy_papers.judge import verdict
from noiseworthy_papers.keeping import Store, save
from noiseworthy_papers.laboratory import Laboratory
from noiseworthy_papers.ma import paper as ma
from noiseworthy_papers.measuring import Foretold, Progress, measure
from noiseworthy_papers.spec import Circumstances, Figure, Paper, Reproduction, SelfMeasured
from noiseworthy_papers.zhou import paper as zhou

PAPERS: dict[str, Paper] = {
    paper.name: paper for paper in (zhou.PAPER, fu.PAPER, hou.PAPER, hu.PAPER, ma.PAPER)
}


def reproduce(
    paper: str,
    item: str | None = None,
    *,
    data_dir: str | Path | None = None,
    scale: float = 1.0,
    folder: str | Path | None = None,
    on_progress: Progress = lambda done: None,
    on_estimate: Foretold | None = None,
) -> list[Reproduction]:
    """Reproduce a table or figure: train what it shows and judge what the paper says of it.

    The pages in docs/reproductions state the cost of every item as measured on two shared cores.

    Args:
        paper: `zhou`, `fu`, `hou`, `hu` or `ma`.
        item: `table-1`, `figure-1` and so on, or `all`; None takes the paper's first.
        data_dir: folder of data files; None takes the environment variable NOISEWORTHY_DATA.
        scale: share of the paper's repeats (at least two are run, or as many as a figure demands), and for
            networks also of the records or of the clients per round.
        folder: where to keep results as JSON. Measurements in it are not made again, so that a broken run
            goes on and figures share their trainings. None keeps nothing.
        on_progress: told the share of the work that is done.
        on_estimate: told, before a network trains, the seconds that its figure will take; None does not ask.

    Returns:
        One result per item.

    Raises:
        InvalidInput: an unknown paper or item, or a scale outside (0, 1].
        DataError: data files that are not there.

    Example:
        >>> (table,) = reproduce("zhou", "table-1")
        >>> table.verdicts[0].word, table.verdicts[0].evidence[:17]
        ('agrees', 'Holds in 24 of 24')
    """
    chosen = PAPERS[check.one_of("paper", paper, PAPERS.keys())]
    if item is not None:
        check.one_of("item", item, [*chosen.items, "all"])
    if not 0 < scale <= 1:
        raise InvalidInput(f"scale must lie in (0, 1], got {scale:g}; 1 is the paper's size")
    items = list(chosen.items) if item == "all" else [item or next(iter(chosen.items))]
    store, results = Store.open(folder), []
    for i, name in enumerate(items):
        told = _part(on_progress, i, len(items))
        results.append(_reproduced(chosen, name, store, data_dir, scale, told, on_estimate))
        save(results[-1], folder)
    return results


def _reproduced(
    paper: Paper,
    name: str,
    store: Store,
    data_dir: str | Path | None,
    scale: float,
    on_progress: Progress,
    on_estimate: Foretold | None,
) -> Reproduction:
    item = paper.items[name]
    if isinstance(item, SelfMeasured):
        return item.measure(Circumstances(data_dir, scale, store, on_progress))
    found = item if isinstance(item, Figure) else item(scale)
    if isinstance(found, Reproduction):
        on_progress(1.0)
        return found
    return reproduce_figure(
        paper.name, name, found, store, data_dir=data_dir, scale=scale, on_progress=on_progress,
        on_estimate=on_estimate,
    )  # fmt: skip


def _part(on_progress: Progress, index: int, parts: int) -> Progress:
    return lambda done: on_progress((index + done) / parts)


def reproduce_figure(
    paper: str,
    item: str,
    figure: Figure,
    store: Store,
    *,
    data_dir: str | Path | None = None,
    scale: float,
    on_progress: Progress = lambda done: None,
    on_estimate: Foretold | None = None,
) -> Reproduction:
    """Measure every setting of a figure under every budget, then judge its claims."""
    laboratory = Laboratory(figure.bench, data_dir, scale, figure.repeats, figure.least_seeds)
    points = measure(figure, laboratory, store, on_progress, on_estimate)
    return Reproduction(
        paper=paper,
        item=item,
        title=f"{_heading(item)}: {figure.title}",
        layout=figure.layout,
        loss=figure.bench.loss,
        data=laboratory.source,
        scale=scale,
        seeds=len(laboratory.seeds),
        repeats=figure.repeats if figure.repeats_stated else 0,
        verdicts=[verdict(claim, points) for claim in figure.claims],
        points=points,
        tables=figure.tables(points),
        notes=_notes(figure, laboratory),
    )


_ROMAN = {"table-1": "Table I", "table-2": "Table II", "table-3": "Table III", "table-4": "Table IV"}


def _heading(item: str) -> str:
    """An item's name as a title.

    Example:
        >>> _heading("table-1-mnist"), _heading("figure-2")
        ('Table I mnist', 'Figure 2')
    """
    for name, roman in _ROMAN.items():
        item = item.replace(name, roman)
    return item[0].upper() + item[1:].replace("-", " ")


def _notes(figure: Figure, laboratory: Laboratory) -> list[str]:
    """What a reader must know: of the data, of the records that a miniature leaves out, of our plans."""
    notes = [figure.bench.caveat, figure.note]
    if figure.bench.miniature and laboratory.scale < 1:
        held, owned = int(laboratory.held(1.0).max()), int(laboratory.federation.sizes.max())
        notes.append(
            f"A miniature: clients train on up to {held} of their up to {owned} records, with the noise that "
            f"belongs to all of them; {len(laboratory.shards(1.0).test_x)} test records are scored."
        )
    if figure.bench.public and any(series.planner for arm in figure.arms for series in arm.series):
        names = " and ".join(laboratory.public)
        notes.append(
            f"Our plans are made by trial on {names}; of the private data they see sizes and shapes."
        )
    return [note for note in notes if note]
