"""The methods that DPFL-BCS is held against: rows that differ in noise, weights and what clients keep."""

from __future__ import annotations

from noiseworthy.methods.base import Method, one_gradient
from noiseworthy.methods.dpfl_bcs import axes
from noiseworthy.methods.fedsgd_dpc.wire import WIRE as GRADIENT
from noiseworthy.methods.rivals import (
    contest,
    dmldp,
    dpsgd,
    fedsgd,
    pfa,
    privatefl,
    study,
    trials,
    weiavg,
    wire,
)
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.methods.rivals.table import RivalName, RivalTable
from noiseworthy.methods.rivals.words import WORDS

_MAKERS = {
    "fedsgd": fedsgd.make,
    "dpsgd": dpsgd.make,
    "dmldp": dmldp.make,
    "weiavg": weiavg.make,
    "pfa": pfa.make,
    "privatefl": privatefl.make,
}
_READS = {
    "pfa": "its server projects single uploads on those of clients with large budgets",
    "privatefl": "its clients keep transforms that are moved by single noised uploads",
}


def _method(name: RivalName) -> Method[RivalTable]:
    return Method(
        name=name, table=RivalTable, only=RIVALS[name].only, answer=study.answer, check=study.check,
        leaves_free=study.leaves_free, tells_clients_apart=study.asks_as_told,
        takes_heterogeneity=study.asks_as_told, by_rule=None, stages=(), local_step=one_gradient,
        make=_MAKERS[name], wire=wire.WIRE if name == wire.WIRE.name else GRADIENT, words=WORDS[name],
        space=trials.SPACE, shape=trials.SHAPE, axes=axes.AXES, for_owners=False,
        held_against=contest.entrants,
        reads=_READS.get(name, "it stands for its paper, with the noise of single uploads"),
        shows="it stands for its paper, whose cohorts are public",
    )  # fmt: skip


METHODS = {name: _method(name) for name in RIVALS}
