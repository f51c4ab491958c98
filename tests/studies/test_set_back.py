"""A whole budget spent, the ledger of before put back, trained again: refused in a sentence, three ways."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from fractions import Fraction
from pathlib import Path

import pytest
from direct import Direct

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.deployed import train
from noiseworthy.deploy.gateway.client import pack_about
from noiseworthy.deploy.gateway.gateway import PUT_BACK, SET_BACK, Gateway
from noiseworthy.deploy.gateway.messages import About, Request, read_message, read_reply
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.known_ledgers import FILE, KnownLedgers
from noiseworthy.deploy.owners import owner_tables
from noiseworthy.errors import ConfigError, GatewayError, LedgerError, TooFewReplies
from noiseworthy.privacy.durable import Head
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.restoring import accept, back_up, restore
from noiseworthy.privacy.durable.storage import files_of

from .test_deployed import STUDY, deployment_of

DEPLOYMENT = deployment_of()
WITHIN_THE_REST = deployment_of(STUDY.replace("epsilon = 4.0", "epsilon = 1.0"))
NAMES = DEPLOYMENT.federation.clients


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


def ledger_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.sqlite"


@contextmanager
def gateways(folder: Path, *, witnessed: bool = False) -> Iterator[dict[str, Gateway]]:
    """Of all owners, each with a ledger and perhaps a witness of its own."""
    with ExitStack() as opened:
        found = {}
        for name in NAMES:
            files = {"socket": str(folder / "none.sock"), "ledger": str(ledger_of(folder, name))}
            files |= {"witness": str(folder / f"{name}.json")} if witnessed else {}
            owner = Owner.model_validate(owner_tables(DEPLOYMENT, name) | {"files": files})
            found[name] = opened.enter_context(Gateway.open(owner))
        yield found


def told(gateways: dict[str, Gateway]) -> list[About]:
    return [read_reply(gateway.answer(pack_about())) for gateway in gateways.values()]


def trained(opened: dict[str, Gateway], run: Path, known: KnownLedgers | None = None):
    exchange = Direct({name: gateway.answer for name, gateway in opened.items()})
    return train(DEPLOYMENT, exchange, run, patience=10.0, known=known)


def spent(folder: Path) -> list[float]:
    """Parts of all budgets."""
    found = []
    for name in NAMES:
        with read_ledger(ledger_of(folder, name)) as ledger:
            ((shares,),) = ledger.query("SELECT spent FROM accounts")
        found.append(shares / WHOLE)
    return found


def copied_before(folder: Path, **how: bool) -> None:
    """Begin the ledgers, and copy the bare files of the idle gateways."""
    with gateways(folder, **how) as opened:
        for name, gateway in opened.items():
            gateway.rest()
            shutil.copy(ledger_of(folder, name), folder / f"{name}.copy")


def put_back_by_hand(folder: Path) -> None:
    assert min(spent(folder)) > 0.999
    for name in NAMES:
        lost(folder, name)
        shutil.copy(folder / f"{name}.copy", ledger_of(folder, name))
    assert max(spent(folder)) == 0


def lost(folder: Path, name: str) -> None:
    for file in files_of(ledger_of(folder, name)):
        file.unlink()


def test_a_server_that_trained_before_notices_in_its_next_run(tmp_path):
    """Before anything is asked, and by the first request of every owner where nobody looked."""
    copied_before(tmp_path)
    with gateways(tmp_path) as opened:
        abouts = told(opened)
        known = KnownLedgers.of(tmp_path, abouts)
        trained(opened, tmp_path / "first", known)
        known.note(told(opened))
    put_back_by_hand(tmp_path)
    with gateways(tmp_path) as opened:
        with pytest.raises(GatewayError, match=r"client 0 told that .*now tells 0\.0000%.*set back"):
            KnownLedgers.of(tmp_path, told(opened))
        unlooked = KnownLedgers(tmp_path / FILE, dict.fromkeys(NAMES, abouts[0].data_set))
        assert sorted(unlooked.heads()) == sorted(NAMES)
        with pytest.raises(GatewayError, match="not all owners hold the price") as refused:
            trained(opened, tmp_path / "second", unlooked)
        assert str(refused.value).count(SET_BACK) == 4
        assert max(spent(tmp_path)) == 0
        trained(opened, tmp_path / "by who knows nothing")  # what all of this is for
        assert min(spent(tmp_path)) > 0.999


def test_a_witness_notices_before_the_gateway_starts(tmp_path):
    copied_before(tmp_path, witnessed=True)
    with gateways(tmp_path, witnessed=True) as opened:
        trained(opened, tmp_path / "first")
    put_back_by_hand(tmp_path)
    with (
        pytest.raises(LedgerError, match=r"client 0\.sqlite lacks what its witness .*json saw"),
        gateways(tmp_path, witnessed=True),
    ):
        pass


def test_a_ledger_that_was_restored_by_command_waits_for_its_owner(tmp_path):
    """Even where the server knows nothing; then all that is left counts as spent."""
    with gateways(tmp_path) as opened:
        for name, gateway in opened.items():
            back_up(gateway.ledger, tmp_path / f"{name}.copy")
        trained(opened, tmp_path / "first")
    for name in NAMES:
        lost(tmp_path, name)
        restore(tmp_path / f"{name}.copy", ledger_of(tmp_path, name))
    with gateways(tmp_path) as opened:
        DEPLOYMENT.check_owners(told(opened))
        with pytest.raises(GatewayError, match="not all owners hold the price") as refused:
            trained(opened, tmp_path / "second")
        assert str(refused.value).count(PUT_BACK) == 4
        for name in NAMES:
            accept(ledger_of(tmp_path, name))
        with pytest.raises(GatewayError, match=r"client 0 has 0\.0% left of epsilon 4"):
            DEPLOYMENT.check_owners(told(opened))
    assert min(spent(tmp_path)) >= 1


@pytest.mark.full
def test_an_owner_that_said_what_was_spent_is_asked_again_and_watched_again(tmp_path):
    """The head that the server knows is let go once; the next one is known instead."""
    copied_before(tmp_path)
    with gateways(tmp_path) as opened:
        known = KnownLedgers.of(tmp_path, told(opened))
        answers = Direct({name: limited(gateway, 1) for name, gateway in opened.items()})
        with pytest.raises(TooFewReplies, match="round 2"):
            train(DEPLOYMENT, answers, tmp_path / "run", patience=5.0, known=known)
    before, heads = spent(tmp_path), known.heads()
    for name in NAMES:
        lost(tmp_path, name)
        shutil.copy(tmp_path / f"{name}.copy", ledger_of(tmp_path, name))
        accept(ledger_of(tmp_path, name), Fraction(1, 2), lost=[Head.read(heads[name])])
    with gateways(tmp_path) as opened:
        again = KnownLedgers.of(tmp_path, told(opened))
        with pytest.raises(GatewayError, match="has spent 50 % of its lifetime budget"):
            trained(opened, tmp_path / "second", again)
        owners = Direct({name: gateway.answer for name, gateway in opened.items()})
        train(WITHIN_THE_REST, owners, tmp_path / "third", patience=10.0, known=again)
    assert all(0.1 < part < 0.5 for part in before)
    assert min(spent(tmp_path)) > 0.5
    assert not set(again.heads().values()) & set(heads.values())


def limited(gateway: Gateway, times: int):
    """A gateway that makes so many releases."""

    def answer(data: bytes) -> bytes:
        message = read_message(data)
        if isinstance(message, Request) and message.release > times:
            raise GatewayError("it went away")
        return gateway.answer(data)

    return answer


def test_another_data_set_of_an_owner_has_a_head_of_its_own(tmp_path):
    with gateways(tmp_path) as opened:
        abouts = told(opened)
    known = KnownLedgers.of(tmp_path, abouts)
    known.keep(dict.fromkeys(NAMES, "3:" + 64 * "a"))
    other = [about.model_copy(update={"data_set": "of next year"}) for about in abouts]
    assert KnownLedgers.of(tmp_path, other).heads() == {}
    assert KnownLedgers.of(tmp_path, abouts).heads() == dict.fromkeys(NAMES, "3:" + 64 * "a")


def test_what_is_no_head_is_not_kept_for_the_next_run(tmp_path):
    """An owner may tell anything; a request that carries it could not be made, in any run."""
    with gateways(tmp_path) as opened:
        known = KnownLedgers.of(tmp_path, told(opened))
    good = "3:" + 64 * "a"
    known.keep(dict.fromkeys(NAMES, good))
    known.keep({NAMES[0]: "not a head", NAMES[1]: "9" * 19 + ":" + 64 * "a", "a stranger": good})
    assert known.heads() == dict.fromkeys(NAMES, good)


@pytest.mark.parametrize("text", ["", "[]", '{"client 0": 3}', '{"client 0": {"x": {"head": "none"}}}'])
def test_a_file_that_was_changed_is_named(text, tmp_path):
    (tmp_path / FILE).write_text(text)
    with pytest.raises(ConfigError, match=r"ledgers\.json cannot be read or was changed"):
        KnownLedgers(tmp_path / FILE, {"client 0": "x"}).heads()
