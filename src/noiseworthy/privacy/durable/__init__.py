"""The durable ledger: what every client has spent of its lifetime budget, on disk before noise is drawn.

SQLite and the standard library, without jax: a data owner's gateway uses the same class as a simulation.
"""

from noiseworthy.privacy.durable.accounts import Account, accounts_of
from noiseworthy.privacy.durable.answers import Charge, Grant, Refusal, Resend
from noiseworthy.privacy.durable.chain import Head
from noiseworthy.privacy.durable.ledger import DurableLedger

__all__ = ["Account", "Charge", "DurableLedger", "Grant", "Head", "Refusal", "Resend", "accounts_of"]
