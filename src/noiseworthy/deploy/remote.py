"""The remote engine: the server's side of a training whose clients are owners at the end of an exchange.

The rounds are those of `rounds.run_round`, but that local update, noise and charge happen at the owners. What
the server makes of their uploads is post-processing: nothing here can spend what an owner does not allow.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._jax import Array, jax, jnp
from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.correspondence import Correspondence
from noiseworthy.deploy.gateway.messages import Uploaded
from noiseworthy.deploy.gateway.unnoised import noise_of_sum
from noiseworthy.deploy.gathering import Gathering, in_words
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.deploy.sum_rounds import SumRounds
from noiseworthy.engines.records import Trajectory
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import InvalidInput, NoMoreReplies, TooFewReplies
from noiseworthy.methods.algorithm import Algorithm, ServerState, start_of
from noiseworthy.methods.dpfl_bcs.loss_reports import LossReports
from noiseworthy.methods.dpfl_bcs.losses import LOSSES_PER_REPLY
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.privacy.uploads import Upload
from noiseworthy.tasks.batch import Score

Play = Callable[[Algorithm, ServerState, int, Gathering], tuple[ServerState, dict[str, str]]]
"""A round: the state after it, and for each owner an empty text or why it is missing."""


class Reached(NamedTuple):
    """Where a training ended.

    Attributes:
        run: curves, parameters and uploads that were asked for, as the simulation's.
        ended: why it ended before its last round, in words; empty if it did not.
    """

    run: Trajectory
    ended: str = ""


BEFORE = -1
"""The number of what owners tell before the rounds,"""
SCORING = -2
"""and of what they tell of the model after them."""


class Round(NamedTuple):
    """What came of a round.

    Attributes:
        number: t, from 0; `BEFORE` of what owners tell before.
        answers: for each owner that was asked, empty if its upload arrived, or why it did not.
        seconds: that the round took.
    """

    number: int
    answers: dict[str, str]
    seconds: float


@dataclass(frozen=True)
class Terms:
    """What a server decides on its own: none of it touches privacy.

    Attributes:
        clients: names of the owners, in the plan's order.
        score: test loss and score of parameters.
        evaluate_at: rounds to score at, ascending; the last one ends the training.
        patience: seconds that a round waits for replies.
        seed: of the public start.
        roster: of the owners' signing keys, where a plan lets them sum; None elsewhere.
    """

    clients: tuple[str, ...]
    score: Callable[[Array], Score]
    evaluate_at: NDArray[np.int64]
    patience: float
    seed: int
    roster: Roster | None = None


def train_remotely(
    algorithm: Algorithm,
    asking: Asking,
    correspondence: Correspondence,
    terms: Terms,
    *,
    resume: Checkpoint | None = None,
    on_round: Callable[[Checkpoint, Round | None], None] = lambda checkpoint, done: None,
    before_rounds: Callable[[], None] = lambda: None,
) -> Reached:
    """One training by a plan, over an exchange.

    An owner whose upload is missing is left out of its round, and the weights of the others grow in
    proportion; a loss that it would have reported is NaN. At least half of those asked must answer. Where
    fewer do, because releases were paid for and lost, as many owners as are needed are asked for their next
    ones, within what was planned. A round for which too few may still answer ends the training: the model of
    the round before is what comes of it. Where owners sum, `sum_rounds` says who must answer.

    Args:
        algorithm: of the plan; its noise and its local work are not used here.
        asking: the requests of the run.
        correspondence: with the owners.
        terms: what else the server decides.
        resume: where to go on. A round that was asked for and not kept is asked for again, which costs its
            owners nothing and brings the same uploads.
        on_round: told after the start and after every round, to keep what was reached.
        before_rounds: called once the start is kept, before anything is asked.

    Returns:
        What was reached.

    Raises:
        BudgetExceeded: a schedule beyond the plan's counts; nothing was asked.
        TooFewReplies: a round that cannot be made; what was reached before is kept.
        NoMoreReplies: the first round, or one that estimates, can never be made.
        InvalidInput: a model that ran out of float32; what was reached before is kept.
    """
    algorithm = jax.tree.map(jnp.asarray, algorithm)
    Ledger.open(asking.plan.uploads).charge_rounds(asking.cohorts[: terms.evaluate_at[-1]])
    state = algorithm.init(start_of(algorithm.task, jax.random.key(terms.seed)))
    state = state if resume is None else _state_of(resume, state)
    reached = resume or at_start(state, len(terms.clients))
    reached = reached if len(reached.rounds) else _scored(algorithm, state, reached, terms)
    on_round(reached, None)
    before_rounds()
    ended = ""
    gathering = Gathering(
        asking, correspondence, terms.clients, terms.patience, lambda: on_round(reached, None)
    )
    play = _way(asking, terms)
    for t in range(reached.round, int(terms.evaluate_at[-1])):
        started = time.monotonic()
        try:
            state, answers = play(algorithm, state, t, gathering)
        except NoMoreReplies as error:
            if t == 0 or asking.first is not None:
                raise
            ended = str(error)
            # of a round that was never made, too, releases were paid for
            reached = _with_score(algorithm, state, reached, terms)._replace(used=gathering.used(t + 1))
            break
        reached = _scored(algorithm, state, reached, terms, gathering)
        on_round(reached, Round(t, answers, time.monotonic() - started))
    theta = np.asarray(algorithm.model(state))[None]
    return Reached(Trajectory(reached.rounds, reached.loss, reached.accuracy, theta, reached.used), ended)


def _way(asking: Asking, terms: Terms) -> Play:
    """How a round is made, by whom owners trust."""
    if not asking.plan.problem.trust.owners_add:
        return _trusted_round
    return _round if terms.roster is None else partial(_summed_round, terms.roster)


def _round(
    algorithm: Algorithm, state: ServerState, t: int, gathering: Gathering
) -> tuple[ServerState, dict[str, str]]:
    cohort = np.asarray(algorithm.select(state))
    uploads, answers = uploads_of(t, gathering, cohort, np.asarray(state.theta))
    state = algorithm.aggregate(state, _combined(algorithm, state, cohort, uploads))
    _check_finite(algorithm, state, t)
    return state, answers


def _trusted_round(
    algorithm: Algorithm, state: ServerState, t: int, gathering: Gathering
) -> tuple[ServerState, dict[str, str]]:
    """A round whose uploads carry no noise: that of the sum is added before anything is made of them."""
    cohort = np.asarray(algorithm.select(state))
    uploads, answers = uploads_of(t, gathering, cohort, np.asarray(state.theta))
    mean = noised_mean(gathering.asking, t, {int(cohort[place]): one for place, one in uploads.items()})
    return _moved_by(algorithm, state, t, cohort, mean), answers


def uploads_of(
    t: int, gathering: Gathering, cohort: NDArray[np.int32], theta: NDArray[np.float32]
) -> tuple[dict[int, Uploaded], dict[str, str]]:
    """Uploads by their places in a cohort, and why the others are missing; at least half are there.

    Raises:
        TooFewReplies: fewer, who may still come.
        NoMoreReplies: fewer, of whom not enough may.
    """
    found, least = gathering.uploads(t, cohort, theta), gathering.least(cohort)
    uploads = {place: one for place, one in enumerate(found.values()) if isinstance(one, Uploaded)}
    answers = in_words(found)
    if len(uploads) < least:
        came = sum(not why for why in answers.values())
        missing = "; ".join(f"{name}: {why}" for name, why in answers.items() if why)
        said = f"round {t + 1}: {came} of {len(answers)} owners answered, {least} must ({missing})"
        if gathering.may_answer(found) < least:
            raise NoMoreReplies(f"{said}, and too few still may: this round can never be made")
        remedy = "the run is kept as it was before this round, see to the owners and go on with --resume"
        raise TooFewReplies(f"{said}; {remedy}")
    return uploads, answers


def _summed_round(
    roster: Roster, algorithm: Algorithm, state: ServerState, t: int, gathering: Gathering
) -> tuple[ServerState, dict[str, str]]:
    """A round of which the server sees a sum alone; those who are missing count as the mean of the others."""
    cohort = np.asarray(algorithm.select(state))
    mean, answers = SumRounds(gathering, roster).mean(t, cohort, np.asarray(state.theta))
    return _moved_by(algorithm, state, t, cohort, mean), answers


def _moved_by(
    algorithm: Algorithm, state: ServerState, t: int, cohort: NDArray[np.int32], mean: NDArray[np.float64]
) -> ServerState:
    """The state after a round in which each of a cohort counts as the mean of those who are there."""
    uploads = jnp.tile(jnp.asarray(mean, jnp.float32), (len(cohort), 1))
    state = algorithm.aggregate(state, algorithm.combine(state, jnp.asarray(cohort), uploads))
    _check_finite(algorithm, state, t)
    return state


def _check_finite(algorithm: Algorithm, state: ServerState, t: int) -> None:
    """Refuse a state that no request can carry; losses that were not reported are NaN."""
    memory = jax.tree.leaves(state.memory)
    wrong = np.isinf if isinstance(algorithm, LossReports) else lambda leaf: ~np.isfinite(leaf)
    if not np.all(np.isfinite(state.theta)) or any(np.any(wrong(np.asarray(leaf))) for leaf in memory):
        raise InvalidInput(
            f"round {t + 1}: the model ran out of float32; the run is kept as it was before this round, "
            "train with a smaller [algorithm] step_size in another folder"
        )


def _combined(
    algorithm: Algorithm, state: ServerState, cohort: NDArray[np.int32], uploads: dict[int, Uploaded]
) -> Array:
    """What the uploads at some places of a cohort stand for, as if all of it had answered alike."""
    values = jnp.asarray(np.stack([one.upload.values for one in uploads.values()]), jnp.float32)
    if isinstance(algorithm, LossReports):
        filled = _with_missing(values, list(uploads), len(cohort))
        return algorithm.combine(state, jnp.asarray(cohort), filled)
    there = jnp.asarray(cohort[list(uploads)])
    total = algorithm.combine(state, there, values)
    if len(uploads) == len(cohort):
        return total
    weight = jax.vmap(algorithm.weight)
    return total * (jnp.sum(weight(jnp.asarray(cohort))) / jnp.sum(weight(there)))


def _with_missing(uploads: Array, places: list[int], asked: int) -> Array:
    """Uploads of gradients and losses in their places; elsewhere the mean gradient, and losses of NaN."""
    other = jnp.mean(uploads, axis=0).at[-LOSSES_PER_REPLY:].set(jnp.nan)
    return jnp.tile(other, (asked, 1)).at[jnp.asarray(places)].set(uploads)


def at_start(state: ServerState, clients: int) -> Checkpoint:
    """The checkpoint of a training of which nothing was asked yet."""
    empty, used = np.empty((1, 0)), np.zeros((1, clients), np.int64)
    return Checkpoint(0, np.asarray(state.theta)[None], used, np.empty(0, np.int64), empty, empty)


def _state_of(reached: Checkpoint, start: ServerState) -> ServerState:
    """The server's state at a checkpoint, in the layout of the one that it starts with."""
    memory = jax.tree.structure(start.memory).unflatten([jnp.asarray(leaf[0]) for leaf in reached.server])
    return ServerState(jnp.asarray(reached.theta[0]), jnp.asarray(reached.round, jnp.int32), memory)


def _scored(
    algorithm: Algorithm, state: ServerState, before: Checkpoint, terms: Terms, by: Gathering | None = None
) -> Checkpoint:
    """The checkpoint at a state, with a score where one is due."""
    t = int(state.round)
    after = before._replace(
        round=t,
        theta=np.asarray(state.theta)[None],
        used=before.used if by is None else by.used(t),
        server=tuple(np.asarray(leaf)[None] for leaf in jax.tree.leaves(state.memory)),
    )
    return _with_score(algorithm, state, after, terms) if t in terms.evaluate_at else after


def _with_score(algorithm: Algorithm, state: ServerState, reached: Checkpoint, terms: Terms) -> Checkpoint:
    """The checkpoint with the score at its state, once."""
    if reached.round in reached.rounds:
        return reached
    score = terms.score(algorithm.model(state))
    return reached._replace(
        rounds=np.append(reached.rounds, reached.round),
        loss=np.column_stack([reached.loss, np.float64(score.loss)]),
        accuracy=np.column_stack([reached.accuracy, np.float64(score.accuracy)]),
    )


def noised_mean(asking: Asking, t: int, uploads: Mapping[int, Uploaded]) -> NDArray[np.float64]:
    """The weighted mean of the uploads of a round, to which a server that owners trust adds the noise.

        (sum_i w_i u_i + noise) / sum_i w_i        over those who are there

    Its noise is that of the whole cohort whoever is missing, so that nobody's record is hidden by less.
    Nothing of an upload is kept: what the round makes of the noised sum is kept before any owner is asked
    again.

    Args:
        asking: the requests of the run.
        t: the round.
        uploads: by client, without noise, on one grid.

    Returns:
        shape (p,).

    Guarantee: each w_i u_i was truncated on the grid by its owner, whole numbers add exactly, and the noise
    is the last thing that happens before the sum is read as numbers; it is drawn once.
    """
    sums = [one.upload for one in uploads.values() if isinstance(one.upload, Upload)]
    (grid,) = {one.grid for one in sums}
    total = np.stack([one.steps for one in sums]).sum(axis=0)
    family = asking.plan.problem.family
    noised = noise_of_sum(family, asking.noise_of_sum(t), grid).added_to(total)
    # noise of the whole cohort over the weights of those who are there: who is missing makes it larger
    there = float(asking.plan.weights[[*uploads]].sum())
    return grid.spacing * noised / check.positive("weights", there)
