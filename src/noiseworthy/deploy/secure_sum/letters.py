"""Letters: what an owner says in a round, under its signature; the server passes them on as they are."""

from dataclasses import dataclass
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import VoidRound

Kind = Literal["keys", "shares", "upload", "survivors", "opened"]
_LABEL = b"noiseworthy secure sum letter 1\0"
_CONTENT = {"kind": str, "terms": bytes, "sender": str, "body": dict}


@dataclass(frozen=True)
class Letter:
    """What an owner signed.

    Attributes:
        sender: the owner.
        body: what it says, by name.
        packed: as it is sent: content and signature.
    """

    sender: str
    body: dict[str, Any]
    packed: bytes


def written(kind: Kind, sender: str, terms: Terms, body: dict[str, Any], key: Ed25519PrivateKey) -> Letter:
    """A letter of an owner.

    Args:
        kind: of the letter.
        sender: the owner.
        terms: of the round, which the signature covers.
        body: what it says.
        key: of the owner.
    """
    content = wire.pack({"kind": kind, "terms": terms.digest, "sender": sender, "body": body})
    return Letter(sender, body, wire.pack({"content": content, "signature": key.sign(_LABEL + content)}))


def read(data: bytes, kind: Kind, terms: Terms, roster: Roster, body: dict[str, type]) -> Letter:
    """A letter of an owner of the cohort, whose signature was checked.

    Args:
        data: as it came, from whomever.
        kind: that it must be.
        terms: of the round that it must belong to.
        roster: with the owners' keys.
        body: types of what it must say, by name.

    Raises:
        VoidRound: anything else, in one sentence.
    """
    outer = fields(wire.unpack(data), {"content": bytes, "signature": bytes})
    content = fields(wire.unpack(outer["content"]), _CONTENT)
    if content["sender"] not in terms.cohort:
        raise VoidRound("a letter is of nobody of this cohort")
    roster.check(content["sender"], outer["signature"], _LABEL + outer["content"])
    if content["terms"] != terms.digest:
        raise VoidRound(f"a letter of {content['sender']} belongs to other terms or to another round")
    if content["kind"] != kind:
        raise VoidRound(f"a letter of {content['sender']} says {content['kind']!r} where {kind!r} is due")
    return Letter(content["sender"], fields(content["body"], body), data)


def read_all(
    letters: list[Any], kind: Kind, terms: Terms, roster: Roster, body: dict[str, type]
) -> dict[str, Letter]:
    """Letters of different owners, by owner in the order of the cohort.

    Raises:
        VoidRound: one that is none, or two of one owner.
    """
    if not all(isinstance(one, bytes) for one in letters) or len(letters) > len(terms.cohort):
        raise VoidRound("a list of letters holds something else")
    found = {(letter := read(one, kind, terms, roster, body)).sender: letter for one in letters}
    if len(found) < len(letters):
        raise VoidRound("an owner is listed twice")
    return {name: found[name] for name in terms.cohort if name in found}


def fields(value: Any, types: dict[str, type]) -> dict[str, Any]:
    """A dictionary with exactly these entries of these types; what is listed in them is text.

    Raises:
        VoidRound: anything else.
    """
    if not isinstance(value, dict) or value.keys() != types.keys():
        raise VoidRound("a message has other parts than it must have")
    for part, kind in ((value[name], kind) for name, kind in types.items()):
        # what is listed is compared later, and an array among it raises no VoidRound there: it would end a
        # server's training, not one owner's part in a round
        names = part if kind in (list, tuple) else ()
        if type(part) is not kind or any(type(one) is not str for one in names):
            raise VoidRound("a part of a message is of another type than it must be")
    return value
