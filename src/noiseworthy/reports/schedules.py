"""What a plan has its clients do, in words and in symbols: the same in every view of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noiseworthy._wording import about, count, number, span, times
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.privacy.clipping import WORDS

Record = dict[str, Any]
"""A run record as `experiments.record` writes it, or the same read back from JSON."""


@dataclass(frozen=True)
class Term:
    """A setting as it is written: its symbol alone, with its name above a column, and at an axis."""

    symbol: str
    column: str
    axis: str


TERMS = {
    "rounds": Term("T", "rounds T", "rounds T"),
    "clients_per_round": Term("b", "clients b", "clients per round b"),
    "iterations": Term("T", "iterations T", "iterations T"),
    "total_iterations": Term("T", "iterations T", "iterations T"),
    "local_steps": Term("E", "local steps E", "local steps E per upload"),
    "communication_probability": Term("p", "probability p", "probability p of communication"),
}
"""Keys of plans, comparisons and printed answers."""

_TERMS_OF = {
    "dp-pasgd": {
        "rounds": Term("R", "rounds R", "rounds R"),
        "total_iterations": Term("K", "iterations K", "iterations K"),
        "local_steps": Term("τ", "local steps τ", "local steps τ per averaging"),
    },
    **{
        name: {"clients_per_round": Term("K", "clients K", "clients per round K")}
        for name in ("dpfl-bcs", *RIVALS)
    },
}
"""What a paper writes otherwise."""

DECIDED = {
    "fedsgd-dpc": ("rounds", "clients_per_round"),
    "dp-fedavg": ("total_iterations", "local_steps", "clients_per_round"),
    "dp-scaffnew": ("iterations", "communication_probability"),
    "dp-pasgd": ("total_iterations", "local_steps"),
    **dict.fromkeys(["dpfl-bcs", *RIVALS], ("rounds", "clients_per_round")),
}
"""What each planner decides, or is told."""


def term(algorithm: str, key: str) -> Term:
    """A setting as the paper of an algorithm writes it.

    Example:
        >>> term("dp-fedavg", "local_steps").symbol, term("dp-pasgd", "local_steps").symbol
        ('E', 'τ')
    """
    return _TERMS_OF.get(algorithm, {}).get(key) or TERMS[key]


def symbols(algorithm: str, values: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Settings as equations.

    Example:
        >>> symbols("fedsgd-dpc", {"rounds": 80, "clients_per_round": 1}, ["rounds", "clients_per_round"])
        'T = 80, b = 1'
    """
    return ", ".join(f"{term(algorithm, key).symbol} = {number(values[key])}" for key in keys)


def decided(plan: Record) -> str:
    """What the planner decided, as equations."""
    return symbols(plan["algorithm"], plan, DECIDED[plan["algorithm"]])


def clients_of(record: Record) -> int:
    """Number of clients N."""
    return len(record["plan"]["releases"])


def sizes_of(record: Record) -> list[int]:
    """Records of each client."""
    return (record["federation"] or record["study"]["federation"])["sizes"]


def asked(record: Record) -> str:
    """How many of how many clients a round asks."""
    b, n = record["plan"]["clients_per_round"], clients_of(record)
    return f"all {n:,} clients" if b == n else f"{b:,} of {n:,} clients"


def headline(record: Record) -> str:
    """The decision in one sentence."""
    if not record["plan"]["train"]:
        return "Do not train."
    return f"Train {_SENTENCES[record['plan']['algorithm']](record)}."


def in_brief(record: Record) -> str:
    """The decision in a few words, for titles."""
    plan = record["plan"]
    if not plan["train"]:
        return "no training"
    if by_coins(plan):
        return f"{count(plan['iterations'], 'iteration')} in {count(plan['rounds'], 'round')}"
    if is_local(plan):
        return f"{_rounds_of_steps(plan)}, {asked(record)}"
    return f"{count(plan['rounds'], 'round')}, {asked(record)} in each"


def by_coins(plan: Record) -> bool:
    """Whether public coins decide after which iterations clients communicate."""
    return "communication_probability" in plan


def is_local(plan: Record) -> bool:
    """Whether clients upload a change of the model by local steps, and not one gradient."""
    return "batch_size" in plan


def noises_steps(plan: Record) -> bool:
    """Whether clients add noise to every local step, and not once to an upload."""
    return "noised" in plan


def uploads_of(plan: Record) -> list[int]:
    """Uploads that each client makes at most."""
    return [plan["rounds"]] * len(plan["releases"]) if noises_steps(plan) else plan["releases"]


def chooses(plan: Record) -> bool:
    """Whether some clients are planned to be asked more often than others."""
    unlike = max(plan["releases"]) - min(plan["releases"]) > 1
    return plan["algorithm"] == "dpfl-bcs" or (is_rival(plan) and unlike)


def is_rival(plan: Record) -> bool:
    """Whether an algorithm is one that DPFL-BCS is held against."""
    return plan["algorithm"] in RIVALS


def keeps_transforms(plan: Record) -> bool:
    """Whether clients train a transform of their own records, which stays with them."""
    return plan["algorithm"] == "privatefl"


def heterogeneity_of(record: Record) -> list[float]:
    """How far each client's optimum is from the common one, as stated; empty if all are alike."""
    stated = record.get("study", {}).get("constants", {}).get("heterogeneity")
    return stated if isinstance(stated, list) and len(set(stated)) > 1 else []


def never_asked(plan: Record) -> int:
    """How many clients are asked for nothing in a training."""
    return uploads_of(plan).count(0) if plan["train"] else 0


def noise_of_uploads(plan: Record) -> list[float]:
    """The noise of clients that upload; of all where nobody does."""
    asked_for = [noise for noise, uploads in zip(plan["noise"], uploads_of(plan), strict=True) if uploads]
    return asked_for or plan["noise"]


def paid_for(plan: Record) -> str:
    """What a client's noise pays for: its uploads, or the noised steps that one record is in."""
    releases = span(plan["releases"])
    what = "noised step" if noises_steps(plan) else "upload"
    return f"{releases} {what}{'' if releases == '1' else 's'}"


def local_steps(plan: Record) -> str:
    """How long a client computes before it uploads, and on what."""
    batch = plan["batch_size"]
    records = "all records" if batch is None else f"batches of {count(batch, 'record')}"
    if noises_steps(plan):
        records = records if batch is None else f"disjoint {records}, shuffled for every pass"
        return f"{plan['local_steps']:,} before each averaging, every one noised, on {records}"
    if not by_coins(plan):
        return f"{plan['local_steps']:,} before each upload, on {records}"
    mean = f"{about(plan['expected_local_steps'])} on average before each upload"
    return f"{mean}, by the coins of seed {plan['coin_seed']}; on {records}"


# Clip and noise ---------------------------------------------------------------------------------------


def clipped_to(plan: Record) -> str:
    """The norm and the size of the clip."""
    return f"{plan['clip'].upper()} norm {number(plan['clip_norm'])}"


def what_is_clipped(plan: Record) -> str:
    """What the clip of a plan applies to, with its clipping mode."""
    if "clipping_mode" not in plan:
        return "each record's gradient" + (" in every local step" if noises_steps(plan) else "")
    return f"{WORDS[plan['clipping_mode']]} (mode {plan['clipping_mode']})"


def noise_falls(plan: Record) -> str:
    """Where the noise changes from round to round: that what is stated is that of the first."""
    if "noise_per_round" not in plan:
        return ""
    last = span(plan["noise_per_round"][-1])
    return f" in the first round, falling with the step sizes to {last} in the last"


# Sentences --------------------------------------------------------------------------------------------


def _replies(record: Record) -> str:
    return f"{count(record['plan']['rounds'], 'round')}, asking {asked(record)} in each"


def _chosen_replies(record: Record) -> str:
    reasons = _reasons(record)
    by = f"chosen by {reasons}: " if reasons else ""
    return f"{_replies(record)}, {by}{times(span(record['plan']['releases']))} each"


def _reasons(record: Record) -> str:
    """In what clients differ that decides how often they are asked; empty where it decides nothing."""
    plan = record["plan"]
    if max(plan["releases"]) - min(plan["releases"]) <= 1:
        return ""
    differs = {
        "budget": len({(row["epsilon"], row["delta"]) for row in plan["privacy"]["clients"]}) > 1,
        "size": len(set(sizes_of(record))) > 1,
        "heterogeneity": bool(heterogeneity_of(record)),
    }
    *first, last = [name for name, matters in differs.items() if matters] or [""]
    return f"{', '.join(first)} and {last}" if first else last


def _local_rounds(record: Record) -> str:
    plan = record["plan"]
    total = "" if plan["local_steps"] == 1 else f"{count(plan['total_iterations'], 'iteration')}: "
    return f"{total}{_rounds_of_steps(plan)}, asking {asked(record)} in each"


def _noised_rounds(record: Record) -> str:
    plan = record["plan"]
    total = "" if plan["local_steps"] == 1 else f"{count(plan['total_iterations'], 'iteration')}: "
    steps = count(plan["local_steps"], "noised local step")
    return f"{total}{count(plan['rounds'], 'round')} of {steps}, averaging {asked(record)} after each"


def _coins(record: Record) -> str:
    plan = record["plan"]
    iterations = count(plan["iterations"], "iteration")
    if plan["communication_probability"] == 1:
        return f"{iterations}, with communication after each"
    p, drawn = number(plan["communication_probability"]), f"{plan['realised_rounds']:,}"
    rounds = f"{about(plan['expected_rounds'])} rounds expected, {drawn} by the coins"
    return f"{iterations}, communication after each with probability {p}: {rounds}"


def _rounds_of_steps(plan: Record) -> str:
    return f"{count(plan['rounds'], 'round')} of {count(plan['local_steps'], 'local step')}"


_SENTENCES: dict[str, Callable[[Record], str]] = {
    "fedsgd-dpc": _replies,
    "dp-fedavg": _local_rounds,
    "dp-scaffnew": _coins,
    "dp-pasgd": _noised_rounds,
    **dict.fromkeys(["dpfl-bcs", *RIVALS], _chosen_replies),
}
