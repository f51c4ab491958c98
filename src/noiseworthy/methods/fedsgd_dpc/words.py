"""What is said of FedSGD-DPC: T rounds with b clients each."""

from noiseworthy.methods import phrases as say
from noiseworthy.methods.words import Words

AXIS = "rounds T"
"""Along which the bound is drawn."""

WORDS = Words(
    called="FedSGD-DPC", terms={"rounds": say.ROUNDS, "clients_per_round": say.CLIENTS},
    decided=("rounds", "clients_per_round"), sentence=say.replies, brief=say.replies_in_brief,
    keys=say.rounds_alone, computes=lambda plan: "", decays="rounds", clipped=say.gradients_clipped,
    means=say.gradient_hides, beyond=(), when=lambda plan: "", coins=lambda plan: (), noised=say.UPLOADS,
    chooses=lambda plan: False, alike="", baseline="",
    courses={**say.ALONG_ROUNDS, AXIS: say.ALONG_ROUNDS["rounds"]},
    curve=lambda plan, work: f"{say.CLIENTS.symbol} = {plan.clients_per_round}", knows="",
    online=say.some_online,
)  # fmt: skip
