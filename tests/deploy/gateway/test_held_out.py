"""Records that an owner holds out: nothing trains on them, models are scored by them, they have a budget."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from noiseworthy.calls.tune import _of_owner
from noiseworthy.cli import app
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import CHANGED, Gateway
from noiseworthy.deploy.gateway.messages import Receipt, Refused, Request, Uploaded
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.errors import ConfigError, DataError, LedgerError
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.methods.score.wire import ScoreWork
from noiseworthy.privacy.durable import Charge, DurableLedger

from .conftest import asked

N = 50
X = np.linspace(-1, 1, N)
RECORDS = pd.DataFrame(
    {"x": X, "z": np.cos(9 * X), "label": np.where(X + 0.3 * np.cos(9 * X) > 0, "yes", "no")}
)
OF_CLASSES: dict[str, Any] = {"classes": ["no", "yes"]}
OF_NUMBERS: dict[str, Any] = {"regression": True}
MODELS = ["logistic", "linear"]
THETA = np.array([1.0, 0.1], np.float32)


def owner_file(
    folder: Path, table: pd.DataFrame = RECORDS, label=OF_CLASSES, **changed: dict[str, Any]
) -> Path:
    table.to_csv(folder / "own.csv", index=False)
    tables: dict[str, dict[str, Any]] = {
        "owner": {"client": "north", "data_set": "wards"},
        "federation": {"data": "own.csv", "clients": 1, **label},
        "budget": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-5, "noise_floor": 0.1},
        "allowed": {
            "algorithms": ["fedsgd-dpc", "score"],
            "models": ["logistic", "linear"],
            "most_releases": 9,
        },
        "files": {"socket": "g.sock", "ledger": "ledger.sqlite"},
    }
    tables = {name: one | changed.get(name, {}) for name, one in tables.items()}
    stated = {name: changed[name] for name in changed.keys() - tables.keys()}
    (folder / "owner.toml").write_text(tomli_w.dumps(tables | stated))
    return folder / "owner.toml"


@pytest.fixture
def gateway(tmp_path) -> Any:
    with Gateway.open(load_owner(owner_file(tmp_path))) as gateway:
        yield gateway


def request(work: Any, release: int = 1, noise: float = 0.3, **changed: Any) -> Request:
    fields: dict[str, Any] = {
        "run": "run", "release": release, "algorithm": work, "task": {"model": "logistic"}, "theta": THETA,
        "mechanism": "gaussian", "clip_norm": 1.0, "noise": noise, "deadline": time.time() + 600,
    }  # fmt: skip
    return Request(**fields | changed)


SCORE = ScoreWork(two_classes=True)


# Which records ------------------------------------------------------------------------------------------


def test_a_fifth_is_held_out_by_place_and_the_rest_trains(gateway):
    """Of the same places whatever the records hold, and no record is in both."""
    held, trained = gateway.scoring.holding, gateway.holding
    assert (trained.size, held.size, gateway.about.records, gateway.about.held_out) == (40, 10, 40, 10)
    assert sorted([*trained.x[:, 0], *held.x[:, 0]]) == sorted(X.astype(np.float32))


def test_the_places_do_not_depend_on_the_records(tmp_path):
    other = RECORDS.assign(x=RECORDS.x[::-1].to_numpy(), label=np.where(X > 0.9, "yes", "no"))
    for name, table in (("one", RECORDS), ("other", other)):
        (tmp_path / name).mkdir()
        table = table.assign(place=np.arange(float(N)))
        with Gateway.open(load_owner(owner_file(tmp_path / name, table))) as gateway:
            places = gateway.scoring.holding.x[:, -1] if gateway.scoring else ()
            assert len(places) == 10
            tmp_path.joinpath(f"{name}.txt").write_text(str([*places]))
    assert (tmp_path / "one.txt").read_text() == (tmp_path / "other.txt").read_text()


def test_records_that_a_column_marks_are_held_out(tmp_path):
    marked = RECORDS.assign(split=np.where(np.arange(N) < 8, "test", "train"))
    with Gateway.open(load_owner(owner_file(tmp_path, marked))) as gateway:
        assert gateway.scoring is not None
        np.testing.assert_allclose(gateway.scoring.holding.x[:, 0], X[:8], rtol=1e-6)
        np.testing.assert_allclose(gateway.holding.x[:, 0], X[8:], rtol=1e-6)


@pytest.mark.parametrize("side", ["train", "test"])
def test_a_table_of_one_part_is_refused(tmp_path, side):
    with pytest.raises(DataError, match=r"has no (train|test) records; bring some, or leave out the column"):
        Gateway.open(load_owner(owner_file(tmp_path, RECORDS.assign(split=side))))


PERSONS = {
    "x": {"kind": "number", "range": [-1, 1]},
    "z": {"kind": "number", "range": [-1, 1]},
    "who": {"role": "person", "at_most": 5},
    "label": {"role": "label", "classes": ["no", "yes"]},
}


def of_persons(folder: Path, split: Any = None) -> Path:
    table = RECORDS.assign(who=np.arange(N) // 5)
    columns = PERSONS if split is None else PERSONS | {"part": {"role": "split"}}
    return owner_file(
        folder, table if split is None else table.assign(part=split), {}, columns=columns,
        budget={"unit": "person"},
    )  # fmt: skip


def test_persons_are_held_out_whole_and_only_where_a_column_says_whom(tmp_path):
    """By rank of their names one who is exchanged could move another from one part to the other."""
    with pytest.raises(DataError, match="names persons, and no column marks whom to hold out; add one of"):
        Gateway.open(load_owner(of_persons(tmp_path)))
    halves = np.where(np.arange(N) < 8, "test", "train")
    with pytest.raises(DataError, match="1 person has records marked 'train' and others marked 'test'"):
        Gateway.open(load_owner(of_persons(tmp_path, halves)))
    with Gateway.open(
        load_owner(of_persons(tmp_path, np.where(np.arange(N) < 10, "test", "train")))
    ) as gateway:
        assert (gateway.about.records, gateway.about.held_out) == (8, 2)


@pytest.mark.parametrize(
    ("tables", "error", "says"),
    [
        ({"budget": {"unit": "client"}}, ConfigError, 'unit = "client" covers .* take score out of'),
        ({"federation": {"clients": 2}}, ConfigError, r"own, with \[federation\] clients = 1"),
    ],
)  # fmt: skip
def test_what_no_part_can_be_held_out_of_is_refused(tmp_path, tables, error, says):
    with pytest.raises(error, match=says):
        Gateway.open(load_owner(owner_file(tmp_path, **tables)))


def test_a_check_of_an_owners_file_counts_what_it_holds_out(tmp_path):
    """It counted all records as training, and let pass what the gateway refuses."""
    path = str(owner_file(tmp_path))
    told = CliRunner().invoke(app, ["check", path])
    assert (told.exit_code, "40 records train, and 10 are held out" in told.output) == (0, True)
    owner_file(tmp_path, parts(0))
    told = CliRunner().invoke(app, ["check", path])
    assert (told.exit_code, "no record is held out for scores; mark some" in told.output) == (1, True)
    of_persons(tmp_path)
    told = CliRunner().invoke(app, ["check", path])
    assert (told.exit_code, "no column marks whom to hold out; add one" in told.output) == (1, True)


# What is told and paid ----------------------------------------------------------------------------------


def truth(gateway: Gateway) -> np.ndarray:
    """What held-out records say, by hand."""
    held = gateway.scoring.holding if gateway.scoring else gateway.holding
    right = np.where((held.x @ THETA > 0) == (held.y == 1), 1.0, -1.0)
    second = np.where(held.y == 1, 1.0, -1.0)
    return np.column_stack([right, second, right * second]).mean(axis=0) / 3**0.5


def test_scores_are_of_held_out_records_and_of_no_others(gateway, silent):
    told = asked(gateway, request(SCORE))
    assert isinstance(told, Uploaded)
    np.testing.assert_allclose(told.upload.values, truth(gateway), atol=1e-5)


@pytest.mark.parametrize("release", [SCORE, FedSGDWork()], ids=["score", "gradient"])
def test_an_exchange_in_one_part_changes_no_release_of_the_other(tmp_path, silent, release):
    """What the two budgets rest on: each part's records are read for its own releases alone."""
    of_score, values = release is SCORE, []
    for exchanged in (False, True):
        folder = tmp_path / str(exchanged)
        folder.mkdir()
        table = RECORDS.assign(split=np.where(np.arange(N) < 10, "test", "train"))
        if exchanged:
            part = table.split == ("train" if of_score else "test")
            table.loc[part, ["x", "z"]] = 0.123
            table.loc[part, "label"] = "yes"
        with Gateway.open(load_owner(owner_file(folder, table))) as gateway:
            told = asked(gateway, request(release))
            assert isinstance(told, Uploaded)
            values.append(told.upload.values)
    assert np.any(values[0])
    np.testing.assert_array_equal(*values)


def test_each_part_has_a_budget_of_its_own(gateway):
    """As large, spent by its own releases; a score asked again comes by the same bytes for nothing."""
    assert isinstance(asked(gateway, request(FedSGDWork())), Uploaded)
    spent, scored = gateway.about.spent, gateway.about.scored
    assert spent > 0
    assert scored == 0
    wanted = request(SCORE)
    first, again = asked(gateway, wanted), asked(gateway, wanted)
    assert first.upload.values.tolist() == again.upload.values.tolist()
    assert gateway.about.spent == spent
    moved = (8 / 3) ** 0.5 / 10 / 0.3  # sqrt(8/3) C / n over the noise
    assert gateway.about.scored == pytest.approx((moved / gateway.account.size) ** 2, rel=1e-5)


def test_a_receipt_says_of_each_part_what_arrived(gateway):
    asked(gateway, request(FedSGDWork()))
    asked(gateway, request(SCORE))
    arrived = []
    for receipt in (Receipt(run="run", received=1), Receipt(run="run", scored=1)):
        gateway.answer(packed(receipt))
        arrived.append([bool(one) for (one,) in gateway.ledger.query("SELECT acknowledged FROM grants")])
    assert arrived == [[True, False], [True, True]]
    assert b"scored" not in packed(Receipt(run="run", received=1))


def test_a_score_beyond_the_budget_of_held_out_records_is_refused_and_training_goes_on(gateway):
    noise = (8 / 3) ** 0.5 / 10 / gateway.account.size * 1.001
    assert isinstance(asked(gateway, request(SCORE, noise=noise)), Uploaded)
    refused = asked(gateway, request(SCORE, 2, noise))
    assert isinstance(refused, Refused)
    assert refused.reason == "budget"
    assert "wards (held out)" in refused.message
    assert isinstance(asked(gateway, request(FedSGDWork())), Uploaded)


def test_scores_keep_to_the_floor_and_to_what_is_allowed(tmp_path, gateway):
    low = asked(gateway, request(SCORE, noise=1e-3))
    assert isinstance(low, Refused)
    assert low.reason == "floor"
    (tmp_path / "other").mkdir()
    path = owner_file(tmp_path / "other", allowed={"algorithms": ["fedsgd-dpc"]})
    with Gateway.open(load_owner(path)) as other:
        refused = asked(other, request(SCORE))
        assert isinstance(refused, Refused)
        assert refused.message.startswith("the owner does not allow algorithm score")
        assert (other.about.held_out, other.about.records) == (None, N)


# That no record is ever in both parts --------------------------------------------------------------------


def parts(count: int) -> pd.DataFrame:
    """The records, of which the first so many are held out."""
    return RECORDS.assign(split=np.where(np.arange(N) < count, "test", "train"))


def released(path: Path, *works: Any, release: int = 1) -> list[str]:
    """What comes of releases: an upload, or why it is refused."""
    with Gateway.open(load_owner(path)) as gateway:
        replies = [asked(gateway, request(work, release)) for work in works]
    return [reply.message if isinstance(reply, Refused) else "upload" for reply in replies]


@pytest.mark.parametrize("first", [SCORE, FedSGDWork()], ids=["score", "gradient"])
def test_a_record_that_moved_to_the_other_part_stops_both(tmp_path, first):
    """Else it would be told of by both budgets, whichever was spent on first: twice what is promised."""
    path = owner_file(tmp_path, parts(10))
    assert released(path, first) == ["upload"]
    owner_file(tmp_path, parts(9))
    assert released(path, SCORE, FedSGDWork(), release=2) == [CHANGED, CHANGED]
    with pytest.raises(LedgerError, match=r"a record that moved to the others would be told of by both; put"):
        Gateway.open(load_owner(path), records_changed=True)
    owner_file(tmp_path, parts(10))
    assert released(path, SCORE, FedSGDWork(), release=2) == ["upload", "upload"]


def test_a_changed_record_of_one_part_stops_both(tmp_path):
    path = owner_file(tmp_path, parts(10))
    assert released(path, SCORE, FedSGDWork()) == ["upload", "upload"]
    owner_file(tmp_path, parts(10).assign(x=np.where(np.arange(N) == 3, 0.5, X)))
    assert released(path, SCORE, FedSGDWork(), release=2) == [CHANGED, CHANGED]


def test_records_that_were_trained_on_are_not_held_out_later(tmp_path):
    path = owner_file(tmp_path, allowed={"algorithms": ["fedsgd-dpc"]})
    assert released(path, FedSGDWork()) == ["upload"]
    owner_file(tmp_path)
    assert released(path, SCORE, FedSGDWork(), release=2) == [CHANGED, CHANGED]
    with pytest.raises(LedgerError, match="put them back, or name another data_set"):
        Gateway.open(load_owner(path), records_changed=True)


def test_records_that_were_held_out_do_not_train_later(tmp_path):
    path = owner_file(tmp_path)
    assert released(path, SCORE) == ["upload"]
    owner_file(tmp_path, allowed={"algorithms": ["fedsgd-dpc"]})
    assert released(path, FedSGDWork()) == [CHANGED]
    with pytest.raises(LedgerError, match="put them back, or name another data_set"):
        Gateway.open(load_owner(path), records_changed=True)


def test_records_that_changed_since_they_trained_are_not_held_out(tmp_path):
    """Rows are marked once all have trained, and taken for the changed ones: each was told of already."""
    path = owner_file(tmp_path, allowed={"algorithms": ["fedsgd-dpc"]})
    assert released(path, FedSGDWork()) == ["upload"]
    owner_file(tmp_path, parts(10), allowed={"algorithms": ["fedsgd-dpc"]})
    with Gateway.open(load_owner(path), records_changed=True) as gateway:
        assert isinstance(asked(gateway, request(FedSGDWork(), 2)), Uploaded)
    owner_file(tmp_path, parts(10))
    with pytest.raises(LedgerError, match="those held out now may be among them; name another data_set"):
        Gateway.open(load_owner(path))
    owner_file(tmp_path, parts(10), allowed={"algorithms": ["fedsgd-dpc"]})
    assert released(path, FedSGDWork(), release=3) == ["upload"]


def test_records_of_a_budget_that_was_spent_before_it_was_bound_are_not_held_out(tmp_path):
    """As in ledgers of earlier versions: nobody knows what was trained on."""
    owner = load_owner(owner_file(tmp_path, parts(10)))
    with closing(DurableLedger.open(tmp_path / "ledger.sqlite")) as ledger:
        (number,) = ledger.enrol([owner.account])
        ledger.reserve(ledger.begin("earlier"), [Charge(number, 1, 100)])
    with pytest.raises(LedgerError, match="those held out now may be among them; name another data_set"):
        Gateway.open(owner)


def test_marked_records_that_never_trained_may_be_scored_later(tmp_path):
    path = owner_file(tmp_path, parts(10), allowed={"algorithms": ["fedsgd-dpc"]})
    assert released(path, FedSGDWork()) == ["upload"]
    owner_file(tmp_path, parts(10))
    assert released(path, SCORE, FedSGDWork(), release=2) == ["upload", "upload"]
    owner_file(tmp_path, parts(9))
    assert released(path, SCORE, FedSGDWork(), release=3) == [CHANGED, CHANGED]
    changed = parts(10).assign(x=np.where(np.arange(N) == 3, 0.5, X))
    owner_file(tmp_path, changed)
    assert released(path, SCORE, release=3) == [CHANGED]


def test_tuning_at_home_tests_on_what_the_gateway_holds_out(tmp_path, gateway):
    """On other records the shared model would be flattered: it was trained on most of them."""
    x, _, is_test, *_ = _of_owner(tmp_path / "owner.toml", cast(Any, SimpleNamespace(classes=["no", "yes"])))
    assert is_test is not None
    np.testing.assert_array_equal(x[is_test], gateway.scoring.holding.x)


# What else there is to predict --------------------------------------------------------------------------


def test_errors_of_numbers_are_told_within_their_reach(tmp_path, silent):
    table = RECORDS.assign(label=2 * X + 0.5)
    table.loc[0, "label"] = 1e6  # beyond any reach: counts as wrong, and as no more
    path = owner_file(tmp_path, table.assign(split=np.where(np.arange(N) < 10, "test", "train")), OF_NUMBERS)
    with Gateway.open(load_owner(path)) as gateway:
        work, linear = ScoreWork(two_classes=False, reach=4.0), {"model": "linear"}
        told = asked(gateway, request(work, task=linear, theta=np.array([2.0, 0.0], np.float32)))
        assert isinstance(told, Uploaded)
        assert told.upload.values == pytest.approx(np.mean([-1] + 9 * [1 - 2 * 0.5 / 4]), abs=1e-4)


def test_a_model_that_overflows_is_wrong_on_every_record(tmp_path, silent):
    """NaN of one record would show through any noise."""
    path = owner_file(tmp_path, parts(10).assign(x=10.0, z=-10.0, label=X), OF_NUMBERS)
    with Gateway.open(load_owner(path)) as gateway:
        work, linear = ScoreWork(two_classes=False, reach=1.0), {"model": "linear"}
        told = asked(gateway, request(work, task=linear, theta=np.array([3e38, 3e38], np.float32)))
        assert told.upload.values == pytest.approx(-1, abs=1e-4)


def test_a_score_that_cannot_be_told_is_not_paid_for(tmp_path):
    """Of classes no error has a reach: what was compiled for none serves another request."""
    with Gateway.open(load_owner(owner_file(tmp_path, allowed={"models": ["softmax"]}))) as gateway:
        of_model: dict[str, Any] = {"task": {"model": "softmax"}, "theta": np.ones(4, np.float32)}
        assert isinstance(asked(gateway, request(ScoreWork(two_classes=False), **of_model)), Uploaded)
        scored = gateway.about.scored
        refused = asked(gateway, request(ScoreWork(two_classes=False, reach=2.0), 2, **of_model))
        assert (refused.reason, gateway.about.scored) == ("fault", scored)


def test_a_person_says_what_its_records_say_on_average(tmp_path, silent):
    """One of two has three records, all unlike, and the other five, which is the most."""
    path = of_persons(tmp_path, np.where(np.arange(N) // 10 == 2, "test", "train"))
    table = pd.read_csv(tmp_path / "own.csv").drop(index=[20, 24])
    table.to_csv(tmp_path / "own.csv", index=False)
    with Gateway.open(load_owner(path)) as gateway:
        told = asked(gateway, request(SCORE, noise=1.0))
    held = table[table.part == "test"]
    right = (held[["x", "z"]].to_numpy() @ THETA > 0) == (held.label == "yes")
    r, c = 2.0 * right - 1, np.where(held.label == "yes", 1.0, -1.0)
    rows = np.column_stack([r, c, r * c]) / 3**0.5
    each = [rows[:3].mean(axis=0), rows[3:].mean(axis=0)]
    assert len(np.unique(rows[:3], axis=0)) == 3
    np.testing.assert_allclose(told.upload.values, np.mean(each, axis=0), atol=1e-5)
