"""What is said of DPFL-BCS: T rounds with K clients each, who are chosen by what they differ in."""

from __future__ import annotations

from noiseworthy._wording import span, times
from noiseworthy.methods.phrases import (
    ALONG_ROUNDS,
    ROUNDS,
    UPLOADS,
    gradient_hides,
    gradients_clipped,
    no_coins,
    nothing,
    replies,
    replies_in_brief,
    rounds_alone,
    some_online,
)
from noiseworthy.methods.words import Record, Term, Words

_CLIENTS = Term("K", "clients K", "clients per round K")


def sizes_of(record: Record) -> list[int]:
    """Records of each client."""
    return (record["federation"] or record["study"]["federation"])["sizes"]


def heterogeneity_of(record: Record) -> list[float]:
    """How far each client's optimum is from the common one, as stated; empty if all are alike."""
    stated = record.get("study", {}).get("constants", {}).get("heterogeneity")
    return stated if isinstance(stated, list) and len(set(stated)) > 1 else []


def asked_unlike(plan: Record) -> bool:
    """Whether some are asked more often than others by more than what cannot be divided."""
    return max(plan["releases"]) - min(plan["releases"]) > 1


def _chosen_replies(record: Record) -> str:
    reasons = _reasons(record)
    by = f"chosen by {reasons}: " if reasons else ""
    return f"{replies(record)}, {by}{times(span(record['plan']['releases']))} each"


def _reasons(record: Record) -> str:
    """In what clients differ that decides how often they are asked; empty where it decides nothing."""
    plan = record["plan"]
    if not asked_unlike(plan):
        return ""
    differs = {
        "budget": len({(row["epsilon"], row["delta"]) for row in plan["privacy"]["clients"]}) > 1,
        "size": len(set(sizes_of(record))) > 1,
        "heterogeneity": bool(heterogeneity_of(record)),
    }
    *first, last = [name for name, matters in differs.items() if matters] or [""]
    return f"{', '.join(first)} and {last}" if first else last


WORDS = Words(
    called="DPFL-BCS",
    terms={"rounds": ROUNDS, "clients_per_round": _CLIENTS},
    decided=("rounds", "clients_per_round"),
    sentence=_chosen_replies,
    brief=replies_in_brief,
    keys=rounds_alone,
    computes=nothing,
    decays="rounds",
    clipped=gradients_clipped,
    means=gradient_hides,
    beyond=(),
    when=nothing,
    coins=no_coins,
    noised=UPLOADS,
    chooses=lambda plan: True,
    alike=", each asking all clients alike",
    baseline="",
    shapes=ALONG_ROUNDS,
    curve=lambda plan, work: f"{_CLIENTS.symbol} = {plan.clients_per_round}",
    knows="the server knows the clients' epsilons and asks by them",
    online=some_online,
)
