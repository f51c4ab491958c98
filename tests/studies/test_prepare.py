"""From tables to objects: what fits together is opened, what does not is refused by name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from noiseworthy.data import Federation, federate
from noiseworthy.data.ixi import synthetic_volumes
from noiseworthy.errors import ConfigError, DataError, InvalidInput
from noiseworthy.studies.clients import in_order
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.models import open_task
from noiseworthy.studies.opening import Opened
from noiseworthy.studies.prepare import believed_partition, check_same_sizes, prepare
from noiseworthy.studies.privacy_table import Drawn, draw_budgets
from noiseworthy.tasks import LinearModel, make_task
from noiseworthy.trials.reference import reference_of
from noiseworthy.trials.treatment import Treatment

PRIVACY = {"mechanism": "laplace", "epsilon": 2.0, "clip_norm": 1.0}
IRIS = {"data": "iris", "clients": 3, "partition": "iid"}


def study(federation, **tables):
    return parse_study({"federation": federation, "privacy": PRIVACY, **tables})


def test_sizes_and_a_dimension_are_enough():
    prepared = prepare(study({"sizes": [10, 20]}, task={"dimension": 7}))
    assert prepared.sizes.tolist() == [10, 20]
    assert prepared.dimension == 7
    assert prepared.federation is None
    problem = prepared.problem(3.0)
    np.testing.assert_allclose(problem.sensitivity.value, [2 * 3 / 10, 2 * 3 / 20])


def test_without_data_there_is_nothing_to_train():
    prepared = prepare(study({"sizes": [10, 20]}, task={"dimension": 7}))
    with pytest.raises(ConfigError, match=r"\[federation\] has sizes but no data; set data"):
        prepared.trained()


@pytest.mark.parametrize(
    ("federation", "task", "says"),
    [
        ({"sizes": [10]}, {}, r"\[task\] dimension is missing; planning from sizes alone needs"),
        ({"sizes": [10]}, {"dimension": 0}, r"\[task\] dimension must be at least 1, got 0"),
        ({"sizes": [10, 0]}, {"dimension": 3}, r"sizes must be at least 1, got 0"),
        ({"sizes": []}, {"dimension": 3}, "sizes must be a list with one entry per client"),
        (IRIS, {"dimension": 7}, r"\[task\] dimension = 7, but the model on iris has 15 parameters; leave"),
        (IRIS, {"model": "linear"}, "linear needs real targets, got 3 classes; use softmax or logistic"),
        (IRIS, {"model": "logistic"}, "logistic needs 2 classes, got 3; use softmax"),
        (IRIS, {"model": "cnn"}, "cnn"),
        (IRIS, {"projection": 5}, "projection must be between 1 and 4, got 5; records have 4 numbers"),
        (IRIS, {"pooling": 3}, "pooling must be between 1 and 2, got 3"),
        ({**IRIS, "clients": 0}, {}, "clients must be at least 1, got 0"),
        ({**IRIS, "clients": 5000}, {}, "every client needs a record"),
        ({**IRIS, "records_per_client": 0}, {}, "records_per_client must be at least 1, got 0"),
        ({**IRIS, "alpha": 1.0}, {}, "partition 'iid' takes no settings, got 'alpha'"),
        ({**IRIS, "partition": "dirichlet"}, {}, "partition 'dirichlet' needs alpha"),
        ({**IRIS, "seed": -1}, {}, "seed must be at least 0, got -1"),
        ({**IRIS, "label_column": "kind"}, {}, "iris has fixed columns"),
        ({**IRIS, "client_column": "site"}, {}, "iris has fixed columns"),
        ({**IRIS, "regression": True}, {}, "iris has fixed columns"),
        ({"data": "iris", "partition": "iid"}, {}, "clients must be given"),
        ({"data": "irises", "clients": 2}, {}, "source must be one of digits"),
        ({"data": "no.csv", "clients": 2}, {}, "no data at no.csv"),
    ],
)  # fmt: skip
def test_tables_that_do_not_fit_are_refused_by_name(federation, task, says):
    with pytest.raises((ConfigError, DataError, InvalidInput), match=says):
        prepare(study(federation, task=task))


def test_the_model_follows_the_labels_unless_stated(tmp_path):
    np.savez(tmp_path / "line.npz", x=np.arange(40.0)[:, None], label=np.arange(40.0) / 7)
    table = {"data": str(tmp_path / "line.npz"), "clients": 2, "partition": "iid", "regression": True}
    assert prepare(study(table)).task.loss == "squared"
    assert prepare(study(IRIS)).task.loss == "softmax"
    cancer = {"data": "breast-cancer", "clients": 2, "partition": "iid"}
    assert prepare(study(cancer, task={"model": "logistic"})).task.loss == "logistic"


def test_settings_of_the_model_arrive():
    table = {"ridge": 0.3, "feature_norm": 2.0, "normalise": True, "bias": True}
    assert prepare(study(IRIS, task=table)).task == LinearModel(
        4, 3, "softmax", ridge=0.3, feature_norm=2.0, normalise=True, bias=True
    )


@pytest.mark.parametrize("stated", [2, "auto"])
def test_trials_are_told_how_many_clients_a_round_asks(stated):
    facts = prepare(study(IRIS, algorithm={"name": "fedsgd-dpc", "clients_per_round": stated})).public_facts()
    assert facts.asked == (2 if stated == 2 else None)


CANCER = {"data": "breast-cancer", "clients": 2, "partition": "iid"}
PROGRESS = {"data": "diabetes-progression", "clients": 2, "partition": "iid"}
DIGITS = {"data": "digits", "clients": 3, "partition": "iid"}


@pytest.mark.parametrize(
    ("federation", "task", "bias"),
    [
        (IRIS, {}, 0.3),
        (IRIS, {"normalise": True}, 0.3),
        (CANCER, {"model": "logistic", "feature_norm": 2.0}, 0.6),
        (CANCER, {"model": "svm", "normalise": True}, 0.3),
        (PROGRESS, {"feature_norm": 2.0}, 2.0),
        (PROGRESS, {"model": "linear", "bias": 0.25}, 0.25),
        (IRIS, {"bias": False}, 0.0),
        (IRIS, {"bias": True, "feature_norm": 4.0}, 1.0),
        (DIGITS, {}, 0.0),
        (DIGITS, {"bias": 0.5}, 0.5),
    ],
)
def test_linear_models_of_tables_have_an_intercept_in_proportion_to_the_norm(federation, task, bias):
    """Half a record's squared norm for numbers to predict, a twelfth for classes, none for images."""
    assert prepare(study(federation, task=task)).task.bias == pytest.approx(bias, rel=1e-12)


def test_public_stand_ins_have_the_intercept_of_the_study():
    """Images have none by default, nor do the tables that stand in for them, and the other way round."""
    pictures, table = prepare(study(DIGITS)), prepare(study(IRIS, task={"normalise": True}))
    assert pictures.public_facts().make_task((13,), 3, None).bias == 0
    assert table.public_facts().make_task((8, 8), 10, None).bias == pytest.approx(0.3)
    assert table.public_facts().make_task((13,), 3, Treatment(feature_norm=2.0)).bias == pytest.approx(0.6)


def test_networks_keep_their_own_biases():
    with pytest.raises(InvalidInput, match="bias belongs to linear models"):
        prepare(study(DIGITS, task={"model": "cnn", "bias": 0.3}))
    assert prepare(study(DIGITS, task={"model": "cnn"})).task.dimension > 0


@pytest.mark.parametrize(
    ("normalise", "stated", "norm"), [(True, None, 1.0), (True, 3.0, 3.0), (False, None, None)]
)
def test_records_are_scaled_to_norm_1_unless_the_study_says_otherwise(normalise, stated, norm):
    table = {"normalise": normalise, "feature_norm": stated, "bias": False}
    task = prepare(study(IRIS, task=table)).task
    assert task.record_norm == norm


def test_public_maps_of_records_reach_the_private_data_and_the_public_alike():
    digits = {"data": "digits", "clients": 3, "partition": "iid"}
    prepared = prepare(study(digits, task={"pooling": 2, "projection": 9, "bias": True}))
    assert prepared.task == make_task("softmax", (8, 8), 10, pooling=2, projection=9, bias=True)
    assert prepared.dimension == 100
    assert open_task(prepared.study, (28, 28), 7).preparation == prepared.task.preparation


def test_stated_pooling_leaves_public_tables_alone():
    digits = {"data": "digits", "clients": 3, "partition": "iid"}
    facts = prepare(study(digits, task={"pooling": 2})).public_facts()
    assert facts.make_task((8, 8), 10, None).features == facts.make_task((64,), 10, None).features == 16
    assert facts.make_task((30,), 2, None).features == 30


@pytest.fixture
def images(tmp_path):
    """Public images of 6 x 6 pixels in files, by name."""

    def made(name):
        rng = np.random.default_rng(len(name))
        x = rng.random((60, 6, 6)).astype(np.float32)
        np.savez(tmp_path / f"{name}.npz", x=x, label=np.arange(60) % 3)
        return str(tmp_path / f"{name}.npz")

    return made


def test_public_images_are_a_reference_resized_to_the_private_ones_and_never_their_own(images):
    digits, names = {"data": "digits", "clients": 3, "partition": "iid"}, [images("one"), images("three")]
    prepared = prepare(study(digits, task={"reference": names, "projection": 9}))
    task, facts = prepared.task, prepared.public_facts()
    assert task.preparation.reference == reference_of(names, "digits", (8, 8))
    assert prepared.dimension == 90
    seen = facts.make_task((8, 8), 3, None, names[0])
    assert seen.preparation.reference == reference_of(names[1:], "digits", (8, 8))
    table = facts.make_task((30,), 2, None, "breast-cancer")
    assert (table.preparation.reference, table.features) == (None, 30)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        (["digits"], "digits is the private data of this study and cannot be its reference"),
        (["wine"], r"wine under \[task\] reference does not hold records like those of the study"),
    ],
)
def test_a_reference_of_private_or_other_records_is_refused(reference, says):
    digits = {"data": "digits", "clients": 3, "partition": "iid"}
    with pytest.raises(InvalidInput, match=says):
        prepare(study(digits, task={"reference": reference}))


@pytest.mark.parametrize(("model", "loss"), [("logistic", "logistic"), ("svm", "hinge")])
def test_a_two_class_model_meets_public_data_of_more_classes_as_softmax_and_only_there(model, loss):
    prepared = prepare(
        study({"data": "breast-cancer", "clients": 3, "partition": "iid"}, task={"model": model})
    )
    facts = prepared.public_facts()
    assert facts.make_task((30,), 2, None).loss == loss
    assert facts.make_task((13,), 3, None).loss == "softmax"


def test_public_facts_hold_the_stated_skew_and_no_array_of_records():
    prepared = prepare(study({**IRIS, "partition": "dirichlet", "alpha": 0.7}))
    facts = prepared.public_facts()
    assert (facts.partition, facts.settings) == ("dirichlet", {"alpha": 0.7})
    assert (facts.source, facts.classes, facts.record_shape) == ("iris", 3, (4,))
    arrays = [value for value in vars(facts).values() if isinstance(value, np.ndarray)]
    assert arrays == []
    np.testing.assert_array_equal(facts.problem.sizes, prepared.sizes)


def test_trials_sort_public_records_where_the_study_sorts_private_ones():
    assert believed_partition(study({**IRIS, "partition": "sorted"})) == ("sorted", {})


@pytest.mark.parametrize(
    ("federation", "believed"),
    [
        ({"data": "x.csv"}, "natural"),
        ({"data": "x.csv", "clients": 3, "partition": "natural"}, "natural"),
        ({"data": "iris", "clients": 3}, "iid"),
        ({"data": "iris", "clients": 3, "partition": "quantity-skew", "alpha": 1.0}, "iid"),
    ],
)
def test_where_only_private_data_could_tell_the_skew_trials_take_owners_or_none(federation, believed):
    assert believed_partition(study(federation)) == (believed, {})


def test_a_regression_is_planned_by_trial_where_the_size_of_its_numbers_is_public(tmp_path):
    np.savez(tmp_path / "line.npz", x=np.arange(40.0)[:, None], label=np.arange(40.0) / 7)
    table = {"data": str(tmp_path / "line.npz"), "clients": 2, "partition": "iid", "regression": True}
    with pytest.raises(ConfigError, match=r"needs \[planning\] label_scale, the public root mean square"):
        prepare(study(table)).public_facts()
    facts = prepare(study(table, planning={"label_scale": 3.0})).public_facts()
    assert (facts.classes, facts.label_scale) == (None, 3.0)


def test_training_on_other_sizes_than_planned_is_refused():
    prepared = prepare(study(IRIS))
    problem = prepared.problem(1.0)
    check_same_sizes(problem, prepared.federation)
    with pytest.raises(
        DataError, match=r"made for sizes \[40, 40, 40\].*hold \[39, 39, 39\].*noise depends on them"
    ):
        check_same_sizes(problem, prepared.federation.take_records(39))


@pytest.mark.parametrize(
    ("data", "model", "words"),
    [
        ("volumes", None, "must be lstm or unet3d for volumes, whose records have labels of shape"),
        ("volumes", "softmax", "must be lstm or unet3d for volumes"),
        ("digits", "lstm", "lstm needs a label for every token or voxel, digits has one per record"),
    ],
)
def test_a_model_for_another_kind_of_labels_is_refused(data, model, words, monkeypatch):
    volumes = federate(synthetic_volumes(8, (4, 4, 4), seed=0), clients=2, partition="iid", seed=0)
    if data == "volumes":
        opened = Opened(replace(volumes, name="volumes"), None)
        monkeypatch.setattr("noiseworthy.studies.prepare.open_data", lambda _: opened)
    raw = {"federation": {"data": "digits", "clients": 2}, "privacy": {"mechanism": "none"}}
    raw["task"] = {} if model is None else {"model": model}
    with pytest.raises(ConfigError, match=words):
        prepare(parse_study(raw))


@pytest.mark.parametrize(("place", "who"), [((1, 2, 3), "client 1"), ((0, 1), "the test set")])
@pytest.mark.parametrize("token", [5, -1])
def test_tokens_that_the_model_does_not_know_are_refused_before_training(place, who, token, monkeypatch):
    """They would train as the last token that it knows."""
    tokens = np.ones((4, 6), np.int32)
    held = Federation.from_clients([(tokens, tokens)] * 2, test=(tokens, tokens), classes=5, name="texts")
    (held.x if len(place) > 2 else held.test_x)[place] = token
    monkeypatch.setattr("noiseworthy.studies.prepare.open_data", lambda _: Opened(held, None))
    raw = {"federation": {"data": "flat:texts"}, "privacy": {"mechanism": "none"}, "task": {"model": "lstm"}}
    with pytest.raises(DataError, match=rf"{who} has the token {token} in record {place[-2] + 1}; .*0\.\.4,"):
        prepare(parse_study(raw))


# Budgets drawn from a range ----------------------------------------------------------------------------


def drawn(clients=2000, seed=0, **privacy):
    table = {"mechanism": "gaussian", "delta": 1e-5, "clip_norm": 1.0, **privacy}
    tables = {"federation": {"sizes": [10] * clients, "seed": seed}, "task": {"dimension": 3}}
    return prepare(parse_study({**tables, "privacy": table}))


@pytest.mark.parametrize(
    ("law", "reference"), [("uniform", stats.uniform(0.1, 2.9)), ("loguniform", stats.loguniform(0.1, 3.0))]
)
def test_drawn_budgets_follow_their_law(law, reference):
    """Kolmogorov-Smirnov on 2,000 clients of one fixed seed: wrong laws have p below 1e-9."""
    budget = drawn(epsilon={law: [0.1, 3.0]}).problem(1.0).budget
    assert budget.epsilon.shape == (2000,)
    assert 0.1 <= budget.epsilon.min() < budget.epsilon.max() <= 3.0
    assert stats.kstest(budget.epsilon, reference.cdf).pvalue > 1e-3
    assert np.all(budget.delta == 1e-5)


def test_drawn_budgets_are_public_and_repeat():
    """They depend on the seed of the federation and on nothing else, epsilon and delta apart."""
    both = {"epsilon": {"uniform": [0.1, 0.9]}, "delta": {"uniform": [0.1, 0.9]}}
    first, again, other = (drawn(50, seed, **both).problem(1.0).budget for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.epsilon, again.epsilon)
    assert not np.any(first.epsilon == other.epsilon)
    assert not np.any(first.epsilon == first.delta)
    alone = drawn(50, 3, epsilon=both["epsilon"]).problem(1.0).budget
    np.testing.assert_array_equal(first.epsilon, alone.epsilon)


def test_every_client_of_given_data_gets_a_budget():
    table = {"mechanism": "laplace", "epsilon": {"loguniform": [1, 2]}, "clip_norm": 1.0}
    prepared = prepare(parse_study({"federation": IRIS, "privacy": table}))
    assert prepared.problem(1.0).budget.epsilon.shape == (3,)
    assert prepared.study.privacy.epsilon == Drawn(loguniform=[1.0, 2.0])  # kept as it is written


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_a_range_of_one_number_gives_it_exactly(law):
    ends = [0.1 + 0.2] * 2
    budgets = draw_budgets(Drawn(**{law: ends}), 5, np.random.default_rng(0))
    np.testing.assert_array_equal(budgets, ends[0])


# Numbers by name ---------------------------------------------------------------------------------------

WARDS = {"zeta": 0.1, "alpha": 5.0, "mid": 1.0}
"""As a file may name them; clients are sorted by name."""


def wards(path, names=tuple(WARDS)):
    """A federation of clients with names, as the table of a study."""
    rng = np.random.default_rng(0)
    count = 10 * len(names)
    np.savez(
        path / "wards.npz", x=rng.random((count, 3)), label=np.arange(count) % 2, ward=np.repeat(names, 10)
    )
    return {"data": str(path / "wards.npz"), "client_column": "ward", "classes": [0, 1]}


def by_name(tmp_path, epsilon=1.0, federation=None, **tables):
    privacy = {"mechanism": "gaussian", "epsilon": epsilon, "delta": 1e-5, "clip_norm": 1.0}
    raw = {"federation": federation or wards(tmp_path), "privacy": {**privacy, **tables.pop("privacy", {})}}
    return prepare(parse_study({**raw, **tables}))


def test_every_number_goes_to_the_client_that_it_was_stated_for(tmp_path):
    """By row position zeta had 1.0 and mid 5.0."""
    delta, costs = {"mid": 1e-6, "alpha": 1e-5, "zeta": 1e-7}, {"mid": 1.0, "alpha": 5.0, "zeta": 0.1}
    budgets = {"zeta": 70, "mid": 80, "alpha": 90}
    prepared = by_name(
        tmp_path, WARDS, privacy={"delta": delta},
        resources={"cost_per_round": costs, "cost_per_step": WARDS, "budget": budgets},
        constants={"heterogeneity": WARDS}, algorithm={"name": "dpfl-bcs", "clients_per_round": 1},
    )  # fmt: skip
    assert prepared.names == ("alpha", "mid", "zeta")
    problem = prepared.problem(1.0)
    np.testing.assert_array_equal(problem.budget.epsilon, [5.0, 1.0, 0.1])
    np.testing.assert_array_equal(problem.budget.delta, [1e-5, 1e-6, 1e-7])
    np.testing.assert_array_equal(problem.resources.cost_per_round, [5.0, 1.0, 0.1])
    np.testing.assert_array_equal(problem.resources.cost_per_step, [5.0, 1.0, 0.1])
    np.testing.assert_array_equal(problem.resources.budget, [90.0, 80.0, 70.0])
    assert prepared.question.heterogeneity() == [5.0, 1.0, 0.1]
    assert prepared.stated([5.0, 1.0, 0.1]) == {"alpha": 5.0, "mid": 1.0, "zeta": 0.1}


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        (
            {"zeta": 1.0, "mid": 1.0},
            "[privacy] epsilon has no number for 'alpha'; the clients are 'alpha', 'm",
        ),
        ({**WARDS, "alfa": 1.0}, "[privacy] epsilon names unknown clients 'alfa'; the clients are 'alpha'"),
        (
            [0.1, 5.0, 1.0],
            "[privacy] epsilon goes by position, but the clients have names ('alpha', 'mid', 'z",
        ),
    ],
)
def test_numbers_of_nobody_and_of_unnamed_clients_are_refused(tmp_path, stated, says):
    with pytest.raises(ConfigError) as refusal:
        by_name(tmp_path, stated).problem(1.0)
    assert says in str(refusal.value)


def test_lists_go_by_position_where_clients_have_no_names(tmp_path):
    for federation in ({"sizes": [10, 20, 30]}, IRIS):
        prepared = by_name(tmp_path, [0.1, 5.0, 1.0], federation, task=_dimension(federation))
        np.testing.assert_array_equal(prepared.problem(1.0).budget.epsilon, [0.1, 5.0, 1.0])
        assert prepared.stated([0.1, 5.0, 1.0]) == [0.1, 5.0, 1.0]
        named = {"client 2": 1.0, "client 0": 0.1, "client 1": 5.0}
        prepared = by_name(tmp_path, named, federation, task=_dimension(federation))
        np.testing.assert_array_equal(prepared.problem(1.0).budget.epsilon, [0.1, 5.0, 1.0])


def _dimension(federation):
    return {"dimension": 3} if "sizes" in federation else {}


@settings(max_examples=40)
@given(numbers=st.permutations([0.1 * k for k in range(1, 9)]), order=st.permutations(list(range(8))))
def test_the_order_of_names_does_not_matter(numbers, order):
    clients = [f"client {i}" for i in range(8)]
    stated = {clients[i]: numbers[i] for i in order}
    assert in_order("[privacy] epsilon", stated, clients, named=True) == list(numbers)


def test_a_number_reaches_the_client_whose_name_looks_the_same_and_no_other():
    mac, other = "Ko\u0308ln", "K\xf6ln"
    for client, stated in ((mac, other), (other, mac), (mac, mac)):
        assert in_order("[privacy] epsilon", {"Bonn": 1.0, stated: 2.0}, [client, "Bonn"], named=True) == [
            2,
            1,
        ]
    assert in_order("[privacy] epsilon", {mac: 1.0, other: 2.0}, [other, mac], named=True) == [2, 1]
    with pytest.raises(ConfigError, match="has no number for"):
        in_order("[privacy] epsilon", {mac: 1.0}, [other, mac], named=True)


@pytest.mark.parametrize("model", ["logistic", "svm"])
def test_the_floor_of_steering_is_a_tenth_of_what_the_model_loses_untrained(model):
    made = prepare(study({"data": "breast-cancer", "clients": 3}, task={"model": model}))
    federation, task = made.trained()
    untrained = task.score(np.zeros(task.dimension), task.prepare(federation.test_x), federation.test_y).loss
    assert made.steering_floor == pytest.approx(0.1 * float(untrained))


@pytest.mark.parametrize(("data", "outputs"), [("wine", 2), ("breast-cancer", 1)])
def test_a_stand_in_of_two_classes_has_an_output_for_each_where_the_study_has(data, outputs):
    """Or local steps would be tried in mode B and planned in mode C."""
    made = prepare(study({"data": data, "clients": 3, "partition": "iid"}, task={"normalise": True}))
    assert made.public_facts().make_task((30,), 2, None).outputs == outputs
