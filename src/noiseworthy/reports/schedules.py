"""What a plan has its clients do, in words and in symbols: the same in every view of a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from noiseworthy.privacy.clipping import WORDS
from noiseworthy.reports.wording import about, count, number, span

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

DECIDED = {
    "fedsgd-dpc": ("rounds", "clients_per_round"),
    "dp-fedavg": ("total_iterations", "local_steps", "clients_per_round"),
    "dp-scaffnew": ("iterations", "communication_probability"),
}
"""What each planner decides."""


def symbols(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    """Settings as equations.

    Example:
        >>> symbols({"rounds": 80, "clients_per_round": 1}, ["rounds", "clients_per_round"])
        'T = 80, b = 1'
    """
    return ", ".join(f"{TERMS[key].symbol} = {number(values[key])}" for key in keys)


def decided(plan: Record) -> str:
    """What the planner decided, as equations."""
    return symbols(plan, DECIDED[plan["algorithm"]])


def clients_of(record: Record) -> int:
    """Number of clients N."""
    return len(record["plan"]["releases"])


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
    return "clipping_mode" in plan


def local_steps(plan: Record) -> str:
    """How long a client computes before it uploads, and on what."""
    batch = plan["batch_size"]
    records = "all records" if batch is None else f"batches of {count(batch, 'record')}"
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
    if not is_local(plan):
        return "each record's gradient"
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


def _local_rounds(record: Record) -> str:
    plan = record["plan"]
    total = "" if plan["local_steps"] == 1 else f"{count(plan['total_iterations'], 'iteration')}: "
    return f"{total}{_rounds_of_steps(plan)}, asking {asked(record)} in each"


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
}
