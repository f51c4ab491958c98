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

import math
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._places import clear_drafts
from noiseworthy._wording import rounded_down, rounded_up
from noiseworthy.audit.audits import BEYOND, CONFIDENCE, FALSE_ALARM, Check
from noiseworthy.audit.residuals import replay_test, scale_test
from noiseworthy.deploy.attacks import LAST, Attacked, attacked, opened, pair_of, power_of, ratio_of, spent_of
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.messages import Refused
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.rehearsal import Question, World, cost, questions

TRIALS, SECONDS = 4_000, 45.0
_REHEARSAL = "noiseworthy-rehearsal-"
_MOST = 40
"""Releases after which the owner's own budget is no longer followed to its end."""

Progress = Callable[[float], None]


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
        if failed := ", ".join(check.name for check in self.checks if not check.passed):
            return f"This installation does not keep what it charges for: {failed}. Let it answer no request."
        best = max(self.attacks, key=lambda one: one.proven / one.charged)
        if best.lucky:
            shows = BEYOND.format(best.question.algorithm, "was charged")
            return f"Nothing is proven against this installation, but {shows}; try more --trials."
        return (
            f"Nothing speaks against this installation: of epsilon {rounded_up(best.charged, 3)} that was "
            f"charged for a release, an attack on it proves {rounded_down(best.proven)}."
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
    owner: Owner, *, trials: int = TRIALS, seconds: float = SECONDS, on_progress: Progress = lambda done: None
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
    if seconds != np.inf:
        check.non_negative("seconds", seconds)
    started, asked = time.monotonic(), questions(owner)
    each = max(2, trials // len(asked))
    with tempfile.TemporaryDirectory(prefix=_REHEARSAL, dir=_in_memory()) as folder:
        attacks = []
        worlds = pair_of(owner, Path(folder))
        try:
            for place, question in enumerate(asked):
                ends = started + seconds * (place + 1) / len(asked)
                attacks.append(attacked(worlds, question, each, ends, FALSE_ALARM / 2 / len(asked)))
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
    clear_drafts(folder, f"{_REHEARSAL}*")
    return folder if os.access(folder, os.W_OK) else None


def _attack_checks(attacks: list[Attacked], owner: Owner) -> tuple[Check, ...]:
    said = ", ".join(
        f"{one.question.algorithm} {rounded_down(one.proven)} of {rounded_up(one.charged, 3)}"
        for one in attacks
    )
    wrong = [one.question.algorithm for one in attacks if not one.priced]
    priced = "the ledger charged every release what it costs by hand, to a millionth"
    if wrong:
        priced = f"the ledger charges another price than a release costs: {', '.join(wrong)}"
    lucky = ", ".join(one.question.algorithm for one in attacks if one.lucky)
    beyond = f"; {BEYOND.format(lucky, 'was charged')}, try more --trials" if lucky else ""
    found = f"proven epsilon of the one charged: {said}{beyond}"
    bound = Check("bound", all(one.passed for one in attacks), found)
    return bound, _noise_check(attacks, owner.budget.mechanism), Check("price", not wrong, priced)


def _noise_check(attacks: list[Attacked], family: str) -> Check:
    """Size, law and repetition of all the noise that was drawn."""
    least = min(one.residuals.shape[1] for one in attacks)
    drawn = np.concatenate([one.residuals[:, :least] for one in attacks])[:, None, None, :]
    alone = np.zeros((1, 1), np.int64)
    size, replay = scale_test(drawn, alone, family), replay_test(drawn, alone)
    p = min(size.p_value, replay.p_value)
    return Check(
        "noise",
        p > FALSE_ALARM / 4,
        f"{drawn.size:,} residuals: {size.ratio:.4f} of the size that was asked, {replay.repeated} repeated, "
        f"smallest p {p:.2g}",
    )


# The owner's own terms ----------------------------------------------------------------------------------


def _own_checks(owner: Owner, question: Question, attacks: list[Attacked], folder: Path) -> tuple[Check, ...]:
    """Replay, floor and budget by the owner's file as it stands."""
    world = opened(owner, folder / "own", True, {})
    try:
        budget = _budget_check(world, question)
        if beyond := [one.question.algorithm for one in attacks if not one.ended]:
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
    paid, first = one.charged, one.gateway.answer(packed(request))
    same = first == one.gateway.answer(packed(request))
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
    whole = account.size ** power_of(account)
    # a whole number of releases may come out an ulp less than it is
    paid = math.floor(whole / cost(question, ratio, mechanism) * (1 + 1e-9))
    made, reply = 0, None
    while made <= min(paid, _MOST):
        reply = one.answer(one.request(question, f"until the end {made}", ratio))
        if isinstance(reply, Refused):
            break
        made += 1
    if made > _MOST:
        spent = spent_of(account, one.charged) / (made * cost(question, ratio, mechanism))
        return Check("budget", abs(spent - 1) < LAST, f"{made} releases were added up; it pays for {paid:,}")
    passed = made == paid and isinstance(reply, Refused) and reply.reason == "budget"
    return Check("budget", passed, f"it pays for {paid} releases by hand; {made} were made")


def _modest(world: World) -> float:
    """Change over noise that passes the owner's floor and costs a part of its budget."""
    return min(0.999 / world.gateway.owner.budget.noise_floor, ratio_of(world.gateway.account, 0.29))
