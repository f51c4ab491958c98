"""The only list of methods; each is loaded when asked for by name. What owners compute is in `wire.py`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noiseworthy import _validate as check
from noiseworthy.errors import UnsoundClaim

if TYPE_CHECKING:
    from noiseworthy.methods.algorithm import Algorithm
    from noiseworthy.methods.base import Method
    from noiseworthy.methods.table import AlgorithmTable
    from noiseworthy.plans.plan import Plan
    from noiseworthy.tasks.base import Task

_ROOM = "noiseworthy.methods"
METHODS: dict[str, str] = {
    "fedsgd-dpc": f"{_ROOM}.fedsgd_dpc.method",
    "moments": f"{_ROOM}.moments.method",
    "dp-fedavg": f"{_ROOM}.dp_fedavg.method",
    "dp-scaffnew": f"{_ROOM}.dp_scaffnew.method",
    "dp-pasgd": f"{_ROOM}.dp_pasgd.method",
    "dpfl-bcs": f"{_ROOM}.dpfl_bcs.method",
    "mr-mtl": f"{_ROOM}.mr_mtl.method",
    "fedsgd": f"{_ROOM}.rivals.method",
    "dpsgd": f"{_ROOM}.rivals.method",
    "dmldp": f"{_ROOM}.rivals.method",
    "weiavg": f"{_ROOM}.rivals.method",
    "pfa": f"{_ROOM}.rivals.method",
    "privatefl": f"{_ROOM}.rivals.method",
}
"""By their names in study files, from simple to intricate: the module that lists each under `METHODS`."""
FIRST = "fedsgd-dpc"
"""The method of a study that names none,"""
AT_ONCE = "moments"
"""and that of one upload, which plans take in its place where trials hardly tell them apart."""


def method(name: str) -> Method[Any]:
    """A method by its name in a study file.

    Raises:
        InvalidInput: an unknown name.

    Example:
        >>> method("dp-fedavg").table.__name__
        'FedAvgTable'
    """
    return import_module(METHODS[check.one_of("algorithm", name, METHODS.keys())]).METHODS[name]


def table(name: str) -> type[AlgorithmTable]:
    """The `[algorithm]` keys of a method by its name in a study file.

    A method with a room of its own keeps them in a file of theirs, and nothing else of it is loaded.

    Raises:
        InvalidInput: an unknown name.

    Example:
        >>> table("dp-fedavg").__name__
        'FedAvgTable'
    """
    room, _, file = METHODS[check.one_of("algorithm", name, METHODS.keys())].rpartition(".")
    return import_module(f"{room}.table").TABLE if file == "method" else method(name).table


def make(plan: Plan, task: Task, seed: int) -> Algorithm:
    """The algorithm that a plan names, its schedule drawn from `seed`, steered and averaged as planned.

    Raises:
        InvalidInput: an unknown algorithm, or a plan that its algorithm cannot follow.
        UnsoundClaim: an algorithm whose server looks at single uploads, where noise hides only their sum.
    """
    from noiseworthy.methods.around import averaged  # here, because planning needs no jax
    from noiseworthy.methods.steered import steered

    made = method(plan.algorithm).make(plan, task, seed)
    if made.reads_uploads and plan.problem.trust.in_sums:
        raise UnsoundClaim(
            f"the server of {plan.algorithm} looks at single uploads, of which only the sum is private under "
            f'trust = "{plan.problem.trust.model}"; use trust = "local", and say so in Method.reads'
        )
    made = steered(made, plan) if plan.steering else made
    return averaged(made, plan.rounds, plan.averaging) if plan.averaging else made
