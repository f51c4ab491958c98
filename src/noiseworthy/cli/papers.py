"""The command that holds us against the papers: reproduce. What it runs is the package noiseworthy-papers."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import shows_progress
from noiseworthy.cli.options import DataDir
from noiseworthy.errors import InvalidInput

_PACKAGE = "noiseworthy_papers"
_ABSENT = (
    "reproduce needs the package noiseworthy-papers, which is not installed with noiseworthy; "
    "clone the repository of noiseworthy and run there: pip install -e papers"
)


@shows_progress
def reproduce(
    paper: Annotated[str, typer.Argument(help="paper: zhou, fu, hou, hu, ma")],
    item: Annotated[str | None, typer.Argument(help="table-1, figure-1, ..., or all; else its first")] = None,
    data: DataDir = None,
    out_folder: Annotated[Path, typer.Option("--out")] = Path("runs/reproductions"),
    scale: Annotated[float, typer.Option(help="share of repeats, and of what a network trains on")] = 1.0,
    kept: Annotated[
        Path | None, typer.Option(help="folder of results to judge again; nothing is trained or drawn")
    ] = None,
) -> None:
    """A table or figure of a paper: its claim beside our numbers, with a verdict."""
    if find_spec(_PACKAGE) is None:
        raise InvalidInput(_ABSENT)
    command = import_module(f"{_PACKAGE}.command")
    if kept is not None:
        command.judge_again(paper, item, kept, out_folder)
    else:
        command.reproduce(paper, item, data, out_folder, scale)
