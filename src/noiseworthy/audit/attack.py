"""The attack: trainings in which a coin gives every client its canary or not, and what the attacker proves.

The attacker adds the log-likelihood ratios of all uploads of a client and names the coin by the sign of the
sum, a threshold that is fixed before any trial. Clients hold disjoint data and noise of their own, so each
client of each training is a trial: K clients make K trials of one training. Where only sums are seen their
noise is shared, and one client of a training is a trial.

What the worst canary would give away if the noise is as planned is exact, and needs no trials. The distance
between an upload's two noiseless means is a fact of the code that computes it. In units of the planned noise
it is the ratio of that upload, and ratios compose to an epsilon. If that epsilon exceeds the claim, the
sensitivity that the claim rests on is wrong.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from noiseworthy._validate import Real
from noiseworthy.audit.canaries import PRESENT, Twin
from noiseworthy.audit.families import Family, GaussianFamily, Parts, family_at, largest_rejected
from noiseworthy.audit.observations import Observations, observe
from noiseworthy.audit.statistics import errors_of, family_free_epsilon, least_advantage
from noiseworthy.audit.targets import Target
from noiseworthy.errors import InvalidInput

_DIGITS = 5
"""Ratios that agree in so many digits are one; float32 resolves no more of a difference."""


@dataclass(frozen=True)
class Exposure:
    """The releases of every client as a canary moves them.

    Attributes:
        parts: ratio and count of each kind of upload, for every client.
        epsilon: what they give away at the client's delta, shape (N,); 0 for a client that uploads nothing.
    """

    parts: tuple[Parts, ...]
    epsilon: NDArray[np.float64]

    @property
    def asked(self) -> NDArray[np.int64]:
        """Clients that upload something a canary moves."""
        return np.flatnonzero([bool(parts) for parts in self.parts])


def exposure_of(seen: Observations, target: Target) -> Exposure:
    """What canaries give away, from the first of the trainings that were observed.

    Where canaries reach their worst case, all trainings show the same distances.

    Args:
        seen: trainings of a twin.
        target: of that twin.
    """
    parts = _parts(seen, target)
    made = Exposure(parts, np.zeros(len(parts)))
    if (asked := made.asked).size:
        family = family_of(target, tuple(parts[i] for i in asked))
        made.epsilon[asked] = family.epsilon(1.0, target.delta[asked])
    return made


def family_of(target: Target, parts: tuple[Parts, ...]) -> Family:
    """The family of noise of a training, at the ratios of some of its clients."""
    return family_at(target.release.mechanism.law, parts, target.release.sampling_rate)


def _parts(seen: Observations, target: Target) -> tuple[Parts, ...]:
    """Uploads of every client by how far the canary moves them, in the norm of the noise."""
    order = target.release.mechanism.law.order
    ratios = np.linalg.norm(seen.shifts[0], ord=order, axis=2)
    moved = [ratios[(seen.clients == client) & (ratios > 0)] for client in range(seen.worlds.shape[1])]
    return tuple(_counted(one) for one in moved)


def _counted(ratios: NDArray[np.float64]) -> Parts:
    """
    Example:
        >>> _counted(np.array([0.5, 0.50000001, 0.25]))
        ((0.25, 1), (0.5, 2))
    """
    if not ratios.size:
        return ()
    # to nearest, so off by 5e-5 of a ratio at most: within the slack that exposures have
    rounded = np.array([float(f"{ratio:.{_DIGITS}g}") for ratio in ratios])
    values, counts = np.unique(rounded, return_counts=True)
    return tuple(zip(values.tolist(), counts.tolist(), strict=True))


Progress = Callable[[float], None]
Whole = NDArray[np.int64]
_NUMBERS = 6_000_000
"""Numbers that a batch of trainings may write down at once."""
_MOST_TRAININGS = 1_000
_GATHERED = 4_000_000
"""Numbers of records above which the engine would run trainings one after the other."""
_KINDS = 6
"""Kinds of clients under attack where every kind takes a privacy loss distribution of its own."""


@dataclass(frozen=True)
class Trials:
    """Scores of the attacker: positive where it names the canary present.

    Attributes:
        present: of trials with the canary.
        absent: of trials without it.
        subjects: clients under attack.
        family: of their noise, at the ratios that the plan states.
        seconds: that the trials took.
    """

    present: Real
    absent: Real
    subjects: Whole
    family: Family
    seconds: float

    @property
    def count(self) -> int:
        """Coins named."""
        return len(self.present) + len(self.absent)

    @property
    def errors(self) -> int:
        """Coins named wrongly."""
        return errors_of(self.present, self.absent)


def attack(
    twin: Twin,
    *,
    trials: int,
    seed: int,
    seconds: float = np.inf,
    beyond: int = 0,
    on_progress: Progress = lambda done: None,
) -> Trials:
    """Run trainings of a twin until there are enough trials, or the time is over.

    Args:
        twin: with the canary of the attack.
        trials: how many coins to name at least.
        seed: of coins and noise.
        seconds: after which no further batch of trainings starts; the first always runs.
        beyond: owners that collude or are missing in a sum beside those that the plan provides for.
        on_progress: told the share of trials done.

    Returns:
        The scores. When the time is over says nothing of them, so that fewer trials are as valid.

    Raises:
        InvalidInput: a canary that moves no upload.
    """
    started, batch, target = time.monotonic(), _batch(twin, trials), twin.target
    first = _observed(twin, batch, seed, 0, beyond)
    subjects, family = _subjects(exposure_of(first, target), target)
    needed = -(-trials // (batch * (len(subjects) if target.apart else 1)))
    judged = [_judged(first, target, _attacked(target, subjects, batch, seed, 0))]
    on_progress(1 / needed)
    while (done := len(judged)) < needed and time.monotonic() - started < seconds:
        attacked = _attacked(target, subjects, batch, seed, done)
        judged.append(_judged(_observed(twin, batch, seed, done, beyond), target, attacked))
        on_progress(len(judged) / needed)
    values, present = (np.concatenate(part).ravel() for part in zip(*judged, strict=True))
    return Trials(values[present], values[~present], subjects, family, time.monotonic() - started)


def _observed(twin: Twin, batch: int, seed: int, number: int, beyond: int) -> Observations:
    """A batch of trainings, with fresh coins and seeds, as they are seen."""
    worlds = np.random.default_rng([seed, 0xC01, number]).integers(0, 2, (batch, twin.clients))
    made = observe(twin, worlds, _seeds(seed, number * batch, batch))
    return made.in_sums(twin.target.release, twin.target.survivors - beyond)


def _attacked(target: Target, subjects: Whole, batch: int, seed: int, number: int) -> Whole:
    """Clients under attack in each training: all, or one that is drawn, where a sum shows several at once."""
    if target.apart:
        return np.broadcast_to(subjects, (batch, len(subjects)))
    return np.random.default_rng([seed, 0x5B, number]).choice(subjects, (batch, 1))


def _judged(seen: Observations, target: Target, attacked: Whole) -> tuple[Real, NDArray[np.bool_]]:
    """Scores of the clients under attack, and whether the canary was present."""
    pick = partial(np.take_along_axis, indices=attacked, axis=1)
    return pick(scores(seen, target)), pick(seen.worlds) == PRESENT


def _batch(twin: Twin, trials: int) -> int:
    """Trainings that run side by side; no more than are needed if every client is under attack."""
    cohorts = np.shape(twin.algorithm.cohorts)
    written = 3 * cohorts[0] * cohorts[1] * twin.noise.shape[2]
    each = twin.clients if twin.target.apart else 1
    room = min(_NUMBERS // written, _GATHERED // twin.shards.elements, -(-trials // each))
    return int(np.clip(room, 1, _MOST_TRAININGS))


def _seeds(seed: int, done: int, batch: int) -> list[int]:
    """Seeds of a batch, different from those of every other one."""
    start = int(np.random.SeedSequence([seed, 0xA77AC]).generate_state(1)[0])
    return [(start + done + i) % 2**32 for i in range(batch)]


def scores(seen: Observations, target: Target) -> Real:
    """log p(uploads | present) - log p(uploads | absent) of every client in every training, shape (S, N)."""
    absent, present = ((seen.uploads - mean) / seen.noise for mean in seen.means)
    ratio = target.release.mechanism.law.analysis.log_ratio(absent, present)
    if (rate := target.release.sampling_rate) < 1:
        # whether the record was in the batch is not known: the likelihood is the mean over both
        ratio = np.logaddexp(np.log1p(-rate), np.log(rate) + ratio)
    uploads = seen.clients.size
    whose = csr_array(
        (np.ones(uploads), (np.arange(uploads), seen.clients.ravel())), shape=(uploads, seen.worlds.shape[1])
    )
    return ratio.reshape(len(ratio), -1) @ whose


@dataclass(frozen=True)
class Bound:
    """What trials prove.

    Attributes:
        confidence: with which each of the limits holds, such as 0.95.
        scale: factor by which the clients' noise is too small, at least; 1 is the claim.
        epsilon: lower limit for each subject, within the family of noise, shape (m,).
        family_free: lower limit for any mechanism, at the largest delta of the subjects.
    """

    confidence: float
    scale: float
    epsilon: Real
    family_free: float


def bound(trials: Trials, delta: Real, confidence: float) -> Bound:
    """Lower limits on epsilon from the scores of an attack.

    Args:
        trials: of the attack.
        delta: of each subject, shape (m,).
        confidence: in (0, 1).

    Guarantee: within the family, each epsilon exceeds the true one with probability 1 - confidence at most;
    the family-free one for any mechanism that releases alike of all subjects.
    """
    alarm, family = 1 - confidence, trials.family
    scale = largest_rejected(family, least_advantage(trials.errors, trials.count, alarm))
    epsilon = family.epsilon(scale, delta) if scale > 0 else np.zeros(len(delta))
    free = family_free_epsilon(trials.present, trials.absent, float(delta.max()), alarm)
    return Bound(confidence, scale, epsilon, free)


def _subjects(exposure: Exposure, target: Target) -> tuple[Whole, Family]:
    """Whom to attack, and their family: all clients, or those of the kinds that are exposed most.

    The choice reads noiseless means alone, so that it spoils no limit.
    """
    asked = exposure.asked
    if not asked.size:
        raise InvalidInput("no upload of this plan moves with a record; there is nothing to attack")
    if not isinstance(family_of(target, exposure.parts[:1]), GaussianFamily):
        excess = exposure.epsilon[asked] / target.epsilon[asked]
        kinds = list(dict.fromkeys(exposure.parts[i] for i in asked[np.argsort(-excess, kind="stable")]))
        asked = np.array([i for i in asked if exposure.parts[i] in kinds[:_KINDS]])
    return asked, family_of(target, tuple(exposure.parts[i] for i in asked))
