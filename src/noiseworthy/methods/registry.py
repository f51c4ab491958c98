"""Algorithms by their name in a study file."""

from __future__ import annotations

from collections.abc import Callable

from noiseworthy import _validate as check
from noiseworthy.methods.algorithm import Algorithm
from noiseworthy.methods.averaged import averaged
from noiseworthy.methods.dp_fedavg import algorithm as dp_fedavg
from noiseworthy.methods.dp_pasgd import algorithm as dp_pasgd
from noiseworthy.methods.dp_scaffnew import algorithm as dp_scaffnew
from noiseworthy.methods.dpfl_bcs import algorithm as dpfl_bcs
from noiseworthy.methods.fedsgd_dpc import algorithm as fedsgd_dpc
from noiseworthy.methods.rivals import (
    dmldp,
    dpsgd,
    fedsgd,
    pfa,
    privatefl,
    weiavg,
)
from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task

MAKERS: dict[str, Callable[[Plan, Task, int], Algorithm]] = {
    "fedsgd-dpc": fedsgd_dpc.make,
    "dp-fedavg": dp_fedavg.make,
    "dp-scaffnew": dp_scaffnew.make,
    "dp-pasgd": dp_pasgd.make,
    "dpfl-bcs": dpfl_bcs.make,
    "fedsgd": fedsgd.make,
    "dpsgd": dpsgd.make,
    "dmldp": dmldp.make,
    "weiavg": weiavg.make,
    "pfa": pfa.make,
    "privatefl": privatefl.make,
}


def make(plan: Plan, task: Task, seed: int) -> Algorithm:
    """The algorithm that a plan names, its schedule drawn from `seed`, its iterates averaged as planned.

    Raises:
        InvalidInput: an unknown algorithm, or a plan that its algorithm cannot follow.
    """
    made = MAKERS[check.one_of("algorithm", plan.algorithm, MAKERS.keys())](plan, task, seed)
    return averaged(made, plan.rounds, plan.averaging) if plan.averaging else made
