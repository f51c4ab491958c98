"""The only list of what owners compute for methods; each wire is loaded when asked for by name."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from noiseworthy import _validate as check

if TYPE_CHECKING:
    from noiseworthy.methods.wire import Wire

_ROOM = "noiseworthy.methods"
WIRES: dict[str, str] = {
    "fedsgd-dpc": f"{_ROOM}.fedsgd_dpc.wire",
    "dp-fedavg": f"{_ROOM}.dp_fedavg.wire",
    "dp-scaffnew": f"{_ROOM}.dp_scaffnew.wire",
    "dp-pasgd": f"{_ROOM}.dp_pasgd.wire",
    "privatefl": f"{_ROOM}.rivals.wire",
    "dpfl-bcs": f"{_ROOM}.dpfl_bcs.wire",
    "mr-mtl": f"{_ROOM}.mr_mtl.wire",
    "moments": f"{_ROOM}.moments.wire",
    "mean": f"{_ROOM}.mean.wire",
    "label-mean": f"{_ROOM}.label_mean.wire",
    "score": f"{_ROOM}.score.wire",
}
"""What owners compute, by names in requests: the module whose `WIRE` each is.

A method of one file names it here and in `registry.py`; one that asks for what is here needs no row."""


def wire(name: str) -> Wire[Any]:
    """What owners compute by its name in a request; nothing else of a method is loaded.

    Raises:
        InvalidInput: an unknown name.

    Example:
        >>> wire("dp-pasgd").table.__name__
        'PasgdWork'
    """
    return import_module(WIRES[check.one_of("algorithm", name, WIRES.keys())]).WIRE
