"""scikit-learn estimators: what is stated is not read, what is read is said; scikit-learn's own checks."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from noiseworthy import NoiseworthyClassifier, NoiseworthyRegressor, load_model
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.estimators import SimulationWarning
from noiseworthy.model.card import card_of

STATED = {
    "algorithm": {"rounds": 60, "step_size": 1.0, "step_decay": "none", "clients_per_round": 1},
    "privacy": {"clip_norm": 1.0},
}
DRAWS = np.random.default_rng(0)
X = DRAWS.uniform(0, 10, (300, 2))
Y = np.where(X[:, 0] > 5, "yes", "no")
SITE = np.arange(300) % 3


def classifier(**keys):
    facts = {"feature_range": (0, 10), "classes": ["no", "yes"]}
    return NoiseworthyClassifier(**{"epsilon": 8.0, "tables": STATED, **facts, **keys})


def regressor(**keys):
    facts = {"feature_range": (0, 10), "label_range": (0, 100)}
    return NoiseworthyRegressor(**{"epsilon": 20.0, "tables": STATED, **facts, **keys})


@pytest.fixture(scope="module")
def fitted():
    return classifier().fit(X, Y, groups=SITE)


def test_it_learns_and_says_what_it_cost(fitted):
    assert fitted.score(X, Y) > 0.8
    assert fitted.predict_proba(X).shape == (300, 2)
    assert fitted.plan_.problem.sizes.tolist() == [100, 100, 100]
    assert np.all((fitted.spent_epsilon_ > 7) & (fitted.spent_epsilon_ <= 8))


def test_without_groups_all_records_are_one_clients():
    assert classifier().fit(X, Y).plan_.problem.sizes.tolist() == [300]


def test_groups_of_another_length_are_refused():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        classifier().fit(X, Y, groups=SITE[:-1])


def test_what_is_stated_is_not_read():
    """The plan of other records is the same, and nothing warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one, other = (classifier().fit(x, Y, SITE) for x in (X, X / 3))
    assert one.plan_.as_dict() == other.plan_.as_dict()
    assert one.model_.schema == other.model_.schema
    assert "read off" not in one.model_.description.privacy.warning


LEFT_OUT = {
    "feature_range": (classifier(feature_range=None), Y),
    "classes": (classifier(classes=None), Y),
    "label_range": (regressor(label_range=None), X[:, 0]),
}


@pytest.mark.parametrize("fact", LEFT_OUT)
def test_what_is_read_off_the_data_is_said(fact):
    estimator, y = LEFT_OUT[fact]
    with pytest.warns(SimulationWarning, match=f"no epsilon covers: this is a simulation; state {fact}"):
        estimator.fit(X, y, SITE)
    promised = estimator.model_.description.privacy.warning
    assert promised.endswith("leaves [federation] simulation out. No epsilon covers that.")
    assert "read off the private records" in card_of(estimator.model_.description)


def test_labels_come_back_as_they_were_given():
    for labels in (Y == "yes", np.where(Y == "yes", 7, -1), np.where(Y == "yes", 0.5, 1.5).astype(str)):
        told = classifier(classes=np.unique(labels)).fit(X, labels).predict(X)
        assert told.dtype == labels.dtype
        assert np.mean(told == labels) > 0.8


def test_a_label_that_is_no_class_is_refused():
    with pytest.raises(InvalidInput, match="y has the label 'yes', which is none of classes"):
        classifier(classes=["no", "maybe"]).fit(X, Y)


@pytest.mark.parametrize("model", ["logistic", "svm"])
def test_models_of_one_output_name_both_classes(model):
    made = classifier(tables=STATED | {"task": {"model": model}}).fit(X, Y, SITE)
    assert made.score(X, Y) > 0.8
    assert set(made.predict(X)) == {"no", "yes"}


def test_what_a_study_says_of_classes_is_said_by_name_here_too():
    weights = [{"class_weights": given} for given in ({"yes": 3.0, "no": 1.0}, [1.0, 3.0])]
    by_name, in_order = (classifier(tables=STATED | {"task": one}).fit(X, Y, SITE) for one in weights)
    np.testing.assert_array_equal(by_name.predict_proba(X), in_order.predict_proba(X))


REFUSED = {
    "trust": {"privacy": {"trust": "secure-sum"}, "algorithm": {"name": "pfa", "clients_per_round": 1}},
    "leave out mechanism, epsilon, delta, which parameters say": {"privacy": {"epsilon": 50.0}},
    "leave out 'federation'": {"federation": {"clients": 3}},
    "leave out 'training'": {"training": {"seeds": [5]}},
}


@pytest.mark.parametrize("says", REFUSED)
def test_tables_that_say_what_cannot_be_are_refused_and_not_passed_over(says):
    with pytest.raises((ConfigError, InvalidInput), match=says):
        classifier(tables=STATED | REFUSED[says]).fit(X, Y, SITE)


def test_records_without_a_group_are_refused():
    for groups in (np.where(SITE, 1.0, np.nan), np.where(SITE, "a", None)):
        with pytest.raises(InvalidInput, match="groups has missing values"):
            classifier().fit(X, Y, groups)


def test_groups_of_texts_and_numbers_together_are_refused():
    with pytest.raises(InvalidInput, match="groups must be all texts or all numbers, got both"):
        classifier().fit(X, Y, np.array([1, "north", 2.5] * 100, object))


@pytest.mark.parametrize(
    ("tables", "says"),
    [([1], "tables must be like"), ("task", "tables must be like"), ({"task": 3}, "must be a table")],
)
def test_tables_that_are_none_are_refused_in_a_sentence(tables, says):
    with pytest.raises((ConfigError, InvalidInput), match=says):
        classifier(tables=tables).fit(X, Y)


def test_targets_count_as_numbers_whatever_type_holds_them():
    with pytest.raises(ValueError, match="could not convert string to float"):
        regressor().fit(X, Y)
    with pytest.warns(SimulationWarning):
        told = regressor(label_range=None).fit(X, np.full(300, 255, np.uint8)).predict(X)
    np.testing.assert_allclose(told, 255, atol=0.5)


def test_a_regression_without_an_intercept_is_refused():
    with pytest.raises(InvalidInput, match=r"\[task\] bias must be above 0, got 0"):
        regressor(tables=STATED | {"task": {"bias": 0}}).fit(X, X[:, 0])


def test_a_class_that_does_not_occur_has_its_probability():
    shares = classifier(classes=["maybe", "no", "yes"]).fit(X, Y).predict_proba(X)
    assert shares.shape == (300, 3)


def test_values_beyond_the_range_are_its_ends(fitted):
    np.testing.assert_array_equal(fitted.predict_proba([[99, -99]]), fitted.predict_proba([[10, 0]]))


@pytest.mark.parametrize("given", [(0, 0), (10, 0), ([0, 0, 0], 10), "wide", 3])
def test_a_range_that_is_none_is_refused(given):
    with pytest.raises(InvalidInput, match="feature_range must"):
        classifier(feature_range=given).fit(X, Y)


def test_ranges_without_an_end_are_refused_by_name():
    with pytest.raises(ConfigError, match=r"x0: range must be between 1e-15 and 1e\+15 in size, got -inf"):
        classifier(feature_range=(-np.inf, np.inf)).fit(X, Y)


def test_a_feature_may_not_be_called_as_the_label_is():
    with pytest.raises(InvalidInput, match=r"X must have no feature '\(label\)'"):
        classifier().fit(pd.DataFrame(X, columns=["(label)", "dose"]), Y)


@pytest.mark.parametrize("state", [1.5, "a", -1, 2**32, np.random.default_rng(0)])
def test_what_is_no_random_state_is_refused_by_name(state):
    with pytest.raises(InvalidInput, match="random_state must be"):
        classifier(random_state=state).fit(X, Y)


@pytest.mark.parametrize("given", [(0, 0), (1, 0), (1, 2, 3), "wide", 3])
def test_a_range_of_targets_that_is_none_is_refused(given):
    with pytest.raises(InvalidInput, match=r"label_range must be \(least, most\), two numbers, got"):
        regressor(label_range=given).fit(X, X[:, 0])


def test_its_model_is_saved_with_columns_and_classes(fitted, tmp_path):
    frame = pd.DataFrame(X, columns=["age", "dose"])
    made = classifier().fit(frame, Y, SITE)
    loaded = load_model(made.model_.save(tmp_path / "model"))
    assert loaded.predict(frame[["dose", "age"]]).tolist() == made.predict(frame).tolist()
    np.testing.assert_allclose(loaded.predict_proba(frame), fitted.predict_proba(X), atol=1e-6)
    assert loaded.description.metrics is None
    assert "**Not for release.**" in loaded.card


def test_a_regression_is_in_its_own_unit(tmp_path):
    y = 10 * X[:, 0]
    made = regressor().fit(X, y, SITE)
    assert made.score(X, y) > 0.5
    loaded = load_model(made.model_.save(tmp_path / "model"))
    np.testing.assert_allclose(loaded.predict({"x0": X[:, 0], "x1": X[:, 1]}), made.predict(X), rtol=1e-5)
    moved = regressor(label_range=(1000, 1100)).fit(X, y + 1000, SITE)
    np.testing.assert_allclose(moved.predict(X), made.predict(X) + 1000, rtol=1e-5)


def test_one_target_moves_nothing_beyond_its_range():
    y = 10 * X[:, 0]
    far = y.copy()
    far[np.argmax(y)] = 1e9
    near = np.where(far > 100, 100, far)
    np.testing.assert_array_equal(regressor().fit(X, far).predict(X), regressor().fit(X, near).predict(X))


def test_the_same_random_state_gives_the_same_model_and_another_another(fitted):
    again = clone(fitted).fit(X, Y, SITE)
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    other = classifier(random_state=np.random.RandomState(1)).fit(X, Y, SITE)
    assert not np.array_equal(other.predict_proba(X), fitted.predict_proba(X))


def test_the_rule_plans_without_public_data():
    made = classifier(public=[], tables=None).fit(X, Y, SITE)
    assert made.plan_.rounds > 1
    assert made.score(X, Y) > 0.8


def test_a_plan_that_is_worth_nothing_trains_nothing():
    with pytest.raises(InvalidInput, match="fit with a larger epsilon, or more records"):
        classifier(public=[], tables=None, epsilon=1e-3).fit(X, Y, SITE)


def test_mistakes_in_parameters_are_those_of_studies():
    with pytest.raises(
        ConfigError, match=r"\[privacy\] mechanism must be 'laplace', 'gaussian' or 'none', got 'normal'"
    ):
        classifier(mechanism="normal").fit(X, Y)
    with pytest.raises(ConfigError, match=r"\[algorithm\] round is not a key"):
        classifier(tables={"algorithm": {"round": 3}}).fit(X, Y)
    with pytest.raises(ConfigError, match=r"\[planning\] public must be a valid list or 'auto', got None"):
        classifier(public=None).fit(X, Y)


def test_classes_that_have_no_order_are_refused():
    with pytest.raises(InvalidInput, match="classes must be all texts or all numbers; make them texts"):
        classifier(classes=["no", "yes", None]).fit(X, Y)


def test_it_takes_part_in_pipelines_and_cross_validation():
    pipeline = make_pipeline(FunctionTransformer(), classifier())
    assert cross_val_score(pipeline, X, Y, cv=2).mean() > 0.7


@pytest.mark.full
@pytest.mark.filterwarnings("ignore::noiseworthy.estimators.SimulationWarning")
@parametrize_with_checks(
    [
        NoiseworthyClassifier(epsilon=1000.0, tables=STATED),
        NoiseworthyRegressor(epsilon=1000.0, tables=STATED),
    ]
)
def test_scikit_learns_own_checks(estimator, check):
    """All of them, with little noise: some ask for accuracy on a few dozen records."""
    check(estimator)
