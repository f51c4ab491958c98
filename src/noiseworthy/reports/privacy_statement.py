"""What a run protects, against whom and at what cost, and how much that is, in plain words."""

from __future__ import annotations

import numpy as np

from noiseworthy._wording import count, number, percent_up, rounded_up, shortened_apart
from noiseworthy.methods.words import Record
from noiseworthy.privacy import assurances
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.power import ProfiledPower
from noiseworthy.reports.clauses import Clause
from noiseworthy.reports.findings import most_spent, spent_words
from noiseworthy.reports.limits import as_printed, limits
from noiseworthy.reports.schedules import NO_UPLOADS, noise_of, of_stages, words_of
from noiseworthy.studies.claims import best_tests
from noiseworthy.studies.statement import budgets
from noiseworthy.studies.typed_record import PrivacyPart, RunRecord, ToldApartPart, view

_NOTHING = 0.99
"""A guess that is right more often makes a guarantee next to none."""
_MOVE = {"record": "a record", "person": "a person with all its records", "client": "all that a client holds"}


def told_apart(record: RunRecord) -> ToldApartPart | None:
    """How well the best test tells neighbours apart, at any client, and which of them is worst off.

    Args:
        record: a run record with noise; an earlier version's numbers follow from epsilon and delta alone.

    Returns:
        Whose, how well, and how often a guess between two equally likely data sets is right at most. None
        where nothing is released.
    """
    claim = record.claim
    known = claim is not None and "told_apart" in claim.model_fields_set
    return claim.told_apart if claim and known else _by_epsilon(record.plan.privacy)


def _by_epsilon(privacy: PrivacyPart) -> ToldApartPart:
    places = {(row.epsilon, row.delta): place for place, row in reversed([*enumerate(privacy.clients)])}
    found = {place: ProfiledPower(*np.array([*pair])[:, None]) for pair, place in places.items()}
    return ToldApartPart(**best_tests(found, len(places) == 1, privacy.relation))


def meaning(record: RunRecord) -> str:
    """The same in words; empty where nothing is released."""
    if (known := told_apart(record)) is None:
        return ""
    name = shortened_apart(record.client_names, 40)[known.client]
    whose = "a client" if known.alike else f"{name}, the client that is worst off"
    at = _both(known.false_alarms)
    seen = "every noised sum with an upload" if record.plan.whom.in_sums else "every upload"
    vain = " That is next to no guarantee." if known.guess > _NOTHING else ""
    return (
        f"Take somebody who knows all but which of two neighbouring data sets is held, and sees {seen} "
        f"of {whose}. With false alarms in {at} of cases, no test finds the change in more than "
        f"{_both(known.power)}. A guess between the two, where both are equally likely, is right with "
        f"probability {percent_up(known.guess)} at most; 50\N{NO-BREAK SPACE}% is blind."
        f"{vain}{_exchange(record, known)}"
    )


def _exchange(record: RunRecord, known: ToldApartPart) -> str:
    if known.power_of_exchange is None:
        return ""
    return (
        f" One change is {_MOVE[record.plan.privacy.unit]} left out or added. To exchange it takes "
        f"two, and then no test finds the change in more than {_both(known.power_of_exchange)}."
    )


def _both(shares: list[float]) -> str:
    return " and ".join(percent_up(share) for share in shares)


_UNITS = {
    "record": "one record of one client",
    "person": "one person with all its records at one client",
    "client": "one client with everything that it holds",
}
_NEIGHBOURS = {
    ("record", "replace-one"): "one record of a client were exchanged for any other "
    "(how many it holds is public)",
    ("record", "add-remove"): "one record of a client were left out or added, and its mean divided by the "
    "published size as before",
    ("person", "replace-one"): "all records of one person at a client were exchanged for those of any "
    "other person (how many persons it has, and how many records one has at most, is public)",
    ("person", "add-remove"): "all records of one person at a client were left out or added, and its mean "
    "divided by the published number of persons as before",
    ("client", "replace-one"): "everything that one client holds were exchanged for anything else "
    "(how many records it holds is public)",
    ("client", "add-remove"): "one client had nothing and uploaded noise alone, or the other way round "
    "(who takes part is public)",
}
_LEFT_OUT = "one client were never asked, or the other way round (the names of all clients are public)"
"""Neighbours where nobody sees whom a round asks."""
_RECORDS_TOO = {
    "replace-one": "Single records of a client are covered by this, too.",
    "add-remove": "Single records of a client are covered, too, but to exchange one takes two such changes.",
}
_AT_SEVERAL = (
    "Every client makes this claim for its own records: what a person has at several clients is hidden at "
    "each, and the losses add up."
)
_CONVEX = (
    "That a record counts no more than its share after several local steps rests on a convex loss and on "
    "steps of at most twice the inverse of its smoothness; with another model or longer steps the same noise "
    "would protect less."
)


def privacy_statement(record: Record | RunRecord) -> list[Clause]:
    """The privacy statement of a run, every number read from its record.

    Args:
        record: a run record.

    Returns:
        Clauses in reading order, warnings first; a run without noise makes no claim.
    """
    record = view(record)
    claims: list[Clause] = []
    if record.plan.privacy.private:
        protection = Clause("What is protected", protected(record))
        claims = [protection, _at_most(record), _mechanism(record), _accounting(record)]
    clauses = [_not_private(record), _overspent(record), _assurance(record), *claims,
               _adversary(record), limits(record), as_printed(record)]  # fmt: skip
    return [clause for clause in clauses if clause is not None]


# Warnings ---------------------------------------------------------------------------------------------


def _not_private(record: RunRecord) -> Clause | None:
    if record.plan.privacy.private:
        return None
    text = (
        "NOT PRIVATE. Clients add no noise: every upload reveals something exact about their records, and "
        "no epsilon bounds how much. Nothing below is a privacy guarantee."
    )
    return Clause("No privacy at all", text, kind="warning")


def _overspent(record: RunRecord) -> Clause | None:
    """A record that contradicts itself must not pass as a guarantee."""
    rows, spent = record.plan.privacy.clients, most_spent(record)
    if not record.plan.privacy.private or spent is None:
        return None
    over = [
        f"{name}: {'unbounded' if s is None else rounded_up(s)} of {rounded_up(row.epsilon, 6)}"
        for name, row, s in zip(shortened_apart(record.client_names, 40), rows, spent, strict=True)
        if s is None or s > row.epsilon * (1 + 1e-9)
    ]
    if not over:
        return None
    text = f"{count(len(over), 'client')} spent more than the budget; the claims below do not hold."
    return Clause("Budget exceeded", text, tuple(over[:20]), "warning")


def _assurance(record: RunRecord) -> Clause | None:
    training = record.training
    if not record.plan.privacy.private:
        return None
    if not (training or record.compare or record.tradeoff or record.rivals):
        said = "Nothing has been trained: the numbers say what a training by this plan would spend."
        return Clause("A plan so far", said)
    assurance = training.assurance if training else "simulation"
    if assurance != "simulation":
        noise = "Uploads carry"
        if not record.plan.whom.owners_add:
            noise = "Uploads carried none. To each sum of them the trusted server added"
        return Clause("Noise", f"Assurance: {assurance}. {noise} {assurances.WORDS[assurance]}.")
    text = f"Assurance: simulation. {assurances.SIMULATED}"
    return Clause("Simulated noise is no privacy mechanism", text, kind="warning")


# Claims -----------------------------------------------------------------------------------------------


def protected(record: RunRecord) -> str:
    """Whose change is hidden, and which, in words."""
    privacy = record.plan.privacy
    unit, relation = privacy.unit, privacy.relation
    changed = _NEIGHBOURS[unit, relation] if record.plan.asked_with is None else _LEFT_OUT
    too = {"record": "", "person": f" {_AT_SEVERAL}", "client": f" {_RECORDS_TOO[relation]}"}[unit]
    return (
        f"The unit is {_UNITS[unit]}, under {relation} neighbours: epsilon and delta bound how well anybody "
        f"who sees a private training by this plan can tell the data from what they would be if "
        f"{changed}.{too}"
    )


def _at_most(record: RunRecord) -> Clause:
    planned, spent = [row.spent_epsilon for row in record.plan.privacy.clients], most_spent(record)
    alike = ", if all prove alike," if (decides_later := record.plan.estimation is not None) else ","
    points = [f"By plan{alike} the most that a client's uploads can cost is epsilon {spent_words(planned)}."]
    if spent is not None:
        points += [
            f"In training, clients spent epsilon {spent_words(spent)} (for each, the greatest over seeds).",
            "Uploads that did not arrive are counted, whether their owner paid for them or not."
            if record.network
            else "Seeds repeat one training in simulation; carrying out several on real data would add up.",
        ]
    known = spent or ([] if decides_later else planned)
    if record.plan.train and (never := known.count(0)):
        are, spend = ("is", "spends") if never == 1 else ("are", "spend")
        points.append(f"{count(never, 'client')} {are} never asked and {spend} nothing.")
    if any(c.provenance.startswith("bought") for c in record.plan.constants.values()):
        points.append("One upload per client bought constants before planning; it is counted here.")
    points += [f"{said} They are counted here." for said in bought_before(record)]
    epsilon, delta = (budgets(record, key) for key in ("epsilon", "delta"))
    text = f"Each client spends at most epsilon {epsilon} at delta {delta} over the whole training."
    if " to " in epsilon + delta:
        text += " These are the least and the greatest of the clients' own budgets."
    return Clause("What each client spends", f"{text} {meaning(record)}".strip(), tuple(points))


def bought_before(record: RunRecord) -> tuple[str, ...]:
    """What clients told before training, and what came out: ranges, the size of labels, a mean."""
    ranges, size = record.plan.bought_ranges, record.plan.bought_label_scale
    named = [f"{name} {number(least, 4)} to {number(most, 4)}" for name, (least, most) in ranges.items()]
    said = f"Noised quantiles of every client bought ranges before planning: {', '.join(named)}."
    counts = f"Noised counts of every client bought the size of labels before planning: {number(size, 4)}."
    classes = ", and shares of classes," if record.plan.bought_class_shares else ""
    mean = (
        f"Every client told the mean of its records, scaled to norm 1{classes} with noise before training, "
        "which starts from the mean of these."
    )
    start = record.plan.bought_label_mean
    labels = (
        "Every client told the mean of the numbers to predict with noise before training, which starts from "
        f"the mean of these: {number(start, 4)}."
    )
    told = (
        (said, bool(named)), (counts, size is not None), (labels, start is not None),
        (mean, bool(record.plan.bought_mean)),
    )  # fmt: skip
    return tuple(text for text, there in told if there)


def _mechanism(record: RunRecord) -> Clause:
    plan = record.plan
    if not any(plan.releases):
        return Clause("By what means", NO_UPLOADS)
    words, noise = words_of(plan), f"{noise_of(plan)} on every coordinate"
    beyond = (*_condition(record), *words.beyond, *_of_persons(record), *of_stages(plan))
    return Clause("By what means", words.means(plan.written, noise), beyond)


def _of_persons(record: RunRecord) -> tuple[str, ...]:
    """What a record is in sentences of methods, where rows are persons."""
    if record.plan.privacy.unit != "person":
        return ()
    return (
        "A record in this is a person: the losses of all its records are averaged, their gradient is clipped "
        "together, and sizes count persons, each of whom counts once.",
    )


def _condition(record: RunRecord) -> tuple[str, ...]:
    """What the sensitivity of some clipping modes rests on."""
    if record.plan.clipping_mode not in ("B", "E"):
        return ()
    checked = "This was checked for the model." if record.federation else "No model was at hand to check it."
    return (f"{_CONVEX} {checked}",)


def _accounting(record: RunRecord) -> Clause:
    plan, version = record.plan, record.version
    deltas = [row.delta for row in plan.privacy.clients]
    how = law_of(plan.mechanism).analysis.accounting(plan.asked_with or plan.sampling_rate, deltas)
    words = words_of(plan)
    text = (
        f"{words.noised.counted} by {how}, in noiseworthy {version}. "
        "Clients hold different records, so their costs do not add up across clients."
    )
    return Clause("How it is counted", text, words.coins(plan.written))


# Adversary --------------------------------------------------------------------------------------------


def _adversary(record: RunRecord) -> Clause:
    text = f"Whoever may look: {record.plan.privacy.adversary}."
    kind = "claim" if record.plan.privacy.private else "limit"
    return Clause("Against whom" if kind == "claim" else "Who sees the uploads", text, kind=kind)
