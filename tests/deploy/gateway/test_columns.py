"""Owners, server and plan read columns alike: the same schema at every owner, told by its digest."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import numpy as np
import pytest
import tomli_w

from noiseworthy.cli.gateways import _check_plan
from noiseworthy.data.owners import write_owners
from noiseworthy.data.schema import Schema
from noiseworthy.data.terms import OwnerTerms
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.client import pack_about, packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Request, Uploaded, pack_reply, read_reply
from noiseworthy.deploy.gateway.models import ModelOffer
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.owners import owner_tables, write_owner_files
from noiseworthy.errors import ConfigError, DataError, GatewayError
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import FILE, planned
from noiseworthy.studies.prepare import prepare

from .conftest import asked
from .test_models import description

COLUMNS = {
    "hospital": {"role": "client"},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [20, 80]},
    "sex": {"kind": "category", "values": ["female", "male"], "missing": True},
}
OTHER = {**COLUMNS, "age": {"kind": "number", "range": [20, 90]}}
SCHEMA = Schema.model_validate(COLUMNS)
TABLES = {
    "owner": {"client": "north", "data_set": "wards"},
    "federation": {"data": "north.csv", "clients": 1},
    "budget": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-5, "noise_floor": 0.01},
    "allowed": {"algorithms": ["fedsgd-dpc"], "models": ["logistic"], "most_releases": 9},
    "files": {"socket": "g.sock", "ledger": "ledger.sqlite"},
}
STUDY = {
    "task": {"model": "logistic", "bias": 0.0},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-5, "clip_norm": 1.0},
    "algorithm": {"rounds": 3, "clients_per_round": 2, "step_size": 1.0, "momentum": 0.0,
                  "averaging": 0.0, "weighting": 0.0},
}  # fmt: skip
ROWS = 20


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An owner's table has no column of hospitals, and one that only this owner has: left out."""
    monkeypatch.chdir(tmp_path)
    rows = [f"{20 + 3 * i},{['male', 'female', ''][i % 3]},{['no', 'yes'][i % 2]}" for i in range(ROWS)]
    (tmp_path / "north.csv").write_text("age,sex,ill\n" + "\n".join(rows) + "\n")
    (tmp_path / "test.csv").write_text("ill,sex,age\nno,male,50\nyes,,80\n")
    return tmp_path


def owner_in(folder: Path, columns: object = COLUMNS, **tables):
    raw = {**TABLES, **tables} if columns is None else {"columns": columns, **TABLES, **tables}
    (folder / "owner.toml").write_text(tomli_w.dumps(raw))
    return load_owner(folder / "owner.toml")


def about(folder: Path, columns: object = COLUMNS):
    with Gateway.open(owner_in(folder, columns)) as gateway:
        return read_reply(gateway.answer(pack_about()))


def study_of(folder: Path, owners: list[OwnerTerms], columns: object = COLUMNS):
    write_owners(folder / "owners.json", owners)
    stated = {} if columns is None else {"columns": columns}
    federation = {"data": "owners:owners.json", "test": "test.csv"}
    return prepare(parse_study({"federation": federation, **STUDY, **stated}))


def test_an_owners_records_are_encoded_as_everybodys_and_its_terms_tell_so(folder):
    with Gateway.open(owner_in(folder)) as gateway:
        ages = np.minimum(20 + 3 * np.arange(ROWS), 80)
        np.testing.assert_allclose(gateway.holding.x[:, 0], (ages - 50) / 30, rtol=1e-6)
        assert gateway.holding.x[2].tolist()[1:] == [0, 0, 1]
        told = gateway.about
    assert (told.record_shape, told.classes, told.columns) == ((4,), 2, SCHEMA.digest)
    assert told.labels is None  # the digest covers them


def test_columns_may_lie_in_a_file_beside_the_owners(folder):
    (folder / "columns.toml").write_text(tomli_w.dumps({"columns": COLUMNS}))
    assert owner_in(folder, "columns.toml").columns == SCHEMA


def test_a_gateway_with_columns_answers_requests(folder):
    with Gateway.open(owner_in(folder)) as gateway:
        wanted = Request(
            run="wards", release=1, algorithm=FedSGDWork(), theta=np.zeros(4, np.float32), clip_norm=1.0,
            task={"model": "logistic"}, mechanism="gaussian", noise=1.0, deadline=time.time() + 600,
        )  # fmt: skip
        assert isinstance(asked(gateway, wanted), Uploaded)


@pytest.mark.parametrize(
    ("schema", "says"),
    [
        (COLUMNS, ""),
        (OTHER, "the owner's file has [columns] with the digest"),
        ({"pulse" if name == "age" else name: one for name, one in COLUMNS.items()}, "the study's have"),
        (None, "the study has none"),
    ],
    ids=["the owner's", "another range", "another name", "none"],
)
def test_a_model_of_other_columns_than_the_owners_is_not_kept(folder, schema, says):
    """It fits by its shape alone, and would read others, or none, where it is tuned."""
    stated = schema and Schema.model_validate(schema).model_dump(mode="json")
    task = {"model": "logistic", "feature_norm": 1.0, "bias": 0.0}
    model = description(record_shape=[4], classes=["no", "yes"], schema=stated, task=task)
    with Gateway.open(owner_in(folder)) as gateway:
        gateway.ledger.begin("wards")
        offer = ModelOffer(run="wards", description=model, theta=np.zeros(4, np.float32))
        reply = read_reply(gateway.answer(packed(offer)))
    assert says in getattr(reply, "message", "")
    assert (folder / "models" / "wards").exists() == (schema is COLUMNS)


@pytest.mark.parametrize(
    ("columns", "federation", "message"),
    [
        ({**COLUMNS, "age": {"kind": "numbr"}}, {}, r"\[columns\] age: kind must be one of"),
        ({**COLUMNS, "age": {"kind": "number", "range": {"buy": [0, 120]}}}, {}, "age: ranges are bought"),
        (COLUMNS, {"classes": ["no", "yes"]}, r"classes beside \[columns\]"),
        (COLUMNS, {"data": "digits"}, r"\[columns\] goes with a table"),
        ("gone.toml", {}, "gone.toml does not exist"),
    ],
)
def test_an_owners_file_with_wrong_columns_is_refused(folder, columns, federation, message):
    with pytest.raises(ConfigError, match=message):
        owner_in(folder, columns, federation={**TABLES["federation"], **federation})


def test_the_server_encodes_its_test_table_by_the_schema_of_the_owners(folder):
    prepared = study_of(folder, [about(folder)])
    federation, _ = prepared.trained()
    assert (federation.schema, federation.record_shape, federation.classes) == (SCHEMA, (4,), 2)
    np.testing.assert_array_equal(federation.test_x, [[0, 0, 1, 0], [1, 0, 0, 1]])
    np.testing.assert_array_equal(federation.test_y, [0, 1])


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        (COLUMNS, OTHER, r"north's file has \[columns\] with the digest .*, the study's have the digest"),
        (
            COLUMNS,
            None,
            r"north's file has \[columns\] with the digest .*, the study has none; state the same",
        ),
        (None, COLUMNS, r"north's file has no \[columns\], the study's have the digest"),
    ],
)
def test_columns_that_differ_are_refused_by_name_before_anything_is_planned(folder, theirs, ours, message):
    told = about(folder).model_copy(update={"columns": theirs and Schema.model_validate(theirs).digest})
    with pytest.raises(DataError, match=message):
        study_of(folder, [told], ours)


def test_owners_of_one_training_state_the_same_columns(folder):
    told = about(folder)
    south = told.model_copy(update={"client": "south", "columns": "0" * 64})
    with pytest.raises(DataError, match=r"owners\.json: south's file has \[columns\] with the digest 000"):
        study_of(folder, [told, south])


def test_an_owner_who_has_changed_its_columns_since_is_refused_before_anything_is_paid(folder):
    """The ranges were widened after planning: 60 years would be another number, of the same width."""
    told = about(folder)
    south = told.model_copy(update={"client": "south"})
    prepared = study_of(folder, [told, south])
    made = planned(prepared)
    deployment = Deployment.of(prepared, made.plan)
    deployment.check_owners([told, south])
    changed = told.model_copy(update={"columns": Schema.model_validate(OTHER).digest})
    with pytest.raises(GatewayError, match=r"north's file has \[columns\] with the digest"):
        deployment.check_owners([changed, south])
    made.file.save(folder)
    with Gateway.open(owner_in(folder)) as gateway:
        _check_plan(folder / FILE, gateway)
    (folder / "ledger.sqlite").unlink()
    with (
        Gateway.open(owner_in(folder, OTHER)) as gateway,
        pytest.raises(GatewayError, match=r"north's file has \[columns\]"),
    ):
        _check_plan(folder / FILE, gateway)


def test_a_study_writes_its_columns_into_the_files_of_its_owners(folder):
    rows = [f"{site},{20 + 3 * i},male,{['no', 'yes'][i % 2]}" for i in range(12) for site in ("a", "b")]
    (folder / "wards.csv").write_text("hospital,age,sex,ill\n" + "\n".join(rows) + "\n")
    prepared = prepare(parse_study({"federation": {"data": "wards.csv"}, "columns": COLUMNS, **STUDY}))
    deployment = Deployment.of(prepared, planned(prepared).plan)
    for client, path in write_owner_files(deployment, folder / "owners").items():
        owner = load_owner(path)
        assert owner.columns == SCHEMA
        with Gateway.open(owner) as gateway:
            place = prepared.names.index(client)
            np.testing.assert_array_equal(
                gateway.holding.x, prepared.trained()[0].x[place, : prepared.sizes[place]]
            )
            deployment._check_records(gateway.about, int(prepared.sizes[place]))


def test_an_owner_s_file_is_there_whole_or_not_at_all(folder, monkeypatch):
    """A cut one was taken for the owner's own, and every later start asked its owner to complete it."""
    rows = [f"{site},{20 + 3 * i},male,{['no', 'yes'][i % 2]}" for i in range(12) for site in ("a", "b")]
    (folder / "wards.csv").write_text("hospital,age,sex,ill\n" + "\n".join(rows) + "\n")
    prepared = prepare(parse_study({"federation": {"data": "wards.csv"}, "columns": COLUMNS, **STUDY}))
    deployment = Deployment.of(prepared, planned(prepared).plan)
    write = Path.write_bytes

    def full(path, data):
        write(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as disk:
        disk.setattr(Path, "write_bytes", full)
        disk.setattr(Path, "write_text", lambda path, text, *_: full(path, text.encode()))
        with pytest.raises(OSError, match="No space"):
            write_owner_files(deployment, folder / "owners")
    files = write_owner_files(deployment, folder / "owners")
    assert [load_owner(path).owner.client for path in files.values()] == ["a", "b"]


@pytest.mark.parametrize("at", [".", "study"])
def test_owners_of_this_machine_find_the_table_beside_a_study_from_anywhere(folder, monkeypatch, at):
    """Stated by a path that starts at the study's file, wherever the commands were typed."""
    place = folder / "study"
    place.mkdir()
    rows = [f"{site},{20 + 3 * i},male,{['no', 'yes'][i % 2]}" for i in range(12) for site in ("a", "b")]
    (place / "wards.csv").write_text("hospital,age,sex,ill\n" + "\n".join(rows) + "\n")
    monkeypatch.chdir(folder / at)
    raw = {"federation": {"data": "wards.csv"}, "columns": COLUMNS, **STUDY}
    prepared = prepare(parse_study(raw).beside(place))
    deployment = Deployment.of(prepared, planned(prepared).plan)
    files = write_owner_files(deployment, folder / "owners")
    monkeypatch.chdir(folder)
    for path in files.values():
        with Gateway.open(load_owner(path)) as gateway:
            assert gateway.holding.size == 10 == prepared.sizes[0]
    assert owner_tables(deployment, "a", apart=True)["federation"]["data"] == "wards.csv"


def test_terms_of_gateways_that_know_of_no_columns_are_read(folder):
    told = about(folder)
    fields = {name: value for name, value in told.model_dump().items() if name != "columns"}
    assert type(told).model_validate(fields).columns is None
    assert read_reply(pack_reply(told)) == told
