"""What owners are asked for: names, local steps, and noise that a work has no proof for."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.probe import probe
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.methods.wire import Wire
from noiseworthy.methods.wires import WIRES, wire
from noiseworthy.privacy.mechanisms.registry import LAWS

THREE = np.full(3, 0.1)
WORKS = {
    "dp-pasgd": PasgdWork(step_sizes=THREE),
    "dp-fedavg": FedAvgWork(clipping="D", step_sizes=THREE),
    "dp-scaffnew": ScaffNewWork(step_size=0.1, probability=0.5, local_steps=3),
}


@pytest.mark.parametrize("name", WIRES)
def test_a_wire_is_named_as_its_requests_are(name):
    assert wire(name).name == name


def test_a_method_of_one_file_has_wire_and_probe_in_it(tmp_path, monkeypatch):
    """As `docs/new_algorithm.md` has it; probes of other wires are in `methods/probe.py`."""
    (tmp_path / "own_method.py").write_text(
        "from noiseworthy.methods.dp_fedavg.wire import WIRE\n"
        "from noiseworthy.methods.probe import probe\n"
        "PROBE = probe('dp-fedavg')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(WIRES, "own", "own_method")
    assert (wire("own"), probe("own")) == (wire("dp-fedavg"), probe("dp-fedavg"))


@pytest.mark.parametrize("name", METHODS)
def test_what_a_method_names_is_there_when_it_is_loaded(name):
    """Its file names algorithm and wire in words, which its import does not try."""
    assert isinstance(method(name).wire(), Wire)
    with pytest.raises(AttributeError, match="'NoneType' object has no attribute"):
        method(name).make(None, None, 0)  # found and called: a module that is not there is an ImportError


@pytest.mark.parametrize("name", WIRES)
def test_noise_at_every_local_step_alone_is_not_proved_for_pure_losses(name):
    unproved = {law.name for law in LAWS.values() if wire(name).table.obstacle(law)}
    assert unproved == ({"laplace"} if name == "dp-pasgd" else set())


@pytest.mark.parametrize("name", WIRES)
def test_works_of_local_steps_say_how_many_and_others_take_one(name):
    if name in WORKS:
        assert WORKS[name].steps == 3
    else:
        assert wire(name).table.model_construct().steps == 1
