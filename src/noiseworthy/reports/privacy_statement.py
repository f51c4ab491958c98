"""What a run protects, against whom, at what cost, and what it does not protect, in plain words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from noiseworthy.privacy.clipping import WORDS
from noiseworthy.reports.alternatives import faults_of_printed, leak_of
from noiseworthy.reports.findings import Record, client_names, most_spent
from noiseworthy.reports.schedules import (
    DECIDED,
    by_coins,
    clipped_to,
    is_local,
    keeps_transforms,
    never_asked,
    noise_falls,
    noise_of_uploads,
    noises_steps,
    paid_for,
    symbols,
    uploads_of,
)
from noiseworthy.reports.wording import (
    about,
    count,
    level,
    number,
    percent,
    rounded_up,
    shortened,
    span,
    times,
)

Kind = Literal["claim", "limit", "warning"]

_UNITS = {
    "record": "one record of one client",
    "client": "one client with everything that it holds",
}
_NEIGHBOURS = {
    ("record", "replace-one"): "one record of a client were exchanged for any other "
    "(how many it holds is public)",
    ("record", "add-remove"): "one record of a client were left out or added "
    "(what its mean divides by is public)",
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


@dataclass(frozen=True)
class Clause:
    """A paragraph of the statement.

    Attributes:
        title: what it is about.
        text: what it says.
        points: further points, one line each.
        kind: a claim, a limit of the claims, or a warning that must be seen.
    """

    title: str
    text: str
    points: tuple[str, ...] = ()
    kind: Kind = "claim"


def privacy_statement(record: Record) -> list[Clause]:
    """The privacy statement of a run, every number read from its record.

    Args:
        record: a run record.

    Returns:
        Clauses in reading order, warnings first; a run without noise makes no claim.
    """
    if record["plan"]["privacy"]["private"]:
        claims = [_protected(record), _at_most(record), _mechanism(record), _accounting(record)]
    else:
        claims = []
    clauses = [_not_private(record), _overspent(record), _assurance(record), *claims,
               _adversary(record), _limits(record), _as_printed(record)]  # fmt: skip
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
        return Clause("Noise", f"The noise of this run was drawn with assurance: {assurance}.")
    text = (
        "Assurance: simulation. The noise follows the right law, so losses and accuracies are those of a "
        "private training, but it comes from seeded floating-point numbers and hides nothing from somebody "
        "who looks closely. Do not release the model or the uploads of this run if the records are private."
    )
    return Clause("Simulated noise is no privacy mechanism", text, kind="warning")


# Claims -----------------------------------------------------------------------------------------------


def _protected(record: Record) -> Clause:
    privacy = record["plan"]["privacy"]
    unit, relation = privacy["unit"], privacy["relation"]
    too = f" {_RECORDS_TOO[relation]}" if unit == "client" else ""
    text = (
        f"The unit is {_UNITS[unit]}, under {relation} neighbours: whatever is seen of a private training by "
        f"this plan would be nearly as likely if {_NEIGHBOURS[unit, relation]}.{too}"
    )
    return Clause("What is protected", text)


def _at_most(record: Record) -> Clause:
    rows, spent = record["plan"]["privacy"]["clients"], most_spent(record)
    points = [
        f"By plan, the most that a client's uploads can cost is epsilon "
        f"{_spent([row['spent_epsilon'] for row in rows])}."
    ]
    if spent is not None:
        points += [
            f"In training, clients spent epsilon {_spent(spent)} (for each, the greatest over seeds).",
            "Seeds repeat one training in simulation; carrying out several on real data would add up.",
        ]
    if never := never_asked(record["plan"]):
        points.append(
            f"{count(never, 'client')} {'is' if never == 1 else 'are'} never asked and "
            f"{'spends' if never == 1 else 'spend'} nothing."
        )
    if any(c["provenance"].startswith("bought") for c in record["plan"]["constants"].values()):
        points.append("One upload per client bought constants before planning; it is counted here.")
    epsilon, delta = (span((row[key] for row in rows), _exact) for key in ("epsilon", "delta"))
    text = f"Each client spends at most epsilon {epsilon} at delta {delta} over the whole training."
    if "to" in epsilon + delta:
        text += " These are the least and the greatest of the clients' own budgets."
    meaning = _meaning(rows, record["plan"]["privacy"]["unit"])
    return Clause("What each client spends", f"{text} {meaning}", tuple(points))


def _meaning(rows: list[Record], unit: str) -> str:
    """What epsilon bounds, while it says anything at all."""
    epsilon = max(row["epsilon"] for row in rows)
    if epsilon > 20:
        return "At an epsilon this large the guarantee says next to nothing."
    beside = ", plus delta" if any(row["delta"] > 0 for row in rows) else ""
    return (
        f"Changing {'the record' if unit == 'record' else 'what the client holds'} makes no outcome more "
        f"than e^{_exact(epsilon)} = {level(math.exp(epsilon))} times as likely{beside}."
    )


def _mechanism(record: Record) -> Clause:
    plan = record["plan"]
    if not any(plan["releases"]):
        return Clause("By what means", "No client uploads anything in training, so training costs nothing.")
    size = "scale" if plan["mechanism"] == "laplace" else "standard deviation"
    drawn = f"{plan['mechanism'].capitalize()} noise of {size} {span(noise_of_uploads(plan))}"
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
    pure = not any(row["delta"] for row in plan["privacy"]["clients"])
    if plan["sampling_rate"] < 1 or (plan["mechanism"] == "laplace" and not pure):
        how = "privacy loss distributions of the dp-accounting library, rounded toward more loss"
    elif plan["mechanism"] == "laplace":
        how = "the sum of pure epsilons"
    else:
        how = "the exact closed form for composed Gaussian noise"
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


# Limits -----------------------------------------------------------------------------------------------


def _adversary(record: Record) -> Clause:
    text = f"Whoever may look: {record['plan']['privacy']['adversary']}."
    kind = "claim" if record["plan"]["privacy"]["private"] else "limit"
    return Clause("Against whom" if kind == "claim" else "Who sees the uploads", text, kind=kind)


def _limits(record: Record) -> Clause | None:
    if not record["plan"]["privacy"]["private"]:
        return None
    unit = record["plan"]["privacy"]["unit"]
    several = "several records" if unit == "record" else "records at several clients"
    when = ", and when the coins make clients communicate" if by_coins(record["plan"]) else ""
    points = [
        "How many records each client holds, its budget, and the whole study file are public.",
        f"Who takes part in which round is seen{when}; no amplification by client sampling is claimed.",
        f"Somebody with {several} is protected less: epsilon grows with their number.",
        f"What is true of many {unit}s is learnt; that is the purpose of training.",
        "Every other run on the same records adds to what is spent, tuning and repeated training included.",
        "The test set and public data are read in the clear; keep records that need protection out of them.",
    ]
    if record["compare"]:
        settings = count(len(record["compare"]["cells"]), "setting")
        points.append(f"The comparison simulated {settings} on the same records; for real, each is charged.")
        points += _search(record)
    if tradeoff := record.get("tradeoff"):
        trained = count(sum(cell["train"] for cell in tradeoff["cells"]), "training")
        points.append(f"The trade-off simulated {trained} on the same records; for real, each is charged.")
    if rivals := record.get("rivals"):
        points.append(_rivals(rivals))
    return Clause("What is not protected", "Outside of the guarantee:", tuple(points), "limit")


def _rivals(rivals: Record) -> str:
    private = [point for point in rivals["points"] if point["mechanism"] != "none"]
    trained = count(sum(len(point["algorithms"]) for point in private), "private training")
    return (
        f"The comparison of DPFL-BCS with its rivals simulated {trained} and FedSGD on the same records; for "
        "real, each private one is charged, and FedSGD hides nothing."
    )


def _search(record: Record) -> list[str]:
    """What all fixed settings of the comparison would spend together."""
    spent = record["compare"].get("search_epsilon")
    if spent is None:
        return []
    return [
        "Each fixed setting trained once on private records would, all together, spend epsilon "
        f"{rounded_up(spent)} of the client that is worst off: the price of a search, which planning avoids."
    ]


def _as_printed(record: Record) -> Clause | None:
    """What the source paper's formulas would add, where they differ from a sound answer."""
    plan, printed, noise = record["plan"], record["plan"]["as_printed"], record["plan"]["noise"]
    if "overspending_share" in printed:
        return _in_fractions(record)
    if not printed or "noise" not in printed or not (any(noise) or leak_of(plan)):
        return None
    keys = [key for key in DECIDED[plan["algorithm"]] if key in printed]
    same_setting = all(printed[key] == plan[key] for key in keys)
    as_noisy = all(theirs >= ours * (1 - 1e-9) for theirs, ours in zip(printed["noise"], noise, strict=True))
    if same_setting and as_noisy:
        return None
    ours = f"here the noise is {span(noise)}" if any(noise) else "here nothing is trained"
    text = (
        f"By the formulas as the paper prints them: {symbols(plan['algorithm'], printed, keys)} and noise "
        f"{span(printed['noise'])}; {ours}. The printed one is not private "
        f"({printed['why']}) and was not used."
    )
    return Clause("As printed: not private", text, _leaked(plan), kind="limit")


def _in_fractions(record: Record) -> Clause:
    """What becomes of a client that is planned for a fraction of a reply, and then asked for a whole one."""
    plan, printed = record["plan"], record["plan"]["as_printed"]
    worst = printed["worst_client"]
    name, factor = shortened(client_names(record)[worst], 40), about(printed["worst_overspending"])
    text = (
        f"By the formulas as the paper prints them, clients take part {span(printed['releases'])} times, in "
        f"real numbers, and split their budgets over as many replies; here {span(plan['releases'])} times, "
        "in whole ones. The printed plan is not private and was not used."
    )
    point = (
        f"Asked as long as anything is left, {percent(printed['overspending_share'])} of the clients would "
        f"spend more than their budget. Worst off is {name}: planned for "
        f"{number(printed['releases'][worst])} replies, it would spend {factor} times its epsilon."
    )
    return Clause("As printed: not private", text, (point,), kind="limit")


def _leaked(plan: Record) -> tuple[str, ...]:
    """What the printed noise would spend, and why its setting could not be run."""
    leak = leak_of(plan)
    if leak is None:
        return ()
    spends = (
        f"Of a budget of epsilon {_exact(leak.budget)} the printed noise would spend "
        f"{rounded_up(leak.printed)}, counted exactly, and {rounded_up(leak.converted)} by the paper's own "
        "conversion."
    )
    not_run = "; ".join(faults_of_printed(plan))
    return (spends, *([f"The printed setting could not be run: {not_run}."] if not_run else []))


def _exact(value: float) -> str:
    return number(value, 6)


def _spent(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return span(known, rounded_up) if len(known) == len(values) else "without bound"
