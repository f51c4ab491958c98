"""Commands on claim cards: card sign, verify."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import out

card = typer.Typer(no_args_is_help=True, help="Sign the claim card of a run, and check a signature.")

RunFolder = Annotated[Path, typer.Argument(help="run folder", metavar="RUN", show_default=False)]


@card.command()
def sign(
    run: RunFolder, key: Annotated[Path, typer.Option(help="private Ed25519 key, of ssh-keygen or openssl")]
) -> None:
    """Sign claim_card.json; the signature lies beside it as claim_card.sig."""
    from noiseworthy.reports.signing import sign as signed

    path = signed(run, key, lambda: typer.prompt(f"Password of {key}", hide_input=True))
    out.print(f"Signed: {path}", soft_wrap=True)


@card.command()
def verify(run: RunFolder, key: Annotated[Path, typer.Option(help="public key of whoever signed")]) -> None:
    """Whether claim_card.json is what the owner of a key has signed, and valid still."""
    from datetime import UTC, datetime

    from noiseworthy.reports.signing import verify as verified

    told = verified(run, key, datetime.now(UTC).date())
    for name in ("claim", "purpose", "responsible", "valid_until"):
        if told.get(name):
            out.print(f"{name.replace('_', ' ').capitalize()}: {told[name]}", soft_wrap=True, highlight=False)
    out.print(f"Signed by {key}, unchanged.", soft_wrap=True, highlight=False)
