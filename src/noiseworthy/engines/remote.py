"""The remote engine: the server's side of a training whose clients are owners at the end of an exchange.

The rounds are those of `rounds.run_round`, but that local update, noise and charge happen at the owners. What
the server makes of their uploads is post-processing: nothing here can spend what an owner does not allow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy.algorithms.base import Algorithm, ServerState
from noiseworthy.algorithms.loss_reports import LossReports
from noiseworthy.engines.asking import Asking
from noiseworthy.engines.correspondence import UNREADABLE, Correspondence
from noiseworthy.engines.records import Trajectory
from noiseworthy.engines.simulation import Checkpoint
from noiseworthy.errors import TooFewReplies
from noiseworthy.gateway.messages import Uploaded
from noiseworthy.planning.two_stages import LOSSES_PER_REPLY
from noiseworthy.privacy.ledger import Ledger
from noiseworthy.privacy.uploads import Assurance
from noiseworthy.tasks import Score


class Round(NamedTuple):
    """What came of a round.

    Attributes:
        number: t, from 0.
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
    """

    clients: tuple[str, ...]
    score: Callable[[Array], Score]
    evaluate_at: NDArray[np.int64]
    patience: float
    seed: int


def train_remotely(
    algorithm: Algorithm,
    asking: Asking,
    correspondence: Correspondence,
    terms: Terms,
    *,
    resume: Checkpoint | None = None,
    on_round: Callable[[Checkpoint, Round | None], None] = lambda checkpoint, done: None,
) -> Trajectory:
    """One training by a plan, over an exchange.

    An owner whose upload is missing is left out of its round, and the weights of the others grow in
    proportion; a loss that it would have reported is NaN. At least half of those asked must answer.

    Args:
        algorithm: of the plan; its noise and its local work are not used here.
        asking: the requests of the run.
        correspondence: with the owners.
        terms: what else the server decides.
        resume: where to go on. A round that was asked for and not kept is asked for again, which costs its
            owners nothing and brings the same uploads.
        on_round: told after the start and after every round, to keep what was reached.

    Returns:
        Curves, parameters and uploads that were asked for, as the simulation's.

    Raises:
        BudgetExceeded: a schedule beyond the plan's counts; nothing was asked.
        TooFewReplies: a round that cannot be made; what was reached before is kept.
    """
    algorithm = jax.tree.map(jnp.asarray, algorithm)
    ledger = Ledger.open(asking.plan.uploads).charge_rounds(asking.cohorts[: terms.evaluate_at[-1]])
    state = algorithm.init(jax.random.key(terms.seed))
    state = state if resume is None else _state_of(resume, state)
    reached = resume or _nothing(state, ledger)
    reached = reached if len(reached.rounds) else _scored(algorithm, state, reached, terms)
    on_round(reached, None)
    for t in range(reached.round, int(terms.evaluate_at[-1])):
        started = time.monotonic()
        state, answers = _round(algorithm, state, t, asking, correspondence, terms)
        reached = _scored(algorithm, state, reached, terms, asking)
        on_round(reached, Round(t, answers, time.monotonic() - started))
    theta = np.asarray(algorithm.model(state))[None]
    return Trajectory(reached.rounds, reached.loss, reached.accuracy, theta, reached.used)


def _round(
    algorithm: Algorithm,
    state: ServerState,
    t: int,
    asking: Asking,
    correspondence: Correspondence,
    terms: Terms,
) -> tuple[ServerState, dict[str, str]]:
    cohort = np.asarray(algorithm.select(state))
    least = (len(cohort) + 1) // 2
    names, theta = [terms.clients[client] for client in cohort], np.asarray(state.theta)
    wanted = {
        name: asking.request(
            int(client),
            t,
            theta,
            deadline=time.time() + _IN_TIME * terms.patience,
            head=correspondence.heads.get(name),
            received=correspondence.received.get(name, 0),
        )
        for name, client in zip(names, cohort, strict=True)
    }
    told = LOSSES_PER_REPLY if isinstance(algorithm, LossReports) else 0
    found = {
        name: one if isinstance(one, str) or _usable(one, len(theta) + told) else UNREADABLE
        for name, one in correspondence.ask(wanted, terms.patience, least).items()
    }
    answers = {name: "" if isinstance(one, Uploaded) else one for name, one in found.items()}
    uploads = {place: one for place, name in enumerate(names) if isinstance(one := found[name], Uploaded)}
    if len(uploads) < least:
        raise TooFewReplies(_too_few(t, least, answers))
    return algorithm.aggregate(state, _combined(algorithm, state, cohort, uploads)), answers


def _usable(one: Uploaded, length: int) -> bool:
    """Whether an upload has as many numbers as were asked for, with noise that was drawn without a seed."""
    return len(one.upload.values) == length and one.upload.assurance == DRAWN


DRAWN: Assurance = "grid-csprng"
"""What noise of owners must be stamped with."""
_IN_TIME = 0.8
"""Part of a round's patience in which an owner may still begin: the rest is for the way back."""


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


def _too_few(t: int, least: int, answers: dict[str, str]) -> str:
    missing = "; ".join(f"{name}: {why}" for name, why in answers.items() if why)
    came = sum(not why for why in answers.values())
    return (
        f"round {t + 1}: {came} of {len(answers)} owners answered, {least} must ({missing}); the run is kept "
        "as it was before this round, see to the owners and go on with --resume"
    )


def _nothing(state: ServerState, ledger: Ledger) -> Checkpoint:
    empty = np.empty((1, 0))
    used = np.zeros_like(ledger.used)[None]
    return Checkpoint(0, np.asarray(state.theta)[None], used, np.empty(0, np.int64), empty, empty)


def _state_of(reached: Checkpoint, start: ServerState) -> ServerState:
    """The server's state at a checkpoint, in the layout of the one that it starts with."""
    leaves: Sequence[Array] = [jnp.asarray(leaf[0]) for leaf in reached.server]
    memory = jax.tree.structure(start.memory).unflatten(leaves)
    return ServerState(jnp.asarray(reached.theta[0]), jnp.asarray(reached.round, jnp.int32), memory)


def _scored(
    algorithm: Algorithm,
    state: ServerState,
    before: Checkpoint,
    terms: Terms,
    asking: Asking | None = None,
) -> Checkpoint:
    """The checkpoint at a state, with a score where one is due."""
    t = int(state.round)
    after = before._replace(
        round=t,
        theta=np.asarray(state.theta)[None],
        used=before.used if asking is None else (asking.releases(t) - asking.made)[None],
        server=tuple(np.asarray(leaf)[None] for leaf in jax.tree.leaves(state.memory)),
    )
    if t not in terms.evaluate_at:
        return after
    score = terms.score(algorithm.model(state))
    return after._replace(
        rounds=np.append(before.rounds, t),
        loss=np.column_stack([before.loss, np.float64(score.loss)]),
        accuracy=np.column_stack([before.accuracy, np.float64(score.accuracy)]),
    )
