"""What a plan asks of its owners, and whether an owner's terms allow it. Looks at what is public alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

import numpy as np

from noiseworthy.data.terms import OwnerTerms
from noiseworthy.deploy.asking import work_of
from noiseworthy.methods.registry import method
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.budget import PrivacyBudget, Unit
from noiseworthy.privacy.durable import accounts_of
from noiseworthy.privacy.trust import LOCAL, Trust

_ROUNDING = 1e-9
"""Part of a budget that is a matter of rounding."""


@dataclass(frozen=True)
class Demand:
    """What a plan asks of one owner.

    Attributes:
        algorithms: as gateways call them.
        model: by name.
        mechanism: of the noise.
        unit: whose change the budget hides.
        epsilon: of the whole training.
        delta: of the whole training.
        noise: the least that a release gets, in units of what a neighbour changes.
        releases: of the whole training.
        parameters: of the model.
        local_steps: of one release.
        trust: whom owners trust.
        encoder: that records pass first, by name and digest; None without one.
    """

    algorithms: tuple[str, ...]
    model: str
    mechanism: str
    unit: Unit
    epsilon: float
    delta: float
    noise: float
    releases: int
    parameters: int
    local_steps: int
    trust: Trust = LOCAL
    encoder: str | None = None

    @classmethod
    def of(cls, plan: Plan, model: str, client: int, encoder: str | None = None) -> Demand:
        """What a plan asks of one of its clients.

        Args:
            plan: with noise.
            model: by name.
            client: its place in the federation.
            encoder: by name and digest.
        """
        budget, uploads = plan.budget, plan.rounds if _decides_later(plan) else int(plan.uploads[client])
        before = sum(int(stage.uploads[client]) for stage in plan.stages)
        return cls(
            algorithms=_works_of(plan, client), model=model, mechanism=plan.problem.family, unit=budget.unit,
            epsilon=float(budget.epsilon[client]), delta=float(budget.delta[client]),
            noise=_least_noise(plan, client), releases=max(1, uploads + before),
            parameters=plan.problem.dimension,
            local_steps=1 if plan.local is None else int(plan.local.counts(plan.rounds).max(initial=1)),
            trust=plan.problem.trust, encoder=encoder,
        )  # fmt: skip

    def misfit(self, owner: OwnerTerms) -> str:
        """Why an owner's terms do not allow the plan, in words of the owner's file; empty if they do.

        Args:
            owner: its terms.
        """
        beyond = (self._beyond_kinds(owner), self._beyond_sums(owner), self._beyond_numbers(owner))
        return next(chain(*beyond), "")

    def unpaid(self, owner: OwnerTerms, spent: float = 0.0) -> str:
        """Why an owner's budget does not pay for the plan, with the remedy; empty if it does.

        Args:
            owner: its terms.
            spent: part of its budget that other trainings have spent, or that is held for them, from 0 to 1.
        """
        if (1 - spent) * _whole(owner) >= (1 - _ROUNDING) * _whole(self):
            return ""
        return (
            f"has {1 - spent:.1%} left of epsilon {owner.epsilon:g} at delta {owner.delta:g}, the plan "
            f"spends epsilon {self.epsilon:g} at {self.delta:g}; state less [privacy] epsilon for it in the "
            "study, because a lifetime budget does not grow"
        )

    def _beyond_kinds(self, owner: OwnerTerms) -> Iterator[str]:
        if owner.mechanism != self.mechanism:
            yield f"has mechanism {owner.mechanism}, the plan {self.mechanism}"
        if owner.unit == "client" and self.unit != "client":
            yield f"has a budget for everything it holds (unit client), the plan hides one {self.unit}"
        elif "person" in (owner.unit, self.unit) and self.unit not in (owner.unit, "client"):
            yield f"has a budget of unit {owner.unit}, the plan hides one {self.unit}"
        if missing := sorted(set(self.algorithms) - set(owner.algorithms)):
            yield f"does not allow algorithms {', '.join(missing)}"
        if self.model not in owner.models:
            yield f"does not allow models {self.model}"
        if self.encoder is not None and self.encoder not in owner.encoders:
            yield f"does not allow encoders {self.encoder}"

    def _beyond_sums(self, owner: OwnerTerms) -> Iterator[str]:
        if not (self.trust.owners_add or owner.server_adds_noise):
            yield "has no [allowed] server_adds_noise, and by the plan a trusted server adds the noise"
        if self.trust.model != "secure-sum":
            return
        if owner.sums is None:
            yield "has no [secure_sum], and by the plan owners sum their uploads"
            return
        _, colluders, shares = owner.sums
        if colluders > self.trust.colluders:
            yield f"has [secure_sum] colluders {colluders}, the plan withstands {self.trust.colluders}"
        if not shares:
            yield "has [secure_sum] without share_noise, and the plan counts on the noise of others"

    def _beyond_numbers(self, owner: OwnerTerms) -> Iterator[str]:
        for name, asked in (
            ("most_releases", self.releases),
            ("most_parameters", self.parameters),
            ("most_local_steps", self.local_steps),
        ):
            if asked > (allowed := getattr(owner, name)):
                yield f"has {name} {allowed}, the plan asks for {asked}"
        if self.noise < owner.noise_floor:
            yield f"has noise_floor {owner.noise_floor:g}, the plan's least noise is {self.noise:.4g}"


def _whole(terms: OwnerTerms | Demand) -> float:
    """A budget in what releases are added up in: mu^2, or epsilon for Laplace noise."""
    budget = PrivacyBudget.of(terms.epsilon, terms.delta, 1)
    return float(accounts_of(budget, terms.mechanism, "", "", [""])[0].whole)


def _works_of(plan: Plan, client: int) -> tuple[str, ...]:
    """What gateways call the work of a plan: several algorithms ask for the same gradient."""
    first = None if plan.pilot is None else method(plan.algorithm).wire().first
    before = [*([] if first is None else [first.name]), *([] if plan.ranges is None else [plan.ranges.asked])]
    return (work_of(plan, client, 0).name, *before)


def _decides_later(plan: Plan) -> bool:
    """Whether a first stage is still to tell how often each is asked: in none, some or all of the rounds."""
    return plan.pilot is not None and plan.pilot.pending


def _least_noise(plan: Plan, client: int) -> float:
    release = plan.problem.release(np.ones_like(plan.releases)) if _decides_later(plan) else plan.release
    kinds = [part for part, _ in plan.before] + ([] if release is None else [release])
    return min(1 / float(kind.shift[client]) for kind in kinds)
