"""DP-PASGD of Hu et al. as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, never, nothing_to_check
from noiseworthy.methods.dp_pasgd import algorithm, axes, study, trials, wire
from noiseworthy.methods.dp_pasgd.table import AveragingTable
from noiseworthy.methods.dp_pasgd.words import WORDS

METHOD = Method(
    name="dp-pasgd", table=AveragingTable, only=None, answer=study.answer, check=nothing_to_check,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None,
    stages=(), local_step=study.local_step, make=algorithm.make, wire=wire.WIRE, words=WORDS,
    space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES, for_owners=False, held_against=None,
    reads="every local step carries the noise of its own, which a share of it would not be",
    shows="it releases every local step of a client",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
