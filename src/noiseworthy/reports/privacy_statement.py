"""What a run protects, against whom and at what cost, in plain words."""

from __future__ import annotations

from noiseworthy.privacy import uploads
from noiseworthy.privacy.clipping import WORDS
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.reports.clauses import Clause
from noiseworthy.reports.findings import Record, client_names, most_spent
from noiseworthy.reports.limits import as_printed, limits
from noiseworthy.reports.schedules import (
    by_coins,
    clipped_to,
    is_local,
    keeps_transforms,
    never_asked,
    noise_falls,
    noise_of_uploads,
    noises_steps,
    paid_for,
    uploads_of,
)
from noiseworthy.reports.told_apart import budgets, meaning
from noiseworthy.reports.wording import (
    about,
    count,
    number,
    rounded_up,
    shortened,
    span,
    times,
)

_UNITS = {
    "record": "one record of one client",
    "client": "one client with everything that it holds",
}
_NEIGHBOURS = {
    ("record", "replace-one"): "one record of a client were exchanged for any other "
    "(how many it holds is public)",
    ("record", "add-remove"): "one record of a client were left out or added, and its mean divided by the "
    "published size as before",
    ("client", "replace-one"): "everything that one client holds were exchanged for anything else "
    "(how many records it holds is public)",
    ("client", "add-remove"): "one client had nothing and uploaded noise alone, or the other way round "
    "(who takes part is public)",
}
_RECORDS_TOO = {
    "replace-one": "Single records of a client are covered by this, too.",
    "add-remove": "Single records of a client are covered, too, but to exchange one takes two such changes.",
}
_CONVEX = (
    "That a record counts no more than its share after several local steps rests on a convex loss and on "
    "steps of at most twice the inverse of its smoothness; with another model or longer steps the same noise "
    "would protect less."
)


def privacy_statement(record: Record) -> list[Clause]:
    """The privacy statement of a run, every number read from its record.

    Args:
        record: a run record.

    Returns:
        Clauses in reading order, warnings first; a run without noise makes no claim.
    """
    if record["plan"]["privacy"]["private"]:
        claims = [
            Clause("What is protected", protected(record)),
            _at_most(record),
            _mechanism(record),
            _accounting(record),
        ]
    else:
        claims = []
    clauses = [_not_private(record), _overspent(record), _assurance(record), *claims,
               _adversary(record), limits(record), as_printed(record)]  # fmt: skip
    return [clause for clause in clauses if clause is not None]


# Warnings ---------------------------------------------------------------------------------------------


def _not_private(record: Record) -> Clause | None:
    if record["plan"]["privacy"]["private"]:
        return None
    text = (
        "NOT PRIVATE. Clients add no noise: every upload reveals something exact about their records, and "
        "no epsilon bounds how much. Nothing below is a privacy guarantee."
    )
    return Clause("No privacy at all", text, kind="warning")


def _overspent(record: Record) -> Clause | None:
    """A record that contradicts itself must not pass as a guarantee."""
    rows, spent = record["plan"]["privacy"]["clients"], most_spent(record)
    if not record["plan"]["privacy"]["private"] or spent is None:
        return None
    over = [
        f"{shortened(name, 40)}: {'unbounded' if s is None else rounded_up(s)} of {number(row['epsilon'], 6)}"
        for name, row, s in zip(client_names(record), rows, spent, strict=True)
        if s is None or s > row["epsilon"] * (1 + 1e-9)
    ]
    if not over:
        return None
    text = f"{count(len(over), 'client')} spent more than the budget; the claims below do not hold."
    return Clause("Budget exceeded", text, tuple(over[:20]), "warning")


def _assurance(record: Record) -> Clause | None:
    training = record["training"]
    if not record["plan"]["privacy"]["private"]:
        return None
    if not (training or record["compare"] or record.get("tradeoff") or record.get("rivals")):
        return Clause(
            "A plan so far",
            "Nothing has been trained: the numbers say what a training by this plan would spend.",
        )
    assurance = training["assurance"] if training else "simulation"
    if assurance != "simulation":
        return Clause("Noise", f"Assurance: {assurance}. Uploads carry {uploads.WORDS[assurance]}.")
    text = (
        "Assurance: simulation. The noise follows the right law, so losses and accuracies are those of a "
        "private training, but it comes from seeded floating-point numbers and hides nothing from somebody "
        "who looks closely. Do not release the model or the uploads of this run if the records are private."
    )
    return Clause("Simulated noise is no privacy mechanism", text, kind="warning")


# Claims -----------------------------------------------------------------------------------------------


def protected(record: Record) -> str:
    """Whose change is hidden, and which, in words."""
    privacy = record["plan"]["privacy"]
    unit, relation = privacy["unit"], privacy["relation"]
    too = f" {_RECORDS_TOO[relation]}" if unit == "client" else ""
    return (
        f"The unit is {_UNITS[unit]}, under {relation} neighbours: epsilon and delta bound how well anybody "
        f"who sees a private training by this plan can tell the data from what they would be if "
        f"{_NEIGHBOURS[unit, relation]}.{too}"
    )


def _at_most(record: Record) -> Clause:
    rows, spent = record["plan"]["privacy"]["clients"], most_spent(record)
    points = [
        f"By plan, the most that a client's uploads can cost is epsilon "
        f"{_spent([row['spent_epsilon'] for row in rows])}."
    ]
    if spent is not None:
        points += [
            f"In training, clients spent epsilon {_spent(spent)} (for each, the greatest over seeds).",
            "Uploads that did not arrive are counted, whether their owner paid for them or not."
            if record.get("network")
            else "Seeds repeat one training in simulation; carrying out several on real data would add up.",
        ]
    if never := never_asked(record["plan"]):
        points.append(
            f"{count(never, 'client')} {'is' if never == 1 else 'are'} never asked and "
            f"{'spends' if never == 1 else 'spend'} nothing."
        )
    if any(c["provenance"].startswith("bought") for c in record["plan"]["constants"].values()):
        points.append("One upload per client bought constants before planning; it is counted here.")
    epsilon, delta = (budgets(record, key) for key in ("epsilon", "delta"))
    text = f"Each client spends at most epsilon {epsilon} at delta {delta} over the whole training."
    if " to " in epsilon + delta:
        text += " These are the least and the greatest of the clients' own budgets."
    return Clause("What each client spends", f"{text} {meaning(record)}".strip(), tuple(points))


def _mechanism(record: Record) -> Clause:
    plan = record["plan"]
    if not any(plan["releases"]):
        return Clause("By what means", "No client uploads anything in training, so training costs nothing.")
    law = law_of(plan["mechanism"])
    _, size = law.size_words
    drawn = f"{law.title} noise of {size} {span(noise_of_uploads(plan))}"
    noise = f"{drawn} on every coordinate"
    if noises_steps(plan):
        return Clause("By what means", _noised_step(plan, noise), _margin(plan))
    text = (
        f"Each upload is {_upload(plan)}, plus {noise}{noise_falls(plan)}. {_clipped_before(plan)}"
        f"The noise pays for {paid_for(plan)} per client; a client refuses to upload more."
    )
    return Clause("By what means", text, (*_condition(record), *_kept(plan)))


def _noised_step(plan: Record, noise: str) -> str:
    """What happens in every local step, and how many of them the noise pays for."""
    uploads = span(uploads_of(plan))
    dealt = (
        " Every pass deals the client's records into disjoint batches anew: a record is in one of them at "
        f"most, and not in all {count(plan['total_iterations'], 'step')}."
        if plan["batch_size"] is not None
        else ""
    )
    return (
        f"Each local step moves by the mean gradient over {_batch(plan)}, each record's gradient clipped to "
        f"{clipped_to(plan)}, plus {noise}, drawn anew in every step.{dealt} The noise pays for "
        f"{paid_for(plan)} of each record; a client uploads its model {times(uploads)} and refuses to do so "
        "more often."
    )


def _margin(plan: Record) -> tuple[str, ...]:
    """Why noise at every step needs no condition on the model, and what it leaves over."""
    return (
        "A record counts no more than its share in any step of any model, because each step is noised before "
        "the next one starts: this needs no convex loss.",
        "The server sees only the last model of every round. The claim holds even for somebody who sees "
        "every step, so that against the server it has a margin.",
    )


def _upload(plan: Record) -> str:
    """What a client sends, before noise."""
    if not is_local(plan):
        return f"the mean gradient over {_batch(plan)}, each record's gradient clipped to {clipped_to(plan)}"
    if not by_coins(plan):
        return f"the change of the model by {count(plan['local_steps'], 'local step')} on {_batch(plan)}"
    return (
        f"the change of the client's model since the last communication, by local steps on {_batch(plan)}, "
        "corrected by its control variate"
    )


def _clipped_before(plan: Record) -> str:
    mode = plan.get("clipping_mode")
    return f"Before the noise, at {clipped_to(plan)}, {WORDS[mode]}. " if mode else ""


def _kept(plan: Record) -> tuple[str, ...]:
    """What a client keeps to itself although it has read its records."""
    if not keeps_transforms(plan):
        return ()
    return (
        "Each client keeps a transform of its records. Its gradient is clipped together with that of the "
        "model, as one, and noised alike before the transform moves: the claim would hold even for somebody "
        "who sees the transforms.",
    )


def _condition(record: Record) -> tuple[str, ...]:
    """What the sensitivity of some clipping modes rests on."""
    if record["plan"].get("clipping_mode") not in ("B", "E"):
        return ()
    checked = (
        "This was checked for the model." if record["federation"] else "No model was at hand to check it."
    )
    return (f"{_CONVEX} {checked}",)


def _batch(plan: Record) -> str:
    """The records that a client computes on."""
    if plan.get("batch_size") is not None:
        if noises_steps(plan):
            return f"a batch of {count(plan['batch_size'], 'record')} (all of a client that has fewer)"
        return f"batches of {count(plan['batch_size'], 'record')}"
    if plan["sampling_rate"] == 1:
        return "all its records"
    return f"a fresh Poisson batch (each record with probability {number(plan['sampling_rate'])})"


def _accounting(record: Record) -> Clause:
    plan, version = record["plan"], record["version"]
    deltas = [row["delta"] for row in plan["privacy"]["clients"]]
    how = law_of(plan["mechanism"]).accounting(plan["sampling_rate"], deltas)
    what = (
        "Steps that a record is in are counted per client (the most of any of its records)"
        if noises_steps(plan)
        else "True uploads are counted per client (not their mean)"
    )
    text = (
        f"{what} by {how}, in noiseworthy {version}. "
        "Clients hold different records, so their costs do not add up across clients."
    )
    return Clause("How it is counted", text, _coins(plan))


def _coins(plan: Record) -> tuple[str, ...]:
    """Why the coins of a plan cost nothing more."""
    if not by_coins(plan):
        return ()
    return (
        f"The coins that say when clients communicate are public and were drawn before training (seed "
        f"{plan['coin_seed']}): the {plan['realised_rounds']:,} rounds that they give are charged, not their "
        f"mean of {about(plan['expected_rounds'])}.",
    )


# Adversary --------------------------------------------------------------------------------------------


def _adversary(record: Record) -> Clause:
    text = f"Whoever may look: {record['plan']['privacy']['adversary']}."
    kind = "claim" if record["plan"]["privacy"]["private"] else "limit"
    return Clause("Against whom" if kind == "claim" else "Who sees the uploads", text, kind=kind)


def _spent(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return span(known, rounded_up) if len(known) == len(values) else "without bound"
