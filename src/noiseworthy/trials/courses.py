"""Trainings of plans on public proxies: many at a time, in programs that all of them share."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from noiseworthy._jax import Array, jax, jnp
from noiseworthy._validate import Real
from noiseworthy.engines.records import Trajectory
from noiseworthy.engines.simulation import SideBySide, simulate
from noiseworthy.methods.algorithm import Algorithm, NoisedUploads
from noiseworthy.methods.around import Around, averaged
from noiseworthy.methods.fedsgd_dpc.algorithm import FedSGDDPC
from noiseworthy.methods.making import padded
from noiseworthy.methods.registry import method
from noiseworthy.methods.steered import steered
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.qualities import constant_quality, quality
from noiseworthy.trials.proxies import DEALS, Deal, Proxy, on_each
from noiseworthy.trials.rotated import Rotated
from noiseworthy.trials.widened import Narrow, places

N = TypeVar("N", bound=NoisedUploads)
Outcomes: TypeAlias = tuple[Real, ...]
"""Losses over the untrained one and accuracies; the metric that a study names, and what is missed of it."""
_WIDTH, _SEEDS, _HORIZON = 16, 2, 512
"""Settings and seeds that are trained side by side, and rounds that schedules have room for.

A program is compiled for these numbers, which takes longer than trials do: in the place of missing settings
there are more seeds, or the last one again.
"""
_MANY_SEEDS = 4
"""Seeds of a program of half as many settings."""
_WIDTHS, _LARGE = (1, 2, 4, _WIDTH), 1000
"""Settings of programs where a model has more parameters, as those of images do: training what only fills up
would take longer than compiling them."""
_JOINT, _BEGUN = 0.8, 80
"""Time of a setting among sixteen over that of one by itself, and of a call of a program in rounds of one."""
LAST = np.ones(1)
"""Share of the rounds after which a trial is scored where nothing but its end counts."""
_MANY = 16
"""Noises of one size whose sum trials draw as one Gaussian."""
_LEAST_GAIN = 1e-3
"""What a metric of the best constant answer lacks at least, so that it can be divided by."""


def untrained_score(proxy: Proxy) -> float:
    """The score of the untrained start, by the metric that the study names."""
    told = proxy.facts.metric in ("balanced-accuracy", "auc")
    return constant_score(proxy) if told else proxy.deal().untrained_quality


def constant_score(proxy: Proxy) -> float:
    """The metric that the study names of the constant answer that is best."""
    return constant_quality(proxy.facts.metric, proxy.deal().shards.test_y)


def courses(
    proxies: Sequence[Proxy], plans: Sequence[Plan | None], seeds: Sequence[int], shares: Real
) -> list[tuple[Real, Real]]:
    """Losses over the untrained one along the rounds of any plans, and their final scores, on each proxy.

    A score is the metric that the study names; where it names none, accuracy, or R^2 of a regression.

    Args:
        proxies: to train on, of one shape.
        plans: what to train.
        seeds: of noise.
        shares: of a plan's rounds after which it is scored, rising, the last being 1.

    Returns:
        Losses of shape (plans, seeds, shares) and scores of shape (plans, seeds).
    """
    every = of_each(proxies, plans, seeds, shares)
    return [(loss, named[0] if named else score) for loss, score, *named in every]


def of_each(
    proxies: Sequence[Proxy],
    plans: Sequence[Plan | None],
    seeds: Sequence[int],
    shares: Real,
    *,
    models: bool = False,
) -> list[Outcomes]:
    """`courses` on each of some proxies of one shape, with the metric that the study names.

    Returns:
        Of each proxy losses, accuracies and, where the study names a metric, what `Scores` keeps of it; with
        `models` the parameters come last, shape (plans, seeds, p), NaN of what was not trained.
    """
    shape = (len(proxies), len(plans), len(seeds))
    first, *others = blank(shape, proxies[0].facts.metric != "loss")
    every: list[Any] = [np.repeat(first[..., None], len(shares), axis=-1), *others]
    if models:
        every.append([np.full((*shape[1:], proxy.task.dimension), np.nan) for proxy in proxies])
    for chosen, width in _alike(plans, proxies[0].task, shares):
        few = [one for i in chosen if (one := plans[i]) is not None]
        for j, found in enumerate(_side_by_side(proxies, few, width, seeds, shares)):
            found = (*found[:-1], proxies[j].whole(found[-1])) if models else found
            for known, its in zip(every, found, strict=False):
                known[j][chosen] = its
    return list(zip(*every, strict=True))


def deals_of(seeds: Sequence[int]) -> list[int]:
    """Numbers of the deals that seeds train on: two of them share one.

    Example:
        >>> deals_of([4, 5, 6])
        [2, 2, 3]
    """
    return [seeds[i - i % _SEEDS] // _SEEDS for i in range(len(seeds))]


def blank(shape: tuple[int, ...], named: bool) -> list[Real]:
    """Scores where training diverged: losses and accuracies, and where something else counts, of that."""
    return [np.full(shape, value) for value in (np.inf, np.nan, np.nan, np.inf)[: 4 if named else 2]]


def _alike(plans: Sequence[Plan | None], task: Task, shares: Real) -> Iterator[tuple[list[int], int]]:
    """Places of plans that one program trains, and its width: as many clients, one clipping, one law.

    Only where more than the end counts they must be as long as each other; else the shorter ones stand still.
    """

    def kind(plan: Plan) -> tuple[object, ...]:
        together = len(shares) > 1 and plan.rounds, plan.clients_per_round, plan.problem.clipping
        return *together, plan.parts, _as_one(plan)

    every = {i: plan for i, plan in enumerate(plans) if plan is not None}
    for one in {kind(plan): None for plan in every.values()}:
        places = [i for i, plan in every.items() if kind(plan) == one]
        places.sort(key=lambda i: -every[i].rounds)
        for width in _lots([every[i].rounds for i in places], _widths(task)):
            yield places[:width], width
            places = places[width:]


def _side_by_side(
    proxies: Sequence[Proxy], plans: Sequence[Plan], width: int, seeds: Sequence[int],
    shares: Real,
) -> Iterator[Outcomes]:  # fmt: skip
    calls = [*_calls(seeds, len(plans), width)]
    parts = [_few(proxies, plans, [seeds[i] for i in places], deal, width, shares) for deal, places in calls]
    order = np.argsort([i for _, places in calls for i in places])
    for of_one in zip(*parts, strict=True):
        yield tuple(np.concatenate(few, axis=1)[:, order] for few in zip(*of_one, strict=True))


def _calls(seeds: Sequence[int], plans: int, width: int) -> Iterator[tuple[int, list[int]]]:
    """Deals and places of the seeds of one call, as many as its program has room for beside the plans."""
    dealt, room = np.array(deals_of(seeds)) % DEALS, _MANY_SEEDS if 2 * plans <= width == _WIDTH else _SEEDS
    for deal in np.unique(dealt).tolist():
        places: list[int] = np.flatnonzero(dealt == deal).tolist()
        yield from ((deal, places[i : i + room]) for i in range(0, len(places), room))


def room_for_seeds(task: Task, plans: int) -> int:
    """Seeds over all deals that take little longer than a few, where plans leave a program's room to them."""
    return DEALS * _SEEDS * (_WIDTH // plans) if _widths(task) == (_WIDTH,) else 0


def _widths(task: Task) -> tuple[int, ...]:
    """Settings that programs have room for, of which networks take longest and run one by one."""
    if not isinstance(task, LinearModel):
        return (1,)
    return _WIDTHS if task.dimension > _LARGE else (_WIDTH,)


def _lots(rounds: Sequence[int], widths: tuple[int, ...]) -> list[int]:
    """Widths of the programs that train settings of so many rounds, the longest first, in the least time.

    Each takes as long as its first setting.
    """
    least = [(0.0, 0)] * (len(rounds) + max(widths))
    for i in reversed(range(len(rounds))):
        times = {w: rounds[i] * w * (_JOINT if w == _WIDTH else 1) + _BEGUN for w in widths}
        least[i] = min((time + least[i + w][0], w) for w, time in times.items())
    found: list[int] = []
    while (done := sum(found)) < len(rounds):
        found.append(least[done][1])
    return found


def _few(
    proxies: Sequence[Proxy], plans: Sequence[Plan], seeds: Sequence[int], number: int, width: int,
    shares: Real,
) -> list[Outcomes]:  # fmt: skip
    """`_side_by_side` on a deal of each proxy, for no more plans and seeds than a program has room for."""
    # the first plan is the longest: shorter ones, of which only the end is scored, stand still until then
    at, (filled, paired) = np.ceil(plans[0].rounds * shares).astype(int), _filled(plans, seeds, width)
    found, shape, asked = [], (len(filled), len(paired)), np.s_[: len(plans), : len(seeds)]
    for proxy, (deal, run) in zip(proxies, _runs(proxies, filled, paired, number, at), strict=True):
        loss = run.loss[:, np.searchsorted(run.rounds, at)].reshape(*shape, len(at)) / deal.untrained_loss
        loss, accuracy = np.where(np.isfinite(loss), loss, np.inf), run.final_accuracy.reshape(shape)
        named = _by_metric(proxy, deal, run.theta, loss[..., -1], accuracy)
        every = (loss, accuracy, *named, run.theta.reshape(*shape, -1))
        found.append(tuple(one[asked] for one in every))
    return found


def _filled(plans: Sequence[Plan], seeds: Sequence[int], width: int) -> tuple[list[Plan], list[int]]:
    """Plans and seeds of one deal, with others up to what a program has: every plan under every seed.

    So trainings of a seed share its draws and the records that it asks for, and all calls are one program.
    """
    many = len(seeds) if width < _WIDTH else _SEEDS if len(seeds) <= _SEEDS else _MANY_SEEDS
    room = width * _SEEDS // max(many, _SEEDS)
    others = range(max(seeds) + 1, max(seeds) + 1 + many - len(seeds))
    return [*plans, *[plans[-1]] * (room - len(plans))], [*seeds, *others]


def _runs(
    proxies: Sequence[Proxy], plans: Sequence[Plan], seeds: Sequence[int], number: int, at: NDArray[np.int64]
) -> list[tuple[Deal, Trajectory]]:
    """Trainings of plans, as many as a program has, on a deal of each proxy, scored at some rounds."""
    first, different = proxies[0], {id(plan): plan for plan in plans}
    made = {key: _made(first, plan, seeds) for key, plan in different.items()}
    rotates = first.rotates and all(  # steering reads the noise of all directions, which these lack
        type(one) is FedSGDDPC and plan.steering is None for plan in plans for one in made[id(plan)]
    )
    wide = first.wide if method(plans[0].algorithm).space.any_width and not rotates else None
    seen = Rotated.of(cast(LinearModel, first.bare)) if rotates else wide
    tried = {key: [_tried(first, different[key], one, seen) for one in every] for key, every in made.items()}
    roomy = [one for plan in plans for one in tried[id(plan)] * (len(seeds) // len(tried[id(plan)]))]
    every = list(seeds) * len(plans)
    planned = np.repeat([plan.uploads for plan in plans], len(seeds), axis=0)
    lasts = [plan.rounds for plan in plans for _ in seeds]
    together = SideBySide.of(roomy, planned, lasts, every)

    def run(proxy: Proxy) -> tuple[Deal, Trajectory]:
        deal, start = proxy.deal(number), proxy.start_of(roomy[0].task.dimension)
        shards = deal.condensed if roomy[0].condensed else deal.shards
        if rotates:
            shards = proxy.rotated(number)
        if wide is None:
            return deal, simulate(roomy, planned, shards, at, every, start=start, together=together)
        task, shards = cast(LinearModel, proxy.task), proxy.widened(number)
        its = together._replace(stacked=Narrow.of(together.stacked, task, wide.features))
        run = simulate(roomy, planned, shards, at, every, start=start, together=its)
        return deal, replace(run, theta=run.theta[:, places(task, wide.features)])

    return on_each(proxies, run)


def final_models(proxy: Proxy, plan: Plan, deals: int) -> NDArray[np.float32]:
    """What a plan delivers on some deals of a proxy, under the first seed of each, shape (deals, p)."""
    found = []
    for number in range(deals):
        seeds = range(number * _SEEDS, (number + 1) * _SEEDS)
        filled = [plan] * _widths(proxy.task)[0]
        ((_, run),) = _runs([proxy], filled, seeds, number, np.array([plan.rounds]))
        found.append(proxy.whole(run.theta)[0])
    return np.stack(found)


def _by_metric(
    proxy: Proxy, deal: Deal, theta: NDArray[np.float32], loss: Real,
    accuracy: Real,
) -> Outcomes:  # fmt: skip
    """The metric that the study names and what is missed of it, in the shape of losses; none for the loss."""
    if (metric := proxy.facts.metric) == "loss":
        return ()
    reached = accuracy
    if metric not in ("accuracy", "r2"):
        z = np.nan_to_num(answers_of(proxy.task, jnp.asarray(proxy.whole(theta)), deal.shards.test_x))
        # between records outputs of several classes compare by what they make probable, as in `model.metrics`
        told = log_softmax(z.astype(np.float64), axis=2) if z.shape[2] > 1 else z
        reached = quality(metric, told, deal.shards.test_y).reshape(loss.shape)
    share = (1 - reached) / max(1 - constant_quality(metric, deal.shards.test_y), _LEAST_GAIN)
    return reached, np.where(np.isfinite(loss), share, np.inf)


@partial(jax.jit, static_argnums=0)
def answers_of(task: Any, theta: Array, x: Array) -> Array:
    """Outputs of models, theta of shape (S, p), for prepared records, shape (S, n, outputs)."""
    return jax.lax.map(lambda one: task.answers(one, x).reshape(len(x), -1), jnp.asarray(theta))


def _made(proxy: Proxy, plan: Plan, seeds: Sequence[int]) -> list[Algorithm]:
    """The algorithm under each seed, which draws whom to ask and nothing else: one alone if all are asked."""
    # modes B and E are proved for records of bounded norm, of which a bare model knows nothing
    proved = plan.problem.clipping in ("B", "E")
    make = partial(method(plan.algorithm).make, plan, proxy.task if proved else proxy.bare)
    first = make(seeds[0])
    everybody = first.cohorts.shape[1] == len(plan.uploads)
    made: list[Any] = [first] if everybody else [first, *map(make, seeds[1:])]
    return [replace(one, task=proxy.bare) for one in made] if proved else made


def _tried(proxy: Proxy, plan: Plan, made: Any, seen: LinearModel | None) -> Algorithm:
    """The algorithm with its share of noise, for records as they are `seen`, or as they are.

    All average, and all that may be steered are, if only by nothing, and schedules have room for many rounds,
    so that one program serves every plan.
    """
    if seen is not None:
        made = replace(_as_gaussian(made, plan) if isinstance(seen, Rotated) else made, task=seen)
    (made,) = padded([made], _HORIZON)
    if "steering" in method(plan.algorithm).space.levers:
        made = steered(made, plan)
    made = averaged(_of_many(made, plan), plan.rounds, plan.averaging)
    return made if proxy.noise_factor == 1 else made.with_noise(proxy.noise_factor)


def _of_many(made: Algorithm, plan: Plan) -> Algorithm:
    """With one Gaussian in the place of the noises of so many uploads that their sum is nearly one.

    The excess kurtosis of a coordinate is 3/n with Laplace noise, n being how many alike noises add up so.
    """
    if isinstance(made, Around):
        inner = _of_many(made.algorithm, plan)
        return made if inner is made.algorithm else replace(made, algorithm=inner)
    if not isinstance(made, NoisedUploads) or made.reads_uploads or made.remembers_noised:
        return made
    return _as_gaussian(made, plan) if _as_one(plan) else made


def _as_one(plan: Plan) -> bool:
    """Whether the noises of a round are so many, and so alike, that their sum is nearly one Gaussian."""
    if law_of(plan.problem.family).stable or plan.parts > 1 or plan.clients_per_round < len(plan.noise):
        return False
    variances = np.square(plan.weights * plan.noise)
    # (sum v)^2 / sum v^2 is n for n noises of one size; the excess kurtosis of a sum is as many times less
    return bool(variances.sum() ** 2 >= _MANY * np.sum(variances**2))


def _as_gaussian(made: N, plan: Plan) -> N:
    """With Gaussian noise of the variance of the plan's."""
    if law_of(made.family).stable:
        return made
    return replace(made.with_noise(plan.variance_factor**0.5), family="gaussian", parts=1)
