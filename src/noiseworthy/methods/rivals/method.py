"""The methods that DPFL-BCS is held against: rows that differ in noise, weights and what clients keep."""

from __future__ import annotations

from noiseworthy.methods.base import Method, made_by, one_gradient, wired_by
from noiseworthy.methods.dpfl_bcs import axes
from noiseworthy.methods.rivals import contest, study, trials
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.methods.rivals.table import RivalName, RivalTable
from noiseworthy.methods.rivals.words import WORDS

_APART = ("weiavg", "pfa", "privatefl")
"""Whose replies weigh or hold something else: each is made in a file of its own."""

_READS = {
    "pfa": "its server projects single uploads on those of clients with large budgets",
    "privatefl": "its clients keep transforms that are moved by single noised uploads",
}


def _method(name: RivalName) -> Method[RivalTable]:
    return Method(
        name=name, table=RivalTable, only=RIVALS[name].only, answer=study.answer, check=study.check,
        leaves_free=study.leaves_free, tells_clients_apart=study.asks_as_told,
        takes_heterogeneity=study.asks_as_told, by_rule=None, stages=(), local_step=one_gradient,
        make=made_by(f"rivals.{name if name in _APART else 'alike'}"), words=WORDS[name],
        wire=wired_by("rivals.wire" if name == "privatefl" else "fedsgd_dpc.wire"), space=trials.SPACE,
        shape=trials.SHAPE, axes=axes.AXES, for_owners=False, held_against=contest.entrants,
        reads=_READS.get(name, "it stands for its paper, with the noise of single uploads"),
        shows="it stands for its paper, whose cohorts are public",
    )  # fmt: skip


METHODS = {name: _method(name) for name in RIVALS}
