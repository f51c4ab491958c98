"""The command that holds us against the papers: reproduce."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseworthy import _validate as check
from noiseworthy.cli.console import foretell, out, progress_bar
from noiseworthy.cli.options import DataDir


def reproduce(
    paper: Annotated[str, typer.Argument(help="paper: zhou, fu, hou, hu, ma")],
    item: Annotated[
        str | None, typer.Argument(help="table-1, figure-1 and so on, or all; by default its first")
    ] = None,
    data: DataDir = None,
    out_folder: Annotated[Path, typer.Option("--out")] = Path("runs/reproductions"),
    scale: Annotated[float, typer.Option(help="share of repeats, and of what a network trains on")] = 1.0,
    kept: Annotated[
        Path | None, typer.Option(help="folder of results to judge again; nothing is trained or drawn")
    ] = None,
) -> None:
    """A table or figure of a paper: its claim beside our numbers, with a verdict."""
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy_papers import PAPERS
    from noiseworthy_papers import reproduce as run
    from noiseworthy_papers.keeping import load
    from noiseworthy_papers.pages import verdict_table, write_reproductions

    if kept is not None:
        check.one_of("paper", paper, PAPERS.keys())
        results = load(kept, PAPERS[paper])
        out.print(verdict_table(PAPERS[paper], results))
        page = write_reproductions(PAPERS[paper], results, out_folder, drawn=False)
        out.print(f"Page: {page}", soft_wrap=True)
        return
    use_persistent_cache()
    with progress_bar("Reproducing", 100, "%") as bar:
        results = run(
            paper, item, data_dir=data, scale=scale, folder=out_folder, on_progress=bar, on_estimate=foretell
        )
    page = write_reproductions(PAPERS[paper], load(out_folder, PAPERS[paper]), out_folder)
    out.print(verdict_table(PAPERS[paper], results))
    out.print(f"Page: {page}", soft_wrap=True)
