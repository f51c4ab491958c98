"""Class weights of a study: public numbers in order of the classes, the same for plan, owner and model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.errors import ConfigError, InvalidInput, PlanError, ResumeError
from noiseworthy.model.model import load_model
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.record import load_record
from noiseworthy.studies.studies import plan, train_in
from noiseworthy.tasks.table import TaskTable
from noiseworthy.trials.proxies import make_proxies

STUDY = """
[federation]
data = "wards.csv"
[task]
model = "MODEL"
KEYS
[privacy]
mechanism = "gaussian"
epsilon = 50.0
delta = 1e-5
clip_norm = 5.0
[algorithm]
rounds = 40
clients_per_round = 2
step_size = 5.0
momentum = 0.0
averaging = 0.0
weighting = 0.0
[training]
seeds = [0, 1]
[columns]
hospital = { role = "client" }
ill = { role = "label", classes = ["no", "yes"] }
age = { kind = "number", range = [20, 80] }
sex = { kind = "number", range = [-1, 1] }
"""
BALANCED = 'class_weights = "balanced"\nclass_shares = { yes = 0.1, no = 0.9 }'


@pytest.fixture
def folder(tmp_path) -> Path:
    rng, n = np.random.default_rng(0), 800
    ill = rng.random(n) < 0.1
    frame = pd.DataFrame(
        {
            "ill": np.where(ill, "yes", "no"),
            "hospital": np.repeat(["north", "south"], n // 2),
            "age": np.clip(40 + 20 * ill + 9 * rng.normal(size=n), 20, 80),
            "sex": np.where(rng.random(n) < 0.5, 1, -1),
        }
    )
    frame.to_csv(tmp_path / "wards.csv", index=False)
    return tmp_path


def study(folder: Path, keys: str = "", model: str = "softmax"):
    (folder / "study.toml").write_text(STUDY.replace("KEYS", keys).replace("MODEL", model))
    return load_study(folder / "study.toml")


@pytest.mark.parametrize("model", ["softmax", "logistic", "svm"])
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("class_weights = [1, 4]", (1.0, 4.0)),
        ("class_weights = { yes = 4.0, no = 1 }", (1.0, 4.0)),
        (BALANCED, (1 / 1.8, 5.0)),
        ("class_shares = [0.9, 0.1]", None),
        ("", None),
    ],
)
def test_weights_go_by_name_or_in_order_or_follow_from_public_shares(folder, model, keys, expected):
    made = prepare(study(folder, keys, model))
    weights = made.task.class_weights
    assert weights == (None if expected is None else pytest.approx(expected))
    assert task_table(made).weights == weights


def test_weights_say_nothing_of_private_labels(folder):
    """Balanced by stated shares, whatever the labels are: with all of them exchanged nothing changes."""
    weights = prepare(study(folder, BALANCED)).task.class_weights
    frame = pd.read_csv(folder / "wards.csv")
    frame.assign(ill=np.where(frame.ill == "yes", "no", "yes")).to_csv(folder / "wards.csv", index=False)
    assert prepare(study(folder, BALANCED)).task.class_weights == weights
    with pytest.raises(ConfigError, match="needs class_shares, the public shares of the classes"):
        study(folder, 'class_weights = "balanced"')


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ("class_weights = [1, 2, 3]", "one number for each of 2 classes"),
        ("class_weights = { no = 1 }", "lacks the class 'yes'; state all of no, yes"),
        ("class_weights = { no = 1, yse = 1 }", "names no class of the study: 'yse' .did you mean 'yes'"),
        ('class_weights = "balanced"\nclass_shares = [0.5, 0.3]', "class_shares must add up to 1, got 0.8"),
        ("class_weights = [0, 1]", "class_weights"),
    ],
)
def test_what_fits_no_classes_is_refused_in_a_sentence(folder, keys, said):
    with pytest.raises(ConfigError, match=said):
        prepare(study(folder, keys))


def test_a_plan_and_a_run_folder_know_the_weights(folder):
    _, _, file = planned(prepare(study(folder, BALANCED)))
    assert file.task["class_weights"] == pytest.approx([1 / 1.8, 5.0])
    for keys in ("class_weights = [1, 4]", ""):
        with pytest.raises(PlanError, match=r"made for another study: its study\.task\.class"):
            plan(study(folder, keys), file.save(folder))
    run = folder / "run"
    train_in(plan(study(folder, BALANCED)), run, name="study")
    train_in(plan(study(folder, BALANCED)), run, name="study")
    for keys in (BALANCED.replace("0.1", "0.2").replace("0.9", "0.8"), "class_weights = [1, 4]", ""):
        with pytest.raises(ResumeError, match=r"another study, whose study\.task\.class"):
            train_in(plan(study(folder, keys)), run, name="study")


@pytest.mark.full
def test_the_rare_class_is_found_and_everything_states_the_weights(folder):
    """Without weights a tenth of the records is hardly ever named; a flag of its accuracy would mislead."""
    runs = {}
    for keys in ("", BALANCED):
        runs[keys] = folder / f"run{len(runs)}"
        train_in(plan(study(folder, keys)), runs[keys], name="study")
    plain, weighted = (load_record(runs[keys])["training"] for keys in ("", BALANCED))
    assert weighted["metrics"]["balanced_accuracy"] > plain["metrics"]["balanced_accuracy"] + 0.1
    assert weighted["metrics"]["accuracy"] < weighted["prior"]
    assert not [flag for flag in weighted["flags"] if "most frequent class" in flag]
    assert weighted["untrained_loss"] == pytest.approx(np.log(2), rel=1e-5)

    model = load_model(runs[BALANCED])
    assert model.description.task.class_weights == pytest.approx([1 / 1.8, 5.0])
    assert model.task.class_weights == pytest.approx((1 / 1.8, 5.0))
    assert "multiplied by public weights: no 0.556, yes 5" in model.card
    metrics = model.description.metrics
    shares = np.array([1 - 0.1, 0.1])  # only about: those of the test records
    q = shares * [1 / 1.8, 5.0] / np.sum(shares * [1 / 1.8, 5.0])
    assert metrics.constant_loss == pytest.approx(-np.sum(q * np.log(q)), abs=0.05)
    assert metrics.constant_loss > metrics.prior_log_loss + 0.2


def test_an_owner_is_asked_for_numbers_and_refuses_names(folder):
    made = prepare(study(folder, BALANCED))
    federation, task = made.trained()
    holding = Holding(federation.x[0], federation.y[0], 2)
    assert holding.task(task_table(made)) == replace(task, start=())  # an owner starts where it is told to
    for stated in ({"no": 1.0, "yes": 2.0}, "balanced"):
        table = TaskTable(model="softmax", bias=0.3, class_weights=stated, class_shares=[0.9, 0.1])
        with pytest.raises(InvalidInput, match="class_weights must be a list in the order"):
            holding.task(table)


@pytest.mark.full
@pytest.mark.parametrize("source", ["breast-cancer", "diabetes", "prior:0"])
def test_public_stand_ins_come_in_the_shares_of_the_study_and_have_its_weights(folder, source):
    facts = prepare(study(folder, BALANCED)).public_facts()
    (proxy,) = make_proxies(facts, [source])
    for y in (proxy.records.y, proxy.records.test_y):
        assert np.mean(y == 1) == pytest.approx(0.1, abs=0.02)
    assert proxy.task.class_weights == pytest.approx((1 / 1.8, 5.0))
    assert proxy.deal().untrained_loss == pytest.approx(np.log(2), rel=1e-5)


def test_stand_ins_of_more_classes_take_weights_in_turn_and_keep_the_step_of_a_record(folder):
    made = prepare(study(folder, "class_weights = [1, 4]\nclass_shares = [0.8, 0.2]", "logistic"))
    task = made.public_facts().make_task((13,), 3, None)
    assert (task.loss, task.class_weights) == ("softmax", pytest.approx((1.2, 4.8, 1.2)))


SHARES = "class_shares = { yes = 0.1, no = 0.9 }"


@pytest.mark.parametrize(
    ("model", "keys", "expected"),
    [
        ("softmax", SHARES, (np.log(9) / 2, -np.log(9) / 2)),
        ("logistic", SHARES, (-np.log(9),)),
        ("svm", SHARES, (-8 / 9,)),
        ("softmax", BALANCED, (0.0, 0.0)),
        ("logistic", "class_weights = [1, 4]\n" + SHARES, (np.log(4 / 9),)),
        ("softmax", SHARES + "\nbias = false", ()),
        ("softmax", "class_weights = [1, 4]", ()),
    ],
)
def test_a_linear_model_starts_at_the_constant_of_stated_shares_and_weights(folder, model, keys, expected):
    made = prepare(study(folder, keys, model))
    _, task = made.trained()
    assert task.start == pytest.approx(expected, abs=1e-12)
    assert made.public_facts().make_task((13,), 2, None).start == pytest.approx(expected, abs=1e-12)


@pytest.mark.full
def test_a_training_goes_on_from_stated_shares_and_its_model_needs_no_start(folder):
    """Untrained, it has the loss of the constant that fits: the entropy of the shares, if they are right."""
    made = study(folder, SHARES)
    train_in(plan(made), folder / "run", name="wards")
    record, (federation, task) = load_record(folder / "run"), prepare(made).trained()
    share = np.mean(federation.test_y)
    constant = -share * np.log(0.1) - (1 - share) * np.log(0.9)
    assert record["training"]["untrained_loss"] == pytest.approx(constant, rel=1e-5)
    assert record["training"]["loss"][0][-1] < constant - 0.05
    model = load_model(folder / "run" / "model")
    assert model.task == replace(task, start=())
    assert model.answers(federation.test_x).shape == (len(federation.test_y), 2)


BY_RULE = """feature_norm = 1.0
normalise = true
ridge = 0.01
"""
FREE = {
    "rounds = 40\n": "",
    "step_size = 5.0\n": "",
    "momentum = 0.0\naveraging = 0.0\nweighting = 0.0\n": "",
}


@pytest.mark.parametrize(
    ("added", "said"),
    [
        (
            "[planning]\npublic = []\n",
            "the signal-to-noise rule knows nothing of weights and of shares of classes to start at",
        ),
        (
            '[constants]\nsource = "analytic"\n',
            "analytic constants exist for linear models without weights that start",
        ),
    ],
)
def test_what_is_known_of_a_start_at_zero_alone_is_not_claimed_of_another(folder, added, said):
    """F(0) = ln K bounds the loss of no other start: shares may be wrong."""
    text = STUDY.replace("KEYS", BY_RULE + SHARES).replace("MODEL", "softmax") + added
    for stated, left in FREE.items():
        text = text.replace(stated, left)
    (folder / "study.toml").write_text(text)
    with pytest.raises(ConfigError, match=said):
        plan(load_study(folder / "study.toml"))
    (folder / "study.toml").write_text(text.replace(SHARES, ""))
    assert plan(load_study(folder / "study.toml")).plan.rounds > 0


def test_gains_on_stand_ins_are_counted_from_a_start_that_knows_nothing(folder):
    (proxy,) = make_proxies(prepare(study(folder, SHARES)).public_facts(), ["breast-cancer"])
    assert proxy.task.start == pytest.approx((np.log(9) / 2, -np.log(9) / 2))
    assert proxy.deal().untrained_loss == pytest.approx(np.log(2), rel=1e-5)
