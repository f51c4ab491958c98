"""Algorithms side by side on one bench: each planned by a race of its own, all winners under common seeds.

Losses are compared, or what is missed of the metric that the study names, both as shares of not training; of
a study for its owners the losses of models that they tune at home, as shares of those of their own models.

The ranking is of measured trials. A race chooses by its own seeds and so flatters what it chose; the common
seeds are fresh, and the same for all, so that luck cancels from the differences.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._validate import Real
from noiseworthy.errors import UserError
from noiseworthy.trials.bench import Bench, Candidate, Scores, voted
from noiseworthy.trials.courses import untrained_score
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.proxies import Proxy, on_each
from noiseworthy.trials.search import WORTHLESS, TrialPlan, plan_by_trial, planned
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment
from noiseworthy.trials.tuned import own_scores

LEAST_SEEDS = 10
"""Common seeds of the ranking, at least."""
FIRST_SEED = 10_000
"""The first of them; races draw theirs from 0."""
CAP = 2.0
"""Share of the untrained loss that a training counts at most, one that diverged too."""
ALIKE = 0.003
"""Share of the untrained loss that nobody should care for."""
WORKS = 0.9
"""Share of the untrained loss, below which training is said to work."""
MOST_CROWDED = 64
"""Times as many clients as there are, up to which is asked whether they would be enough."""
_FINALISTS = 8
_NO_TIME = "the time ran out before its turn; give it more with --budget-seconds"
_ROUNDING = 1e-4
"""Difference of losses that is none."""
Progress = Callable[[str, float], None]
"""Told the algorithm that is tried, and the share of all work that is done."""


@dataclass(frozen=True)
class LeftOut:
    """An algorithm that was not tried, and why, in a sentence."""

    name: str
    reason: str


@dataclass(frozen=True)
class Entry:
    """The best plan of one algorithm, with what common seeds say of it.

    Attributes:
        space: what the algorithm leaves free.
        found: its plan, for the private federation.
        loss: test loss over that of the untrained start, shape (P, S) for P proxies and S seeds.
        score: the metric that the study names, else test accuracy (R^2 of a regression), shape (P, S); of a
            study for its owners that of tuned models.
        missed: what is missed of the metric that the study names, over what the best constant answer misses,
            or the loss of tuned models over that of own ones, shape (P, S); None where entries rank by loss.
        squares: whether losses are squared errors, which count by their logarithms, as in `votes.vote`.
        same_as: name of an algorithm that does the same here; empty if none was tried before.
    """

    space: Space
    found: TrialPlan
    loss: Real
    score: Real
    same_as: str = ""
    missed: Real | None = None
    squares: bool = False

    @property
    def name(self) -> str:
        """Of the algorithm."""
        return self.space.algorithm

    @property
    def per_seed(self) -> Real:
        """What ranks under each seed, mean over the proxies, shape (S,): 1 is not training."""
        return np.minimum(self.loss if self.missed is None else self.missed, CAP).mean(axis=0)

    @property
    def compared(self) -> Real:
        """What ties are told by, shape (S,): 1 is not training."""
        if not self.train:
            return np.ones(self.loss.shape[1])
        if self.squares and self.missed is None:
            return 1 + np.log(np.clip(self.loss, 1e-9, CAP)).mean(axis=0)
        return self.per_seed

    @property
    def shared(self) -> float:
        """Loss of the shared model over the untrained one, mean over proxies and seeds."""
        return float(np.minimum(self.loss, CAP).mean())

    @property
    def train(self) -> bool:
        """Whether training is worth its noise, under seeds that did not choose the plan.

        Of a study for its owners, whether the shared model or what they make of it gains anything.
        """
        least = float(self.per_seed.mean())
        least = min(least, self.shared) if self.found.for_owners else least
        return self.found.plan.train and least <= WORTHLESS


def side_by_side(
    bench: Bench, spaces: Sequence[Space], treatments: Sequence[Treatment | None], *, seeds: int = 5,
    seconds: float = np.inf, on_progress: Progress = lambda name, done: None,
) -> tuple[list[Entry], list[LeftOut]]:  # fmt: skip
    """The best plan of each algorithm, and those that no plan was found for.

    Args:
        bench: the proxies, which all algorithms share.
        spaces: one for each algorithm; the first chooses how records are treated.
        treatments: to choose from.
        seeds: of the final of each race.
        seconds: for all of it, shared out by the counts in the races' coarse grids, once for each treatment
            and once more for the first race, which is tried whatever it takes.
        on_progress: told the algorithm and the share of the work that is done.

    Returns:
        Entries in the order of `spaces`, and what is left out.

    Raises:
        UserError: the first algorithm and all others are refused; why the first is.
    """
    whole, entries = Deadline(seconds), []
    refused: dict[str, UserError] = {}
    for i, (space, tell) in enumerate(zip(spaces, _parts(spaces, on_progress), strict=True)):
        kinds = [entries[0].found.result.winner.treatment] if entries else treatments
        chances = len(kinds) + (not entries)  # the first opens the data and compiles what all share
        own = whole.share(chances * effort(space), sum(map(effort, spaces[i + 1 :])))
        try:
            entries.append(_entry(bench, space, entries, kinds, seeds, own, tell))
        except UserError as error:
            refused[space.algorithm] = error
    if not entries:
        raise refused[spaces[0].algorithm]
    return entries, [LeftOut(name, str(error)) for name, error in refused.items()]


def _entry(
    bench: Bench, space: Space, others: Sequence[Entry], kinds: Sequence[Treatment | None], seeds: int,
    deadline: Deadline, on_progress: Callable[[float], None],
) -> Entry:  # fmt: skip
    """The entry of an algorithm: that of another that does the same, or the winner of its race."""
    if (twin := _twin(bench, space, others, seeds)) is not None:
        return twin
    if others and deadline.passed:
        raise UserError(_NO_TIME)
    found = plan_by_trial(bench, space, kinds, seeds=seeds, deadline=deadline, on_progress=on_progress)
    return _entered(bench, space, found, seeds)


def _entered(bench: Bench, space: Space, found: TrialPlan, seeds: int) -> Entry:
    """The entry of the winner of a race."""
    if not found.plan.train:
        return _untrained(bench, space, found, seeds)
    return _of(bench, space, found, _common(bench, space, found.result.winner, seeds))


def in_place_of(
    bench: Bench, space: Space, found: TrialPlan, other: Space, kinds: Sequence[Treatment | None], seeds: int,
    deadline: Deadline,
) -> TrialPlan | None:  # fmt: skip
    """The plan of another algorithm, with treatments of its own, where it does as well with fewer uploads.

    None where it is behind, or ties and asks for no fewer, and where none is allowed or no time left.
    """
    if deadline.passed:
        return None
    first = _entered(bench, space, found, seeds)
    try:
        entry = _entry(bench, other, [first], kinds, seeds, deadline, lambda done: None)
    except UserError:
        return None
    return entry.found if recommended([first, entry]) is entry else None


def _twin(bench: Bench, space: Space, others: Sequence[Entry], seeds: int) -> Entry | None:
    """The entry of an algorithm that trains to the same losses as another by its plan, to rounding.

    Where clients have like budgets and all are asked in every round, weights and choices make no difference.
    """
    clients = bench.facts.problem.n_clients
    for other in others:
        free = _left_free(space, clients)
        if free is None or free != _left_free(other.space, clients) or not other.train or other.same_as:
            continue
        result = other.found.result
        scores = _common(bench, space, result.winner, seeds)
        if np.allclose(scores.loss, other.loss, rtol=_ROUNDING, atol=0):
            return _of(bench, space, planned(bench, space, result), scores, other.name)
    return None


def _of(bench: Bench, space: Space, found: TrialPlan, scores: Scores, same_as: str = "") -> Entry:
    """An entry with its scores under the common seeds, shape (P, S)."""
    score = scores.accuracy if scores.quality is None else scores.quality
    return Entry(space, found, scores.loss, score, same_as, scores.missed, bench.facts.classes is None)


def _left_free(space: Space, clients: int) -> Space | None:
    """What an algorithm whose replies are one gradient leaves free, without its name; None for others."""
    asked = space.clients_per_round or clients
    return replace(space, algorithm="", clients_per_round=asked) if space.one_gradient else None


def effort(space: Space) -> int:
    """Different counts in the coarse grid of a race: each is a program to compile, which takes most time.

    Example:
        >>> effort(Space("dp-fedavg", rounds=30, work=2))
        1
    """
    return len({(one.passes, one.work) for one in space.first()})


def _parts(spaces: Sequence[Space], on_progress: Progress) -> Iterator[Callable[[float], None]]:
    """Progress within one race after the other."""
    for i, space in enumerate(spaces):
        yield lambda share, i=i, name=space.algorithm: on_progress(name, (i + share) / len(spaces))


def _common(bench: Bench, space: Space, candidate: Candidate, seeds: int) -> Scores:
    """Scores under the common seeds, shape (P, S), as many at a time as a final, whose programs serve."""
    common = common_seeds(seeds)
    lots = [common[first : first + seeds] for first in range(0, len(common), seeds)]
    parts = [bench.scores(space, [candidate], lot, at_home=True) for lot in lots]
    columns = zip(*parts, strict=True)
    return Scores._make(
        None if each[0] is None else np.concatenate([one[:, 0] for one in each], axis=1) for each in columns
    )


def common_seeds(seeds: int) -> range:
    """Common seeds in whole lots of `seeds`, at least `LEAST_SEEDS` of them.

    Example:
        >>> len(common_seeds(5)), len(common_seeds(3)), common_seeds(20)[0]
        (10, 12, 10000)
    """
    return range(FIRST_SEED, FIRST_SEED + seeds * ceil(LEAST_SEEDS / seeds))


def _untrained(bench: Bench, space: Space, found: TrialPlan, seeds: int) -> Entry:
    proxies, common = bench.proxies(found.result.winner.treatment), common_seeds(seeds)
    shape, facts = (len(proxies), len(common)), bench.facts
    if facts.for_owners:
        score = np.stack([own_scores(proxy, common) for proxy in proxies])
    else:
        score = np.broadcast_to(np.array([[untrained_score(proxy)] for proxy in proxies]), shape)
    missed = np.ones(shape) if facts.for_owners or facts.metric != "loss" else None
    return Entry(space, found, np.ones(shape), score, missed=missed)


# Ranking ----------------------------------------------------------------------------------------------


def tied(one: ArrayLike, other: ArrayLike) -> bool:
    """Whether two losses under common seeds tell nothing apart.

    Args:
        one: losses of an algorithm under each seed, shape (S,), as shares of the untrained loss.
        other: those of another, under the same seeds.

    Returns:
        Whether the mean difference is within two of its standard errors, or too small to care for.

    Example:
        >>> tied([0.50, 0.52, 0.48], [0.51, 0.50, 0.50]), tied([0.50, 0.52, 0.48], [0.60, 0.61, 0.60])
        (True, False)
    """
    by = np.subtract(one, other)
    error = by.std(ddof=1) / np.sqrt(by.size) if by.size > 1 else 0.0
    return bool(abs(by.mean()) <= max(2 * error, ALIKE))


def places(losses: ArrayLike) -> NDArray[np.int64]:
    """Places in a ranking by mean loss; who ties with the first of a group shares its place.

    Args:
        losses: under common seeds, shape (A, S).

    Returns:
        shape (A,), 1 is best.

    Example:
        >>> places([[0.5, 0.5], [0.9, 0.9], [0.501, 0.5], [0.7, 0.7]])
        array([1, 4, 1, 3])
    """
    rows = np.minimum(np.asarray(losses, float), CAP)
    means = rows.mean(axis=1)
    order = np.lexsort((*rows.T, means))  # equal rows side by side, so that nobody new leads between them
    found, leader = np.ones(len(rows), np.int64), order[0]
    for i in order:
        if tied(rows[leader], rows[i]):
            found[i] = found[leader]
        else:
            leader, found[i] = i, 1 + np.sum(means < means[i])
    return found


def ranking(entries: Sequence[Entry]) -> list[tuple[int, Entry]]:
    """Entries with their places, best first; what does not train counts as the untrained start."""
    losses = np.array([one.compared for one in entries])
    taken, means = places(losses), losses.mean(axis=1)
    return [(int(taken[i]), entries[i]) for i in np.lexsort((means, taken))]


def recommended(entries: Sequence[Entry]) -> Entry | None:
    """Among those that tie for the first place, who takes fewest uploads; None where nobody should train.

    Args:
        entries: from simple to intricate, which decides where uploads are as many.
    """
    first = [one for place, one in ranking(entries) if place == 1 and one.train]
    order = {one.name: i for i, one in enumerate(entries)}
    return min(first, key=lambda one: (one.found.plan.uploads.sum(), order[one.name]), default=None)


# More clients -----------------------------------------------------------------------------------------


def clients_that_work(bench: Bench, space: Space, treatment: Treatment | None, *, seeds: int) -> int | None:
    """How many clients like these would make training work: the least doubling of them that does.

    The mean of c N replies carries 1/c of the noise variance of the mean of N, so that the trials of the
    federation serve with 1/sqrt(c) of its noise.

    Args:
        bench: of the federation that is too small.
        space: of the algorithm to try.
        treatment: of records.
        seeds: to confirm it with.

    Returns:
        N with which trials end below `WORKS` of the untrained loss; None up to 64 times as many.
    """
    free = replace(space, clients_per_round=None)
    few = bench.possible(free, [Candidate(setting, treatment) for setting in free.first()])
    factor = 2
    while factor <= MOST_CROWDED:
        if _works(bench, free, few, factor, common_seeds(seeds)[:seeds]):
            return factor * bench.facts.problem.n_clients
        factor *= 2
    return None


def _works(bench: Bench, space: Space, tried: Sequence[Candidate], factor: int, seeds: Sequence[int]) -> bool:
    """Whether the leaders under one seed train under others, too."""
    first = _crowded(bench, space, tried, factor, [0])
    if first.min() > WORKS:
        return False
    leaders = [tried[i] for i in np.argsort(first, kind="stable")[:_FINALISTS]]
    return bool(_crowded(bench, space, leaders, factor, seeds).min() <= WORKS)


def _crowded(bench: Bench, space: Space, few: Sequence[Candidate], factor: int, seeds: Sequence[int]) -> Real:
    """Mean losses of candidates with `factor` times as many clients, shape (candidates,)."""

    def on(proxy: Proxy) -> Real:
        plans = [bench.plan(space, candidate, proxy) for candidate in few]
        crowd = replace(proxy, noise_factor=proxy.noise_factor / np.sqrt(factor))
        return np.minimum(voted(crowd, plans, seeds), CAP).mean(axis=1)

    return np.mean(on_each(bench.proxies(few[0].treatment), on), axis=0)
