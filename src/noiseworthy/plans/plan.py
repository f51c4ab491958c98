"""A plan: one value that binds selection, clip, noise, weights and counts to one privacy claim."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy.plans.local_work import LocalWork
from noiseworthy.plans.moments import SecondMoments
from noiseworthy.plans.problem import Constant, Problem
from noiseworthy.plans.stages import BoughtRanges, Stage
from noiseworthy.privacy.accountants import spent_epsilon, spent_with_pilot
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.releases import LEFT_OUT_IF_DEFAULT, Release
from noiseworthy.privacy.trust import LOCAL

_MOST_SAID = 10_000_000
"""Numbers of the noise of every round; of more, that of the first and the last round is said."""


@dataclass(frozen=True)
class StepSize:
    """Step size eta_t = initial / (1 + t / decay_rounds); `decay_rounds` infinite keeps it constant.

    t counts steps: rounds where a client takes one step per reply, local iterations where it takes several.
    The schedule of the theory, (2/mu) / (t + gamma), is `StepSize(2 / (mu gamma), gamma)`.

    Example:
        >>> StepSize(0.05, 50.0).at(np.array([0, 50]))
        array([0.05 , 0.025])
    """

    initial: float
    decay_rounds: float = 50.0

    def __post_init__(self):
        check.positive("step_size", self.initial)
        if self.decay_rounds != float("inf"):
            check.positive("step_decay", self.decay_rounds, remedy='use "none" for a constant step')

    def at(self, t: NDArray[np.int64]) -> NDArray[np.float64]:
        """eta_t for round indices t, starting at 0."""
        return self.initial / (1 + t / self.decay_rounds)


@dataclass(frozen=True)
class Steering:
    """How far the noised uploads themselves may scale planned steps and the last model (`methods.steered`).

    Attributes:
        gain: k, the most by which the logarithm of the scale moves in a round, over 2; 0 steers nothing.
        floor: loss below which a slope says little, above 0.
        closing: q, by how much the logarithm of the last model's scale follows the slopes of most rounds.
    """

    gain: float
    floor: float
    closing: float = field(default=0.0, metadata=LEFT_OUT_IF_DEFAULT)

    def __post_init__(self):
        check.in_unit_interval("steering", self.gain, closed_left=True, remedy="0 keeps the planned steps")
        check.positive("floor of steering", self.floor)
        check.non_negative("closing of steering", self.closing)


@dataclass(frozen=True)
class Prediction:
    """What the bound says of the plan, beside what it says of not training.

    Attributes:
        bound: value at the plan.
        no_training: value of the untrained start, in the same unit.
        unit: what is bounded: `squared distance to the optimum` or `test loss on public proxies`.
        vacuous: whether the bound recommends training at no epsilon, with what was left free.
    """

    bound: float
    no_training: float
    unit: str
    vacuous: bool = False


@dataclass(frozen=True)
class Plan:
    """The decision of a planner and everything the privacy claim depends on.

    Noise, weights and counts come from this one value, so they cannot disagree.

    Attributes:
        algorithm: its name, as in a study file.
        citation: the paper and equations it follows.
        problem: the public facts it was made for.
        rounds: T; 0 means do not train.
        clients_per_round: b.
        releases: noised values k_i that client i's noise pays for, shape (N,): its uploads, or the noised
            steps that a record of it takes part in.
        release: the noise on each of them, or None when nothing is uploaded.
        prediction: the bound at this plan and without training; None where nothing was predicted.
        constants: name -> `Constant` that the decision rests on.
        outcome: the decision and its reason in a sentence.
        as_printed: what the paper's own formulas would do; not private, for comparison only.
        step: step sizes, None when training was not asked for.
        notes: warnings a user should read.
        pilot: what is released and charged before, if anything is.
        local: what a client computes before each upload; None where that is one gradient, which the server
            multiplies by the step size.
        compared: the same decision under other accounting or relaxed, by name, to look at only.
        momentum: of the server, in [0, 1), which moves by noised uploads only.
        personal_step: step size of what clients keep to themselves, where the algorithm has such a thing.
        averaging: share of the last rounds, in [0, 1), whose models' mean is delivered; 0 delivers the last.
        weighting: q in [0, 1], how far uploads are weighted by their precision; 0 weighs clients by records.
        steering: of the steps by what was uploaded; None takes them as planned.
        ranges: of columns, if they were bought: released and charged before everything else.
        moments: what clients upload in the place of gradients, if that is second moments.
        pull: strength of the ridge that draws clients' own models to their mean, where they keep such.
    """

    algorithm: str
    citation: str
    problem: Problem
    rounds: int
    clients_per_round: int
    releases: NDArray[np.int64]
    release: Release | None
    prediction: Prediction | None
    constants: dict[str, Constant]
    outcome: str
    as_printed: dict[str, Any] = field(default_factory=dict)
    step: StepSize | None = None
    notes: tuple[str, ...] = ()
    pilot: Stage | None = None
    local: LocalWork | None = None
    compared: dict[str, Any] = field(default_factory=dict)
    momentum: float = 0.0
    personal_step: float = 0.0
    averaging: float = 0.0
    weighting: float = 0.0
    steering: Steering | None = None
    ranges: BoughtRanges | None = field(default=None, metadata=LEFT_OUT_IF_DEFAULT)
    moments: SecondMoments | None = field(default=None, metadata=LEFT_OUT_IF_DEFAULT)
    pull: float = field(default=0.0, metadata=LEFT_OUT_IF_DEFAULT)

    def __repr__(self) -> str:
        return f"plan by {self.algorithm}: {self.outcome}"

    @property
    def train(self) -> bool:
        """Whether training is worth its noise."""
        return self.rounds > 0

    @property
    def in_stages(self) -> bool:
        """Whether rounds of training come before it, by which it was or will be decided."""
        return self.pilot is not None and self.pilot.trains

    @property
    def all_rounds(self) -> int:
        """Rounds of the whole training, those of a first stage included."""
        return self.rounds + (self.pilot.rounds if self.pilot else 0)

    @property
    def numbers(self) -> int:
        """Numbers in one upload: the parameters, or second moments."""
        p = self.problem.dimension
        return p if self.moments is None else self.moments.numbers(p)

    @property
    def uploads(self) -> NDArray[np.int64]:
        """Uploads that each client makes at most; it refuses beyond, shape (N,)."""
        noised = self.local is not None and self.local.noised
        return np.full_like(self.releases, self.rounds) if noised else self.releases

    @property
    def cost(self) -> NDArray[np.float64] | None:
        """What each client spends, a pilot included, shape (N,); None where only privacy is scarce."""
        resources = self.problem.resources
        if resources is None:
            return None
        before = 0.0 if self.pilot is None else resources.cost(self.pilot.uploads, self.pilot.uploads)
        return resources.cost(self.uploads, self.steps) + before

    @property
    def steps(self) -> NDArray[np.int64]:
        """Local steps of each client before its uploads, shape (N,)."""
        if self.local is None:
            return self.uploads
        return self.local.taken(self.uploads, self.rounds)

    @property
    def sampling_rate(self) -> float:
        """Probability with which an upload holds what it hides: q of Poisson batches or of secret cohorts."""
        return self.problem.sampling_rate if self.release is None else self.release.sampling_rate

    @property
    def noise(self) -> NDArray[np.float64]:
        """Per-coordinate noise of the first upload: Laplace scale or Gaussian std, shape (N,).

        An owner's own share where noises add up before anybody sees them.
        """
        if self.release is None:
            return np.zeros(self.problem.n_clients)
        return self.release.mechanism.size * self.upload_scale[0]

    @property
    def own_noise(self) -> NDArray[np.float64]:
        """What each owner adds itself: nothing where a server does, which simulation draws in shares."""
        return self.noise if self.problem.trust.owners_add else np.zeros_like(self.noise)

    @property
    def weights(self) -> NDArray[np.float64]:
        """Weights of the uploads, a_i^(1-q) / s_i^(2q) over their sum, shape (N,).

        a_i is the share of records, s_i the noise of an upload. With q = 1 and clients alike the noise of
        the weighted mean is the least; where clients differ, its gradient belongs to another mixture of them.
        Sizes and budgets are public and weights come after the noise, so that any q is free of privacy cost.

        Where only sums are seen, noise follows the weights: see `weighed`.
        """
        if self.release is not None and self.release.sharing is not None:
            return self.release.sharing.weights
        return _weighed(self.problem.weights, self.noise, self.weighting, 2)

    @property
    def parts(self) -> int:
        """Noises that add up to one of the planned size; 1 for a law that is stable, whose sizes add up."""
        sharing = None if self.release is None else self.release.sharing
        return 1 if sharing is None or self.problem.law.stable else sharing.survivors

    @property
    def variance_factor(self) -> float:
        """Variance of the noise in an upload over its squared size."""
        return self.problem.law.variance_factor / self.parts

    def weighed(self, weighting: float) -> Plan:
        """The plan with uploads weighted by their precision to another degree q.

        Where only sums are seen the weights are a_i^(1-q) / s_i^q for the noise s_i that an upload would need
        alone, by which every budget is used up at once with q = 1, and noise is shared anew.

        Args:
            weighting: q in [0, 1].
        """
        made = replace(self, weighting=weighting)
        if self.release is None or self.release.sharing is None:
            return made
        problem, used = self.problem, self.releases
        alone = replace(problem, trust=LOCAL).release(used)
        weights = _weighed(problem.weights, alone.mechanism.size, weighting, 1)
        return replace(made, release=problem.in_sums(alone, used, self.clients_per_round, weights))

    @property
    def sum_noise(self) -> float | None:
        """Deviation per coordinate of the noise in the first round's sum when the fewest survive.

        Of the sum that moves the model, (N/b) times the weighted one. None where each upload is seen.
        """
        if self.release is None or self.release.sharing is None:
            return None
        least = np.min(self.release.sharing.weights * self.release.hiding)
        scale = self.upload_scale[0] * self.problem.n_clients / self.clients_per_round
        return float(scale * least * np.sqrt(self.problem.law.variance_factor))

    @cached_property
    def upload_scale(self) -> NDArray[np.float64]:
        """Factor by which the noise of `release` grows in each round, shape (T,).

        The sum H_t of the local step sizes of the round for an update that clips gradients, because its
        sensitivity is H_t times theirs; 1 for an upload that is clipped as a whole, and for gradients.
        """
        summed = self.local is not None and self.local.summed and self.problem.clipping != "D"
        if self.step is None or not summed:
            return np.ones(self.rounds)
        return self.local_step_sizes.reshape(self.rounds, -1).sum(axis=1)

    @property
    def local_step_sizes(self) -> NDArray[np.float64]:
        """eta_k of every local iteration that precedes an upload, in their order, shape (T E,)."""
        if self.step is None or self.local is None:
            return np.empty(0)
        return self.step.at(np.arange(int(self.local.counts(self.rounds).sum())))

    def spent(self, uploads: NDArray[np.int64] | None = None) -> NDArray[np.float64]:
        """Exact epsilon_i after `uploads` (by default all that are planned) and the pilot, shape (N,)."""
        used = self.releases if uploads is None else self.released_by(uploads)
        if self.before:
            return spent_with_pilot(self.before, self.release, used, self.budget.delta)
        if self.release is None:
            return np.zeros(self.problem.n_clients)
        return spent_epsilon(self.release, used, self.budget.delta)

    def released_by(self, uploads: NDArray[np.int64]) -> NDArray[np.int64]:
        """Noised values that depend on one record after so many uploads, shape (N,)."""
        return uploads if self.local is None else self.local.released(uploads, self.problem.sizes)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What comes before the rounds, in its order."""
        return tuple(stage for stage in (self.ranges, self.pilot) if stage is not None)

    @property
    def before(self) -> tuple[tuple[Release, NDArray[np.int64]], ...]:
        """What is released and charged before the rounds, with how often each client makes it."""
        return tuple(part for stage in self.stages for part in stage.parts)

    @property
    def budget(self) -> PrivacyBudget:
        """The whole budget of every client, all that is released before included."""
        return self.trainable if self.ranges is None else self.ranges.budget

    @property
    def trainable(self) -> PrivacyBudget:
        """What training may spend, a pilot included: the budget without what ranges cost."""
        return self.problem.budget if self.pilot is None else self.pilot.budget

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain values, the contract of `noiseworthy plan --json`."""
        budget = self.budget
        rows = zip(budget.epsilon.tolist(), budget.delta.tolist(), self.spent().tolist(), strict=True)
        private = self.release is None or self.release.mechanism.law.noisy
        return {
            "algorithm": self.algorithm,
            "citation": self.citation,
            "mechanism": self.problem.family,
            "train": self.train,
            "rounds": self.rounds,
            "clients_per_round": self.clients_per_round,
            "releases": self.releases.tolist(),
            "noise": self.own_noise.tolist(),
            "clip_norm": self.problem.clip_norm,
            "clip": self.problem.norm,
            "sampling_rate": self.problem.sampling_rate,
            "step_size": None if self.step is None else self.step.initial,
            "step_decay_rounds": None if self.step is None else _finite(self.step.decay_rounds),
            "predicted": None if self.prediction is None else vars(self.prediction),
            "constants": {name: vars(constant) for name, constant in self.constants.items()},
            "privacy": {
                "unit": budget.unit,
                "relation": budget.relation,
                "adversary": self.problem.trust.adversary,
                "private": private,
                "accountant": self.problem.law.analysis.accountant(self.sampling_rate, budget.delta),
                "clients": [
                    {"epsilon": epsilon, "delta": delta, "spent_epsilon": _finite(spent)}
                    for epsilon, delta, spent in rows
                ],
            },
            "outcome": self.outcome,
            "notes": list(self.notes),
            "as_printed": {} if self.problem.trust.in_sums else self.as_printed,
            **self._trust_keys(),
            **({"momentum": self.momentum} if self.momentum else {}),
            **({"averaging": self.averaging} if self.averaging else {}),
            **({"weighting": self.weighting} if self.weighting else {}),
            **({"steering": vars(self.steering)} if self.steering else {}),
            **({"personal_step_size": self.personal_step} if self.personal_step else {}),
            **({"pull": self.pull} if self.pull else {}),
            **(self.pilot.as_dict() if self.pilot else {}),
            **(self.ranges.as_dict() if self.ranges else {}),
            **(self.moments.as_dict(self.problem.dimension) if self.moments else {}),
            **self._resource_keys(),
            **self._local_keys(),
        }

    def _trust_keys(self) -> dict[str, Any]:
        """Whom owners trust and the noise of a sum, where not everybody sees each upload."""
        trust = self.problem.trust
        told = {"trust": trust.as_dict(), "sum_noise": self.sum_noise} if trust.in_sums else {}
        return told | ({"asked_with": self.sampling_rate} if trust.secret else {})

    def _resource_keys(self) -> dict[str, Any]:
        """The dearest client's cost, and what each client pays; None where nothing but privacy is scarce."""
        if self.cost is None or self.problem.resources is None:
            return {"cost": None, "resources": None}
        spent = {**self.problem.resources.as_dict(), "cost": self.cost.tolist()}
        return {"cost": float(self.cost.max()), "resources": spent}

    def _local_keys(self) -> dict[str, Any]:
        """What plans with local work add: its counts, and the noise of every round where it changes.

        Of many rounds of many clients that is the noise of the first round and of the last.
        """
        if self.local is None:
            return {}
        if self.local.noised:
            return {**self.local.as_dict(self.rounds), "compared": self.compared}
        keys = {"clipping_mode": self.problem.clipping, **self.local.as_dict(self.rounds)}
        if self.release is not None and np.ptp(self.upload_scale) > 0:
            own = self.release.mechanism.size * self.problem.trust.owners_add
            every = self.upload_scale[[0, -1]] if self.rounds * len(own) > _MOST_SAID else self.upload_scale
            keys["noise_per_round"] = np.outer(every, own).tolist()
        return keys


def _weighed(
    shares: NDArray[np.float64], noise: NDArray[np.float64], weighting: float, power: int
) -> NDArray[np.float64]:
    """shares^(1-q) / noise^(power q) over their sum."""
    if not weighting or not np.all(noise > 0):
        return shares
    # in logarithms less their greatest: the sum is at least 1 and finite, however far noises are apart
    log = (1 - weighting) * np.log(shares) - power * weighting * np.log(noise)
    weights = np.exp(log - log.max())
    return weights / weights.sum()


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
