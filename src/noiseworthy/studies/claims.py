"""What a claim card tells beside the plan: what was released before, and what looser counts say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.accountants import spent_epsilon, spent_with_pilot
from noiseworthy.privacy.budget import Relation
from noiseworthy.privacy.mechanisms.currencies import MU_SQUARED
from noiseworthy.privacy.power import Power, after_two_moves, pure_power
from noiseworthy.privacy.releases import Release

Parts = list[tuple[Release, NDArray[np.int64]]]
FALSE_ALARMS = (0.01, 0.05)
"""At which the power of the best test is told."""
SEVERAL = (2, 10)
"""Records of one person whose price is told where no study says how many there are."""
_LAST_BITS = 1e-9
"""Relative difference of clients that are alike."""


def claim_facts(plan: Plan, persons_have: int | None = None) -> dict[str, Any]:
    """What a claim card tells of a plan and its other values do not.

    Args:
        plan: of the run.
        persons_have: records that one person has at most at a client, where a study says so.

    Returns:
        `persons`: what all records of one person cost, only where `persons_have` is stated, and above 1.
        `several`: the same for numbers of records that nobody stated, only where it is not stated and the
        unit is a record.
        `before`: what was released before the plan was made, and the epsilon that it took; None if nothing.
        `looser`: other valid counts of the same noise, as papers use them, by name: least and greatest
        epsilon over the clients that release anything.
        `told_apart`: how well the best test tells neighbours apart at any client, and at whom a guess is
        right most often; None where nothing is released, or without noise.
    """
    told = {"before": _before(plan), "looser": _looser(plan), "told_apart": _told_apart(plan)}
    if persons_have is not None:
        return told | ({"persons": _persons(plan, persons_have)} if persons_have > 1 else {})
    grows = plan.budget.unit == "record" and np.any(plan.releases)
    several = [_persons(plan, records) for records in SEVERAL] if grows else []
    return told | ({"several": several} if any(several) else {})


def _before(plan: Plan) -> dict[str, Any] | None:
    if not plan.before:
        return None
    none = np.zeros(plan.problem.n_clients, np.int64)
    spent = spent_with_pilot(plan.before, None, none, plan.budget.delta)
    what = [] if plan.ranges is None else [plan.ranges.words]
    if plan.pilot is not None:
        trained = "rounds of training that estimate"
        what.append(trained if plan.pilot.rounds else "one upload that bought constants")
    return {
        "what": " and ".join(what),
        "rounds": plan.pilot.rounds if plan.pilot else 0,
        "uploads": _ends(plan.pilot.uploads if plan.pilot else sum((k for _, k in plan.before), none)),
        "spent_epsilon": _ends(spent),
    }


def _persons(plan: Plan, records: int) -> dict[str, Any] | None:
    """Least and greatest epsilon of so many records at once, at the plan's delta; None without noise.

    k neighbouring steps move what is computed by at most k times what one moves it, so that each release is
    counted with k times its sensitivity, exactly. Where the unit is a person, or a client, nothing changes.
    """
    times = records if plan.budget.unit == "record" else 1
    if not plan.problem.law.noisy or (times > 1 and plan.sampling_rate < 1):
        return None
    before = [(_moved(one, times), k) for one, k in plan.before]
    own, delta = plan.release and _moved(plan.release, times), plan.budget.delta
    rows = np.column_stack([_rows(plan), -delta])
    who = [*_greatest(rows, 0.0), *_greatest(-rows, 0.0)]  # all others spend something between
    used = np.where(np.isin(np.arange(len(delta)), who), plan.releases, 0)
    if before:
        spent = spent_with_pilot(before, own, used, delta)
    else:
        spent = np.zeros(len(used)) if own is None else spent_epsilon(own, used, delta)
    return {"records": records, "epsilon": _ends(spent[who])}


def _moved(release: Release, times: int) -> Release:
    """The release where so many records of a client change at once."""
    one = release.sensitivity
    return replace(release, sensitivity=replace(one, value=times * one.value))


def _told_apart(plan: Plan) -> dict[str, Any] | None:
    parts = _parts(plan)
    if not parts or not plan.problem.law.noisy or not any(np.any(k) for _, k in parts):
        return None
    mu = np.sum([k * np.square(one.shift) for one, k in parts], axis=0)
    exposed = mu if _composes(plan) else plan.spent()
    # who has the largest epsilon need not be told apart best: k small releases, or another delta, tell more
    found = {who: power_against(plan, who) for who in _kinds(plan, mu)}
    alike = _alike(exposed) and (_composes(plan) or all(_alike(one.shift, k) for one, k in parts))
    return best_tests(found, alike, plan.budget.relation)


def best_tests(found: Mapping[int, Power], alike: bool, relation: Relation) -> dict[str, Any]:
    """Fields of `typed_record.ToldApartPart`: the largest power of any client, and who is worst off."""
    exchange = [after_two_moves(power, FALSE_ALARMS) for power in found.values()]
    return {
        "client": max(found, key=lambda who: found[who].guess),
        "alike": alike,
        "false_alarms": list(FALSE_ALARMS),
        "power": np.max([power.at(FALSE_ALARMS) for power in found.values()], axis=0).tolist(),
        "guess": max(power.guess for power in found.values()),
        "power_of_exchange": np.max(exchange, axis=0).tolist() if relation == "add-remove" else None,
    }


def _kinds(plan: Plan, mu: NDArray[np.float64]) -> list[int]:
    """Clients of whom one is told apart best: who releases most often or is moved most, of all alike one."""
    if _composes(plan):
        return [int(np.argmax(mu))]
    return _greatest(_rows(plan), _LAST_BITS)


def _rows(plan: Plan) -> NDArray[np.float64]:
    """How often each client makes each release, and how far that is moved, shape (N, 2 releases)."""
    columns = [row for one, k in _parts(plan) for row in (k, np.where(k > 0, one.shift, 0.0))]
    return np.array(columns, float).reshape(-1, len(plan.releases)).T


def _greatest(rows: NDArray[np.float64], slack: float) -> list[int]:
    """Rows of which some one is no less in any column than any other row, but for a relative slack."""
    _, first = np.unique(rows, axis=0, return_index=True)
    kept: list[int] = []
    for who in first[np.argsort(-rows[first].sum(axis=1), kind="stable")]:
        if not kept or not np.any(np.all(rows[kept] >= rows[who] - slack * np.abs(rows[who]), axis=1)):
            kept.append(int(who))
    return kept


def _alike(*values: NDArray[Any]) -> bool:
    """Whether all clients have the same values, but for last bits."""
    return all(np.ptp(each) <= _LAST_BITS * np.max(each) for each in values)


def power_against(plan: Plan, client: int) -> Power:
    """How well neighbours are told apart by everything that one client releases, its pilot included.

    Args:
        plan: with noise.
        client: by place; it releases something.

    Returns:
        Exact for Gaussian noise and for Laplace noise of one size; by basic composition where Laplace
        releases differ or ranges were bought, and an upper bound for Poisson batches.
    """
    ratios = [(float(one.shift[client]), int(k[client])) for one, k in _parts(plan) if k[client]]
    if plan.ranges is not None and plan.problem.law.pure:
        return pure_power(sum(k * ratio for ratio, k in ratios))  # a quantile adds no noise of the law
    return plan.problem.law.analysis.power(ratios, plan.sampling_rate)


def _composes(plan: Plan) -> bool:
    """Whether all releases are one Gaussian release in the end."""
    return plan.problem.law.currency is MU_SQUARED and plan.sampling_rate == 1


def _parts(plan: Plan) -> Parts:
    """All releases of a plan, those before its rounds first."""
    return [*plan.before, *([] if plan.release is None else [(plan.release, plan.releases)])]


def _looser(plan: Plan) -> dict[str, list[float]]:
    parts, law = _parts(plan), plan.problem.law
    if not parts or not law.noisy or any(release.sampling_rate < 1 for release, _ in parts):
        return {}
    amount = np.sum([k * law.paid_in.analysis.amount(release.shift) for release, k in parts], axis=0)
    found = law.analysis.looser(amount, plan.budget.delta)
    if found is None or not np.any(amount > 0):
        return {}
    return {found.name: _ends(found.epsilon[amount > 0])}


def _ends(values: NDArray[Any]) -> list[float]:
    return [values.min().item(), values.max().item()]
