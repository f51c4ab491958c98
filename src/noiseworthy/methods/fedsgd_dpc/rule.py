"""FedSGD-DPC planned without any data: a rule of thumb that weighs signal against noise in a model's outputs.

    s_k = R sqrt((N/b) W(k)/p sum d_t^2)    noise that step size 1 leaves in an output of a record of norm R
    r_k = R^2 min(1, C/g) sum d_t           how far step size 1 moves it, were all gradients alike
    c_k = min(c, B/(K-1) r_k/s_k)           noise to accept: c, or less where there is little to learn

    k = least with c_k r_k/s_k <= a K k,    T = floor(k N/b),    eta = min(c_k/s_k, a K k/r_k)

d_t is the schedule of step sizes, W(k) = sum a_i^2 E||w_i||^2 the noise of clients that upload k times, g the
norm of a record's gradient at theta = 0. Both s_k and r_k are proportional to a C below g, so that C matters
little, and b cancels where every client is asked at least once. No proof stands behind c, a, C/g and B.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy._wording import count
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dp_fedavg.bound import sampling_share
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.methods.fedsgd_dpc.planner import check_paid, in_range, stated
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import ASSUMED, Constant, Problem
from noiseworthy.privacy.means import SPREAD
from noiseworthy.privacy.sensitivity import Norm

_PROVENANCE = "rule of thumb, calibrated on digits and Fashion-MNIST"
CITATION = "Signal-to-noise rule for FedSGD-DPC, calibrated on digits and Fashion-MNIST; not a bound"
_BETWEEN = 0.09
"""B: how much of a record's square norm sets its class apart, where it is not known."""
_LEAST_GAIN = 0.01
"""Share of ln K below which what can be learnt is not worth training for."""
_CLASSES = 10
"""Of the data that the rule is calibrated on."""


@dataclass(frozen=True)
class Calibration:
    """Constants of the rule for one mechanism, chosen on digits and Fashion-MNIST with ten clients.

    Attributes:
        noise: c, standard deviation of an output under the noise.
        pace: a, how far an output may move in a pass over the clients, per class, if all are asked at once.
        pace_alone: the same if they are asked one by one.
        clip: C/g where the clip is planned.
    """

    noise: float
    pace: float
    pace_alone: float
    clip: float

    def pace_of(self, clients_per_round: int, clients: int) -> float:
        """a for b of N clients, between its two ends in proportion to (N - b)/((N - 1) b)."""
        return self.pace + (self.pace_alone - self.pace) * float(sampling_share(clients_per_round, clients))


CALIBRATIONS: dict[Norm, Calibration] = {
    "l1": Calibration(1.6, 4.0, 7.0, 1 / 8),
    "l2": Calibration(2.0, 3.0, 3.5, 1 / 4),
}


@dataclass(frozen=True)
class PublicScale:
    """What is known in public of records and of their gradients at the start.

    Attributes:
        record_norm: R, L2 norm of a prepared record.
        gradient_norm: g, norm of a record's gradient at theta = 0, in the norm of the clip.
        classes: K.

    Raises:
        InvalidInput: a norm that is not above 0, fewer than 2 classes.
    """

    record_norm: float
    gradient_norm: float
    classes: int

    def __post_init__(self):
        check.positive("record_norm", self.record_norm)
        check.positive("gradient_norm", self.gradient_norm)
        check.count("classes", self.classes, least=2)

    @classmethod
    def of_softmax(cls, record_norm: float, classes: int, features: int, norm: Norm) -> PublicScale:
        """That of softmax regression from theta = 0, for a clip in the given norm.

            g = R sqrt(1 - 1/K) in L2,    g = 2 (1 - 1/K) |x|_1 in L1, with |x|_1 = 0.63 R sqrt(d)

        The L1 norm of a record is not public. 0.63 is what digits and Fashion-MNIST have; dense records have
        up to 1, sparse ones less.

        Args:
            record_norm: R.
            classes: K.
            features: d, numbers per prepared record.
            norm: of the clip.

        Example:
            >>> round(PublicScale.of_softmax(1.0, 10, 784, "l1").gradient_norm, 2)
            31.75
        """
        missed = 1 - 1 / check.count("classes", classes, least=2)
        d = check.count("features", features)
        slope = np.sqrt(missed) if norm == "l2" else 2 * missed * SPREAD * np.sqrt(d)
        return cls(record_norm, record_norm * float(slope), classes)

    @classmethod
    def of_logistic(cls, record_norm: float, features: int, norm: Norm) -> PublicScale:
        """That of logistic regression: g = R/2 in L2, |x|_1/2 in L1, of two classes with one output.

        Args:
            record_norm: R.
            features: d, numbers per prepared record.
            norm: of the clip.

        Example:
            >>> PublicScale.of_logistic(1.0, 20, "l2").gradient_norm
            0.5
        """
        spread = 1.0 if norm == "l2" else SPREAD * float(np.sqrt(check.count("features", features)))
        return cls(record_norm, record_norm * spread / 2, 2)


# The plan ---------------------------------------------------------------------------------------------


def plan_by_rule(
    problem: Problem, scale: PublicScale, *, rounds: int | None = None, clients_per_round: int | None = None,
    max_rounds: int = 500, clip_norm: float | None = None, step_size: float | None = None,
    decay_rounds: float = 50.0,
) -> Plan:  # fmt: skip
    """Plan FedSGD-DPC for softmax regression from public facts alone, by the rule of this module.

    What is stated is kept, the rest chosen around it. Where b is free it is N for Gaussian noise; for Laplace
    noise it is the least, doubling, whose k passes fit into the rounds. With a stated step size k is the
    largest whose noise is at most c_k, or 1. "Do not train" where the rule expects to gain less than 1 % of
    ln K, unless rounds are stated.

    Args:
        problem: public facts and budget; its clip is a placeholder.
        scale: of records and gradients.
        rounds: T if stated.
        clients_per_round: b if stated.
        max_rounds: most T to consider.
        clip_norm: C if stated.
        step_size: eta_0 if stated.
        decay_rounds: rounds after which the step size is halved; infinite keeps it.

    Returns:
        A `Plan` whose noise pays for ceil(bT/N) uploads of every client. Nothing is predicted.

    Raises:
        InvalidInput: no noise, a number out of range, T or b beyond what the resources pay for.

    Guarantee: a function of its arguments; no data are read.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(10, 6000), 7840, PrivacyBudget.of(5.0, 0.0, 10), "laplace", 1.0)
        >>> made = plan_by_rule(problem, PublicScale.of_softmax(1.0, 10, 784, "l1"))
        >>> made.rounds, made.clients_per_round, round(made.problem.clip_norm, 2), round(made.step.initial)
        (90, 1, 3.97, 83)

    Source: this project's measurements; docs/planning.md has them.
    """
    if not problem.law.noisy:
        raise InvalidInput(
            "the rule weighs signal against noise, got a problem without noise; state rounds and step_size"
        )
    clip = CALIBRATIONS[problem.law.norm].clip * scale.gradient_norm if clip_norm is None else clip_norm
    first = 1.0 if step_size is None else step_size
    problem, schedule = replace(problem, clip_norm=clip), StepSize(first, decay_rounds)
    check.count("max_rounds", max_rounds)
    every = [
        _Weighed.of(problem, scale, schedule, _rounds(problem, rounds, b, max_rounds), b)
        for b in _cohorts(problem, rounds, clients_per_round, max_rounds)
    ]
    weighed = next((one for one in every if step_size or one.slow.any()), every[-1])
    best = weighed.quiet_enough(step_size) if step_size else weighed.slow_enough()
    # c_k^2 (1 - 1/K)/2, where the signal is weak
    gain = weighed.accepted[best] ** 2 * (1 - 1 / scale.classes) / 2
    if rounds is None and gain < _LEAST_GAIN * np.log(scale.classes):
        return _untrained(problem, scale)
    eta = step_size or float(weighed.step_size[best])
    step = replace(schedule, initial=eta)
    made = stated(problem, int(weighed.rounds[best]), weighed.clients_per_round, step)
    outcome = _outcome(made, eta * weighed.noise[best])
    return replace(made, citation=CITATION, outcome=outcome, **_grounds(problem, scale))


def _cohorts(problem: Problem, rounds: int | None, clients_per_round: int | None, longest: int) -> list[int]:
    """The b to try, the best first: as stated, or paid for and such that every client can be asked."""
    n = problem.n_clients
    in_range(n, rounds, clients_per_round)
    check_paid(problem, rounds, clients_per_round)
    if clients_per_round is not None:
        return [clients_per_round]
    most = int(min(n, problem.most_uploads() * n / (rounds or 1)))
    least = -(-n // (rounds or longest)) if problem.law.exponent == 2 else most
    least = max(least, problem.trust.least_cohort)
    return [*(least << i for i in range(n.bit_length()) if least << i < most), most]


def _rounds(problem: Problem, rounds: int | None, b: int, max_rounds: int) -> NDArray[np.int64]:
    """T as stated, else the longest training of every number k of uploads that is paid for."""
    if rounds is not None:
        return np.array([rounds])
    n = problem.n_clients
    most = int(min(uploads(max_rounds, b, n), problem.most_uploads()))
    return np.minimum(np.arange(1, most + 1) * n // b, max_rounds)


# The rule ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Weighed:
    """Signal and noise in an output for every candidate T, shape (m,).

    Attributes:
        rounds: T.
        clients_per_round: b.
        noise: s_k.
        reach: r_k.
        accepted: c_k.
        furthest: a K k.
    """

    rounds: NDArray[np.int64]
    clients_per_round: int
    noise: Real
    reach: Real
    accepted: Real
    furthest: Real

    @classmethod
    def of(
        cls, problem: Problem, scale: PublicScale, schedule: StepSize, rounds: NDArray[np.int64], b: int
    ) -> _Weighed:
        """Those of T rounds with b clients each."""
        n, radius, constants = problem.n_clients, scale.record_norm, CALIBRATIONS[problem.law.norm]
        falls, k = schedule.at(np.arange(rounds.max())) / schedule.initial, uploads(rounds, b, n)
        aggregated = n / b * problem.weighted_noise(k, b) / problem.dimension
        noise = radius * np.sqrt(aggregated * np.cumsum(falls**2)[rounds - 1])
        kept = min(1.0, problem.clip_norm / scale.gradient_norm)
        reach = radius**2 * kept * np.cumsum(falls)[rounds - 1]
        accepted = np.minimum(constants.noise, _BETWEEN / (scale.classes - 1) * reach / noise)
        furthest = constants.pace_of(b, n) * scale.classes * k.astype(float)
        return cls(rounds, b, noise, reach, accepted, furthest)

    @property
    def slow(self) -> NDArray[np.bool_]:
        """Whether the noise that is accepted comes with a pace that is kept, shape (m,)."""
        return self.accepted / self.noise * self.reach <= self.furthest

    @property
    def step_size(self) -> Real:
        """eta, shape (m,)."""
        return np.minimum(self.accepted / self.noise, self.furthest / self.reach)

    def slow_enough(self) -> int:
        """The first candidate that keeps the pace, else the last."""
        return int(np.argmax(self.slow)) if self.slow.any() else len(self.slow) - 1

    def quiet_enough(self, step_size: float) -> int:
        """The last candidate whose noise is accepted at a stated step size, else the first."""
        return max(int(np.count_nonzero(step_size * self.noise <= self.accepted)) - 1, 0)


# What the plan says -----------------------------------------------------------------------------------


def _outcome(made: Plan, noise: float) -> str:
    rounds, each = count(made.rounds, "round"), count(int(made.releases.max()), "upload")
    return (
        f"Train {rounds} with {made.clients_per_round} of {made.problem.n_clients} clients, {each} each, by "
        f"the signal-to-noise rule: noise of {noise:.2g} in an output."
    )


def _untrained(problem: Problem, scale: PublicScale) -> Plan:
    """The answer where hardly anything can be learnt."""
    return Plan(
        "fedsgd-dpc", CITATION, problem, rounds=0, clients_per_round=0,
        releases=np.zeros(problem.n_clients, np.int64), release=None, prediction=None,
        outcome="Do not train: by the signal-to-noise rule the noise leaves less than 1 % of the loss to "
        "gain; raise epsilon or add records.",
        **_grounds(problem, scale),
    )  # fmt: skip


def _grounds(problem: Problem, scale: PublicScale) -> dict[str, Any]:
    """What the plan rests on, and what to know of it."""
    constants = CALIBRATIONS[problem.law.norm]
    fitted = {"output_noise": constants.noise, "pace": constants.pace, "pace_alone": constants.pace_alone}
    public = {"record_norm": scale.record_norm, "gradient_norm": scale.gradient_norm}
    named = {name: Constant(value, _PROVENANCE) for name, value in fitted.items()}
    named |= {name: Constant(value, ASSUMED) for name, value in public.items()}
    return {"constants": named, "notes": _notes(problem, scale)}


def _notes(problem: Problem, scale: PublicScale) -> tuple[str, ...]:
    notes = [
        "Planned by a rule of thumb, calibrated on digits and Fashion-MNIST with ten clients of two classes "
        "each. It is no bound, and it read no data.",
        f"It assumes records of L2 norm {scale.record_norm:.4g} whose gradients start with "
        f"{problem.norm.upper()} norm {scale.gradient_norm:.4g}.",
    ]
    if scale.classes != _CLASSES:
        notes.append(
            f"Warning: the rule was calibrated on {_CLASSES} classes and is a guess for {scale.classes}; "
            "name public data like yours under [planning] public."
        )
    return tuple(notes)
