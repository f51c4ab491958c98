"""`noiseworthy deploy` as its user types it: owners over TLS, five of MNIST's writers among them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from noiseworthy.deploy.gateway.summing import read_roster
from noiseworthy.deploy.owners import folder_name
from noiseworthy.deploy.rosters import public_line
from noiseworthy.deploy.secure_sum.keys import public_of
from noiseworthy.model.folder import load_folder
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.prices import new_accounts, upload_price
from noiseworthy.studies.record import load_record

from ..studies.test_encoders import STUDY

EXAMPLE = Path(__file__).parents[2] / "examples" / "five_owners.toml"
ROUNDS = 2


def typed(*words: str | Path, folder: Path, code: int = 0) -> str:
    """What a command prints; stdout, or stderr where it fails as expected."""
    command = [sys.executable, "-m", "noiseworthy", *map(str, words)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == code, done.stderr
    return done.stderr if code else done.stdout


BUNDLED = """
[federation]
data = "breast-cancer"
clients = 2
[task]
model = "softmax"
normalise = true
[privacy]
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
clip_norm = 0.5
[algorithm]
rounds = 2
clients_per_round = 2
step_size = 1.0
[constants]
source = "rule"
"""
ENCODED = STUDY.replace("rounds = 12", f"rounds = {ROUNDS}")


@pytest.fixture
def printed(run):
    """What a command that starts no process prints, in this one; stderr where it fails as expected."""

    def call(*words: str | Path, code: int = 0) -> str:
        answer = run(*words)
        assert answer.code == code, answer.err
        return answer.err if code else answer.out

    return call


@pytest.fixture
def bundled(tmp_path) -> Path:
    path = tmp_path / "two.toml"
    path.write_text(BUNDLED)
    return path


@pytest.fixture
def five(tmp_path, data_dir) -> Path:
    """The example, with few records and rounds."""
    text = EXAMPLE.read_text().replace("fraction = 0.1", f'fraction = 0.02\ndata_dir = "{data_dir}"')
    path = tmp_path / "five.toml"
    path.write_text(text.replace("rounds = 20", f"rounds = {ROUNDS}"))
    return path


@pytest.fixture
def encoded(tmp_path, photos) -> Path:
    """Two owners of digits, who run their own copies of an encoder."""
    (tmp_path / "photos.onnx").write_bytes(photos)
    path = tmp_path / "encoded.toml"
    path.write_text(ENCODED)
    return path


@pytest.mark.full
def test_two_owners_train_over_tls_behind_an_encoder_and_their_ledgers_hold_the_plan(
    encoded, tmp_path, printed
):
    trains_over_tls(encoded, tmp_path, printed)
    kept = load_folder(tmp_path / "runs" / encoded.stem / "model")
    assert kept.encoder is not None
    assert kept.encoder.content == (tmp_path / "photos.onnx").read_bytes()


@pytest.mark.slow
@pytest.mark.data
def test_the_five_owners_of_the_example_train_as_the_two(five, tmp_path, printed):
    trains_over_tls(five, tmp_path, printed)


def trains_over_tls(study, tmp_path, printed):
    """What starts processes is one itself; what asks them is typed here."""
    try:
        typed("deploy", "up", study, folder=tmp_path)
        first = json.loads(printed("deploy", "status", study, "--json"))
        typed("deploy", "run", study, folder=tmp_path)
        after = json.loads(printed("deploy", "status", study, "--json"))["owners"]
    finally:
        typed("deploy", "down", study, folder=tmp_path)
    assert first["link"]["runs"]
    assert all(one["gateway"] and one["node"] and one["about"]["spent"] == 0 for one in first["owners"])
    assert all(one["connected"] for one in after)
    assert all(0.999 < one["about"]["spent"] <= 1 for one in after)

    prepared, decision = plan_study(prepare(load_study(study)))
    federation, task = prepared.trained()
    made = tmp_path / "runs" / study.stem
    record = load_record(made)
    assert record["training"]["assurance"] == "grid-csprng"
    assert record["training"]["uploads"] == [[ROUNDS] * len(federation.clients)]
    assert [sum(map(bool, one["answers"].values())) for one in record["network"]["rounds"]] == [0] * ROUNDS
    assert record["training"]["loss"][0][-1] < record["training"]["untrained_loss"]
    assert (made / "network.png").exists()

    accounts = new_accounts(decision.plan, "", federation.name, "", federation.clients)
    price = upload_price(decision.plan, accounts)
    owners = tmp_path / "deployments" / study.stem / "owners"
    assert {one["client"] for one in after} == set(federation.clients)
    for place, name in enumerate(federation.clients):
        with read_ledger(owners / folder_name(name) / "ledger.sqlite") as books:
            rows = books.query("SELECT number, share FROM releases ORDER BY number")
        assert rows == [(k + 1, price.of(place, k)) for k in range(ROUNDS)]
    assert load_folder(made / "model").theta.shape == (task.dimension,)
    for path in owners.iterdir():
        kept = printed("deploy", "model", path / "owner.toml")
        for file in (made / "model").iterdir():
            assert (Path(kept.strip()) / file.name).read_bytes() == file.read_bytes()


def test_what_is_wrong_is_said_in_one_line(bundled, tmp_path, printed):
    """Nothing is up; a patience that is none; a study without noise; sizes alone."""
    for words, said in (
        (("run", bundled), "no superlink of .* start it with noiseworthy deploy up"),
        (("status", bundled), "no owners in .*deploy up"),
        (("run", bundled, "--patience", "-1"), "--patience must be"),
        (("up", bundled, "--insecure", "--host", "far.example"), "insecure connections stay on this machine"),
    ):
        error = printed("deploy", *words, code=2)
        assert len(error.strip().splitlines()) == 1
        assert re.search(said, error)
    bundled.write_text(BUNDLED.replace("gaussian", "none").replace("epsilon = 4.0\ndelta = 1e-5\n", ""))
    assert "without noise" in printed("deploy", "up", bundled, code=2)


def test_the_status_of_a_server_of_several_machines_names_its_keys_and_its_command(
    bundled, tmp_path, printed
):
    """It said to start a deployment with deploy up, which is not how this one is started."""
    from noiseworthy.deploy.flower.keys import make_node_key

    for name in ("north", "south"):
        make_node_key(tmp_path / "ward" / "keys", name)
    words = ("deploy", "status", bundled, "--folder", "ward")
    said = printed(*words)
    assert re.search(r"north\s+elsewhere\s+elsewhere", said)
    assert "deploy link" in " ".join(said.split())
    told = json.loads(printed(*words, "--json"))
    assert told["link"] == {"runs": False, "port": None}
    assert [one["client"] for one in told["owners"]] == ["north", "south"]


def test_owners_whose_files_are_for_other_machines_are_elsewhere(bundled, tmp_path, printed):
    """They were said to be down, also where their nodes are connected."""
    printed("deploy", "up", bundled, "--host", "far.example")
    said = printed("deploy", "status", bundled)
    assert len(re.findall(r"client \d\s+elsewhere\s+elsewhere", said)) == 2
    assert "deploy link" in " ".join(said.split())
    assert "Ledgers stay where they are." in printed("deploy", "down", bundled)


def test_a_model_that_has_not_come_is_said_so(bundled, tmp_path, printed):
    printed("deploy", "up", bundled, "--host", "far.example")
    (file, _) = sorted((tmp_path / "deployments" / "two" / "owners").glob("*/owner.toml"))
    assert "no training has sent its model yet" in printed("deploy", "model", file, code=2)


def test_files_and_commands_for_several_machines_are_written_and_nothing_is_started(
    bundled, tmp_path, printed
):
    said = printed("deploy", "up", bundled, "--host", "far.example")
    place = tmp_path / "deployments" / "two"
    for name in map(folder_name, ("client 0", "client 1")):
        file = place / "owners" / name / "owner.toml"
        assert file.exists()
        assert str(file) in said
        assert 'group = "noiseworthy-asking"' in file.read_text()
        assert "same_user" not in file.read_text()
    assert "noiseworthy deploy units /etc/noiseworthy/owner.toml --link far.example:9092" in said
    assert f"noiseworthy deploy link {place} --host far.example" in said
    assert not (place / "processes.json").exists()


def test_what_is_to_be_typed_next_can_be_typed_whatever_the_folder_is_called(bundled, tmp_path, printed):
    place = tmp_path / "our wards (2)"
    said = printed("deploy", "up", bundled, "--host", "far.example", "--folder", place)
    assert f"noiseworthy deploy link '{place}' --host far.example" in said
    assert f"noiseworthy deploy run {bundled} --folder '{place}'" in said


def test_an_owners_file_that_is_there_is_never_overwritten(bundled, tmp_path, printed):
    printed("deploy", "up", bundled, "--host", "far.example")
    file = tmp_path / "deployments" / "two" / "owners" / folder_name("client 0") / "owner.toml"
    file.write_text(file.read_text().replace("epsilon = 4.0", "epsilon = 1.0"))
    printed("deploy", "up", bundled, "--host", "far.example")
    assert "epsilon = 1.0" in file.read_text()


def test_a_file_of_an_older_version_keeps_its_place_and_its_ledger(bundled, tmp_path, printed):
    """Its folder is called otherwise; another one beside it would hold a second budget."""
    printed("deploy", "up", bundled, "--host", "far.example")
    owners = tmp_path / "deployments" / "two" / "owners"
    (owners / folder_name("client 0")).rename(owners / "client-0")
    said = printed("deploy", "up", bundled, "--host", "far.example")
    assert str(owners / "client-0" / "owner.toml") in said
    assert sorted(file.name for file in owners.iterdir()) == sorted(["client-0", folder_name("client 1")])


def test_names_that_differ_share_no_folder_in_any_writing():
    """Other scripts, slashes, brackets, letters that file systems do not tell apart, names like digests."""
    names = [
        "北京", "上海", "Ward 1", "Ward/1", "ward-1", "ward 1", "WARD-1", "ward--1", "-ward-1",
        "site [north]", "site [south]", "[/red]", "", " ", ".", "..", "a" * 300, "a" * 301, "é", "e\u0301",
        "owner", folder_name("北京"), folder_name("Ward 1"), folder_name("Ward 1").lower(), "\x1b[2J",
    ]  # fmt: skip
    found = [folder_name(name).lower() for name in names]
    assert len(set(found)) == len(names)
    assert all(re.fullmatch("[a-z0-9_]+(-[a-z0-9_]+)*", name) and len(name) < 80 for name in found)
    assert [folder_name(name) for name in ("north", "ward-1", "site_2")] == ["north", "ward-1", "site_2"]


SUMS = BUNDLED.replace("[algorithm]", 'trust = "secure-sum"\n[algorithm]').replace(
    "clients = 2", "clients = 3"
)


def test_a_roster_of_sent_keys_is_that_of_their_owners(tmp_path, printed, run):
    sent, keys = (
        tmp_path / "sent",
        {name: Ed25519PrivateKey.generate() for name in ("north", "south", "east")},
    )
    sent.mkdir()
    for name, key in keys.items():
        (sent / f"{name}.pub").write_text(f"{public_line(key)} somebody@{name}\n")
    files = sorted(sent.glob("*.pub"))
    said = printed("deploy", "roster", tmp_path / "server", *files)
    roster = read_roster(tmp_path / "server" / "roster.toml")
    assert roster.keys == {name: public_of(key) for name, key in keys.items()}
    assert f'digest = "{roster.digest}"' in said
    (sent / "east.pub").write_text("ssh-rsa AAAA")
    assert "error: east.pub holds no Ed25519 key of east" in printed(
        "deploy", "roster", tmp_path / "server", *files, code=2
    )
    assert read_roster(tmp_path / "server" / "roster.toml").digest == roster.digest


@pytest.mark.slow
def test_three_owners_sum_over_tls(tmp_path, printed):
    """Keys, roster, five steps a round and ledgers, as one types it."""
    study = tmp_path / "sums.toml"
    study.write_text(SUMS.replace("clients_per_round = 2", "clients_per_round = 3"))
    try:
        typed("deploy", "up", study, folder=tmp_path)
        typed("deploy", "run", study, folder=tmp_path)
        status = printed("deploy", "status", study)
        after = json.loads(printed("deploy", "status", study, "--json"))["owners"]
    finally:
        typed("deploy", "down", study, folder=tmp_path)
    assert "Secure sums: a roster of 3 owners, digest " in status
    assert all(0.999 < one["about"]["spent"] <= 1 for one in after)
    rounds = load_record(tmp_path / "runs" / "sums")["network"]["rounds"]
    assert [set(one["answers"].values()) for one in rounds] == [{""}] * ROUNDS
