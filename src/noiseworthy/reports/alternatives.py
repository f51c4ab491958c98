"""A plan beside other answers to its question: under zCDP, in real numbers, and as the paper prints it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseworthy._wording import number, rounded_up, span
from noiseworthy.reports.resources import amount
from noiseworthy.reports.schedules import words_of
from noiseworthy.studies.typed_record import PlanPart, RunRecord

_NOTES = {
    "this plan": "Only the first row is used; its privacy loss is counted exactly.",
    "under zCDP": "zCDP counts the same noise as a greater loss, and so needs more of it.",
    "in real numbers": "In real numbers is the least that the bound can be where rounds need not be whole; "
    "no training has such rounds.",
    "as printed": "As printed is not private: ε spent, in every row, is that of the client that it leaves "
    "worst off.",
}
"""The answers by their names, with what they are."""


@dataclass(frozen=True)
class Leak:
    """What the printed noise would spend of a budget: epsilons of the client that is worst off.

    Attributes:
        budget: of that client.
        plan: what the plan spends of it.
        printed: what the printed noise spends, exactly.
        converted: the same by the paper's own conversion.
        noise: of the plan for that client, per coordinate of a step.
        printed_noise: the printed one.
    """

    budget: float
    plan: float
    printed: float
    converted: float
    noise: float
    printed_noise: float

    @property
    def factor(self) -> float:
        """How many times the budget the printed noise spends."""
        return self.printed / self.budget


def leak_of(plan: PlanPart) -> Leak | None:
    """The leak of the printed noise; None where a plan does not tell it."""
    printed, rows = plan.as_printed, plan.privacy.clients
    exact, converted = printed.get("spent_epsilon"), printed.get("spent_epsilon_zcdp")
    if exact is None or converted is None:
        return None
    worst = printed.get("worst_client", 0)
    row, noise = rows[worst], (plan.noise[worst], printed["noise"][worst])
    return Leak(row.epsilon, row.spent_epsilon, exact, converted, *noise)


def faults_of_printed(plan: PlanPart) -> list[str]:
    """Why the printed solution could not be run: what it costs, and what does not divide what."""
    printed, resources = plan.as_printed, plan.resources
    faults = []
    if resources:
        cost = np.multiply(resources.cost_per_round, printed["rounds"])
        cost = cost + np.multiply(resources.cost_per_step, printed["total_iterations"])
        worst = int(np.argmax(cost / resources.budget))
        if cost[worst] > resources.budget[worst] * (1 + 1e-9):
            faults.append(f"it costs {amount(cost[worst])} of {amount(resources.budget[worst])}")
    if printed["total_iterations"] % printed["local_steps"]:
        k, tau = (words_of(plan).symbols(printed, [key]) for key in ("total_iterations", "local_steps"))
        faults.append(f"{tau} does not divide {k}")
    return faults


def leak_caption(record: RunRecord) -> str:
    """What the figure of the printed formula shows."""
    plan, leak = record.plan, leak_of(record.plan)
    if leak is None:
        return ""
    times = f"{number(leak.factor, 2)} times the budget of {rounded_up(leak.budget, 6)}"
    faults = "; ".join(faults_of_printed(plan))
    return (
        f"The noise that the paper prints would have leaked epsilon {rounded_up(leak.printed)}, {times} "
        f"({rounded_up(leak.converted)} by the paper's own conversion). It is not used."
    ) + (f" Its setting could not be run either: {faults}." if faults else "")


def rows_of(record: RunRecord) -> list[dict[str, str]]:
    """A row for the plan and one for each other answer, with the columns' names; nothing if it is alone."""
    plan = record.plan
    answers = {"this plan": _of_plan(plan), **_others(plan)}
    return [_row(plan, name, values) for name, values in answers.items()] if len(answers) > 1 else []


def note_of(plan: PlanPart, rows: list[dict[str, str]]) -> str:
    """What the rows are."""
    noise = f"Noise is per coordinate of {words_of(plan).noised.what}."
    return " ".join([*(_NOTES[row["setting"]] for row in rows), noise])


def _others(plan: PlanPart) -> dict[str, dict[str, Any]]:
    """Settings of the other answers by their names."""
    others, compared, leak = {}, plan.compared, leak_of(plan)
    if "zcdp" in compared:
        spent = {"spent": f"at most {rounded_up(leak.budget, 6)}"} if leak else {}
        others["under zCDP"] = {**compared["zcdp"], **spent}
    if (relaxed := compared.get("relaxed")) and relaxed["bound"] is not None:
        rounds = relaxed["total_iterations"] / relaxed["local_steps"]
        others["in real numbers"] = {**relaxed, "rounds": rounds}
    if leak:
        others["as printed"] = {**plan.as_printed, "spent": rounded_up(leak.printed)}
    return others


def _of_plan(plan: PlanPart) -> dict[str, Any]:
    leak, predicted = leak_of(plan), plan.predicted
    spent = {"spent": rounded_up(leak.plan)} if leak else {}
    bound = {"bound": predicted.bound} if predicted else {}
    return {**plan.written, **bound, **spent} if plan.train else {**bound, **spent, "noise": None}


def _row(plan: PlanPart, name: str, values: dict[str, Any]) -> dict[str, str]:
    terms = words_of(plan).terms
    settings = {
        terms[key].column: number(values[key]) if key in values else "none"
        for key in ("rounds", "local_steps", "total_iterations")
        if key in terms
    }
    cost = {"cost": _written(values.get("cost"), amount)} if plan.resources else {}
    return {
        "setting": name,
        **settings,
        "noise": _written(values.get("noise"), span),
        "bound": number(values["bound"], 4) if "bound" in values else "",
        **cost,
        "ε spent": values.get("spent", ""),
    }


def _written(value: Any, write: Any) -> str:
    return "" if value is None else write(value)
