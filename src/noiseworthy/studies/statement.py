"""What a run promises, in one sentence: for claim cards, and for the model that leaves it."""

from __future__ import annotations

from typing import Literal

from noiseworthy._wording import rounded_up, shortened_apart
from noiseworthy.model.description import Statement
from noiseworthy.privacy.assurances import SIMULATED
from noiseworthy.privacy.uploads import Assurance
from noiseworthy.studies.typed_record import RunRecord


def claim(record: RunRecord) -> str:
    """The claim in one sentence."""
    plan = record.plan
    if not plan.privacy.private:
        return "No privacy is claimed: clients add no noise."
    if record.audit and not record.audit.passed:
        return f"No privacy is claimed: an audit refuted the plan's epsilon. {record.audit.verdict}"
    epsilon, delta = (budgets(record, key) for key in ("epsilon", "delta"))
    planned = "" if assurance(record) == "grid-csprng" else "By plan, at most "
    said = f"{planned}epsilon {epsilon} at delta {delta} for each {plan.privacy.unit}"
    own = ", by its client's own budget" if " to " in epsilon + delta else ""
    return f"{said[0].upper()}{said[1:]}{own}, over all uploads, against {record.plan.whom.observers}."


def assurance(record: RunRecord) -> Assurance | None:
    """The stamp of the noise that was drawn; None where nothing was trained yet."""
    if record.training:
        return record.training.assurance
    return "simulation" if record.compare or record.tradeoff or record.rivals else None


def budgets(record: RunRecord, key: Literal["epsilon", "delta"]) -> str:
    """What clients allow: one number if it is the same for all, else the least and the greatest, and whose.

    Args:
        record: a run record with noise.
        key: `epsilon` or `delta`.
    """
    allowed = [row.epsilon if key == "epsilon" else row.delta for row in record.plan.privacy.clients]
    if len(set(allowed)) == 1:
        return rounded_up(allowed[0], 6)
    names = shortened_apart(record.client_names, 40)
    ends = [(value, names[allowed.index(value)]) for value in (min(allowed), max(allowed))]
    return " to ".join(f"{rounded_up(value, 6)} ({name})" for value, name in ends)


def statement_of(record: RunRecord) -> Statement:
    """What the model of a run promises.

    Args:
        record: of a run that was trained.
    """
    privacy, stamp = record.plan.privacy, assurance(record) or "simulation"
    exposed = (
        "Clients added no noise: it reveals something exact about their records, and no epsilon bounds how "
        "much. Do not release it if the records are private."
    )
    warning = exposed if not privacy.private else SIMULATED if stamp == "simulation" else ""
    warning = " ".join([warning, *record.read_off]).lstrip()
    epsilon, delta = ([row.epsilon for row in privacy.clients], [row.delta for row in privacy.clients])
    return Statement(
        private=privacy.private, claim=claim(record), assurance=stamp, warning=warning, unit=privacy.unit,
        relation=privacy.relation, epsilon=[min(epsilon), max(epsilon)], delta=[min(delta), max(delta)],
        mechanism=record.plan.mechanism, adversary=privacy.adversary,
    )  # fmt: skip
