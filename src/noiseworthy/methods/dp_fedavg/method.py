"""DP-FedAvg of Fu et al. as a method."""

from __future__ import annotations

from noiseworthy.methods.base import Method, never, nothing_to_check
from noiseworthy.methods.dp_fedavg import algorithm, axes, study, trials
from noiseworthy.methods.dp_fedavg.table import FedAvgTable

METHODS = {
    "dp-fedavg": Method(
        name="dp-fedavg",
        table=FedAvgTable,
        only=None,
        answer=study.answer,
        check=nothing_to_check,
        leaves_free=study.leaves_free,
        tells_clients_apart=never,
        takes_heterogeneity=never,
        by_rule=None,
        stages=(),
        local_step=study.local_step,
        make=algorithm.make,
        space=trials.SPACE,
        shape=trials.SHAPE,
        axes=axes.AXES,
        held_against=None,
    )
}
