"""Commands of data owners: gateway."""

from __future__ import annotations

import logging
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
    from noiseworthy.gateway.server import Ending, listening, serve

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("noiseworthy.gateway").setLevel(logging.INFO)
    terms, ending = load_owner(owner), Ending()
    with Gateway.open(terms) as opened, listening(terms.files.socket, terms.files.group) as listener:
        signal.signal(signal.SIGTERM, ending)
        signal.signal(signal.SIGINT, ending)
        name, head = opened.account.client, opened.ledger.head
        err.print(f"Gateway of {name}: listening at {terms.files.socket}, ledger head {head}", soft_wrap=True)
        try:
            every, apart = terms.allowed.reply_seconds, not terms.files.same_user
            serve(opened, listener, ending, every, apart=apart)
        except KeyboardInterrupt:
            err.print("Gateway ended.")
