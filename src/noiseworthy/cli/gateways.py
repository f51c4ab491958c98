"""Commands of data owners: gateway."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy._names import shown
from noiseworthy.cli.console import err


class _Plain(logging.Formatter):
    """Lines in which nothing that a server sent moves the owner's terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """As logging formats it, with control characters made visible."""
        return "\n".join(map(shown, super().format(record).split("\n")))


def gateway(
    owner: Annotated[Path, typer.Argument(help="the owner's file (TOML)", show_default=False)],
    records_changed: Annotated[
        bool, typer.Option("--records-changed", help="go on with records that were changed on purpose")
    ] = False,
) -> None:
    """Answer requests for releases from one owner's data, within the owner's lifetime budget."""
    from noiseworthy.gateway.gateway import Gateway
    from noiseworthy.gateway.owner import load_owner
    from noiseworthy.gateway.server import Ending, listening, serve

    handler = logging.StreamHandler()
    handler.setFormatter(_Plain("%(asctime)s %(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("noiseworthy.gateway").setLevel(logging.INFO)
    terms, ending = load_owner(owner), Ending()
    opening = Gateway.open(terms, records_changed=records_changed)
    with opening as opened, listening(terms.files.socket, terms.files.group) as listener:
        signal.signal(signal.SIGTERM, ending)
        signal.signal(signal.SIGINT, ending)
        name, head = opened.account.client, opened.ledger.head
        err.print(f"Gateway of {name}: listening at {terms.files.socket}, ledger head {head}", soft_wrap=True)
        if not opened.fingerprint.fits:
            err.print(
                f"The records of {name} changed since the first release from {opened.account.data} was paid "
                "for: all releases are refused. Put them back, name another data_set, or start with "
                "--records-changed.",
                soft_wrap=True, markup=False,
            )  # fmt: skip
        try:
            every, apart = terms.allowed.reply_seconds, not terms.files.same_user
            serve(opened, listener, ending, every, apart=apart)
        except KeyboardInterrupt:
            err.print("Gateway ended.")
