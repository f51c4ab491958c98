"""DP-ScaffNew of Hou et al. as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, made_by, never, nothing_to_check, wired_by
from noiseworthy.methods.dp_scaffnew import axes, study, trials
from noiseworthy.methods.dp_scaffnew.table import ScaffNewTable
from noiseworthy.methods.dp_scaffnew.words import WORDS

METHOD = Method(
    name="dp-scaffnew", table=ScaffNewTable, only=None, answer=study.answer, check=nothing_to_check,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None,
    stages=(), local_step=study.local_step, make=made_by("dp_scaffnew.algorithm"),
    wire=wired_by("dp_scaffnew.wire"), words=WORDS, space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES,
    for_owners=False, held_against=None, reads="",
    shows="clients remember in which rounds they took part, and move by it",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
