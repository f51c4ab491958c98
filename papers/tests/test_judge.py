"""The one judge: noise alone seldom makes a verdict, equal is no order, each kind can hold and fail."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_1samp, ttest_ind_from_stats

from noiseworthy_papers.judge import NEAR, SLACK, Case, Claim, judged, verdict
from noiseworthy_papers.kinds import Ahead, Alike, Facts, Level, Ordered, Printed, Slower, Spread, Untestable
from noiseworthy_papers.optima import FlattestLine, Interior, LowestLine, Near, OptimumMoves
from noiseworthy_papers.points import NO_NOISE, Point, Recalled
from noiseworthy_papers.samples import TAIL, Sample, contrast, every, some
from noiseworthy_papers.selecting import Where
from noiseworthy_papers.settings import FedAvg, quantities

GRID, PLAN = Where(("grid",)), Where(("planned",))
DRAWS = np.random.default_rng(0)


def point(
    losses,
    *,
    series="s",
    role="grid",
    epsilon=1.0,
    steps=1,
    iterations=12,
    start=10.0,
    accuracies=None,
    **more,
) -> Point:
    """Final losses of every seed after an untrained model of loss `start` and accuracy 0.1."""
    values = np.atleast_1d(np.asarray(losses, float))
    accuracies = values if accuracies is None else np.asarray(accuracies, float)
    made = Point(
        "laplace", epsilon, 1.0, series, role, "dp-fedavg", quantities(FedAvg(iterations, steps, 5)), 1.0,
        0.1, [0, 1], [[start, loss] for loss in values], [[0.1, value] for value in accuracies], 0.0,
    )  # fmt: skip
    return replace(made, **more)


def noisy(mean, std=0.01, seeds=5):
    """Values with exactly this mean and deviation, in a new random order of residuals."""
    drawn = DRAWS.normal(size=seeds)
    return mean + std * (drawn - drawn.mean()) / drawn.std(ddof=1)


def row(means, epsilon=1.0, **more) -> list[Point]:
    """Settings of 1, 2, 3, 6, 12 local steps with these mean losses."""
    return [
        point(noisy(mean), epsilon=epsilon, steps=steps, series=f"E={steps}", **more)
        for steps, mean in zip((1, 2, 3, 6, 12), means, strict=False)
    ]


def word(kind, points):
    return verdict(Claim("It is so.", (kind,)), points).word


# What noise alone tells ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seeds", [2, 3, 5, 20])
@pytest.mark.parametrize("paired", [True, False])
def test_a_difference_of_nothing_is_told_as_rarely_as_stated_on_each_side(seeds, paired):
    """6,000 pairs of equal settings. Paired, the share is TAIL; Welch's unpaired test is near it."""
    rng, tells = np.random.default_rng(seeds), []
    for drawn in rng.normal(size=(6_000, 2, seeds)):
        if paired:
            both = [Sample.of(values) for values in drawn]
        else:
            both = [Sample(v.mean(), v.std(ddof=1), seeds) for v in drawn]
        tells.append(contrast((1.0, both[0]), (-1.0, both[1])).told())
    shares = [np.mean(np.array(tells) == sign) for sign in (1, -1)]
    assert max(shares) < TAIL + 0.008
    assert not paired or min(shares) > TAIL - 0.008


@pytest.mark.parametrize(("rivals", "kind"), [(1, "ahead"), (1, "tied"), (20, "ahead"), (20, "tied")])
def test_equal_settings_are_seldom_judged_either_way(rivals, kind):
    """Under no difference `agrees` has at most the stated share, and `disagrees` too, however many rivals."""
    rng, words = np.random.default_rng(rivals), []
    claim = Ahead(PLAN, GRID, tie=kind == "tied")
    for drawn in rng.normal(size=(400, rivals + 1, 5)):
        others = [point(5 + values, series=f"g{i}") for i, values in enumerate(drawn[1:])]
        words.append(word(claim, [point(5 + drawn[0], role="planned", series="p"), *others]))
    limit = TAIL + 3 * (TAIL / 400) ** 0.5
    assert words.count("disagrees") / 400 < limit
    assert kind == "tied" or words.count("agrees") / 400 < limit


def test_a_difference_is_told_as_students_test_tells_it():
    """scipy's paired and unpaired tests as the reference, at the level of two standard errors."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        first, second = rng.normal(0.8, 1, 6), rng.normal(0, 2, 6)
        paired = contrast((1.0, Sample.of(first)), (-1.0, Sample.of(second)))
        expected = ttest_1samp(first - second, 0).pvalue < 2 * TAIL
        assert (paired.told() != 0) == expected
        kept = [Sample(v.mean(), v.std(ddof=1), 6) for v in (first, second)]
        welch = ttest_ind_from_stats(
            kept[0].mean, kept[0].std, 6, kept[1].mean, kept[1].std, 6, equal_var=False
        ).pvalue
        assert (contrast((1.0, kept[0]), (-1.0, kept[1])).told() != 0) == (welch < 2 * TAIL)


def test_pairing_tells_what_spread_hides():
    common = DRAWS.normal(size=5) * 10
    first, second = Sample.of(common + noisy(1.0, 0.1)), Sample.of(common)
    assert contrast((1.0, first), (-1.0, second)).told() == 1
    apart = [replace(one, values=()) for one in (first, second)]
    assert contrast((1.0, apart[0]), (-1.0, apart[1])).told() == 0


def test_what_has_no_deviation_is_not_told():
    assert Sample.of([3.0]).told() == 0
    assert Sample(3.0, float("nan"), 5).told() == 0
    assert Sample.of([3.0, 3.0]).told() == 0, "two seeds that agree to the last digit are two seeds"
    assert Sample.number(3.0).told() == 1
    assert Sample.number(1e-15).told() == 0
    assert Sample.of([np.inf, np.inf]).told() == 1
    assert Sample.of([np.inf, 1.0]).told() == 0


def test_every_and_some_are_each_others_opposite():
    up, down, open_ = Sample.number(1.0), Sample.number(-1.0), Sample.of([1.0, -1.0])
    assert [every(c) for c in ([up, up], [up, open_], [up, down], [down, down])] == [1, 0, -1, -1]
    assert [some(c) for c in ([up, up], [up, open_], [up, down], [down, open_], [down, down])] == [
        1,
        1,
        1,
        0,
        -1,
    ]
    assert every([]) == some([]) == 0


# From cases to a verdict --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "failed", "open_", "expected"),
    [
        (2, 0, 0, "agrees"),
        (1, 0, 1, "partly"),
        (1, 1, 0, "partly"),
        (0, 1, 1, "disagrees"),
        (1, 2, 0, "disagrees"),
        (1, 0, 2, "not testable here"),
        (0, 1, 2, "not testable here"),
        (0, 0, 3, "not testable here"),
        (0, 0, 0, "not testable here"),
    ],
)
def test_a_verdict_counts_cases(held, failed, open_, expected):
    cases = [Case(1, "h")] * held + [Case(-1, "f")] * failed + [Case(0, "o")] * open_
    assert judged(cases).word == expected


def test_a_reason_is_offered_only_where_we_differ():
    claim = Claim("It is so.", (Facts((True, False), "counted"),), "Because.")
    assert verdict(claim, []).reason == "Because."
    assert verdict(replace(claim, kinds=(Untestable("too few"),)), []).reason == ""
    assert verdict(replace(claim, kinds=(Facts((True,), "counted"),)), []).word == "agrees"


# The known cases, with their numbers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "std", "told"),
    [
        (8.75, 14.78, 0),
        (0.48, 4.82, 0),
        (2.64, 13.13, 0),
        (3.25, 1.86, 1),
        (39.48, 3.98, 1),
        (-32.52, 2.54, -1),
    ],
)
def test_gaps_of_ma_over_five_seeds(mean, std, told):
    assert Sample(mean, std, 5).told() == told


def test_three_equal_optima_are_no_evidence_of_an_order():
    """Fu et al., figure 5: E* is 12, 12, 12 and 1 for epsilon 1, 3, 5 and infinity."""
    falling, rising = [5.0, 4.0, 3.0, 2.0, 1.0], [1.0, 2.0, 3.0, 4.0, 5.0]
    points = [p for e in (1.0, 3.0, 5.0) for p in row(falling, e)] + row(rising, NO_NOISE)
    kind = OptimumMoves("local_steps", "epsilon", rising=False, where=GRID)
    found = verdict(Claim("E should be larger if epsilon is smaller.", (kind,)), points)
    assert found.word == "not testable here"
    assert "1 of 3" in found.evidence
    assert word(kind, row(falling, 1.0) + row(rising, 3.0)) == "agrees"
    assert word(kind, row(rising, 1.0) + row(falling, 3.0)) == "disagrees"


@pytest.mark.parametrize(("planned", "expected"), [(1, "disagrees"), (9, "agrees"), (5, "disagrees")])
def test_a_planned_period_is_near_the_grids_or_not(planned, expected):
    """Hu et al.: tau = 1 where the grid is best at 12, and told to be."""
    plan = point(noisy(2.0), role="planned", series="planned", steps=planned, iterations=12 * planned)
    kind = Near("local_steps", PLAN, target=GRID)
    assert word(kind, [*row([5.0, 4.0, 3.0, 2.0, 1.0]), plan]) == expected
    flat = [point(noisy(2.0, 1.0), series=f"E={e}", steps=e) for e in (1, 2, 3, 6, 12)]
    assert word(kind, [*flat, plan]) == "not testable here"


# Kinds --------------------------------------------------------------------------------------------------


def rival(mean, **more):
    return point(noisy(mean), series="rival", **more)


def mine(mean, **more):
    return point(noisy(mean), series="mine", role="planned", **more)


@pytest.mark.parametrize(
    ("loss", "expected"), [(1.0, "agrees"), (2.0, "not testable here"), (3.0, "disagrees")]
)
def test_ahead_is_told_or_not(loss, expected):
    assert word(Ahead(PLAN, GRID), [mine(loss), rival(2.0)]) == expected


def test_a_tie_is_a_share_of_the_gain_and_not_of_the_loss():
    """From 10 without training to 2: 5 % of the gain are 0.4."""
    kind, gain = Ahead(PLAN, GRID, tie=True), 8.0
    assert word(kind, [mine(2 + 0.9 * SLACK * gain), rival(2.0)]) == "agrees"
    assert word(kind, [mine(2 + 1.1 * SLACK * gain), rival(2.0)]) == "disagrees"
    assert word(kind, [mine(2 + 0.9 * SLACK * gain, start=5.0), rival(2.0, start=5.0)]) == "disagrees"
    high = [mine(1.0, accuracies=noisy(0.789, 1e-4)), rival(1.0, accuracies=noisy(0.80, 1e-4), start=10.0)]
    assert word(Ahead(PLAN, GRID, "accuracy", tie=True), high) == "agrees"
    flat = [replace(p, accuracies=[[0.77, a] for _, a in p.accuracies]) for p in high]
    assert word(Ahead(PLAN, GRID, "accuracy", tie=True), flat) == "disagrees", (
        "0.79 of 0.80, but of a gain of 0.03"
    )


def test_where_nothing_gains_a_tie_asks_to_be_ahead():
    kind = Ahead(PLAN, GRID, tie=True)
    assert word(kind, [mine(12.0), rival(12.0)]) == "not testable here"
    assert word(kind, [mine(11.0), rival(12.0)]) == "agrees"
    unknown = replace(rival(2.0), recalled=Recalled(5, 2.0, 0.01, 0.5, 0.01))
    assert word(kind, [mine(2.1), unknown]) == "not testable here", "no start, no slack: it may be a tie"


def test_ahead_by_a_margin_a_factor_and_of_each():
    assert word(Ahead(PLAN, GRID, by=0.5), [mine(1.0), rival(2.0)]) == "agrees"
    assert word(Ahead(PLAN, GRID, by=1.5), [mine(1.0), rival(2.0)]) == "disagrees"
    assert word(Ahead(PLAN, GRID, factor=1.9), [mine(1.0), rival(2.0)]) == "agrees"
    assert word(Ahead(PLAN, GRID, factor=2.1), [mine(1.0), rival(2.0)]) == "disagrees"
    two = [mine(1.0), rival(2.0), rival(0.5)]
    assert word(Ahead(PLAN, GRID), two) == "disagrees"
    assert word(Ahead(PLAN, GRID, each=True), two) == "partly"
    assert word(Ahead(PLAN, GRID), [mine(1.0), rival(2.0, epsilon=3.0)]) == "not testable here"
    marked = [point(noisy(1.0), series="s, no momentum"), point(noisy(2.0), series="s")]
    assert word(Ahead(Where(ending=", no momentum"), without=", no momentum"), marked) == "agrees"


def test_order_counts_neighbours_and_equal_ones_tell_nothing():
    kind = Ordered("loss", "local_steps", rising=True)
    assert word(kind, row([1.0, 2.0, 3.0])) == "agrees"
    assert word(kind, row([1.0, 2.0, 1.5])) == "partly"
    assert word(kind, row([3.0, 2.0, 1.0])) == "disagrees"
    assert word(kind, row([1.0, 1.0, 1.0, 2.0])) == "not testable here"
    assert word(replace(kind, ends=True), row([1.0, 9.0, 2.0])) == "agrees"
    assert word(replace(kind, ends=True, by=1.5), row([1.0, 9.0, 2.0])) == "disagrees"
    periods = [point(1.0, series="planned", steps=s, epsilon=e) for e, s in ((1.0, 2), (2.0, 2), (4.0, 3))]
    steps = Ordered("local_steps", "epsilon", rising=True)
    assert word(steps, periods) == "partly"
    assert word(steps, periods[:2]) == "not testable here"


def test_spread_alike_level_and_printed():
    points = row([1.0, 2.0])
    assert word(Spread("loss", factor=1.9), points) == "agrees"
    assert word(Spread("loss", factor=2.1), points) == "disagrees"
    assert word(Spread("loss", by=0.9), points) == "agrees"
    assert word(Alike("loss", 1.1), points) == "agrees"
    assert word(Alike("loss", 0.9), points) == "disagrees"
    vague = [point(noisy(2.0, 5.0), series="a"), point(noisy(2.0, 5.0), series="b")]
    assert word(Alike("loss", 0.9), vague) == "not testable here", "not told apart is not told alike"
    assert word(Level("loss", least=0.5, most=2.5), points) == "agrees"
    assert word(Level("loss", most=1.5), points) == "partly"
    assert word(Level("loss", least=2.5), points) == "disagrees"
    assert word(Printed("loss", ((1.0, 0.9 * NEAR),)), points) == "agrees"
    assert word(Printed("loss", ((1.0, 1.1 * NEAR),)), points) == "disagrees"


def test_slower_compares_gains_from_end_to_end():
    fast = [point(noisy(m), series="fast", epsilon=e) for e, m in ((1.0, 9.0), (6.0, 1.0))]
    slow = [point(noisy(m), series="slow", epsilon=e) for e, m in ((1.0, 9.0), (6.0, 6.0))]
    kind = Slower(Where(series=("slow",)), Where(series=("fast",)), "loss", "epsilon", 0.5)
    assert word(kind, fast + slow) == "agrees"
    assert word(replace(kind, share=0.3), fast + slow) == "disagrees"


def test_an_interior_optimum_needs_two_worse_ends():
    kind = Interior("local_steps")
    assert word(kind, row([3.0, 1.0, 2.0])) == "agrees"
    assert word(kind, row([1.0, 2.0, 3.0])) == "disagrees"
    assert word(kind, row([3.0, 2.0, 1.0])) == "disagrees"
    assert word(kind, row([1.0, 1.0, 2.0])) == "not testable here"
    assert word(replace(kind, by=0.5), row([1.2, 1.0, 2.0])) == "disagrees"
    assert word(replace(kind, most=0.5), row([3.0, 1.0, 2.0])) == "disagrees"


def test_places_of_optima_have_one_factor_for_the_papers_and_for_ours():
    points = row([5.0, 4.0, 1.0, 4.0, 5.0])
    assert word(Near("local_steps", GRID, ((1.0, 2.0),)), points) == "agrees"
    assert word(Near("local_steps", GRID, ((1.0, 6.0),)), points) == "disagrees"
    two = point(noisy(9.0), role="planned", steps=2, series="planned")
    assert word(Near("local_steps", PLAN, ((1.0, 3.0),)), [two]) == "agrees"
    assert word(Near("local_steps", PLAN, ((1.0, 4.0),)), [two]) == "disagrees"


def line(name, *means):
    return [point(noisy(m), series=name, iterations=t) for t, m in zip((1, 12, 24), means, strict=True)]


def test_lines_are_compared_from_a_length_on():
    low, high = line("low", 9.0, 1.0, 1.1), line("high", 1.0, 2.0, 8.0)
    assert word(LowestLine("low", "iterations", 12, GRID), low + high) == "agrees"
    assert word(LowestLine("low", "iterations", 1, GRID), low + high) == "partly"
    assert word(LowestLine("high", "iterations", 12, GRID), low + high) == "disagrees"
    assert word(FlattestLine("low", "iterations", 12, GRID), low + high) == "agrees"
    assert word(FlattestLine("high", "iterations", 12, GRID), low + high) == "disagrees"


def test_between_its_points_a_line_is_linear_in_log_loss():
    """Halfway between 1 and 4 it is 2, so that 2.2 is behind and 1.8 ahead."""
    rivals = [point(noisy(m), series="rival", iterations=t, start=4.1) for t, m in ((12, 1.0), (24, 4.0))]
    for loss, expected in ((1.8, "agrees"), (2.2, "disagrees")):
        mine_ = point(noisy(loss), series="mine", iterations=18, start=4.1)
        assert word(LowestLine("mine", "iterations", 1, GRID), [mine_, *rivals]) == expected


def test_what_only_a_page_kept_is_judged_without_pairing():
    kept = [
        replace(
            point(0.0, series=s, role=r), losses=[], accuracies=[], recalled=Recalled(5, m, 1.0, 0.5, np.nan)
        )
        for s, r, m in (("mine", "planned", 1.0), ("rival", "grid", 4.0))
    ]
    assert word(Ahead(PLAN, GRID), kept) == "agrees"
    assert word(Ahead(PLAN, GRID, "accuracy"), kept) == "not testable here", "its deviation was not kept"
    assert kept[0].loss == 1.0
    assert kept[0].start("loss") is None
