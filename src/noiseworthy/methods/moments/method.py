"""One upload of second moments as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, made_by, never, one_gradient, wired_by
from noiseworthy.methods.moments import axes, study, trials
from noiseworthy.methods.moments.table import MomentsTable
from noiseworthy.methods.moments.words import WORDS

METHOD = Method(
    name="moments", table=MomentsTable, only=None, answer=study.answer, check=study.check,
    leaves_free=study.leaves_free, tells_clients_apart=never, takes_heterogeneity=never, by_rule=None,
    stages=(), local_step=one_gradient, make=made_by("moments.algorithm"), wire=wired_by("moments.wire"),
    words=WORDS, space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES, for_owners=False, held_against=None,
    reads="", shows="it clips single records, and whether a record's client takes part is seen by its others",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
