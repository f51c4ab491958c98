"""Errors that name what is wrong, the allowed range and the remedy.

Everything a user can get wrong is a `UserError`; the command line prints its one line and exits with 2.
Any other exception is a fault of ours and exits with 1.
"""

from __future__ import annotations


class UserError(ValueError):
    """The input cannot be used; the message says what, why and what to do instead."""


class InvalidInput(UserError):
    """A value outside its allowed range, named together with the remedy."""


class ConfigError(UserError):
    """A study file with unknown keys, missing tables or values of the wrong kind.

    Attributes:
        mistakes: everything that is wrong, a line each; the message has them one below the other.
    """

    def __init__(self, *mistakes: str):
        super().__init__("\n".join(mistakes))
        self.mistakes = mistakes


class PlanError(UserError):
    """A plan file that was changed, is of another version, or was made for another study."""


class DataError(UserError):
    """A data file that is missing, truncated, or holds values that cannot be trained on."""


class UnsoundClaim(UserError):
    """A privacy claim that no proof supports; the message names the condition that fails."""


class BudgetExceeded(UserError):
    """A client was asked for more releases than its budget pays for; nothing was charged."""


class ResumeError(UserError):
    """A run folder that belongs to another study, or holds no usable checkpoint."""


class LedgerError(UserError):
    """A privacy ledger that cannot be written or read, or that disagrees with what is asked of it."""


class Unwitnessed(LedgerError):
    """Releases that were paid for, of which the ledger's witness could not be told: they are not made."""


class WireError(UserError):
    """Bytes that are no message of this version, or a value that no message can carry."""


class GatewayError(UserError):
    """A gateway that cannot be started or reached."""


class TooFewReplies(UserError):
    """A round over a network to which too few owners answered; what was reached before is kept."""


class NoMoreReplies(TooFewReplies):
    """A round over a network that can never be made: too few of its owners may still answer."""


class VoidRound(UserError):
    """A round of a secure sum that is not opened; what was paid for it stays paid."""
