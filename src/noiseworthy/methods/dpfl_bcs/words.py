"""What is said of DPFL-BCS: as of FedSGD-DPC, with K clients in a round, chosen by what they differ in."""

from __future__ import annotations

from dataclasses import replace

from noiseworthy._wording import span, times
from noiseworthy.methods import phrases as say
from noiseworthy.methods.fedsgd_dpc import words as fedsgd_dpc
from noiseworthy.methods.words import Record, Term

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
    return f"{say.replies(record)}, {by}{times(span(record['plan']['releases']))} each"


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


WORDS = replace(
    fedsgd_dpc.WORDS, called="DPFL-BCS", terms={"rounds": say.ROUNDS, "clients_per_round": _CLIENTS},
    sentence=_chosen_replies, chooses=lambda plan: True, alike=", each asking all clients alike",
    courses=say.ALONG_ROUNDS, curve=lambda plan, work: f"{_CLIENTS.symbol} = {plan.clients_per_round}",
    knows="the server knows the clients' epsilons and asks by them",
)  # fmt: skip
