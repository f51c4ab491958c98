"""The claim card of a run: what is claimed, of whom, against whom, and what not; for people and for programs.

The questions are those that NIST asks of a differential privacy guarantee: what is the unit, which data sets
are neighbours, how large is the loss over the whole life of the data, whom must one trust, which noise is
drawn and how, what else is read of the data, and what remains outside of the guarantee.

Source: NIST SP 800-226, Guidelines for evaluating differential privacy guarantees (2025).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from noiseworthy._places import write_whole, writing
from noiseworthy._wording import count, percent, rounded_down, rounded_up, span
from noiseworthy.methods.phrases import asked as asked_of
from noiseworthy.methods.phrases import clipped_to
from noiseworthy.methods.words import Record
from noiseworthy.privacy.assurances import WORDS
from noiseworthy.privacy.trust import TrustModel
from noiseworthy.reports.alternatives import leak_of
from noiseworthy.reports.findings import most_spent, spent_words
from noiseworthy.reports.limits import limits, of_several
from noiseworthy.reports.privacy_statement import bought_before, meaning, protected, told_apart
from noiseworthy.reports.schedules import NO_UPLOADS, noise_of, of_stages, uploads_of, words_of
from noiseworthy.studies.statement import assurance, budgets, claim
from noiseworthy.studies.tables import ClaimTable
from noiseworthy.studies.typed_record import ClaimPart, PersonsPart, PlanPart, RunRecord, view
from noiseworthy.tasks.names import is_encoder

FILE, PAGE = "claim_card.json", "claim_card.html"
Card = dict[str, Any]
SCHEMA = 1

NOT_COVERED = (
    "Time, memory, crashes and the sizes of messages are not covered: somebody who measures them may learn "
    "more. Who may read the records, keys and backups at the client is a matter of its own security."
)


def claim_card(record: Record | RunRecord) -> Card:
    """The card of a run record, every number read from it.

    Args:
        record: a run record; where `audit` is part of it, with what was measured.

    Returns:
        Plain values: `claim` in a sentence, the facts by name, and `questions` with their answers. A run
        without noise has `private` false and claims nothing.
    """
    record = view(record)
    plan, claimed = record.plan, record.claim or ClaimPart()
    privacy = plan.privacy
    head = {
        "schema": SCHEMA,
        "run": record.name,
        "created": record.created,
        "version": record.version,
        **stated(record).model_dump(mode="json"),
        "private": privacy.private,
        "claim": claim(record),
        "flags": record.training.flags if record.training else [],
        **({"features": features} if (features := _features(record)) else {}),
    }
    if not privacy.private:
        return {**head, "questions": []}
    leak = leak_of(plan)
    facts = {
        "unit": privacy.unit,
        "relation": privacy.relation,
        "trust": TRUSTED[plan.whom.model] + _SECRET * plan.whom.secret,
        "adversary": privacy.adversary,
        "lifetime": _lifetime(record),
        "told_apart": None if (best := told_apart(record)) is None else best.model_dump(),
        "mechanism": _mechanism(plan),
        "accountant": privacy.accountant,
        "assurance": assurance(record),
        "constants": _constants(record),
        "before": claimed.before and claimed.before.model_dump(),
        **plan.model_dump(mode="json", include=_BOUGHT, exclude_defaults=True),
        "looser": claimed.looser,
        "persons": claimed.persons and claimed.persons.model_dump(),
        "as_printed": leak
        and {"budget": leak.budget, "spends": leak.printed, "by_its_own_count": leak.converted},
        "measured": record.audit and record.audit.model_dump(),
        "not_protected": list(_outside(record)),
    }
    return {**head, **facts, "questions": questions(record)}


def stated(record: RunRecord) -> ClaimTable:
    """Purpose, responsible person and validity, as the study states them."""
    return ClaimTable.model_validate(record.study.get("claim") or {})


def questions(record: RunRecord) -> list[dict[str, Any]]:
    """The questions with answers in plain words, in reading order."""
    answers = {
        "What for, who answers for it, and until when?": _responsible(stated(record)),
        "Who is protected, and which change is hidden?": protected(record),
        "From whom?": _from_whom(record),
        "How much can be learnt, over the whole life of the data?": _how_much(record),
        "By what means?": " ".join((_by_what(record.plan), *of_stages(record.plan))),
        "Which noise was drawn?": _which_noise(record),
        "How is the loss counted?": _how_counted(record),
        "What do looser counts and the paper say?": _others(record),
        "Has it been measured?": _measured(record),
        "What did the constants of the plan cost?": _what_constants_cost(record),
        "What is not protected?": "Outside of the guarantee:",
        "What is not covered by any epsilon?": NOT_COVERED,
    }
    if features := _features(record):
        answers["Which map do records pass first, and whose is it?"] = (
            f"{features['map']}, with {features['source']}. Licence: {features['licence']}. "
            f"{features['scaled_by']} It takes each record alone, before the clip, and costs no privacy"
            f"{_OF_OTHERS.format(features['digest']) if 'digest' in features else '.'}"
        )
    points = {"What is not protected?": list(_outside(record))}
    if record.claim and (persons := record.claim.persons):
        answers["And a person with several records?"] = _persons(record, persons)
    elif said := of_several(record):
        answers["And a person with several records?"] = f"{said} {_NOT_COUNTED}"
    return [
        {"question": question, "answer": answer, "points": points.get(question, [])}
        for question, answer in answers.items()
    ]


TRUSTED: dict[TrustModel, str] = {
    "local": "local: every client protects itself, the server is not trusted",
    "secure-sum": "secure-sum: everybody sees sums of uploads only, the server is not trusted",
    "central": "central: the server is trusted with each clipped upload, and adds the noise once",
}
"""Whom one must trust, by the word of a study."""
_BOUGHT = {
    "bought_ranges", "bought_label_scale", "bought_label_mean", "bought_mean", "bought_class_shares",
}  # fmt: skip
"""What of a plan clients told before it, where they did."""
_SECRET = ", and keeps to itself whom it asks in which round"
_MAPS = {
    "scattering": {
        "map": "Wavelet scattering (2 scales, 8 orientations, orders 0 to 2)",
        "source": "the formula of Bruna and Mallat (2013), neither trained nor made of data",
        "licence": "none needed, it is a formula",
    },
    "fourier": {
        "map": "Random Fourier features ({} numbers, bandwidth {}, public seed {})",
        "source": "the formula of Rahimi and Recht (2007), neither trained nor made of data",
        "licence": "none needed, it is a formula",
    },
}
"""Public features by name, for the card: what they are, where they come from, and under which licence."""
_OF_OTHERS = (
    " as long as it was trained on other records than these, for which the study answers. Owners know it by "
    "its digest {}."
)


def _features(record: RunRecord) -> dict[str, str]:
    """The public features that records are replaced by; empty where there are none."""
    task = record.study.get("task", {})
    public = ", ".join(task.get("reference") or ())
    scaled = f"Its channels are standardised by public images ({public})." if public else ""
    if is_encoder(stated := task.get("features")):
        return {
            "map": f"The frozen encoder {stated}",
            "source": f"these words of the study on where it comes from: {task['encoder_source']}",
            "licence": task["encoder_licence"],
            "digest": f"sha256:{task['encoder_digest']}",
            "scaled_by": scaled,
        }
    name, _, numbers = (stated or "").partition(":")
    if (chosen := _MAPS.get(name)) is None:
        return {}
    chosen = {**chosen, "map": chosen["map"].format(*numbers.split(":"))}
    return {**chosen, "scaled_by": scaled}


def write_claim_card(card: Card, page: str, folder: Path) -> None:
    """Write `claim_card.json` and `claim_card.html`.

    Args:
        card: plain values.
        page: the same as HTML.
        folder: of the run.

    Raises:
        DataError: a folder that cannot be written to.
    """
    with writing(f"run folder {folder}", f"free space or open it, then: noiseworthy report {folder}"):
        write_whole(folder / FILE, json.dumps(card, indent=1, allow_nan=False, ensure_ascii=False))
        write_whole(folder / PAGE, page)


# Facts ------------------------------------------------------------------------------------------------


def _lifetime(record: RunRecord) -> dict[str, Any]:
    rows, spent = record.plan.privacy.clients, most_spent(record)
    return {
        "clients": len(rows),
        "epsilon": _ends(row.epsilon for row in rows),
        "delta": _ends(row.delta for row in rows),
        "spent_by_plan": _ends(row.spent_epsilon for row in rows),
        "spent_in_training": None if spent is None else _ends(spent),
    }


def _mechanism(plan: PlanPart) -> dict[str, Any]:
    return {
        "noise": plan.mechanism,
        "size": _ends(plan.noise),
        **({} if plan.sum_noise is None else {"sum_noise": plan.sum_noise}),
        "clip_norm": plan.clip_norm,
        "clip": plan.clip,
        "releases": _ends(plan.releases),
        "uploads": _ends(uploads_of(plan)),
        "sampling_rate": plan.sampling_rate,
        **({} if plan.asked_with is None else {"asked_with": plan.asked_with}),
    }


def _constants(record: RunRecord) -> dict[str, str]:
    return {name: constant.provenance for name, constant in record.plan.constants.items()}


def _outside(record: RunRecord) -> tuple[str, ...]:
    found = limits(record)
    return () if found is None else found.points


def _ends(values: Any) -> list[float | None]:
    """Least and greatest; None for both where one has no bound."""
    values = list(values)
    return [None, None] if None in values else [min(values), max(values)]


# Answers ----------------------------------------------------------------------------------------------


def _responsible(told: ClaimTable) -> str:
    """What the study states of the training itself."""
    until = "" if told.valid_until is None else f" The claim may be relied on until {told.valid_until}."
    if told.purpose is None and told.responsible is None:
        return f"The study states neither a purpose nor who answers for the training.{until}"
    purpose = f"For {told.purpose}." if told.purpose else "The study states no purpose."
    answers = f"{told.responsible} answers" if told.responsible else "Nobody is named who answers"
    return f"{purpose} {answers} for it.{until}"


def _from_whom(record: RunRecord) -> str:
    plan = record.plan
    trust, said = plan.whom, f"From {plan.privacy.adversary}."
    if not trust.in_sums:
        return (
            f"{said} Every client adds its noise itself, before anything leaves it: nobody else has to be "
            "trusted, neither the server nor other clients."
        )
    if not trust.owners_add:
        asks = f" It asks {asked_of(record.written)} in each round, in secret." * plan.whom.secret
        return f"{said} Clients clip what they compute and send it without noise to the server.{asks}"
    asked = plan.clients_per_round
    fewest = int(trust.survivors(asked)) if plan.train else 0
    return (
        f"{said} Every client adds a share of the noise itself; the shares of {fewest} of the {asked} that a "
        f"round asks hide a {plan.privacy.unit}: {trust.colluders} may collude and {trust.dropouts} be away. "
        "With one more colluder, as is who looks at models and knows its own noise, the numbers below do not "
        "hold; with one more away a round is void. That nobody sees single uploads is the work of a secure "
        "sum, which a simulation takes for granted."
    )


def _how_much(record: RunRecord) -> str:
    epsilon, delta = (budgets(record, key) for key in ("epsilon", "delta"))
    rows, spent = record.plan.privacy.clients, most_spent(record)
    planned = f"The plan spends {spent_words([row.spent_epsilon for row in rows])} of it"
    trained = f"; training spent {spent_words(spent)}" if spent else ""
    return (
        f"Epsilon {epsilon} at delta {delta} per client, for all uploads together. {planned}{trained}. "
        f"{meaning(record)} Other trainings on the same data add to it; a ledger keeps count."
    )


def _by_what(plan: PlanPart) -> str:
    if not any(plan.releases):
        return NO_UPLOADS
    noised, clip = words_of(plan).noised, f"after a clip at {clipped_to(plan.written)}"
    return f"{noise_of(plan)} on every coordinate of {noised.what}, {clip}. {noised.card(plan.written)}"


def _which_noise(record: RunRecord) -> str:
    if (stamp := assurance(record)) is None:
        return "None yet: nothing has been trained. The numbers are what a training by this plan would spend."
    exposed = " Do not release the model or the uploads if the records are private."
    return f"Stamp: {stamp}. That is {WORDS[stamp]}.{exposed if stamp == 'simulation' else ''}"


def _how_counted(record: RunRecord) -> str:
    return (
        f"By {record.plan.privacy.accountant}, in noiseworthy {record.version}, for every one of "
        f"{count(len(record.plan.releases), 'client')} by its true number of releases, not by a mean."
    )


_NOT_COUNTED = (
    "The study does not say how many a person has. State persons_have_at_most to be told what they cost, or "
    "[federation] person_column to make all of them the unit."
)


def _persons(record: RunRecord, persons: PersonsPart) -> str:
    privacy = record.plan.privacy
    delta, ends = budgets(record, "delta"), span(persons.epsilon, rounded_up)
    if privacy.unit == "client":
        return f"All that a client holds is one unit, however much of it is one person's: epsilon {ends}."
    several = "What a person has at several clients is hidden at each by a claim of its own, and adds up."
    if privacy.unit == "person":
        return (
            f"All records of one person at one client, up to {persons.records}, are one unit: clipped "
            f"together and counted once. Together they cost epsilon {ends} at delta {delta}. {several}"
        )
    return (
        f"The {persons.records} records that a person has at most at one client, as the study states, "
        f"cost together epsilon {ends} at delta {delta}: every upload counts with {persons.records} times "
        f"what one record changes. {several}"
    )


def _others(record: RunRecord) -> str:
    looser = record.claim.looser if record.claim else {}
    same = "the same noise would count as epsilon"
    said = [f"By {name} {same} {span(ends, rounded_up)}." for name, ends in looser.items()]
    if leak := leak_of(record.plan):
        said.append(
            f"The noise that the paper prints would spend {rounded_up(leak.printed)} of "
            f"{rounded_up(leak.budget, 6)} ({rounded_up(leak.converted)} by its own count); it was not used."
        )
    elif record.plan.as_printed.get("why"):
        said.append(f"The paper's own formula is not used: {record.plan.as_printed['why']}.")
    return " ".join(said) or "Nothing else: the count is the paper's own."


def _measured(record: RunRecord) -> str:
    if (audit := record.audit) is None:
        return "Not in this run. The command audit attacks a plan with worst-case records and measures."
    return (
        f"Yes: an attack in {count(audit.trials, 'trial')} proves epsilon of at least "
        f"{rounded_down(audit.epsilon_lower)} at delta {rounded_up(audit.delta)} with "
        f"{percent(audit.confidence)} confidence, for noise of this law, beside the "
        f"{rounded_up(audit.epsilon_claimed)} claimed. {audit.verdict}"
    )


def _what_constants_cost(record: RunRecord) -> str:
    if record.claim and (before := record.claim.before):
        cost = f"epsilon {span(before.spent_epsilon, rounded_up)} per client"
        said = f"Before the plan came {before.what}: {cost}, counted in the numbers above."
        return " ".join((said, *bought_before(record)))
    sources = sorted(set(_constants(record).values())) or ["chosen on public data"] * bool(record.foretold)
    if any(source.startswith("bought") for source in sources):
        return "One upload per client, before the plan; it is counted in the numbers above."
    if read := record.read_off:
        return f"They are counted in no epsilon. {' '.join(read)}"
    if not sources:
        return "Nothing: the plan rests on budgets, sizes and what the study states."
    return f"Nothing of the private data: they are {', '.join(sources)}."
