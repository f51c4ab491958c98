"""Commands of data owners: gateway."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import err


def gateway(
    owner: Annotated[Path, typer.Argument(help="the owner's file (TOML)", show_default=False)],
) -> None:
    """Answer requests for releases from one owner's data, within the owner's lifetime budget."""
    from noiseworthy.gateway.gateway import Gateway
    from noiseworthy.gateway.owner import load_owner
    from noiseworthy.gateway.server import listening, serve

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    terms = load_owner(owner)
    with Gateway.open(terms) as opened, listening(terms.files.socket) as listener:
        name, head = opened.account.client, opened.ledger.head
        err.print(f"Gateway of {name}: listening at {terms.files.socket}, ledger head {head}", soft_wrap=True)
        serve(opened, listener)
