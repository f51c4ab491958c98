"""What a run says at once: it gained nothing, or ended where its plan did not foresee it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from noiseworthy._jax import jax, jnp
from noiseworthy.data import load_federation
from noiseworthy.methods.fedsgd_dpc.planner import stated
from noiseworthy.model.metrics import of_classes
from noiseworthy.plans.plan import Prediction, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.studies.decision import Decision, Foretold
from noiseworthy.studies.fitted import _notes
from noiseworthy.studies.flags import class_prior, flags, foretold
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.record import load_record
from noiseworthy.studies.studies import plan, train_in
from noiseworthy.tasks import make_task

PROBLEM = Problem(np.full(4, 50), 8, PrivacyBudget.of(1.0, 1e-5, 4), "gaussian", 1.0)
SAID = Foretold(
    loss=0.5, losses=(0.4, 0.6), accuracy=0.8, accuracies=(0.75, 0.85), least=0.7, most=0.9,
    sources=("wine", "prior:0"), lost=(0.0, 0.1),
)  # fmt: skip


def plan_of(rounds=13):
    return stated(PROBLEM, rounds, 4, StepSize(1.0))


def record_of(classes=2, said=SAID, prediction=None):
    plan = replace(plan_of(), prediction=prediction)
    found = foretold(Decision(plan, None, foretold=said), classes)
    return {"federation": {"classes": classes}} | ({} if found is None else {"foretold": found})


def ended(loss, accuracy, *, untrained=0.69, prior=None):
    return {
        "loss": [[untrained, loss]],
        "accuracy": [[0.5, accuracy]],
        "untrained_loss": untrained,
        "prior": prior,
    }


def test_a_training_as_foretold_raises_no_flag():
    assert flags(record_of(), ended(0.35, 0.8, prior=0.6)) == []
    assert flags({"federation": {"classes": 2}}, ended(0.35, 0.8, prior=0.6)) == []
    assert flags({"federation": None}, ended(0.35, 0.8)) == []


def test_the_band_is_that_of_the_public_data_a_quarter_wider():
    band = record_of()["foretold"]["loss"]
    assert (band["mean"], band["least"], band["most"]) == pytest.approx(
        (0.5 * np.log(2), 0.4 * np.log(2) / 1.25, 0.6 * np.log(2) * 1.25)
    )
    assert record_of()["foretold"]["accuracy"] == pytest.approx({"mean": 0.8, "least": 0.65, "most": 0.95})
    bound = record_of(prediction=Prediction(0.2, 0.69, "test loss"))["foretold"]["loss"]
    assert (bound["mean"], bound["least"]) == pytest.approx((0.2, 0.16))
    assert foretold(Decision(plan_of(), None), 2) is None
    assert foretold(Decision(replace(plan_of(), rounds=0), None, foretold=SAID), 2) is None


@pytest.mark.parametrize("model", ["logistic", "svm", "linear"])
def test_shares_of_the_untrained_loss_are_foretold_as_losses_of_the_model(model):
    """An svm starts at 0.5: told in units of ln 2, what ended worse than it began lay within the band."""
    classes = None if model == "linear" else 2
    raw = {"federation": {"data": "wine"}, "task": {"model": model}, "privacy": {"mechanism": "none"}}
    decision = Decision(plan_of(), None, foretold=SAID, study=parse_study(raw))
    task = make_task(model, (3,), classes)
    start = task.score(task.initial(jax.random.key(0)), jnp.ones((2, 3)), jnp.array([0, 1])).loss
    unit = 1.0 if classes is None else float(start)
    assert decision.untrained(classes) == pytest.approx(unit)
    assert foretold(decision, classes)["loss"]["most"] == pytest.approx(0.6 * unit * 1.25)


@pytest.mark.parametrize(
    ("loss", "accuracy", "says"),
    [
        (0.61, 0.8, "predicted test loss 0.347 [0.222, 0.52], measured 0.61. These records are harder"),
        (0.35, 0.41, "predicted accuracy 80 % [65 %, 95 %], measured 41 %."),
        (
            0.1,
            0.99,
            "measured 0.1; predicted accuracy 80 % [65 %, 95 %], measured 99 %. These records are easier",
        ),
        (float("nan"), None, "measured diverged"),
    ],
)
def test_a_prediction_that_its_measurement_contradicts_is_flagged(loss, accuracy, says):
    found = [one for one in flags(record_of(), ended(loss, accuracy)) if one.startswith("The measurement")]
    assert len(found) == 1
    assert says in found[0]


def test_the_loss_of_a_regression_is_a_share_of_the_untrained_one():
    record = record_of(classes=None, prediction=Prediction(0.5, 1.0, "share"))
    assert flags(record, ended(49.0, 0.8, untrained=98.0)) == []
    (said,) = flags(record, ended(6.0, 0.8, untrained=98.0))
    assert "predicted share of the untrained test loss 0.5 [0.32, 0.75], measured 0.0612" in said
    useless, said = flags(record, ended(6.0, 0.8, untrained=0.0))
    assert useless == "Training did not help: test loss 6 against 0 untrained."
    assert "measured diverged" in said


@pytest.mark.parametrize(
    ("classes", "end", "says"),
    [
        (None, ended(90.0, -9.27, untrained=98.0), "Worse than a constant: R² is -9.27 on the test records"),
        (None, ended(90.0, 0.0, untrained=98.0), "No better than a constant: R² is 0.00 on the test records"),
        (2, ended(0.6, 0.71, prior=0.76), "test accuracy is 71.0%, and 76.0% for always answering the most"),
        (2, ended(0.7, 0.8, prior=0.76), "Training did not help: test loss 0.7 against 0.69 untrained."),
        (2, ended(float("inf"), None), "Training did not help: test loss diverged against 0.69 untrained."),
    ],
)
def test_a_model_that_does_no_better_than_nothing_is_flagged(classes, end, says):
    (found,) = flags({"federation": {"classes": classes}}, end)
    assert says in found


def scored(labels, named, end, **how):
    """A training whose model names some classes, almost surely."""
    scores = np.full((len(labels), how.pop("classes", 2)), 0.01)
    scores[np.arange(len(labels)), named] = 0.99
    return end | {"metrics": of_classes(labels, scores, **how).model_dump()}


RARE = [0] * 45 + [1] * 3
"""Labels of test records, 6 % of which are of the rarer class."""
LEARNED = [0] * 44 + [1] * 4


def flagged(training, **study):
    return flags({"federation": {"classes": 2}, "study": {"task": study}}, training)


def test_a_loss_that_is_not_below_that_of_the_shares_of_the_classes_is_flagged():
    """It started at ln 2, far above what classes as rare as these give for nothing: 0.234."""
    (found,) = flagged(scored(RARE, LEARNED, ended(0.24, 47 / 48, prior=45 / 48)))
    assert (
        found
        == "No better than the shares of the classes: test loss 0.24 against 0.234 for always answering them."
    )
    assert flagged(scored(RARE, LEARNED, ended(0.22, 47 / 48, prior=45 / 48))) == []
    (found,) = flagged(scored(RARE, LEARNED, ended(0.7, 47 / 48, prior=45 / 48)))
    assert found.startswith("Training did not help")


def test_weighted_losses_are_held_against_the_best_constant_under_the_same_weights():
    weights = np.where(np.array(RARE) == 1, 15.0, 1.0)
    assert flagged(scored(RARE, LEARNED, ended(0.6, 0.9), weights=weights), class_weights=[1, 15]) == []
    (found,) = flagged(scored(RARE, LEARNED, ended(0.695, 0.9, untrained=0.7), weights=weights))
    assert "test loss 0.695 against 0.693" in found


def test_losses_that_are_no_log_losses_are_not_held_against_shares():
    svm = scored(RARE, LEARNED, ended(0.5, 47 / 48, untrained=1.0), probabilities=False)
    assert flagged(svm) == []


@pytest.mark.parametrize("weights", [{}, {"class_weights": [1.0, 2.0]}])
def test_one_class_for_every_record_is_flagged_however_large_its_share(weights):
    (found,) = flagged(scored(RARE, [0] * 48, ended(0.2, 45 / 48, prior=45 / 48)), **weights)
    assert found.startswith("One answer for all: accuracy 93.8% and balanced accuracy 50.0% of the model are")


def test_a_rare_class_that_does_not_occur_among_the_test_records_changes_nothing():
    three = scored(RARE, [0] * 48, ended(0.2, 45 / 48, prior=45 / 48), classes=4)
    (found,) = flags({"federation": {"classes": 4}}, three)
    assert found.startswith("One answer for all")


def test_scores_that_float32_rounds_below_an_equal_prior_are_not_worse_than_it():
    """741 of 800 test records, by always answering the most frequent class and by the model alike."""
    assert (score := float(np.float32(741 / 800))) < 741 / 800
    assert flags({"federation": {"classes": 2}}, ended(0.6, score, prior=741 / 800)) == []


def test_the_prior_is_what_the_most_frequent_class_of_the_test_records_scores():
    federation = load_federation("breast-cancer", clients=3, seed=0)
    assert class_prior(federation) == pytest.approx(max(np.mean(federation.test_y == k) for k in (0, 1)))
    assert class_prior(load_federation("diabetes-progression", clients=3, seed=0)) is None


# A plan whose own notes prefer another ---------------------------------------------------------------


def guess_of(best_rounds, best_loss, planned_loss):
    """What a fitted bound says of a plan, and what it would rather have."""
    bound = SimpleNamespace(
        shape=SimpleNamespace(source="theory"), quality="fits", points=(1,), error=0.001,
        at=lambda plan: planned_loss,
    )  # fmt: skip
    best = SimpleNamespace(rounds=best_rounds, loss=best_loss)
    return SimpleNamespace(bound=bound, plan=plan_of(), at=lambda problem: best)


def test_a_plan_whose_own_bound_prefers_other_rounds_by_far_carries_a_warning():
    """T = 13 was planned, T = 133 preferred: 57 % of the gain was lost without a warning."""
    _, said = _notes(guess_of(133, 0.4, 0.74), plan_of(13))
    assert said.startswith(
        "Warning: the plan has T = 13 rounds, the bound fitted to its own trials would rather"
    )
    assert "have T = 133 rounds: 40.0% of the untrained loss, against 74.0% for the plan" in said
    assert "misses 57% of what can be gained" in said


@pytest.mark.parametrize(("rounds", "loss"), [(20, 0.4), (133, 0.735)])
def test_a_near_or_hardly_better_preference_stays_a_note(rounds, loss):
    _, said = _notes(guess_of(rounds, loss, 0.74), plan_of(13))
    assert said.startswith("The fitted bound would rather have T = ")


def test_a_plan_that_its_bound_agrees_with_says_nothing_of_others():
    assert len(_notes(guess_of(133, 0.7395, 0.74), plan_of(13))) == 1


# In a run -------------------------------------------------------------------------------------------------


def test_a_run_whose_model_always_answers_the_most_frequent_class_says_so_in_its_record(tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{int(i % 12 == 0)},{'abc'[i % 3]}" for i, x in enumerate(rng.uniform(-1, 1, 360))]
    (tmp_path / "rare.csv").write_text("\n".join(["x,label,client", *rows]))
    stated = {"rounds": 2, "clients_per_round": 3, "step_size": 0.5, "momentum": 0.0, "averaging": 0.0}
    study = parse_study({
        "federation": {"data": str(tmp_path / "rare.csv"), "classes": ["0", "1"]},
        "privacy": {"mechanism": "gaussian", "epsilon": 50.0, "delta": 1e-5, "clip_norm": 1.0},
        "algorithm": stated | {"weighting": 0.0}, "task": {"bias": 1.0},
    })  # fmt: skip
    record = train_in(plan(study), tmp_path / "run", name="rare")
    said = load_record(tmp_path / "run")["training"]["flags"]
    assert record["training"]["flags"] == said
    assert [one.split(":")[0] for one in said] == [
        "No better than the shares of the classes",
        "One answer for all",
    ]
