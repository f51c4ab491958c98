"""Phrases that the words of several methods share, and the row of methods that noise each upload."""

from __future__ import annotations

from noiseworthy._wording import count, number, span
from noiseworthy.methods.words import Course, Key, Noised, Record, Term
from noiseworthy.privacy.clipping import WORDS as MODES

ROUNDS = Term("T", "rounds T", "rounds T")
ITERATIONS = Term("T", "iterations T", "iterations T")
CLIENTS = Term("b", "clients b", "clients per round b")

_LONGER = Course(
    "First a step teaches more than its noise hides; later it is the other way round.",
    "The curve flattens: more steps share the same budget and gain little.",
    "From the start, more steps add more noise than they teach.",
)
ALONG_ROUNDS = {"rounds": _LONGER}
"""Of a curve that is drawn along the rounds, as every bound that is fitted to trials."""


# Of a record ------------------------------------------------------------------------------------------


def clients_of(record: Record) -> int:
    """Number of clients N."""
    return len(record["plan"]["releases"])


def asked(record: Record) -> str:
    """How many of how many clients a round asks."""
    b, n = record["plan"]["clients_per_round"], clients_of(record)
    if rate := record["plan"].get("asked_with"):
        return f"each of {n:,} clients with probability {number(rate)}"
    return f"{'all ' * (n > 1)}{count(n, 'client')}" if b == n else f"{b:,} of {n:,} clients"


def replies(record: Record) -> str:
    """Rounds of one reply, and who is asked."""
    return f"{count(record['plan']['rounds'], 'round')}, asking {asked(record)} in each"


def replies_in_brief(record: Record) -> str:
    """The same for a title."""
    return f"{count(record['plan']['rounds'], 'round')}, {asked(record)} in each"


def rounds_of_steps(plan: Record) -> str:
    """Rounds with their local steps."""
    return f"{count(plan['rounds'], 'round')} of {count(plan['local_steps'], 'local step')}"


def steps_in_brief(record: Record) -> str:
    """Rounds with their local steps and who takes them, for a title."""
    return f"{rounds_of_steps(record['plan'])}, {asked(record)}"


def iterations_before(plan: Record) -> str:
    """Iterations ahead of the rounds; empty where a round is one of them."""
    return "" if plan["local_steps"] == 1 else f"{count(plan['total_iterations'], 'iteration')}: "


def rounds_key(plan: Record, remark: str = "") -> Key:
    """The rounds as a number."""
    return Key("rounds", f"{plan['rounds']:,}", remark)


def rounds_alone(plan: Record) -> list[Key]:
    """The only count of a method with one reply in a round."""
    return [rounds_key(plan)]


def local_steps_key(plan: Record, remark: str = "") -> Key:
    """The local steps of a round as a number."""
    total = f"{count(plan['total_iterations'], 'iteration')} in all{remark}"
    return Key("local steps in each", f"{plan['local_steps']:,}", total)


def some_online(asked_for: int, clients: int) -> str:
    """Who must be online where a round asks some."""
    if asked_for == clients:
        return all_online(asked_for, clients)
    return f"{asked_for:,} of {clients:,} clients online in a round"


def all_online(asked_for: int, clients: int) -> str:
    """Who must be online where a round asks all."""
    return "all clients online in every round"


# Clip and noise ---------------------------------------------------------------------------------------


def clipped_to(plan: Record) -> str:
    """The norm and the size of the clip."""
    return f"{plan['clip'].upper()} norm {number(plan['clip_norm'])}"


def gradients_clipped(plan: Record) -> str:
    """What the clip of one reply applies to."""
    return f"each {plan['privacy']['unit']}'s gradient"


def clipped_by_mode(plan: Record) -> str:
    """What the clip of a local update applies to, with its clipping mode."""
    said = MODES[plan["clipping_mode"]].replace("record", plan["privacy"]["unit"])
    return f"{said} (mode {plan['clipping_mode']})"


def noise_falls(plan: Record) -> str:
    """Where the noise changes from round to round: that what is stated is that of the first."""
    if "noise_per_round" not in plan:
        return ""
    last = span(plan["noise_per_round"][-1])
    return f" in the first round, falling with the step sizes to {last} in the last"


def records_used(plan: Record) -> str:
    """The records that a client computes on."""
    if plan.get("batch_size") is not None:
        return f"batches of {count(plan['batch_size'], 'record')}"
    if plan["sampling_rate"] == 1:
        return "all its records"
    return f"a fresh Poisson batch (each record with probability {number(plan['sampling_rate'])})"


def batches(plan: Record) -> str:
    """The records of a local step, in a row of a plan."""
    return "all records" if plan["batch_size"] is None else records_used(plan)


def paid_for(plan: Record, release: str) -> str:
    """How many noised values a client's noise pays for.

    Example:
        >>> paid_for({"releases": [1, 1]}, "upload"), paid_for({"releases": [2, 5]}, "noised step")
        ('1 upload', '2 to 5 noised steps')
    """
    releases = span(plan["releases"])
    coins = f", each made with probability {number(plan['asked_with'])}" if plan.get("asked_with") else ""
    return f"{releases} {release}{'' if releases == '1' else 's'}{coins}"


def upload_hides(upload: str, plan: Record, noise: str) -> str:
    """By what means a noised upload hides a record: what is uploaded, its clip and its noise."""
    mode = plan.get("clipping_mode")
    clipped = f"Before the noise, at {clipped_to(plan)}, {MODES[mode]}. " if mode else ""
    return (
        f"Each upload is {upload}, plus {noise}{noise_falls(plan)}. {clipped}The noise pays for "
        f"{paid_for(plan, UPLOADS.release)} per client; a client refuses to upload more."
    )


def gradient_hides(plan: Record, noise: str) -> str:
    """By what means one noised gradient hides a record."""
    gradient = f"the mean gradient over {records_used(plan)}, each record's gradient clipped to "
    return upload_hides(f"{gradient}{clipped_to(plan)}", plan, noise)


UPLOADS = Noised(
    what="every upload", release="upload", where=noise_falls, exchange="upload",
    listed=lambda plan: "one upload" + (" of the first round" if "noise_per_round" in plan else ""),
    uploads=lambda plan: plan["releases"], bought=lambda plan: ", paid for by its noise",
    remark=lambda plan: "paid for by its noise", caption=lambda plan: paid_for(plan, "upload"),
    card=lambda plan: f"It pays for {paid_for(plan, 'upload')} per client.",
    columns=lambda plan, client: {"paid for": str(plan["releases"][client])},
    columns_said="Uploads are those that the noise pays for and those made in training (range over seeds)",
    counted="True uploads are counted per client (not their mean)",
)  # fmt: skip
"""Noise is added once, to what is uploaded."""

# Of vacuous bounds ------------------------------------------------------------------------------------

BY_TRIAL = "leave [constants] out to plan by trial on public data instead"
"""The remedy: constants from worst cases explain, but do not decide."""


def unless_noise(needed: str, compared: str, remedy: str = BY_TRIAL) -> str:
    """The outcome of a plan that a vacuous bound refuses.

    Even without noise the bound is not below its value without training. Such a bound recommends no training
    at any epsilon, so that its "do not train" says nothing about privacy.

    Args:
        needed: what the bound would need, e.g. `it recommends nothing below 4e+05 rounds`.
        compared: its value beside that of no training.
        remedy: what to do instead.

    Example:
        >>> unless_noise("it recommends nothing below 90 rounds", "bound 7 against 2 without training")
        'Do not train, but the bound is vacuous here: even without noise it recommends nothing below 90 \
rounds; leave [constants] out to plan by trial on public data instead (bound 7 against 2 without training).'
    """
    return f"Do not train, but the bound is vacuous here: even without noise {needed}; {remedy} ({compared})."
