"""What a plan has its clients do, as its method words it: the same in every view of a record."""

from __future__ import annotations

from noiseworthy._wording import count, number, span, times
from noiseworthy.methods.registry import method
from noiseworthy.methods.words import Record, Words
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.studies.typed_record import PlanPart, RunRecord, view

NO_UPLOADS = "No client uploads anything in training, so training costs nothing."


def words_of(plan: PlanPart) -> Words:
    """The words of a plan's method."""
    return method(plan.algorithm).words


def decided(plan: PlanPart) -> str:
    """What the planner decided, as equations: `T = 80, b = 1`."""
    words = words_of(plan)
    return words.symbols(plan.written, words.decided)


def headline(record: Record | RunRecord) -> str:
    """The decision in one sentence."""
    record = view(record)
    plan = record.plan
    return f"Train {words_of(plan).sentence(record.written)}." if plan.train else "Do not train."


def in_brief(record: RunRecord) -> str:
    """The decision in a few words, for titles."""
    plan = record.plan
    return words_of(plan).brief(record.written) if plan.train else "no training"


def uploads_of(plan: PlanPart) -> list[int]:
    """Uploads that each client makes at most."""
    return words_of(plan).noised.uploads(plan.written)


def asked_in_training(record: RunRecord) -> str:
    """How often clients were asked, as far as that may be told; of a record with a training."""
    uploads = [u for seed in record.training.uploads for u in seed] if record.training else []
    if record.plan.asked_with is None:
        return times(span(uploads)) + " after stage 1" * (record.plan.estimation is not None)
    return f"by a secret coin in each of {count(record.plan.rounds, 'round')}"


def never_asked(plan: PlanPart) -> int:
    """How many clients are asked for nothing in a training."""
    return uploads_of(plan).count(0) if plan.train else 0


def noise_of_uploads(plan: PlanPart) -> list[float]:
    """The noise of clients that upload; of all where nobody does."""
    asked_for = [noise for noise, uploads in zip(plan.noise, uploads_of(plan), strict=True) if uploads]
    return asked_for or plan.noise


def noise_of(plan: PlanPart) -> str:
    """The noise of uploads in words, with its size."""
    law, trust = law_of(plan.mechanism), plan.whom
    own = f"{law.title} noise of {law.size_words[1]} {span(noise_of_uploads(plan))}"
    if plan.sum_noise is None:
        return own
    summed = f"{number(plan.sum_noise)} in the weighted sum of a cohort"
    if not trust.owners_add:
        return f"{law.title} noise of standard deviation {summed}, added once by the server,"
    return f"{own} (a share: standard deviation {summed} at least)"


def of_stages(plan: PlanPart) -> tuple[str, ...]:
    """What two stages release beside, and whose counts and noise are told."""
    said = "A first stage uploads noised losses, too; then each training plans its own counts and noise."
    return (f"{said} Those told here hold if clients prove alike.",) if plan.estimation else ()


def trusted(plan: PlanPart) -> str:
    """Whom a plan trusts with what, in a line; empty where nobody is."""
    trust = plan.whom
    if not trust.in_sums:
        return ""
    summed = "" if plan.sum_noise is None else f", std {number(plan.sum_noise)} in the sum"
    if not trust.owners_add:
        secret = "; whom it asks is its secret" * trust.secret
        return f"{trust.model}: the server sees clipped uploads and adds the noise{summed}{secret}"
    fewest, asked = int(trust.survivors(plan.clients_per_round)), plan.clients_per_round
    hide = f"; shares of {fewest} of {asked} hide a {plan.privacy.unit}{summed} at least" * plan.train
    colluders = count(trust.colluders, "colluder")
    return f"{trust.model} against {colluders}, {trust.dropouts} may be missing{hide}"
