"""DPFL-BCS of Ma et al. as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, made_by, nothing_to_check, one_gradient, wired_by
from noiseworthy.methods.dpfl_bcs import axes, study, trials
from noiseworthy.methods.dpfl_bcs.heterogeneity import ReportedLosses
from noiseworthy.methods.dpfl_bcs.table import SelectionTable
from noiseworthy.methods.dpfl_bcs.two_stages import FirstStage
from noiseworthy.methods.dpfl_bcs.words import WORDS
from noiseworthy.methods.rivals import contest

METHOD = Method(
    name="dpfl-bcs", table=SelectionTable, only=None, answer=study.answer, check=nothing_to_check,
    leaves_free=study.leaves_free, tells_clients_apart=study.estimates,
    takes_heterogeneity=lambda table: True, by_rule=None, stages=(FirstStage, ReportedLosses),
    local_step=one_gradient, make=made_by("dpfl_bcs.algorithm"), wire=wired_by("dpfl_bcs.wire", "IN_STAGES"),
    words=WORDS, space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES, for_owners=False,
    held_against=contest.entrants,
    reads="its counts are chosen for the noise of single uploads, and its two stages read their losses",
    shows="it plans in public whom to ask how often",
)  # fmt: skip
METHODS = {METHOD.name: METHOD}
