"""Plan a study with the planner of its algorithm."""

from __future__ import annotations

from noiseworthy.config import AveragingTable, FedAvgTable, FedSGDTable, RivalTable, SelectionTable
from noiseworthy.experiments.planners import dp_fedavg, dp_pasgd, dp_scaffnew, dpfl_bcs, fedsgd_dpc, rivals
from noiseworthy.experiments.planners.decision import Decision, Progress
from noiseworthy.experiments.prepare import Prepared


def decide(prepared: Prepared, on_progress: Progress = lambda done: None) -> Decision:
    """Plan a study.

    Constants are, in this order: stated (`assumed`), `analytic`, `bought`, or fitted to trials on public
    data, which also choose clip and step where those are "auto". All planners but that of FedSGD-DPC take
    stated and analytic constants only.

    Raises:
        ConfigError: constants are missing and cannot be had from what the study gives.
    """
    table = prepared.study.algorithm
    if isinstance(table, FedSGDTable):
        return fedsgd_dpc.decide(prepared, table, on_progress)
    if isinstance(table, FedAvgTable):
        return dp_fedavg.decide(prepared, table)
    if isinstance(table, AveragingTable):
        return dp_pasgd.decide(prepared, table)
    if isinstance(table, SelectionTable):
        return dpfl_bcs.decide(prepared, table)
    if isinstance(table, RivalTable):
        return rivals.decide(prepared, table)
    return dp_scaffnew.decide(prepared, table)
