"""Plans by trial: whether to train, what is said of them, and that the private budget pays for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.methods.space import Setting
from noiseworthy.trials import race
from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.race import Result
from noiseworthy.trials.search import plan_by_trial, planned

WINNER = Candidate(Setting(1.0, 1.0, 1.0, 20.0))


@pytest.fixture
def short(monkeypatch):
    """Races of a first grid and a final."""
    monkeypatch.setattr(race, "RUNGS", ())


def result_of(loss, lost=(0.01, 0.02), unfinished=False):
    scores = Scores(np.full((2, 1, 3), loss), np.full((2, 1, 3), 0.8))
    return Result(WINNER, max(lost), np.array(lost), scores, 120, unfinished)


@pytest.fixture(scope="module")
def bench(facts_of):
    return Bench(facts_of(), ["wine", "prior:0"])


def test_hopeless_noise_ends_in_do_not_train(facts_of, space_of, short):
    found = plan_by_trial(
        Bench(facts_of("laplace", 1e-3), ["wine"]), space_of("fedsgd-dpc", step_size=None), seeds=2
    )
    assert found.loss.mean() > 0.99
    assert not found.plan.train
    assert found.plan.releases.tolist() == found.plan.spent().tolist() == [0] * 4
    assert found.plan.outcome.startswith("Do not train")


def test_ample_budget_trains_within_it_and_again_alike(facts_of, space_of, short):
    bench, told = Bench(facts_of(epsilon=50.0), ["wine"]), []
    space = space_of("fedsgd-dpc", step_size=None)
    found, again = (plan_by_trial(bench, space, seeds=2, on_progress=told.append) for _ in range(2))
    assert found.plan.train
    assert found.loss.mean() < 0.9
    assert np.all(found.plan.spent() <= 50.0)
    assert found.plan.problem.dimension == 12, "for the private model, not that of a proxy"
    assert "chosen by trial" in found.plan.outcome or "as stated" not in found.plan.outcome
    assert found.plan.as_dict() == again.plan.as_dict()
    assert found.accuracy.shape == (1, 2)
    assert told[-1] == pytest.approx(1.0)


def test_what_gained_nothing_is_not_trained(bench, space_of):
    space = space_of("fedsgd-dpc")
    assert planned(bench, space, result_of(0.9)).plan.train
    assert not planned(bench, space, result_of(0.999)).plan.train


def test_what_is_trained_is_closed_by_its_uploads_unless_a_study_says_how_it_is_steered(bench, space_of):
    free, stated = space_of("fedsgd-dpc", steering=None, floor=0.07), space_of("fedsgd-dpc", steering=0.1)
    closed = planned(bench, free, result_of(0.9)).plan.steering
    assert closed is not None
    assert (closed.closing, closed.floor) == (0.2, 0.07)
    as_said = planned(bench, stated, result_of(0.9)).plan.steering
    assert as_said is not None
    assert (as_said.gain, as_said.closing) == (0.1, 0.0)
    assert planned(bench, free, result_of(0.999)).plan.steering is None


def test_proxies_that_disagree_are_said_to(bench, space_of):
    space = space_of("fedsgd-dpc")
    agreed = planned(bench, space, result_of(0.5)).plan.notes
    odd = planned(bench, space, result_of(0.5, (0.02, 0.3))).plan.notes
    assert any("no private record was read" in note and "wine, prior:0" in note for note in agreed)
    assert not any("disagree" in note for note in agreed)
    assert any("Warning: the public data sets disagree" in note and "30%" in note for note in odd)
    assert not any("disagree" in n for n in planned(bench, space, result_of(0.5, (0.1, 0.0))).plan.notes)
    alone = planned(Bench(bench.facts, ["wine"]), space, result_of(0.5, (0.3,))).plan.notes
    assert any("Warning: on public data this choice" in note and "30%" in note for note in alone)


def test_a_plan_that_ran_out_of_time_says_so(bench, space_of):
    notes = planned(bench, space_of("fedsgd-dpc"), result_of(0.5, unfinished=True)).plan.notes
    assert any("time for planning ran out" in note for note in notes)


def test_without_time_there_is_still_a_plan(facts_of, space_of):
    found = plan_by_trial(
        Bench(facts_of(), ["wine"]), space_of("fedsgd-dpc"), seeds=2, deadline=Deadline(-1.0)
    )
    assert found.result.unfinished
    assert found.plan.rounds in (0, 4)


@pytest.mark.parametrize("algorithm", ["fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs"])
def test_the_plan_is_the_winners_with_the_private_noise(facts_of, space_of, algorithm):
    """The noise is calibrated for all clients, though 500 of them were tried."""
    bench = Bench(facts_of(sizes=(20,) * 600), ["prior:0"])
    space = replace(
        space_of(algorithm, work=0.5 if algorithm == "dp-scaffnew" else 2), clients_per_round=None
    )
    one = Result(WINNER, 0.0, np.zeros(1), Scores(np.full((1, 1, 1), 0.5), np.ones((1, 1, 1))), 1, False)
    if algorithm == "dpfl-bcs":
        space = replace(space, clients_per_round=600)
    plan = planned(bench, space, one).plan
    assert len(plan.noise) == len(plan.releases) == 600
    assert np.all(plan.spent() <= 20.0)
    assert plan.spent().max() == pytest.approx(20.0, rel=1e-4)
