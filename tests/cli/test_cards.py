"""A claim card that somebody answers for: `card sign` and `card verify`."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from noiseworthy.studies.loading import parse_study

FORMATS = {
    "openssh": (Encoding.PEM, PrivateFormat.OpenSSH, Encoding.OpenSSH, PublicFormat.OpenSSH),
    "openssl": (Encoding.PEM, PrivateFormat.PKCS8, Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
}


def keys(folder, name="key", kind="openssh", password=None):
    """A pair of key files, as ssh-keygen or openssl makes them."""
    private = Ed25519PrivateKey.generate()
    lock = NoEncryption() if password is None else BestAvailableEncryption(password)
    encoding, form, public_encoding, public_form = FORMATS[kind]
    (folder / name).write_bytes(private.private_bytes(encoding, form, lock))
    (folder / f"{name}.pub").write_bytes(private.public_key().public_bytes(public_encoding, public_form))
    return folder / name, folder / f"{name}.pub"


@pytest.fixture
def card(tmp_path):
    """A run folder with a card that is valid until tomorrow."""
    folder, tomorrow = tmp_path / "here", datetime.now(UTC).date() + timedelta(days=2)
    folder.mkdir()
    told = {
        "claim": "Epsilon 4.",
        "purpose": "staff",
        "responsible": "Dr. Weber",
        "valid_until": str(tomorrow),
    }
    (folder / "claim_card.json").write_text(json.dumps(told))
    return folder


@pytest.mark.parametrize("kind", FORMATS)
def test_a_signed_card_verifies_with_the_public_key_and_says_what_it_claims(run, card, tmp_path, kind):
    private, public = keys(tmp_path, kind=kind)
    assert run("card", "sign", card, "--key", private).code == 0
    answer = run("card", "verify", card, "--key", public)
    assert answer.code == 0
    for part in ("Claim: Epsilon 4.", "Purpose: staff", "Responsible: Dr. Weber", "unchanged"):
        assert part in answer.out


def test_a_changed_card_another_key_and_a_damaged_signature_are_refused(run, card, tmp_path):
    private, public = keys(tmp_path)
    _, other = keys(tmp_path, "other")
    run("card", "sign", card, "--key", private)
    refused = run("card", "verify", card, "--key", other)
    assert (refused.code, "another key" in refused.err) == (2, True)
    text = (card / "claim_card.json").read_text()
    (card / "claim_card.json").write_text(text.replace("Epsilon 4", "Epsilon 1"))
    assert "was changed since it was signed" in run("card", "verify", card, "--key", public).err
    (card / "claim_card.json").write_text(text)
    (card / "claim_card.sig").write_text("no base64")
    assert run("card", "verify", card, "--key", public).code == 2


def test_a_card_whose_day_has_passed_is_refused_though_it_is_signed(run, card, tmp_path):
    private, public = keys(tmp_path)
    path = card / "claim_card.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "valid_until": "2020-01-01"}))
    run("card", "sign", card, "--key", private)
    refused = run("card", "verify", card, "--key", public)
    assert refused.code == 2
    assert "was valid until 2020-01-01; ask Dr. Weber for another" in refused.err


def test_a_key_with_a_password_asks_for_it(run, card, tmp_path, monkeypatch):
    private, public = keys(tmp_path, kind="openssl", password=b"secret")
    monkeypatch.setattr("typer.prompt", lambda text, hide_input: "secret")
    assert run("card", "sign", card, "--key", private).code == 0
    assert run("card", "verify", card, "--key", public).code == 0
    monkeypatch.setattr("typer.prompt", lambda text, hide_input: "wrong")
    assert "the password is wrong" in run("card", "sign", card, "--key", private).err


def test_mistakes_are_sentences(run, card, tmp_path):
    private, public = keys(tmp_path)
    curve = generate_private_key(SECP256R1())
    (tmp_path / "curve").write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    (tmp_path / "empty").mkdir()
    for arguments, said in (
        (("sign", card, "--key", tmp_path / "none"), "cannot be read"),
        (("sign", card, "--key", public), "is no private key"),
        (("sign", card, "--key", tmp_path / "curve"), "is no Ed25519 key"),
        (("sign", tmp_path / "empty", "--key", private), "claim_card.json does not exist"),
        (("verify", card, "--key", private), "is no public Ed25519 key"),
        (("verify", card, "--key", public), "has no claim_card.sig"),
    ):
        answer = run("card", *arguments)
        assert answer.code == 2, answer
        assert said in answer.err
        assert len(answer.err.splitlines()) == 1


def test_a_study_states_the_day_as_a_date_or_as_records_write_it():
    base = {"federation": {"data": "iris", "clients": 3}, "privacy": {"mechanism": "gaussian", "delta": 1e-5}}
    for day in (date(2027, 1, 1), "2027-01-01"):
        assert parse_study({**base, "claim": {"valid_until": day}}).claim.valid_until == date(2027, 1, 1)
    with pytest.raises(Exception, match="valid_until must be a date like 2027-01-01, got 'soon'"):
        parse_study({**base, "claim": {"valid_until": "soon"}})
