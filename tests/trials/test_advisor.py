"""Algorithms side by side: ranked by trials under common seeds, ties said, time shared, more clients."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from endings import outcomes
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from noiseworthy.errors import InvalidInput
from noiseworthy.methods.space import Grid
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import make_task
from noiseworthy.trials import advisor, race
from noiseworthy.trials import deadline as deadline_module
from noiseworthy.trials.advisor import (
    Entry,
    clients_that_work,
    common_seeds,
    in_place_of,
    places,
    ranking,
    recommended,
    side_by_side,
    tied,
)
from noiseworthy.trials.bench import Bench, voted
from noiseworthy.trials.courses import untrained_score
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.search import plan_by_trial
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment


def facts_of(epsilon=20.0, clients=4) -> PublicFacts:
    sizes = np.full(clients, 40)
    budget = PrivacyBudget.of(epsilon, 1e-4, clients)
    return PublicFacts(
        problem=Problem(sizes, 12, budget, "gaussian", 1.0),
        record_shape=(4,),
        classes=3,
        make_task=lambda shape, classes, treatment, public=None: make_task(
            "softmax", shape, classes, feature_norm=1.0, normalise=True
        ),
        source="own",
        partition="iid",
    )


def fixed(algorithm: str, step: float, rounds: int = 8) -> Space:
    """A space of one setting."""
    return Space(
        algorithm, rounds=rounds, work=1, clients_per_round=4, clip_norm=0.5, step_size=step,
        decay_rounds=50.0, momentum=0.0, averaging=0.0, steering=0.0,
    )  # fmt: skip


@pytest.fixture
def short(monkeypatch):
    """Races of a coarse grid and a final, whose programs serve the common seeds too."""
    monkeypatch.setattr(race, "RUNGS", ())


@pytest.fixture(scope="module")
def bench():
    return Bench(facts_of(), ["wine"])


def entry(name: str, loss, uploads: int = 10, train: bool = True, for_owners: bool = False) -> Entry:
    """An entry of given losses, on one proxy."""
    plan = SimpleNamespace(train=train, uploads=np.full(4, uploads))
    found = SimpleNamespace(plan=plan, for_owners=for_owners)
    return Entry(Space(name), found, np.atleast_2d(loss), np.zeros((1, np.size(loss))))  # pyright: ignore


# Races on real public data ------------------------------------------------------------------------------


@pytest.mark.full
def test_the_ranking_is_what_trials_say_and_not_the_order_of_entry(bench, short):
    """A step of 1e-9 learns nothing, one of 5 does."""
    spaces = [fixed("weiavg", 1e-9), fixed("fedsgd-dpc", 5.0), fixed("dp-fedavg", 1e-9)]
    entries, left_out = side_by_side(bench, spaces, [None], seeds=1)
    assert left_out == []
    assert [one.name for one in entries] == ["weiavg", "fedsgd-dpc", "dp-fedavg"]
    assert [(place, one.name) for place, one in ranking(entries)] == [
        (1, "fedsgd-dpc"), (2, "weiavg"), (2, "dp-fedavg"),
    ]  # fmt: skip
    assert [one.train for one in entries] == [False, True, False]
    best = recommended(entries)
    assert best is not None
    assert best.name == "fedsgd-dpc"
    assert best.loss.shape == best.score.shape == (1, 10)
    assert best.per_seed.mean() < 0.9


@pytest.mark.full
def test_one_upload_takes_the_place_of_many_that_learn_nothing_and_not_the_other_way_round(bench, short):
    def once(shrinkage):
        return Space("moments", work=shrinkage, clip_norm=2.0, step_size=1.0, weighting=0.0)

    idle, useful = (fixed("fedsgd-dpc", step) for step in (1e-9, 5.0))

    def chosen(many, one, deadline=None):
        found = plan_by_trial(bench, many, seeds=1)
        return in_place_of(bench, many, found, one, [None], 1, deadline or Deadline())

    won = chosen(idle, once(0.3))
    assert won is not None
    assert won.plan.algorithm == "moments"
    assert won.plan.uploads.tolist() == [1, 1, 1, 1]
    assert chosen(useful, once(1e9)) is None, "a ridge that leaves nothing of the records"
    assert chosen(idle, once(0.3), Deadline(0.0)) is None, "no time is left"


@pytest.mark.full
def test_common_seeds_are_fresh_and_the_same_for_all(bench, short, monkeypatch):
    used = {}

    class Watched(Bench):
        def scores(self, space, candidates, seeds, on_progress=lambda done: None, *, at_home=False):
            used.setdefault(space.algorithm, []).append(list(seeds))
            return super().scores(space, candidates, seeds, on_progress, at_home=at_home)

    watched = Watched(bench.facts, bench.sources)
    side_by_side(watched, [fixed("fedsgd-dpc", 5.0), fixed("weiavg", 4.0)], [None], seeds=2)
    for asked in used.values():
        *races, a, b, c, d, e = asked
        assert [*a, *b, *c, *d, *e] == list(range(10_000, 10_010))
        assert max(seed for part in races for seed in part) < 10_000


@pytest.mark.full
def test_who_does_the_same_is_found_out_without_a_race(bench, short, monkeypatch):
    """Four clients alike, all asked always: weights by budget make no difference; local steps do."""
    raced = []
    by_trial = advisor.plan_by_trial

    def watched(bench, space, *arguments, **settings):
        raced.append(space.algorithm)
        return by_trial(bench, space, *arguments, **settings)

    monkeypatch.setattr(advisor, "plan_by_trial", watched)
    names = ("fedsgd-dpc", "weiavg", "privatefl", "dp-fedavg")
    entries, _ = side_by_side(bench, [fixed(name, 5.0) for name in names], [None], seeds=1)
    assert raced == ["fedsgd-dpc", "privatefl", "dp-fedavg"]
    assert [one.same_as for one in entries] == ["", "fedsgd-dpc", "", ""]
    first, twin, other, _ = entries
    np.testing.assert_allclose(twin.loss, first.loss, rtol=1e-4)
    assert not np.allclose(other.loss, first.loss, rtol=1e-4)
    assert twin.found.plan.algorithm == "weiavg"
    assert twin.found.plan.uploads.tolist() == first.found.plan.uploads.tolist()


@pytest.mark.full
def test_unequal_budgets_tell_algorithms_apart(short):
    facts = facts_of(epsilon=np.array([1.0, 5.0, 20.0, 40.0]))
    spaces = [fixed("fedsgd-dpc", 5.0), fixed("weiavg", 5.0)]
    entries, _ = side_by_side(Bench(facts, ["wine"]), spaces, [None], seeds=1)
    assert [one.same_as for one in entries] == ["", ""]


@pytest.mark.full
def test_who_is_refused_is_left_out_with_the_reason(bench, short):
    entries, left_out = side_by_side(bench, [fixed("dmldp", 5.0), fixed("fedsgd-dpc", 5.0)], [None], seeds=1)
    assert [one.name for one in entries] == ["fedsgd-dpc"]
    (one,) = left_out
    assert one.name == "dmldp"
    assert 'needs mechanism = "laplace"' in one.reason


def test_where_all_are_refused_the_first_reason_is_raised(bench, short):
    with pytest.raises(InvalidInput, match='dmldp needs mechanism = "laplace"'):
        side_by_side(bench, [fixed("dmldp", 5.0)], [None], seeds=1)


@pytest.mark.full
def test_without_time_the_first_is_tried_and_the_others_are_left_out(bench, short):
    spaces = [fixed("fedsgd-dpc", 5.0), fixed("weiavg", 4.0)]
    entries, left_out = side_by_side(bench, spaces, [None], seeds=1, seconds=1e-6)
    assert [one.name for one in entries] == ["fedsgd-dpc"]
    assert [one.name for one in left_out] == ["weiavg"]
    assert "the time ran out" in left_out[0].reason


@pytest.mark.full
def test_progress_names_the_algorithm_and_never_falls(bench, short):
    told = []
    spaces = [fixed("fedsgd-dpc", 5.0), fixed("weiavg", 4.0)]
    side_by_side(bench, spaces, [None], seeds=1, on_progress=lambda name, done: told.append((name, done)))
    assert {name for name, _ in told} == {"fedsgd-dpc", "weiavg"}
    shares = [done for _, done in told]
    assert shares == sorted(shares)
    assert 0 < shares[0] <= shares[-1] <= 1


# Ranking ------------------------------------------------------------------------------------------------

LOSSES = arrays(float, st.tuples(st.integers(1, 6), st.integers(2, 8)), elements=st.floats(0, 3))


@given(LOSSES)
def test_the_least_mean_is_first_and_places_follow_the_means(losses):
    found = places(losses)
    means = np.minimum(losses, advisor.CAP).mean(axis=1)
    assert found.min() == found[np.argmin(means)] == 1
    for i in range(len(losses)):
        assert found[i] <= 1 + np.sum(means < means[i])
        for j in range(len(losses)):
            assert found[i] <= found[j] or means[i] >= means[j]


@given(LOSSES, st.integers(0, 5))
@example(np.array([[0.0, 1], [1, 1], [2, 1], [1, 2]]), 2)  # another of the same mean, not tied with the first
def test_equals_tie(losses, which):
    row = losses[which % len(losses)]
    found = places(np.vstack([losses, row]))
    assert found[-1] == found[which % len(losses)]
    assert tied(row, row)


def test_a_difference_within_two_standard_errors_of_the_pairs_is_a_tie():
    """Mean 0.03 with deviation 0.06 over 9 seeds: 1.5 standard errors; over 36 seeds 3."""
    rng = np.random.default_rng(0)
    for seeds, tie in ((9, True), (36, False)):
        by = rng.standard_normal(seeds)
        by = 0.03 + 0.06 * (by - by.mean()) / by.std(ddof=1)
        luck = 0.5 + 0.2 * rng.standard_normal(seeds)
        assert tied(luck + by, luck) is tie


def test_luck_that_all_share_cancels():
    luck = np.random.default_rng(1).normal(0.5, 0.1, 10)
    assert not tied(luck, luck + 0.01)


def test_a_training_that_diverged_is_last_and_counts_a_finite_loss():
    ranked = ranking([entry("pfa", [0.5, np.inf]), entry("weiavg", [0.9, 0.9])])
    assert [one.name for _, one in ranked] == ["weiavg", "pfa"]
    assert ranked[1][1].per_seed.tolist() == [0.5, advisor.CAP]


def test_where_a_metric_is_named_what_is_missed_of_it_decides(short):
    """The loss of the first is better, its AUC is worse; where it gains nothing of that it does not train."""
    first, other = entry("pfa", [0.5, 0.5]), entry("weiavg", [0.9, 0.9])
    assert [one.name for _, one in ranking([first, other])] == ["pfa", "weiavg"]
    by_metric = [replace(first, missed=np.full((1, 2), 0.8)), replace(other, missed=np.full((1, 2), 0.3))]
    assert [one.name for _, one in ranking(by_metric)] == ["weiavg", "pfa"]
    assert not replace(first, missed=np.full((1, 2), 1.0)).train


@pytest.mark.full
def test_trials_tell_the_metric_that_a_study_names(short):
    named = Bench(replace(facts_of(), metric="auc"), ["wine"])
    (one,), _ = side_by_side(named, [fixed("fedsgd-dpc", 5.0)], [None], seeds=1)
    assert one.missed is not None
    np.testing.assert_allclose(one.score, 1 - one.missed / 2)  # a constant answer has an AUC of 1/2
    assert 0.6 < one.score.mean() <= 1
    assert one.per_seed.tolist() == one.missed.mean(axis=0).tolist()
    (proxy,) = named.proxies(None)
    assert untrained_score(proxy) == 0.5
    plans = [named.plan(one.space, one.found.result.winner, proxy)]
    assert outcomes(proxy, plans, [10_000])[1][0, 0] == pytest.approx(one.score[0, 0])
    assert voted(proxy, plans, [10_000])[0, 0] == pytest.approx(one.missed[0, 0])


def test_among_ties_the_fewest_uploads_win_and_then_the_first():
    ties = [
        entry("fedsgd-dpc", [0.5, 0.5], 30),
        entry("weiavg", [0.501, 0.5], 9),
        entry("pfa", [0.5, 0.5], 9),
    ]
    best = recommended(ties)
    assert best is not None
    assert best.name == "weiavg"


def test_squared_errors_are_told_apart_beside_a_mean_that_all_find():
    """Of numbers of -60 to -40 all but 1.3 % of the untrained error is their mean: R2 0.1 is 0.0013 of it."""
    squares = [entry("fedsgd-dpc", [0.0118, 0.0117], 30), entry("moments", [0.0131, 0.013], 1)]
    classes = recommended(squares)
    assert classes is not None
    assert classes.name == "moments"  # shares of the untrained loss as near are a tie
    best = recommended([replace(one, squares=True) for one in squares])
    assert best is not None
    assert best.name == "fedsgd-dpc"
    near = [replace(entry("fedsgd-dpc", [0.01, 0.01], 30), squares=True)]
    near += [replace(entry("moments", [0.01002, 0.01002], 1), squares=True)]
    assert [place for place, _ in ranking(near)] == [1, 1]


def test_nothing_is_recommended_where_fresh_seeds_see_no_gain():
    """One race chose not to train; another's luck does not last."""
    assert recommended([entry("pfa", [0.4, 0.4], train=False), entry("weiavg", [0.999, 1.2])]) is None


def test_of_a_study_for_its_owners_what_shared_or_tuned_models_gain_is_enough():
    """0.9 of the untrained loss, 1.1 of that of own models: worth it to who wants the shared one."""
    missed = np.array([[1.1, 1.1]])
    for for_owners in (True, False):
        one = replace(entry("pfa", [0.9, 0.9], for_owners=for_owners), missed=missed)
        assert one.train == for_owners
    lost = replace(entry("pfa", [1.2, 1.2], for_owners=True), missed=missed)
    assert not lost.train
    np.testing.assert_array_equal(one.per_seed, [1.1, 1.1])


@given(st.integers(1, 40))
def test_there_are_ten_common_seeds_at_least_in_whole_lots(seeds):
    common = common_seeds(seeds)
    assert len(common) >= 10
    assert len(common) % seeds == 0
    assert len(common) < 10 + seeds


def test_time_is_shared_by_effort_and_what_is_saved_is_passed_on(monkeypatch):
    now = 100.0
    monkeypatch.setattr(deadline_module.time, "monotonic", lambda: now)
    whole = Deadline(60.0)
    assert whole.share(5, 10)._end == 120.0
    now = 110.0  # ten seconds saved
    assert whole.share(10, 0)._end == 160.0
    now = 170.0
    assert whole.share(10, 0)._end == 170.0


def test_the_first_race_has_time_to_start(monkeypatch):
    """Public data are opened and what all races share is compiled while it runs."""
    ends: list[float] = []

    def entered(bench, space, others, kinds, seeds, deadline, tell):
        ends.append(deadline._end)
        return SimpleNamespace(
            found=SimpleNamespace(result=SimpleNamespace(winner=SimpleNamespace(treatment=None)))
        )

    monkeypatch.setattr(deadline_module.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(advisor, "_entry", entered)
    alike = [Space(name) for name in ("fedsgd-dpc", "dpfl-bcs")]
    side_by_side(Bench(facts_of(), []), alike, [None], seconds=30)
    assert ends == [120.0, 130.0]
    side_by_side(Bench(facts_of(), []), alike, [None, Treatment()], seconds=30)
    assert ends[2:] == [122.5, 130.0]


# More clients -------------------------------------------------------------------------------------------


@pytest.fixture
def tiny_grid(monkeypatch):
    monkeypatch.setattr(Space, "grid", Grid((6.0,), (1,), (0.5,), (1, 10, 100)))


@pytest.mark.full
def test_more_clients_like_these_are_found_and_are_enough_when_they_come(tiny_grid):
    """4 clients learn nothing at epsilon 0.02; the bench of so many as are named does."""
    space = replace(
        fixed("fedsgd-dpc", 5.0), rounds=None, clients_per_round=None, clip_norm=None, step_size=None
    )
    few = Bench(facts_of(epsilon=0.02), ["wine"])
    enough = clients_that_work(few, space, None, seeds=2)
    assert enough is not None
    assert enough in (8, 16, 32, 64, 128, 256)
    for clients, works in ((enough, True), (4, False)):
        there = Bench(facts_of(epsilon=0.02, clients=clients), ["wine"])
        losses = advisor._crowded(there, space, _candidates(space), 1, [5, 6, 7])
        assert bool(losses.min() < advisor.WORKS + 0.03) == works


def _candidates(space):
    return [advisor.Candidate(setting) for setting in space.first()]


def test_an_absurd_budget_is_beyond_any_number_of_clients(tiny_grid):
    space = Space("fedsgd-dpc", momentum=0.0, averaging=0.0)
    assert clients_that_work(Bench(facts_of(epsilon=1e-3), ["wine"]), space, None, seeds=1) is None
