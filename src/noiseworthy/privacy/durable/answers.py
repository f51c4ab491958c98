"""What is asked of a ledger, and what it answers."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias


class Charge(NamedTuple):
    """One release of one client.

    Attributes:
        account: number of the client's account.
        number: of the release within its run, counted by the client.
        share: of the lifetime budget, as `Account.share` rounds it.
    """

    account: int
    number: int
    share: int


class Grant(NamedTuple):
    """The releases are paid for and on disk: now draw their noise, then seal what comes out.

    Attributes:
        number: to seal and acknowledge by.
        again: whether they were paid for before and never sealed; only where noise is a function of the
            release, so that the same bytes come out.
    """

    number: int
    again: bool = False


class Resend(NamedTuple):
    """The releases were made before: send these bytes, and draw nothing.

    Attributes:
        number: to acknowledge by.
        sealed: bytes that were sealed.
    """

    number: int
    sealed: bytes


class Refusal(NamedTuple):
    """The releases must not be made; nothing was charged.

    Attributes:
        why: `budget` where a client cannot pay, `leased` where what is left is held for other runs, `lost`
            where noise may have been drawn and was never sealed, `conflict` where the run holds another part.
        client: whose release it is.
        message: the reason with its remedy.
    """

    why: Literal["budget", "leased", "lost", "conflict"]
    client: str
    message: str


Answer: TypeAlias = Grant | Resend | Refusal
