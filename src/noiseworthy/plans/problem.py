"""What a planner is given: a federation's public facts, its budget, and the constants of a bound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.plans.resources import Resources
from noiseworthy.privacy.amplification import check_secret_cohorts
from noiseworthy.privacy.budget import PrivacyBudget, Row
from noiseworthy.privacy.calibration import calibrate, shared, unit_noise
from noiseworthy.privacy.clipping import ClippingMode, clip_norm_of, of_upload, unit_of
from noiseworthy.privacy.mechanisms import Family, Law, law_of
from noiseworthy.privacy.releases import LEFT_OUT_IF_DEFAULT, Release
from noiseworthy.privacy.sensitivity import Norm, Sensitivity
from noiseworthy.privacy.trust import LOCAL, Sharing, Trust

ASSUMED = "assumed"
"""Provenance of a constant that the user stated."""
_FEW = 8
"""Distinct budgets that a privacy loss distribution is asked about for one prediction."""
ANALYTIC = "analytic"
"""Provenance of a constant that follows from the model and public bounds."""


@dataclass(frozen=True)
class Constant:
    """A number that a bound rests on, with where it came from.

    `provenance` is one of `analytic`, `assumed`, `fitted to trials on ...`, `bought (epsilon, delta)`.
    """

    value: float
    provenance: str


def stated_values(constants: Mapping[str, Constant], required: Sequence[str]) -> dict[str, float]:
    """The values of all constants, none of the required ones missing, and a loss no more convex than smooth.

    Raises:
        InvalidInput: a constant that is missing; a smoothness or strong convexity out of range.
    """
    if missing := [name for name in required if name not in constants]:
        raise InvalidInput(f"the bound needs the constants {', '.join(missing)}; state them in [constants]")
    value = {name: float(constant.value) for name, constant in constants.items()}
    smoothness = check.positive("smoothness", value["smoothness"]).item()
    mu = check.positive("strong_convexity", value["strong_convexity"], remedy="add a ridge term").item()
    if mu > smoothness:
        raise InvalidInput(
            f"strong_convexity must be at most smoothness = {smoothness:g}, got {mu:g}; no function is more "
            "convex than smooth"
        )
    return value


@dataclass(frozen=True)
class Problem:
    """The public facts of a private training: sizes, budgets, mechanism, clip and dimension.

    Attributes:
        sizes: rows d_i of each client, records or persons, shape (N,).
        dimension: number of parameters p.
        budget: (epsilon_i, delta_i) with their relation.
        family: name of the mechanism.
        clip_norm: clip xi: of a record's gradient, of a batch gradient or of an update, as `clipping` says.
        sampling_rate: probability q of a record to enter a batch; 1 is the full batch.
        clipping: what is clipped (`privacy.clipping`): A for one step per upload, B to E for several.
        resources: what training costs the clients and may cost; None where only privacy is scarce.
        trust: who sees what.
        row: what sizes count and a clip of rows bounds: records, or persons with all their records.

    Raises:
        InvalidInput: a client without records, a clip that is not above 0, lengths that differ, resources
            that do not pay for one round.
        UnsoundClaim: a clipping mode without proof for this noise, or a budget of another unit.
    """

    sizes: NDArray[np.int64]
    dimension: int
    budget: PrivacyBudget
    family: Family
    clip_norm: float
    sampling_rate: float = 1.0
    clipping: ClippingMode = "A"
    resources: Resources | None = None
    trust: Trust = field(default=LOCAL, metadata=LEFT_OUT_IF_DEFAULT)
    row: Row = field(default="record", metadata=LEFT_OUT_IF_DEFAULT)
    _settled: ClassVar[bool] = True

    def __post_init__(self):
        check.counts("sizes", self.sizes, remedy="leave a client without records out of the federation")
        check.count("dimension", self.dimension)
        law_of(self.family)
        check.per_client("epsilon", self.budget.epsilon, len(self.sizes))
        if self.resources is not None:
            check.per_client("[resources] budget", self.resources.budget, len(self.sizes))
            self.resources.check_pays()
        if self.sensitivity.unit != self.budget.unit:
            raise UnsoundClaim(
                f"clipping mode {self.clipping} protects one {self.sensitivity.unit}, the budget is stated "
                f"for one {self.budget.unit}; use one unit for both"
            )

    def clipped_as(self, mode: ClippingMode) -> Problem:
        """The same facts under another clipping mode, the budget in that mode's unit."""
        if mode not in self._clipped:
            budget = replace(self.budget, unit=unit_of(mode, self.row))
            self._clipped[mode] = replace(self, clipping=mode, budget=budget)
        return self._clipped[mode]

    def clipped_at(self, clip_norm: float) -> Problem:
        """The same facts with another clip."""
        if clip_norm not in self._clipped:
            self._clipped[clip_norm] = replace(self, clip_norm=clip_norm)
        return self._clipped[clip_norm]

    # a race makes hundreds of plans that differ in steps alone, of which calibrating takes longest
    @cached_property
    def _clipped(self) -> dict[ClippingMode | float, Problem]:
        return {}

    @cached_property
    def _released(self) -> dict[tuple[bytes, int, bytes | None], Release]:
        return {}

    @property
    def n_clients(self) -> int:
        """Number of clients N."""
        return len(self.sizes)

    @property
    def law(self) -> Law:
        """All that is known of the noise."""
        return law_of(self.family)

    @property
    def norm(self) -> Norm:
        """Norm of the clip: l1 for Laplace noise (but for mode E), l2 otherwise."""
        return clip_norm_of(self.clipping, self.family)

    def most_uploads(self, local_steps: int = 1) -> float:
        """Uploads after so many steps each that every client can pay for; infinite if nothing is scarce."""
        return np.inf if self.resources is None else self.resources.most_rounds(local_steps)

    @property
    def weights(self) -> Real:
        """Aggregation weights a_i = d_i / d, shape (N,), summing to 1."""
        return self.sizes / self.sizes.sum()

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """What one row, or one client, can change in one upload; per unit of H where steps vary."""
        return of_upload(
            self.clipping, self.clip_norm, self.sizes, self.dimension, self.family, self.budget.relation,
            self.sampling_rate, self.row,
        )  # fmt: skip

    @cached_property
    def upload_variance(self) -> Real:
        """E||w_i||^2 of the only upload that client i makes, shape (N,): p std^2, or 2 p scale^2.

        Example:
            >>> budget = PrivacyBudget.of([1.0, 5.0], 0.0, 2)
            >>> Problem(np.array([100, 100]), 8, budget, "laplace", 1.0).upload_variance.round(6)
            array([0.0064  , 0.000256])
        """
        size = self.sensitivity.value * unit_noise(self.family, self.budget, 1, self.sampling_rate)
        with np.errstate(over="ignore"):
            return self.dimension * np.square(size) * self.law.variance_factor

    def release(
        self, releases: NDArray[np.int64], cohort: int | None = None, weights: Real | None = None
    ) -> Release:
        """The least noise that pays for `releases[i]` uploads of client i.

        Args:
            releases: uploads k_i, shape (N,).
            cohort: clients b that a round asks; None for all.
            weights: of the uploads in their sum, on which noise depends where only sums are seen, shape (N,);
                None for those of records.

        Raises:
            InvalidInput: a cohort too small for a sum to hide its members.
        """
        asked = cohort or self.n_clients
        key = releases.tobytes(), asked, None if weights is None else weights.tobytes()
        if key not in self._released:
            alone = calibrate(self.family, self.sensitivity, self.budget, releases, self.rate_of(asked))
            self._released[key] = self.in_sums(alone, releases, asked, weights)
        return self._released[key]

    def rate_of(self, cohort: int) -> float:
        """Probability with which an upload holds what it hides: q of Poisson batches, or of secret cohorts.

        Args:
            cohort: clients b that a round asks, on average where that is secret.

        Raises:
            UnsoundClaim: secret cohorts where no proof gives amplification.
        """
        if not self.trust.secret:
            return self.sampling_rate
        check_secret_cohorts(self.family, self.budget.relation, self.sensitivity.unit)
        if self.clipping != "D":
            raise UnsoundClaim(
                f'cohorts = "secret" needs whole updates clipped, mode D, got clipping mode {self.clipping}: '
                "a ridge would move the model beside its clipped steps and show who takes part; use mode D"
            )
        return self.trust.asked_with(cohort, self.n_clients)

    def takes_part(self, rounds: ArrayLike, clients_per_round: ArrayLike) -> NDArray[np.int64]:
        """Releases that a client's noise pays for, k: those of its turn, every round where turns are secret.

        Example:
            >>> problem = Problem(np.array([5, 5]), 3, PrivacyBudget.of(1.0, 1e-5, 2), "gaussian", 1.0)
            >>> problem.takes_part([9], [1])
            array([5])
        """
        rounds, b = np.broadcast_arrays(np.asarray(rounds, np.int64), np.asarray(clients_per_round, np.int64))
        return rounds.copy() if self.trust.secret else -(-rounds * b // self.n_clients)

    def noises_in(self, cohort: int) -> int:
        """Shares into which the noise of a sum is divided that asks b clients; of a server's, among all."""
        return int(self.trust.survivors(self.n_clients if self.trust.secret else cohort))

    def in_sums(
        self, alone: Release, releases: NDArray[np.int64], cohort: int, weights: Real | None
    ) -> Release:
        """Uploads as the study's trust has them, from uploads that each hide their records alone."""
        if not self.trust.in_sums or not self.law.noisy:
            return alone
        if not (self.law.stable or self.law.analysis.divisible):
            raise UnsoundClaim(
                f'{self.family} noise is not known to divide into shares, which trust = "{self.trust.model}" '
                "needs; use gaussian or laplace noise"
            )
        self.trust.check_cohort(cohort)
        shares = self.weights if weights is None else weights / weights.sum()
        sharing = Sharing(shares, self.noises_in(cohort))
        return shared(replace(alone, sharing=None), sharing, releases, self.budget)

    def weighted_noise(self, releases: NDArray[np.int64], cohort: ArrayLike | None = None) -> Real:
        """Sum over clients of a_i^2 E||w_i||^2 when each is asked `releases` times.

        Args:
            releases: uploads k per client, the same for all; shape (m,), one plan candidate each.
            cohort: clients b that a round asks, one number or shape (m,), on which noise depends where only
                sums are seen; None for all.

        Returns:
            shape (m,). Exact where the noise has a closed form, and for a single candidate of few budgets;
            else, where it comes from a privacy loss distribution, exact on a geometric grid of k and
            monotonely interpolated between. Infinite for cohorts in which no sum hides its members.

        Source: docs/theory/accounting.md#aggregates, docs/theory/trust.md#shares.
        """
        with np.errstate(divide="ignore"):
            return self._of_all_noises(releases) / self.hidden_among(cohort)

    def hidden_among(self, cohort: ArrayLike | None) -> NDArray[np.int64]:
        """Into how many shares a sum's variance of noise is divided in cohorts of b; 1 where it is not."""
        return self.trust.survivors(self.n_clients if cohort is None else cohort)

    def _of_all_noises(self, releases: NDArray[np.int64]) -> Real:
        """The same where a share is the noise of the whole sum."""
        releases = np.asarray(releases)
        if self._closed_form:
            return self._noise_of_one_upload * releases.astype(float) ** self.law.exponent
        if len(releases) == 1:
            return np.array([self._weighted_noise_at(int(releases[0]))])
        grid = self._knots(max(int(releases.max()), 2))
        values = np.array([self._weighted_noise_at(int(k)) for k in grid])
        from scipy.interpolate import PchipInterpolator  # here, because it is slow to load

        # monotone between knots, where a smooth spline could let more uploads need less noise; in logarithms,
        # as noise is nearly a power of their number
        return np.exp(PchipInterpolator(np.log(grid), np.log(values))(np.log(releases)))

    def _knots(self, most: int) -> NDArray[np.int64]:
        """Numbers of uploads whose noise is calibrated, others are interpolated between."""
        return np.unique(np.geomspace(1, most, 2 * most.bit_length()).round().astype(int))

    @property
    def _closed_form(self) -> bool:
        """Whether noise is a power of the number of uploads: Gaussian full batches, pure Laplace, none."""
        return self.law.analysis.closed_form(self.sampling_rate, self.budget.delta)

    @cached_property
    def _noise_of_one_upload(self) -> float:
        return self._weighted_noise_at(1)

    def _weighted_noise_at(self, releases: int) -> float:
        size = self.sensitivity.value * self._unit_noise(releases)
        parts = np.square(self.weights * size) * self.law.variance_factor
        # in a sum everybody adds as much as the client that needs most (`Sharing.shares`)
        each = np.full_like(parts, parts.max()) if self.trust.in_sums else parts
        return float(self.dimension * np.sum(each))

    def _unit_noise(self, releases: int) -> Real:
        """Noise per unit of sensitivity; for many budgets under a PLD interpolated over epsilon.

        A PLD costs tenths of a second for each budget, so that a prediction asks it for a few; the plan's
        own noise, `release`, is calibrated for every client.
        """
        budget, family = self.budget, self.family
        noise_of = partial(unit_noise, sampling_rate=self.sampling_rate, settled=self._settled)
        low, high = float(budget.epsilon.min()), float(budget.epsilon.max())
        if self._closed_form or low == high:
            return noise_of(family, budget, releases)
        if len(np.unique(budget.delta)) > 1 or len(np.unique(budget.epsilon)) <= _FEW:
            return noise_of(family, budget, releases)
        knots = np.geomspace(low, high, _FEW)
        some = PrivacyBudget.of(knots, budget.delta[0], _FEW, budget.relation, budget.unit)
        known = np.log(noise_of(family, some, releases))
        from scipy.interpolate import PchipInterpolator

        return np.exp(PchipInterpolator(np.log(knots), known)(np.log(budget.epsilon)))


class Sketch(Problem):
    """A problem to draw a bound for: noise of Poisson batches is some tenths of a percent too much.

    In a twentieth of the time: knots are powers of two, which all curves share, and distributions stay
    coarse. Nothing is released by it.

    Example:
        >>> problem = Problem(np.array([100]), 5, PrivacyBudget.of(1.0, 0.0, 1), "laplace", 1.0)
        >>> Sketch.of(problem).weighted_noise(np.array([3])) == problem.weighted_noise(np.array([3]))
        array([ True])
    """

    _settled: ClassVar[bool] = False

    @classmethod
    def of(cls, problem: Problem) -> Sketch:
        """The same facts."""
        return cls(**{field.name: getattr(problem, field.name) for field in fields(problem)})

    def release(self, *asked: object, **named: object) -> Release:
        """Refused: noise that was not settled pays for nothing.

        Raises:
            UnsoundClaim: always.
        """
        raise UnsoundClaim("a sketch of a problem has no release; calibrate the problem itself")

    def _knots(self, most: int) -> NDArray[np.int64]:
        return 2 ** np.arange((most - 1).bit_length() + 1)
