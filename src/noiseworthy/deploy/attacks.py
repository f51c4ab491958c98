"""Attacks on what a gateway releases in rehearsal: two neighbouring worlds, and who tells them apart."""

import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from noiseworthy._validate import Real
from noiseworthy.audit.attack import Bound, Trials, bound
from noiseworthy.audit.audits import CONFIDENCE
from noiseworthy.audit.families import Family, family_at
from noiseworthy.deploy.gateway.messages import Refused, Request
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.rehearsal import Question, World, cost, made_up
from noiseworthy.privacy.durable import Account
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.durable.statement import epsilon_of
from noiseworthy.privacy.mechanisms import Law, law_of
from noiseworthy.privacy.mechanisms.currencies import CURRENCIES, EPSILON, MU_SQUARED

ATTACKED = {MU_SQUARED: (3.0, 5.0), EPSILON: (1.0, 2.0)}
"""Least and most epsilon of an attack, by currency; the owner's own where it lies between."""
# below 1, so that no rounding refuses the first release, and above 1/2, so that a second one must be refused
_PART, LAST = 0.99, 1e-6
"""Of a budget that one attacked release costs, and relative slack of prices."""
BATCH, _WIDEST = 20, 512
"""Releases between looks at the clock, and coordinates whose noise is looked at."""
_ENDS = 20
"""Attacked releases after which a second one must be refused, in each world."""


@dataclass(frozen=True)
class Attacked:
    """An algorithm under attack.

    Attributes:
        question: what was asked.
        trials: scores of the attacker.
        residuals: uploads less their noiseless means, in units of the noise that was asked, shape (S, k).
        charged: least epsilon that the ledger charged for one release.
        priced: whether every charge is what a release costs by hand.
        ended: whether every second release, beyond the budget, was refused.
        shown: what the trials prove, at the confidence that is shown.
        accusation: the same at the confidence at which an installation is accused.
    """

    question: Question
    trials: Trials
    residuals: Real
    charged: float
    priced: bool
    ended: bool
    shown: Bound
    accusation: Bound

    @property
    def proven(self) -> float:
        """Epsilon of one release that the trials prove."""
        return float(self.shown.epsilon[0])

    @property
    def passed(self) -> bool:
        """Whether less is proven than was charged."""
        return self.accusation.scale <= 1

    @property
    def lucky(self) -> bool:
        """Whether more is shown than was charged, and it does not accuse: one sound attack in 20 does so."""
        return self.passed and self.proven > self.charged


def pair_of(owner: Owner, folder: Path) -> tuple[World, World]:
    """The two neighbouring data sets, absent and present, at the epsilon of the attack, without a floor."""
    least, most = ATTACKED[law_of(owner.budget.mechanism).paid_in]
    budget = {"epsilon": float(np.clip(owner.budget.epsilon, least, most)), "noise_floor": 1e-6}
    absent, present = (opened(owner, folder / one, one == "present", budget) for one in ("absent", "present"))
    return absent, present


def opened(owner: Owner, folder: Path, present: bool, budget: dict[str, float]) -> World:
    """One world in a new folder.

    Args:
        owner: the owner's file.
        folder: that is made.
        present: which of the two worlds.
        budget: keys of `[budget]` to exchange.
    """
    folder.mkdir()
    return World.open(made_up(owner, folder, present, **budget))


@dataclass(frozen=True)
class _Seen:
    """What is gathered of one algorithm: scores in either world, residuals, charges, second answers."""

    scores: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    residuals: list[Real] = field(default_factory=list)
    charges: list[int] = field(default_factory=list)
    refused: list[bool] = field(default_factory=list)


def attacked(
    worlds: tuple[World, World], question: Question, trials: int, ends: float, alarm: float
) -> Attacked:
    """Attack an algorithm by release after release, each of a fresh budget.

    Args:
        worlds: absent and present.
        question: what is asked.
        trials: releases, at most.
        ends: by the monotonic clock, after which no further batch of releases is asked.
        alarm: probability of accusing a sound installation, at most.
    """
    account, mechanism = worlds[0].gateway.account, worlds[0].gateway.owner.budget.mechanism
    ratio, seen, made = ratio_of(account, _PART), _Seen(), 0
    while made < trials and (made < BATCH or time.monotonic() < ends):
        names = [f"{question.algorithm} {made + i}" for i in range(BATCH)]
        for present in (0, 1):
            for one, name in zip(worlds[present].accounts(names[present::2]), names[present::2], strict=True):
                _look(seen, one, worlds, present, one.request(question, name, ratio), question)
        made += BATCH
    charged, priced = min(seen.charges), cost(question, ratio, mechanism)
    trial = Trials(
        np.array(seen.scores[1]), np.array(seen.scores[0]), np.zeros(1, np.int64),
        _family(account, law_of(mechanism), charged), 0.0,
    )  # fmt: skip
    delta = np.array([account.delta])
    return Attacked(
        question=question,
        trials=trial,
        residuals=np.array(seen.residuals),
        charged=epsilon_of(account, charged),
        priced=all(abs(spent_of(account, one) / priced - 1) < LAST for one in seen.charges),
        ended=all(seen.refused),
        shown=bound(trial, delta, CONFIDENCE),
        accusation=bound(trial, delta, 1 - alarm),
    )


def _look(
    seen: _Seen, one: World, worlds: tuple[World, World], present: int, request: Request, question: Question
) -> None:
    """One release from a fresh budget, and whether a second one is refused."""
    means = [world.mean(question) for world in worlds]
    upload = one.upload(request, len(means[present]))
    seen.scores[present].append(_score(upload, worlds, means, request.noise))
    seen.residuals.append(((upload - means[present]) / request.noise)[:_WIDEST])
    seen.charges.append(one.charged)
    if len(seen.refused) < 2 * _ENDS:
        again = one.answer(request.model_copy(update={"run": f"{request.run} again"}))
        seen.refused.append(isinstance(again, Refused) and again.reason == "budget")


def _score(upload: Real, worlds: tuple[World, World], means: list[Real], noise: float) -> float:
    """log p(upload | present) - log p(upload | absent), for noise as asked."""
    absent, present = ((upload - mean) / noise for mean in means)
    return float(law_of(worlds[0].gateway.owner.budget.mechanism).analysis.log_ratio(absent, present))


def ratio_of(account: Account, part: float) -> float:
    """Change over noise of a release that costs a part of a budget."""
    return account.size * part ** (1 / power_of(account))


def spent_of(account: Account, shares: int) -> float:
    """Shares in the currency of the account: mu^2, or epsilon."""
    return shares / WHOLE * account.size ** power_of(account)


def power_of(account: Account) -> int:
    """Of the ratio of a release, in what it costs."""
    return CURRENCIES[account.currency].power


def _family(account: Account, law: Law, charged: int) -> Family:
    """Noise that costs what was charged; at scale 1 an attack proves as much."""
    spent = max(spent_of(account, charged), 1e-6)
    return family_at(law, (((spent ** (1 / power_of(account)), 1),),))
