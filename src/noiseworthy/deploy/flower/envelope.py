"""How bytes lie in a Flower message: one record with one entry."""

import os
from typing import TypeAlias

from flwr.app import ConfigRecord, Message, RecordDict

Fault: TypeAlias = str
"""One of the fixed sentences of a node's app."""
NO_GATEWAY: Fault = "no gateway answers at this node's socket"
APP_FAILED: Fault = "this node's app failed"

_RECORD = "gateway"


def enclosed(data: bytes, *, unguessable: bool = False) -> RecordDict:
    """A message or reply of a gateway.

    Args:
        data: of it.
        unguessable: adds random bytes. Flower names a message by what is in it, and takes a reply by that
            name from any node; of a name that it cannot guess, only who was asked can know.
    """
    mark = {"mark": os.urandom(16)} if unguessable else {}
    return RecordDict({_RECORD: ConfigRecord({"data": data, **mark})})


def failed(fault: Fault) -> RecordDict:
    """No reply, and a fixed sentence why."""
    return RecordDict({_RECORD: ConfigRecord({"fault": fault})})


def opened(message: Message) -> bytes:
    """The bytes of a message; of what is none, the fault that it states.

    Raises:
        LookupError: it holds no bytes; the sentence is the node's fault, if it is one that an app may state.
    """
    record = message.content.config_records.get(_RECORD, ConfigRecord())
    data, fault = record.get("data"), record.get("fault")
    if isinstance(data, bytes):
        return data
    raise LookupError(fault if fault in (NO_GATEWAY, APP_FAILED) else "it holds no message")
