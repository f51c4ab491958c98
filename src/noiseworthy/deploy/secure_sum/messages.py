"""What passes between a server and the owners of a round, and the digests that they agree on."""

import hashlib
from collections.abc import Collection, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from noiseworthy.deploy.gateway import wire
from noiseworthy.deploy.secure_sum.keys import KEY, Roster
from noiseworthy.deploy.secure_sum.letters import Letter, fields, read_all
from noiseworthy.deploy.secure_sum.masks import Words
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import UserError, VoidRound

Step = Literal["keys", "shares", "upload", "survivors", "opened"]
"""What a server asks for, by the kind of letter that answers it."""
STEPS: tuple[Step, ...] = ("keys", "shares", "upload", "survivors", "opened")

_ASKED = {"ask": str, "terms": bytes, "content": object}
_TERMS = {
    "run": str, "round": int, "roster": str, "cohort": tuple, "colluders": int, "dropouts": int,
    "coordinates": int, "exponent": int, "clipped": int, "deviation": float, "subject": str, "share": float,
}  # fmt: skip
OF_KEYS = {"channel": bytes, "pair": bytes, "commitment": bytes}
OF_SHARES = {"context": bytes, "sealed": dict}
OF_UPLOAD = {"context": bytes, "senders": list, "digest": bytes}
OF_SURVIVORS = {"list": bytes}
OF_OPENED = {"list": bytes, "shares": dict}


class Asked(NamedTuple):
    """A message of the server.

    Attributes:
        step: what is asked for.
        terms: digest of the terms of the round.
        content: terms, letters, or sealed shares by sender.
    """

    step: str
    terms: bytes
    content: Any


def pack_asked(step: Step, terms: Terms, content: Any) -> bytes:
    """A message of the server to an owner."""
    return wire.pack({"ask": step, "terms": terms.digest, "content": content})


def read_asked(data: bytes) -> Asked:
    """A message of the server; what its content is, is looked at when it is used.

    Raises:
        UserError: no such message.
    """
    value = wire.unpack(data)
    if not isinstance(value, dict) or value.keys() != _ASKED.keys():
        raise VoidRound("a message of the server has other parts than it must have")
    plain = fields({name: value[name] for name in ("ask", "terms")}, {"ask": str, "terms": bytes})
    return Asked(plain["ask"], plain["terms"], value["content"])


def read_terms(data: bytes) -> Terms:
    """The terms of a message that begins a round.

    Raises:
        UserError: no such message, or terms that cannot be sound.
    """
    asked = read_asked(data)
    if asked.step != "keys":
        raise VoidRound(f"the server asks for {asked.step!r} of a round that was not begun here")
    terms = Terms(**fields(asked.content, _TERMS))
    if terms.digest != asked.terms:
        raise VoidRound("the terms of the round are not those of their digest")
    return terms


def read_keys(letters: Any, terms: Terms, roster: Roster) -> dict[str, Letter]:
    """The keys of the owners of a round, as many as may sum.

    Raises:
        UserError: letters that are none, keys of other lengths, too few owners.
    """
    found = read_all(_list(letters), "keys", terms, roster, OF_KEYS)
    for letter in found.values():
        check_lengths(letter.body, letter.sender)
    check_enough(found, terms, "sent keys")
    return found


def check_lengths(keys: Mapping[str, bytes], owner: str) -> None:
    """Refuse keys and secret shares that are not 32 bytes long."""
    if any(type(one) is not bytes or len(one) != KEY for one in keys.values()):
        raise VoidRound(f"a key or a secret share of {owner} has another length than {KEY} bytes")


def read_uploads(letters: Any, terms: Terms, roster: Roster) -> dict[str, Letter]:
    """The letters that came with the masked uploads of survivors.

    Raises:
        UserError: letters that are none, or too few.
    """
    found = read_all(_list(letters), "upload", terms, roster, OF_UPLOAD)
    check_enough(found, terms, "uploaded")
    return found


def read_signatures(letters: Any, terms: Terms, roster: Roster, survivors: bytes) -> dict[str, Letter]:
    """Signatures of owners under one list of survivors.

    Args:
        letters: of the owners.
        terms: of the round.
        roster: with the owners' keys.
        survivors: digest of the list that they must all have signed.

    Raises:
        UserError: another list, or too few signatures.
    """
    found = read_all(_list(letters), "survivors", terms, roster, OF_SURVIVORS)
    for letter in found.values():
        if letter.body["list"] != survivors:
            raise VoidRound(f"{letter.sender} signed another list of survivors")
    if len(found) < terms.threshold:
        raise VoidRound(f"{len(found)} owners signed the list of survivors, at least {terms.threshold} must")
    return found


def check_enough(owners: Collection[str], terms: Terms, did: str) -> None:
    """Refuse fewer owners than the noise was sized for."""
    if len(owners) < terms.fewest:
        told = f"{len(owners)} of {len(terms.cohort)} owners {did}"
        raise VoidRound(f"{told}, at least {terms.fewest} must; nothing is opened")


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise VoidRound("a list of letters is none")
    return value


def context_of(terms: Terms, keys: Mapping[str, Letter]) -> bytes:
    """Digest of the terms and of everybody's keys: all that is derived and signed from then on has it."""
    letters = [letter.packed for letter in keys.values()]
    return hashlib.sha256(wire.pack(["noiseworthy keys 1", terms.digest, letters])).digest()


def list_of(terms: Terms, context: bytes, uploads: Mapping[str, Letter]) -> bytes:
    """Digest of a list of survivors, with what each of them signed when it uploaded."""
    letters = [letter.packed for letter in uploads.values()]
    return hashlib.sha256(wire.pack(["noiseworthy survivors 1", terms.digest, context, letters])).digest()


def associated(terms: Terms, context: bytes, sender: str, receiver: str) -> bytes:
    """What the secret shares of an owner for another one belong to."""
    return wire.pack(["noiseworthy shares 1", terms.run, terms.round, context, sender, receiver])


def digest_of(words: Words) -> bytes:
    """Of a masked upload."""
    return hashlib.sha256(words.astype("<u8").tobytes()).digest()


def pack_upload(letter: Letter, words: Words) -> bytes:
    """A masked upload with the letter that answers for it."""
    return wire.pack({"letter": letter.packed, "words": words})


def read_upload(data: bytes) -> tuple[bytes, Words]:
    """Letter and words of a masked upload, which nobody has looked at yet.

    Raises:
        UserError: no such message.
    """
    value = fields(wire.unpack(data), {"letter": bytes, "words": np.ndarray})
    if value["words"].dtype != np.uint64 or value["words"].ndim != 1:
        raise VoidRound("a masked upload is no list of numbers modulo 2^64")
    return value["letter"], value["words"]


def sentence(error: UserError) -> str:
    """What went wrong, on one line."""
    return " ".join(str(error).split())
