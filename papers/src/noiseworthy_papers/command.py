"""What `noiseworthy reproduce` does: train or judge again, print the verdicts, write the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from noiseworthy import _validate as check
from noiseworthy.cli.console import foretell, out, progress_bar
from noiseworthy.engines.compilation import use_persistent_cache
from noiseworthy.errors import InvalidInput
from noiseworthy_papers import reproduction
from noiseworthy_papers.keeping import load
from noiseworthy_papers.pages import verdict_table, write_reproductions
from noiseworthy_papers.reproduction import PAPERS
from noiseworthy_papers.spec import Reproduction


def judge_again(paper: str, item: str | None, kept: Path, folder: Path) -> None:
    """Judge the kept results of a paper again and write its page; nothing is trained or drawn.

    Verdicts are printed of the item alone, or of all.
    """
    chosen = PAPERS[check.one_of("paper", paper, PAPERS.keys())]
    check.one_of("item", item or "all", [*chosen.items, "all"])
    results = load(kept, chosen)
    shown = [result for result in results if item in (None, "all", result.item)]
    if not shown:
        raise InvalidInput(f"{kept} holds no results of {item}; leave --kept out to measure it")
    _show(paper, shown, write_reproductions(chosen, results, folder, drawn=False))


def reproduce(paper: str, item: str | None, data: Path | None, folder: Path, scale: float) -> None:
    """Measure an item of a paper, or all, and write the page of everything that the folder holds."""
    use_persistent_cache()
    with progress_bar("Reproducing", 100, "%") as bar:
        results = reproduction.reproduce(
            paper, item, data_dir=data, scale=scale, folder=folder, on_progress=bar, on_estimate=foretell
        )
    _show(paper, results, write_reproductions(PAPERS[paper], load(folder, PAPERS[paper]), folder))


def _show(paper: str, results: Sequence[Reproduction], page: Path) -> None:
    out.print(verdict_table(PAPERS[paper], results))
    out.print(f"Page: {page}", soft_wrap=True)
