"""What owners are asked for: names, local steps, and noise that a work has no proof for."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from noiseworthy.deploy.gateway.price import price_of
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_pasgd.wire import PasgdWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.dpfl_bcs.wire import LossReportWork
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.methods.label_mean.wire import LabelMeanWork
from noiseworthy.methods.mean.wire import MeanWork
from noiseworthy.methods.moments.wire import MomentsWork
from noiseworthy.methods.mr_mtl.wire import MrMtlWork
from noiseworthy.methods.probe import probe
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.score.wire import ScoreWork
from noiseworthy.methods.wire import WIRES, Wire, wire
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable import accounts_of
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.privacy.mechanisms.registry import LAWS
from noiseworthy.tasks import LinearModel

THREE = np.full(3, 0.1)
WORKS = {
    "dp-pasgd": PasgdWork(step_sizes=THREE),
    "dp-fedavg": FedAvgWork(clipping="D", step_sizes=THREE),
    "dp-scaffnew": ScaffNewWork(step_size=0.1, probability=0.5, local_steps=3),
}
N, C, W, CAP = 90, 0.7, 1.3, 0.4
MOVES: dict[str, tuple[Any, float, float]] = {
    "fedsgd-dpc": (FedSGDWork(), 2 * C / N, 2 * C / N),
    "privatefl": (PrivateFLWork(personal_step=0.1), 2 * C / N, 2 * C / N),
    "mr-mtl": (MrMtlWork(step_size=0.1, share=0.5), 2 * C / N, 2 * C / N),
    "dp-pasgd": (WORKS["dp-pasgd"], 2 * C / N * 3**0.5, np.nan),
    "dp-fedavg": (WORKS["dp-fedavg"], 2 * C, 2 * C),
    "dp-scaffnew": (WORKS["dp-scaffnew"], 2 * C, 2 * C),
    "dpfl-bcs": (LossReportWork(loss_cap=CAP, loss_noise=1.0, step_size=0.1),
                 ((2 * C) ** 2 + 2 * CAP**2) ** 0.5 / N, (2 * C + 2 * CAP) / N),
    "moments": (MomentsWork(label_weight=W), 2**0.5 * C / N, 2 * C / N),
    "mean": (MeanWork(of_class=W), 2 * (C**2 + W**2 / 2) ** 0.5 / N, 2 * (C + W) / N),
    "label-mean": (LabelMeanWork(middle=0.2), 2 * C / N, 2 * C / N),
    "score": (ScoreWork(two_classes=True), (8 / 3) ** 0.5 * C / N, 4 / 3 * C / N),
}  # fmt: skip
"""Every work, and what one of n rows, or an owner, moves all of its sums by together: in L2 and in L1."""


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


@pytest.mark.parametrize(
    ("name", "family"),
    [pair for pair in product(WIRES, ("gaussian", "laplace")) if pair != ("dp-pasgd", "laplace")],
)
def test_the_price_of_a_work_covers_what_a_neighbour_moves_it_by_over_the_noise_as_drawn(name, family):
    """By hand, at noise of 1: mu^2 or epsilon as a share of the budget's, and the noise a millionth more."""
    pytest.importorskip("opendp")
    work, *moved = MOVES[name]
    moves = moved[family == "laplace"]
    task = LinearModel(3, 1, "squared" if name == "label-mean" else "logistic", bias=1.0)
    theta = np.zeros(task.dimension, np.float32)
    request: Any = SimpleNamespace(theta=theta, mechanism=family, clip_norm=C, noise=1.0)
    job = wire(name).job(request, work, task, N)
    budget = PrivacyBudget.of(9.0, 1e-5 if family == "gaussian" else 0.0, 1)
    (account,) = accounts_of(budget, family, "data", "", ["one"])
    drawn = [
        one.mechanism.noise.scale * one.mechanism.grid.spacing / one.mechanism.records for one in job.sums
    ]
    assert min(drawn) >= 1
    due = (moves / budget.mu[0]) ** 2 if family == "gaussian" else moves / 9.0
    assert due <= price_of(job.sums, account) / WHOLE * (1 + 1e-12) <= due * (1 + 1e-9)
