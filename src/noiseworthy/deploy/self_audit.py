"""The audit of an installation: an owner's gateway is attacked as deployed, on made-up records.

`audit.audits` attacks a plan in simulation. What a gateway releases comes by another way: the owner's file,
the wire format, the owner's own sensitivity, rows on a grid, OpenDP's noise and the ledger. Here requests go
that way in rehearsal (`audit.rehearsal`), and six checks look at what comes back:

    bound     what an attacker proves about epsilon is within what the ledger charged for it
    noise     what is released has noise of the size and the law that was asked for, never twice the same
    price     the ledger charges what a release costs by the auditor's own arithmetic
    replay    a release that is asked again is the same bytes, and with other contents refused
    floor     less noise than the owner's floor is refused, and costs nothing
    budget    releases end where the owner's budget ends

The attack needs no owner's budget to be small or large: it runs at an epsilon that some thousand trials can
tell (`ATTACKED`). All checks together accuse a sound installation once in a thousand audits at most.
"""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.audit.attack import Bound, Trials, bound
from noiseworthy.audit.audits import CONFIDENCE, FALSE_ALARM, Check, rounded_down
from noiseworthy.audit.families import Family, family_at
from noiseworthy.audit.residuals import replay_test, scale_test
from noiseworthy.deploy.gateway.messages import Refused, Request
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.gateway.packing import pack_request
from noiseworthy.deploy.rehearsal import (
    Question,
    World,
    cost,
    made_up,
    questions,
)
from noiseworthy.privacy.durable import Account
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.mechanisms import Law, law_of
from noiseworthy.privacy.mechanisms.currencies import CURRENCIES, EPSILON, MU_SQUARED

TRIALS, SECONDS = 4_000, 45.0
ATTACKED = {MU_SQUARED: (3.0, 5.0), EPSILON: (1.0, 2.0)}
"""Least and most epsilon of an attack, by currency; the owner's own where it lies between."""
_PART, _LAST = 0.99, 1e-6
"""Of a budget that one attacked release costs, and relative slack of prices."""
_BATCH, _WIDEST = 20, 512
"""Releases between looks at the clock, and coordinates whose noise is looked at."""
_ENDS = 20
"""Attacked releases after which a second one must be refused, in each world."""
_MOST = 40
"""Releases after which the owner's own budget is no longer followed to its end."""

Progress = Callable[[float], None]


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
    residuals: NDArray[np.float64]
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


@dataclass(frozen=True)
class SelfAudit:
    """All that was found about an installation.

    Attributes:
        owner: the owner's file.
        attacks: one for each algorithm that it allows.
        checks: what was looked at.
        seconds: that it took.
    """

    owner: Owner
    attacks: tuple[Attacked, ...]
    checks: tuple[Check, ...]
    seconds: float

    @property
    def passed(self) -> bool:
        """Whether no check speaks against the installation."""
        return all(check.passed for check in self.checks)

    @property
    def verdict(self) -> str:
        """What was found, in a sentence."""
        failed = [check.name for check in self.checks if not check.passed]
        if failed:
            return (
                f"This installation does not keep what it charges for: {', '.join(failed)}. Let it answer no "
                "request."
            )
        best = max(self.attacks, key=lambda one: one.proven / one.charged)
        return (
            f"Nothing speaks against this installation: of epsilon {best.charged:.3g} that was charged for a "
            f"release, an attack on it proves {rounded_down(best.proven)}."
        )

    def as_dict(self) -> dict[str, Any]:
        """The audit as plain values, the contract of `gateway --self-audit --json`."""
        return {
            "client": self.owner.owner.client,
            "data_set": self.owner.owner.data_set,
            "passed": self.passed,
            "verdict": self.verdict,
            "mechanism": self.owner.budget.mechanism,
            "delta": self.owner.budget.delta,
            "confidence": CONFIDENCE,
            "trials": sum(one.trials.count for one in self.attacks),
            "seconds": self.seconds,
            "attacks": [
                {
                    "algorithm": one.question.algorithm,
                    "trials": one.trials.count,
                    "errors": one.trials.errors,
                    "charged_epsilon": one.charged,
                    "proven_epsilon": one.proven,
                    "passed": one.passed,
                }
                for one in self.attacks
            ],
            "checks": [vars(check) for check in self.checks],
        }


def self_audit(
    owner: Owner,
    *,
    trials: int = TRIALS,
    seconds: float = SECONDS,
    on_progress: Progress = lambda done: None,
) -> SelfAudit:
    """Audit the installation that would answer by an owner's file.

    Args:
        owner: the owner's file. Neither its records nor its ledger nor its socket are opened.
        trials: releases to attack, over all algorithms that the file allows.
        seconds: after which no further release is asked; when it is over says nothing of them.
        on_progress: told the share done.

    Raises:
        InvalidInput: a file that allows nothing that can be audited, or OpenDP not installed.
        GatewayError: a gateway that refuses what the file allows.
    """
    started, asked = time.monotonic(), questions(owner)
    each = max(2, trials // len(asked))
    with tempfile.TemporaryDirectory(prefix="noiseworthy-rehearsal-", dir=_in_memory()) as folder:
        attacks = []
        worlds = _worlds(owner, Path(folder))
        try:
            for place, question in enumerate(asked):
                ends = started + seconds * (place + 1) / len(asked)
                attacks.append(_attacked(worlds, question, each, ends, FALSE_ALARM / 2 / len(asked)))
                on_progress((place + 1) / (len(asked) + 1))
        finally:
            for world in worlds:
                world.gateway.close()
        checks = (*_attack_checks(attacks, owner), *_own_checks(owner, asked[0], attacks, Path(folder)))
    on_progress(1.0)
    return SelfAudit(owner, tuple(attacks), checks, time.monotonic() - started)


def _in_memory() -> Path | None:
    """A folder whose commits wait for no disk, where the machine has one; what is made up need not last."""
    folder = Path("/dev/shm")
    return folder if os.access(folder, os.W_OK) else None


# The attack ---------------------------------------------------------------------------------------------


def _worlds(owner: Owner, folder: Path) -> tuple[World, World]:
    """The two neighbouring data sets, absent and present, at the epsilon of the attack, without a floor."""
    least, most = ATTACKED[law_of(owner.budget.mechanism).paid_in]
    budget = {"epsilon": float(np.clip(owner.budget.epsilon, least, most)), "noise_floor": 1e-6}
    absent, present = (
        _opened(owner, folder / name, name == "present", budget) for name in ("absent", "present")
    )
    return absent, present


def _opened(owner: Owner, folder: Path, present: bool, budget: dict[str, float]) -> World:
    folder.mkdir()
    return World.open(made_up(owner, folder, present, **budget))


@dataclass(frozen=True)
class _Seen:
    """What is gathered of one algorithm: scores in either world, residuals, charges, second answers."""

    scores: tuple[list[float], list[float]] = field(default_factory=lambda: ([], []))
    residuals: list[NDArray[np.float64]] = field(default_factory=list)
    charges: list[int] = field(default_factory=list)
    refused: list[bool] = field(default_factory=list)


def _attacked(
    worlds: tuple[World, World], question: Question, trials: int, ends: float, alarm: float
) -> Attacked:
    account, mechanism = worlds[0].gateway.account, worlds[0].gateway.owner.budget.mechanism
    ratio, seen, made = _ratio(account, _PART), _Seen(), 0
    while made < trials and (made < _BATCH or time.monotonic() < ends):
        names = [f"{question.algorithm} {made + i}" for i in range(_BATCH)]
        for present in (0, 1):
            for one, name in zip(worlds[present].accounts(names[present::2]), names[present::2], strict=True):
                _look(seen, one, worlds, present, one.request(question, name, ratio), question)
        made += _BATCH
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
        charged=account.epsilon_of(charged),
        priced=all(abs(_spent(account, one) / priced - 1) < _LAST for one in seen.charges),
        ended=all(seen.refused),
        shown=bound(trial, delta, CONFIDENCE),
        accusation=bound(trial, delta, 1 - alarm),
    )


def _look(
    seen: _Seen, one: World, worlds: tuple[World, World], present: int, request: Request, question: Question
) -> None:
    """One release from a fresh budget, and whether a second one is refused."""
    upload = one.upload(request)
    seen.scores[present].append(_score(upload, worlds, question, request.noise))
    seen.residuals.append(((upload - one.mean(question)) / request.noise)[:_WIDEST])
    seen.charges.append(one.charged)
    if len(seen.refused) < 2 * _ENDS:
        again = one.answer(request.model_copy(update={"run": f"{request.run} again"}))
        seen.refused.append(isinstance(again, Refused) and again.reason == "budget")


def _score(
    upload: NDArray[np.float64], worlds: tuple[World, World], question: Question, noise: float
) -> float:
    """log p(upload | present) - log p(upload | absent), for noise as asked."""
    absent, present = ((upload - world.mean(question)) / noise for world in worlds)
    return float(law_of(worlds[0].gateway.owner.budget.mechanism).analysis.log_ratio(absent, present))


def _ratio(account: Account, part: float) -> float:
    """Change over noise of a release that costs a part of a budget."""
    return account.size * part ** (1 / _power(account))


def _spent(account: Account, shares: int) -> float:
    """Shares in the currency of the account: mu^2, or epsilon."""
    return shares / WHOLE * account.size ** _power(account)


def _power(account: Account) -> int:
    """Of the ratio of a release, in what it costs."""
    return CURRENCIES[account.currency].power


def _family(account: Account, law: Law, charged: int) -> Family:
    """Noise that costs what was charged; at scale 1 an attack proves as much."""
    spent = max(_spent(account, charged), 1e-6)
    return family_at(law, (((spent ** (1 / _power(account)), 1),),))


def _attack_checks(attacks: list[Attacked], owner: Owner) -> tuple[Check, ...]:
    said = ", ".join(
        f"{one.question.algorithm} {rounded_down(one.proven)} of {one.charged:.3g}" for one in attacks
    )
    wrong = [one.question.algorithm for one in attacks if not one.priced]
    return (
        Check("bound", all(one.passed for one in attacks), f"proven epsilon of the one charged: {said}"),
        _noise_check(attacks, owner.budget.mechanism),
        Check(
            "price",
            not wrong,
            f"the ledger charges another price than a release costs: {', '.join(wrong)}"
            if wrong
            else "the ledger charged every release what it costs by hand, to a millionth",
        ),
    )


def _noise_check(attacks: list[Attacked], family: str) -> Check:
    """Size, law and repetition of all the noise that was drawn."""
    drawn = np.concatenate([one.residuals for one in attacks])[:, None, None, :]
    alone = np.zeros((1, 1), np.int64)
    size, replay = scale_test(drawn, alone, family), replay_test(drawn, alone)
    least = min(size.p_value, replay.p_value)
    return Check(
        "noise",
        least > FALSE_ALARM / 4,
        f"{drawn.size:,} residuals: {size.ratio:.4f} of the size that was asked, {replay.repeated} repeated, "
        f"smallest p {least:.2g}",
    )


# The owner's own terms ----------------------------------------------------------------------------------


def _own_checks(owner: Owner, question: Question, attacks: list[Attacked], folder: Path) -> tuple[Check, ...]:
    """Replay, floor and budget by the owner's file as it stands."""
    world = _opened(owner, folder / "own", True, {})
    try:
        budget = _budget_check(world, question)
        beyond = [one.question.algorithm for one in attacks if not one.ended]
        if beyond:
            budget = Check("budget", False, f"a release beyond the budget was made by {', '.join(beyond)}")
        return _replay_check(world, question), _floor_check(world, question), budget
    finally:
        world.gateway.close()


def _floor_check(world: World, question: Question) -> Check:
    floor = world.gateway.owner.budget.noise_floor
    (one,) = world.accounts(["floor"])
    reply = one.answer(one.request(question, "below the floor", 1.001 / floor))
    refused = isinstance(reply, Refused) and reply.reason == "floor"
    passed = refused and not one.charged
    became = "refused, at no cost" if passed else "not refused at no cost"
    return Check("floor", passed, f"noise a thousandth below the floor of {floor:g} was {became}")


def _replay_check(world: World, question: Question) -> Check:
    (one,) = world.accounts(["replay"])
    request = one.request(question, "asked twice", _modest(world))
    one.upload(request)
    paid, first = one.charged, one.gateway.answer(pack_request(request))
    same = first == one.gateway.answer(pack_request(request))
    other = one.answer(request.model_copy(update={"noise": 1.5 * request.noise}))
    refused = isinstance(other, Refused) and other.reason == "conflict"
    passed = paid > 0 and same and refused and one.charged == paid
    return Check(
        "replay",
        passed,
        "a release that was asked again came as the same bytes, and with other noise was refused, at no cost"
        if passed
        else "a release that was asked again came otherwise, was made with other noise, or was charged anew",
    )


def _budget_check(world: World, question: Question) -> Check:
    """As many releases as the owner's own budget pays for by hand, and then none."""
    ratio, (one,) = _modest(world), world.accounts(["budget"])
    account, mechanism = world.gateway.account, world.gateway.owner.budget.mechanism
    whole = account.size ** _power(account)
    paid = math.floor(whole / cost(question, ratio, mechanism) * (1 + 1e-9))
    made, reply = 0, None
    while made <= min(paid, _MOST):
        reply = one.answer(one.request(question, f"until the end {made}", ratio))
        if isinstance(reply, Refused):
            break
        made += 1
    if made > _MOST:
        spent = _spent(account, one.charged) / (made * cost(question, ratio, mechanism))
        return Check("budget", abs(spent - 1) < _LAST, f"{made} releases were added up; it pays for {paid:,}")
    passed = made == paid and isinstance(reply, Refused) and reply.reason == "budget"
    return Check("budget", passed, f"it pays for {paid} releases by hand; {made} were made")


def _modest(world: World) -> float:
    """Change over noise that passes the owner's floor and costs a part of its budget."""
    return min(0.999 / world.gateway.owner.budget.noise_floor, _ratio(world.gateway.account, 0.29))
