"""What is said of FedSGD-DPC: T rounds with b clients each."""

from __future__ import annotations

from noiseworthy.methods.phrases import (
    ALONG_ROUNDS,
    CLIENTS,
    ROUNDS,
    UPLOADS,
    alike,
    gradient_hides,
    gradients_clipped,
    no_coins,
    nothing,
    replies,
    replies_in_brief,
    rounds_alone,
    some_online,
)
from noiseworthy.methods.words import Words

AXIS = "rounds T"
"""Along which the bound is drawn."""

WORDS = Words(
    called="FedSGD-DPC",
    terms={"rounds": ROUNDS, "clients_per_round": CLIENTS},
    decided=("rounds", "clients_per_round"),
    sentence=replies,
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
    chooses=alike,
    alike="",
    baseline="",
    shapes={**ALONG_ROUNDS, AXIS: ALONG_ROUNDS["rounds"]},
    curve=lambda plan, work: f"{CLIENTS.symbol} = {plan.clients_per_round}",
    knows="",
    online=some_online,
)
