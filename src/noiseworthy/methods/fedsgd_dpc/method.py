"""FedSGD-DPC of Zhou et al. as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, made_by, never, one_gradient, wired_by
from noiseworthy.methods.fedsgd_dpc import axes, study, trials
from noiseworthy.methods.fedsgd_dpc.table import FedSGDTable
from noiseworthy.methods.fedsgd_dpc.words import WORDS

METHOD = Method(
    name="fedsgd-dpc", table=FedSGDTable, only=None, answer=study.answer, check=study.check_stated,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never,
    by_rule=study.by_rule, stages=(), local_step=one_gradient, make=made_by("fedsgd_dpc.algorithm"),
    wire=wired_by("fedsgd_dpc.wire"), words=WORDS, space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES,
    for_owners=False, held_against=None, reads="",
    shows="it clips single records, and whether a record's client takes part is seen by its others",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
