"""DP-PASGD of Hu et al. as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, made_by, never, nothing_to_check, wired_by
from noiseworthy.methods.dp_pasgd import axes, study, trials
from noiseworthy.methods.dp_pasgd.table import AveragingTable
from noiseworthy.methods.dp_pasgd.words import WORDS

METHOD = Method(
    name="dp-pasgd", table=AveragingTable, only=None, answer=study.answer, check=nothing_to_check,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None,
    stages=(), local_step=study.local_step, make=made_by("dp_pasgd.algorithm"),
    wire=wired_by("dp_pasgd.wire"), words=WORDS, space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES,
    for_owners=False, held_against=None,
    reads="every local step carries the noise of its own, which a share of it would not be",
    shows="it releases every local step of a client",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
