"""An app of one's own under the mod: clipped, noised, paid before; nothing else leaves, nothing unpaid."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn.datasets import load_digits

from in_process_grid import InProcessGrid
from noiseworthy.deploy.flower import mod
from noiseworthy.deploy.flower.mod import Model, Terms, load_terms, pay_and_noise
from noiseworthy.errors import ConfigError
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import DurableLedger
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.leases import lease
from noiseworthy.privacy.durable.reading import read_ledger
from noiseworthy.privacy.durable.witness import Witness
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon

OWNER = {
    "client": "north",
    "data_set": "digits",
    "ledger": "ledger.sqlite",
    "mechanism": "gaussian",
    "epsilon": 8.0,
    "delta": 1e-5,
    "clip_norm": 1.0,
    "noise": 4.0,
}
IMAGES, LABELS = load_digits(return_X_y=True)
START = {"weights": np.zeros((64, 10), np.float32), "bias": np.ones(10), "steps": np.array(7)}


def written(path, **changed):
    lines = [f"{name} = {value!r}" for name, value in (OWNER | changed).items() if value is not None]
    path.write_text("\n".join(lines).replace("'", '"'))
    return path


@pytest.fixture
def terms(tmp_path):
    return written(tmp_path / "owner.toml")


def class_means(weights):
    """What a train function may do with real digits: add the mean image of each class."""
    means = [IMAGES[digit == LABELS].mean(axis=0) for digit in range(10)]
    return weights + np.array(means, np.float32).T


class Trainer:
    """An app whose train function is the test's."""

    def __init__(self, terms, train=None):
        self.calls, self.train = (
            0,
            train or (lambda arrays: arrays | {"weights": class_means(arrays["weights"])}),
        )
        app = ClientApp(mods=[pay_and_noise])
        app.train()(self._fit)
        app.evaluate()(self._fit)
        app.query()(self._fit)
        self.grid = InProcessGrid(app, {7: {"terms": str(terms)}})

    def _fit(self, message, context):
        self.calls += 1
        arrays = {name: array.numpy() for name, array in message.content["model"].items()}
        content = {
            "model": record(self.train(arrays)),
            "loss of record 17": MetricRecord({"num-examples": 93, "loss": 0.5}),
            "notes": ConfigRecord({"worst": "record 17"}),
        }
        return Message(RecordDict(content), reply_to=message)

    def asked(self, arrays=START, kind="train"):
        content = RecordDict({"model": record(arrays), "config": ConfigRecord({"lr": 0.1})})
        (reply,) = self.grid.send_and_receive([Message(content, 7, kind)])
        return reply


def record(arrays):
    made = ArrayRecord(list(arrays.values()))
    return ArrayRecord(dict(zip(arrays, made.values(), strict=True)))


def arrays_of(reply):
    return {name: array.numpy() for name, array in reply.content["model"].items()}


def spent(path):
    with read_ledger(path.parent / "ledger.sqlite") as ledger:
        return ledger.query("SELECT count(*) FROM releases")[0][0]


def test_the_whole_update_is_clipped_and_not_its_parts(terms, silent):
    """Against plain NumPy: one factor for weights and bias together."""
    reply = Trainer(
        terms, lambda a: a | {"weights": class_means(a["weights"]), "bias": a["bias"] - 50}
    ).asked()
    update = np.concatenate([class_means(START["weights"]).ravel().astype(float), np.full(10, -50.0)])
    wanted = update / np.linalg.norm(update)
    got = arrays_of(reply)
    np.testing.assert_allclose(got["weights"].ravel(), wanted[:640], atol=1e-6)
    np.testing.assert_allclose(got["bias"] - 1, wanted[640:], atol=1e-12)
    moved = np.concatenate([(got[name].astype(float) - START[name]).ravel() for name in ("weights", "bias")])
    assert np.linalg.norm(moved) <= 1 + 1e-6


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("row", [1.7e308, 1e308, -5.6e307, 1e154, 5e-324])
def test_no_float64_contributes_more_than_the_clip_that_is_paid_for(tmp_path, silent, mechanism, row):
    """Laplace noise and rows near 1e308 let an update count 1.77 times its clip."""
    clip = 1.3e-15
    delta = 1e-5 if mechanism == "gaussian" else 0.0
    owner = written(
        tmp_path / "o.toml",
        mechanism=mechanism,
        delta=delta,
        clip_norm=clip,
        noise=4 * clip,
        ledger="l.sqlite",
    )
    start = {"weights": np.zeros(1)}
    got = arrays_of(Trainer(owner, lambda arrays: {"weights": np.array([row])}).asked(start))["weights"]
    assert abs(got[0]) <= clip
    assert silent == [1]


def test_a_small_update_is_left_as_it_is(terms, silent):
    got = arrays_of(Trainer(terms, lambda a: a | {"bias": a["bias"] + 0.01}).asked())
    np.testing.assert_allclose(got["bias"], 1.01, atol=1e-9)
    np.testing.assert_array_equal(got["weights"], 0)


def test_types_shapes_and_names_are_those_that_were_sent(terms):
    got = arrays_of(Trainer(terms).asked())
    assert list(got) == list(START)
    assert [(array.dtype, array.shape) for array in got.values()] == [
        (array.dtype, array.shape) for array in START.values()
    ]


def test_noise_has_the_size_of_the_terms(terms):
    """Chi-square of 650 draws of standard deviation 4; wrong alarm 1e-6 on either side."""
    got = arrays_of(Trainer(terms, dict).asked())
    drawn = np.concatenate([got["weights"].ravel().astype(float), got["bias"] - 1])
    low, high = stats.chi2.interval(1 - 2e-6, drawn.size)
    assert low < np.sum((drawn / 4.0) ** 2) < high


def test_noise_is_new_each_time(terms):
    trainer = Trainer(terms)
    assert not np.array_equal(arrays_of(trainer.asked())["bias"], arrays_of(trainer.asked())["bias"])


def test_only_the_model_and_a_constant_weight_leave(terms):
    """Metrics, names of records and numbers of examples would leave without noise."""
    content = Trainer(terms).asked().content
    assert set(content) == {"model", "metrics"}
    assert dict(content["metrics"]) == {"num-examples": 1}


def test_arrays_of_whole_numbers_come_back_as_they_were_sent(terms):
    """A counter of batches tells the number of records."""
    got = arrays_of(Trainer(terms, lambda a: a | {"steps": a["steps"] + 93}).asked())
    assert got["steps"] == 7


@pytest.mark.parametrize("kind", ["evaluate", "query", "evaluate.loss"])
def test_only_training_is_answered(terms, kind):
    trainer = Trainer(terms)
    trainer.grid.app.evaluate("loss")(trainer._fit)
    reply = trainer.asked(kind=kind)
    assert (reply.error.code, reply.error.reason) == (6, mod.ONLY_TRAINING)
    assert trainer.calls == 0


def test_the_price_is_on_disk_before_training_begins(terms):
    seen = []

    def train(arrays):
        with read_ledger(terms.parent / "ledger.sqlite") as ledger:
            seen.append(ledger.query("SELECT count(*), count(sealed) FROM releases JOIN grants")[0])
        return arrays

    Trainer(terms, train).asked()
    assert seen == [(1, 0)]


def test_the_digest_of_what_left_is_sealed(terms, silent):
    got = arrays_of(Trainer(terms, lambda a: a | {"bias": a["bias"] + 0.25}).asked())
    update = np.concatenate([np.zeros(640), got["bias"] - 1])
    with read_ledger(terms.parent / "ledger.sqlite") as ledger:
        assert ledger.query("SELECT sealed FROM grants") == [(hashlib.sha256(update.tobytes()).digest(),)]


def releases_by_hand(noise, epsilon, delta, clip=1.0):
    """The most Gaussian releases of sensitivity 2C whose exact epsilon stays within the budget."""
    count = 0
    while gaussian_epsilon(np.sqrt(count + 1) * 2 * clip / noise, delta) <= epsilon:
        count += 1
    return count


def test_the_budget_pays_for_so_many_releases_and_no_more(terms):
    wanted = releases_by_hand(4.0, 8.0, 1e-5)
    trainer = Trainer(terms)
    replies = [trainer.asked() for _ in range(wanted + 2)]
    assert [reply.has_error() for reply in replies] == [False] * wanted + [True] * 2
    assert replies[-1].error.code == 6
    assert "north has spent" in replies[-1].error.reason
    assert trainer.calls == wanted == load_terms(terms).releases(650)
    assert spent(terms) == wanted


def test_laplace_noise_is_charged_its_pure_epsilon(tmp_path):
    path = written(tmp_path / "o.toml", mechanism="laplace", epsilon=1.0, delta=None, noise=8.0)
    trainer = Trainer(path)
    assert [trainer.asked().has_error() for _ in range(5)] == [False] * 4 + [True]


def test_a_larger_epsilon_written_later_does_not_raise_the_budget(terms):
    """The ledger keeps what the owner said first."""
    Trainer(terms).asked()
    written(terms, epsilon=80.0)
    trainer = Trainer(terms)
    reply = trainer.asked()
    assert reply.error.reason == mod.NO_TERMS
    assert trainer.calls == 0


def test_two_nodes_with_one_ledger_share_one_budget(terms):
    trainers = [Trainer(terms), Trainer(written(terms.parent / "other.toml"))]
    done = [trainers[turn % 2].asked().has_error() for turn in range(14)]
    assert done == [False] * 11 + [True] * 3


def test_a_budget_that_is_held_for_a_run_is_said_to_be(terms):
    """A gateway of the same budget may share the ledger, and hold all of it for a training."""
    with DurableLedger.open(terms.parent / "ledger.sqlite") as ledger:
        (account,) = ledger.enrol([load_terms(terms).account])
        assert lease(ledger, ledger.begin("a study"), account, WHOLE) is None
    trainer = Trainer(terms)
    reply = trainer.asked()
    assert "100 % is held for other runs" in reply.error.reason
    assert trainer.calls == spent(terms) == 0


def test_a_message_that_comes_twice_is_answered_once(terms):
    trainer = Trainer(terms)
    message = Message(RecordDict({"model": record(START)}), 7, "train")
    first, second = (trainer.grid.send_and_receive([message])[0] for _ in range(2))
    assert not first.has_error()
    assert second.error.reason == mod.ONCE
    assert trainer.calls == spent(terms) == 1


@pytest.mark.parametrize(
    "train",
    [
        lambda arrays: 1 / 0,
        lambda arrays: sys.exit("a record is too large"),
        lambda arrays: {"weights": arrays["weights"]},
        lambda arrays: arrays | {"bias": arrays["bias"][:3]},
        lambda arrays: arrays | {"bias": arrays["bias"] * np.nan},
        lambda arrays: arrays | {"bias": arrays["bias"] * np.inf},
    ],
    ids=["raises", "exits", "lacks an array", "another shape", "NaN", "infinite"],
)
def test_a_train_function_that_fails_is_told_from_none_that_does_not(terms, silent, train):
    """Whether it fails depends on the data; what leaves is the noise on no change, and it is paid for."""
    reply = Trainer(terms, train).asked()
    assert not reply.has_error()
    for name, array in arrays_of(reply).items():
        np.testing.assert_array_equal(array, START[name])
    assert spent(terms) == 1


@pytest.mark.parametrize(
    "arrays",
    [{"steps": np.array(3)}, {"bias": np.array([np.nan])}, {"bias": np.array([np.inf])}],
    ids=["whole numbers", "NaN", "infinite"],
)
def test_models_that_cannot_be_moved_are_refused_unpaid(terms, arrays):
    trainer = Trainer(terms)
    assert trainer.asked(arrays).error.reason == mod.ONE_RECORD
    assert trainer.calls == 0
    assert not (terms.parent / "ledger.sqlite").exists()


def test_two_records_of_arrays_are_refused(terms):
    content = RecordDict({"model": record(START), "other": record(START)})
    (reply,) = Trainer(terms).grid.send_and_receive([Message(content, 7, "train")])
    assert reply.error.reason == mod.ONE_RECORD


@pytest.mark.parametrize(
    "changed",
    [
        {"delta": 0.0}, {"epsilon": 0.0}, {"noise": -1.0}, {"clip_norm": None}, {"mechanism": "none"},
        {"noise": float("inf")}, {"friend": "south"}, {"noise": 1e-12}, {"delta": 1e-300}, {"client": ""},
    ],
    ids=str,
)  # fmt: skip
def test_terms_that_do_not_hold_are_refused_in_one_fixed_sentence(terms, changed):
    trainer = Trainer(written(terms, **changed))
    assert trainer.asked().error.reason == mod.NO_TERMS
    assert trainer.calls == 0


def test_a_missing_file_of_terms_is_refused(tmp_path):
    assert Trainer(tmp_path / "none.toml").asked().error.reason == mod.NO_TERMS
    with pytest.raises(ConfigError, match="does not exist"):
        load_terms(tmp_path / "none.toml")


def test_a_ledger_that_is_none_is_refused(terms):
    (terms.parent / "ledger.sqlite").write_text("not a ledger" * 100)
    trainer = Trainer(terms)
    assert trainer.asked().error.reason == mod.NO_TERMS
    assert trainer.calls == 0


def test_noise_that_cannot_be_drawn_loses_the_release(terms, monkeypatch):
    def broken(*_):
        raise RuntimeError("record 17 is a man of ninety")

    monkeypatch.setattr(DeployedNoise, "added_to", broken)
    assert Trainer(terms).asked().error.reason == mod.LOST
    assert spent(terms) == 1


def test_what_else_goes_wrong_is_told_by_one_fixed_sentence(terms, monkeypatch):
    def broken(*_):
        raise RuntimeError("record 17 is a man of ninety")

    monkeypatch.setattr(Model, "moved", broken)
    assert Trainer(terms).asked().error.reason == mod.FAULT


def test_the_ledger_is_its_owners_alone(terms):
    """And so are the files that SQLite keeps beside it while an app works."""
    seen = {}

    def train(arrays):
        files = terms.parent.glob("ledger.sqlite*")
        seen.update({file.name: stat.S_IMODE(file.stat().st_mode) for file in files})
        return arrays

    before = os.umask(0o022)
    try:
        Trainer(terms, train).asked()
    finally:
        os.umask(before)
    assert seen == dict.fromkeys(["ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm"], 0o600)


def test_a_ledger_that_was_set_back_is_noticed_by_its_witness(terms):
    """Copied before a message, and put back by hand after it."""
    written(terms, witness="witness.json")
    ledger = terms.parent / "ledger.sqlite"
    trainer = Trainer(terms)
    trainer.asked()
    kept = ledger.read_bytes()
    trainer.asked(START | {"bias": np.zeros(10)})
    ledger.write_bytes(kept)
    assert trainer.asked(START | {"bias": np.full(10, 2.0)}).error.reason == mod.NO_TERMS
    assert trainer.calls == 2
    assert spent(terms) == 1


def test_an_update_that_the_witness_cannot_be_told_of_is_lost(terms, monkeypatch):
    written(terms, witness="witness.json")
    trainer = Trainer(terms)
    trainer.asked()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Witness, "heard_by", lambda *_: None)
    monkeypatch.setattr("noiseworthy.privacy.durable.witness.os.fsync", full)
    assert trainer.asked(START | {"bias": np.zeros(10)}).error.reason == mod.LOST
    assert trainer.calls == 1
    assert spent(terms) == 2


def test_flowers_own_averaging_works_with_it_until_the_budget_is_spent(terms, silent):
    """FedAvg weighs replies by num-examples and passes over errors."""
    trainer = Trainer(terms, lambda a: a | {"bias": a["bias"] + 0.125})
    trainer.grid.nodes = {
        node: {"terms": str(written(terms.parent / f"{node}.toml", client=f"owner {node}"))}
        for node in (1, 2)
    }
    strategy = FedAvg(fraction_evaluate=0.0, arrayrecord_key="model")
    result = strategy.start(trainer.grid, record(START), num_rounds=12)
    np.testing.assert_allclose(result.arrays["bias"].numpy(), 1 + 11 * 0.125, atol=1e-9)


@pytest.mark.slow
def test_the_example_learns_and_ends_with_its_budget():
    """Accuracy over 40 draws is 0.74 with standard deviation 0.06; 0.5 is a false alarm once in 30,000."""
    path = Path(__file__).parents[3] / "examples" / "flower_app_of_your_own.py"
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=200, check=True
    )
    (accuracy,) = re.findall(r"test accuracy (0\.\d+) after 2 rounds; the third was refused", done.stdout)
    assert float(accuracy) > 0.5


shapes = st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=1, max_size=4)


@given(shapes, st.integers(0, 2**32 - 1))
def test_what_is_taken_apart_is_put_together_again(sizes, seed):
    """difference and moved are each other's inverse, for any shapes, in double precision."""
    rng = np.random.default_rng(seed)
    old = {str(i): rng.normal(size=size) for i, size in enumerate(sizes)}
    new = {name: rng.normal(size=array.shape) for name, array in old.items()}
    model = Model("model", old)
    update = model.difference(record(new))
    assert update.shape == (model.dimension,)
    for name, array in model.moved(update).items():
        np.testing.assert_allclose(array.numpy(), new[name], atol=1e-12)


def test_terms_state_whose_change_is_hidden():
    account = Terms.model_validate(OWNER).account
    assert (account.unit, account.relation, account.epsilon) == ("client", "replace-one", 8.0)
