"""The command of an owner that tunes a shared model at home: tune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import out


def tune(
    model: Annotated[
        Path, typer.Argument(help="folder of the shared model, or of its run", show_default=False)
    ],
    records: Annotated[
        Path,
        typer.Argument(help="your table with labels, or your gateway's owner file", show_default=False),
    ],
    out_folder: Annotated[
        Path, typer.Option("--out", "-o", help="folder to write, for you alone", show_default=False)
    ],
) -> None:
    """Tune a shared model on your own records, on your own machine; nothing is sent anywhere."""
    from noiseworthy.calls.tune import tune as tuned
    from noiseworthy.model.folder import load_folder
    from noiseworthy.reports.tuned import FILE, rows

    done = tuned(model, records, out_folder)
    said = load_folder(done.folder).description
    for row in rows(said, done.scores, done.limits) if done.tests else ():
        name, *told = row.values()
        out.print(f"{name}: {' ('.join(told)})", soft_wrap=True, highlight=False)
    out.print(
        f"Learnt from {done.records:,} records; {done.tests:,} were held out. For you alone: handed on, the "
        "model carries no guarantee for your records.",
        soft_wrap=True,
    )
    out.print(f"Page: {done.folder / FILE}", soft_wrap=True)
