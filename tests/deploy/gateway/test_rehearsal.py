"""Programs are compiled before a release is paid for: a kill while compiling costs nothing."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import monitoring

from noiseworthy._places import CACHE_VARIABLE
from noiseworthy.cli.gateways import gateway as serving
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Refused, Uploaded
from noiseworthy.methods.dp_fedavg.wire import FedAvgWork
from noiseworthy.methods.dp_scaffnew.wire import ScaffNewWork
from noiseworthy.methods.fedsgd_dpc.wire import FedSGDWork
from noiseworthy.privacy.durable import DurableLedger, Grant

from .conftest import against, asked, numbers, request, spent
from .test_noised_jobs import LOSSES, PERSONAL, STEPS

SIZES = np.array([0.5, 0.25])
WORKS = {
    "gradient": {"algorithm": FedSGDWork()},
    "local steps, gradients clipped": {"algorithm": FedAvgWork(clipping="C", step_sizes=SIZES), "noise": 4.0},
    "local steps, update clipped": {"algorithm": FedAvgWork(clipping="D", step_sizes=SIZES), "noise": 4.0},
    "control variates": {
        "algorithm": ScaffNewWork(step_size=0.5, probability=0.5, local_steps=2),
        "noise": 4.0,
    },
    "noised steps": {"algorithm": STEPS},
    "transform": {"algorithm": PERSONAL},
    "losses": {"algorithm": LOSSES},
    "seen against public records": against(),
}


@pytest.fixture
def compiled(monkeypatch):
    """What was compiled after a release was paid for and before it was sealed."""
    events: list[str] = []
    paid = [False]

    def heard(event: str, seconds: float, **_: Any) -> None:
        if paid[0] and event.startswith("/jax/core/compile/"):
            events.append(event)

    reserve, seal = DurableLedger.reserve, DurableLedger.seal

    def reserved(self, *args):
        answer = reserve(self, *args)
        paid[0] = isinstance(answer, Grant)
        return answer

    def sealed(self, *args):
        paid[0] = False
        seal(self, *args)

    monkeypatch.setattr(DurableLedger, "reserve", reserved)
    monkeypatch.setattr(DurableLedger, "seal", sealed)
    jax.clear_caches()
    monitoring.register_event_duration_secs_listener(heard)
    yield events
    monitoring.unregister_event_duration_listener(heard)


@pytest.mark.parametrize("work", WORKS)
def test_nothing_is_compiled_between_paying_and_sealing(work, gateway, compiled):
    """Neither for the first release of a run, nor for one with what the first left behind."""
    for release in (1, 2):
        reply = asked(gateway, request(release, **WORKS[work]))
        assert isinstance(reply, Uploaded)
        assert compiled == []


def test_other_work_is_compiled_before_it_is_paid_for_too(gateway, compiled):
    """Longer work, another model, a reference of other numbers, and the first again."""
    longer = FedAvgWork(clipping="D", step_sizes=np.full(3, 0.25))
    ridge = {"task": {"model": "logistic", "feature_norm": 1.0, "ridge": 0.1}}
    kinds = [WORKS["gradient"], WORKS["local steps, update clipped"], {"algorithm": longer, "noise": 4.0},
             ridge, against(), against(seen=numbers(1)), WORKS["gradient"]]  # fmt: skip
    for release, kind in enumerate(kinds, 1):
        assert isinstance(asked(gateway, request(release, **kind)), Uploaded)
        assert compiled == [], kind


def test_a_rehearsal_reads_no_record_and_draws_no_noise(gateway, monkeypatch, silent):
    """It sees zeros alone, and only then is the release paid for."""
    seen: list[tuple[int, float]] = []
    batch = Holding._batch

    def watched(self, task, x, y, **kept):
        seen.append((spent(gateway)[0], float(np.abs(x).max())))
        return batch(self, task, x, y, **kept)

    monkeypatch.setattr(Holding, "_batch", watched)
    monkeypatch.setattr(gateway.holding, "_prepared", None)
    reserve = DurableLedger.reserve

    def killed(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(DurableLedger, "reserve", killed)
    with pytest.raises(KeyboardInterrupt):
        asked(gateway, request())
    assert (seen, silent) == ([(0, 0.0)], [])
    monkeypatch.setattr(DurableLedger, "reserve", reserve)
    assert isinstance(asked(gateway, request()), Uploaded)
    assert [paid for paid, _ in seen] == [0, 1]
    assert seen[1][1] > 0
    assert len(silent) == 1


def test_a_deadline_that_passes_while_compiling_costs_nothing(gateway, monkeypatch):
    rehearsal = Holding.rehearsal

    def slow(self, task):
        monkeypatch.setattr("noiseworthy.deploy.gateway.gateway.time.time", lambda: 1e12)
        return rehearsal(self, task)

    monkeypatch.setattr(Holding, "rehearsal", slow)
    reply = asked(gateway, request())
    assert isinstance(reply, Refused)
    assert reply.reason == "deadline"
    assert spent(gateway) == (0, 0)


@pytest.mark.parametrize("named", [True, False])
def test_programs_outlive_a_gateway_where_its_environment_names_a_folder_and_nowhere_else(
    named, gateway_of, tmp_path, monkeypatch
):
    """What features make of records would lie beside them: the owner says where, or it stays in memory."""
    opened, chosen = gateway_of(), []

    def ended(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("noiseworthy.deploy.gateway.owner.load_owner", lambda _: opened.owner)
    monkeypatch.setattr("noiseworthy.deploy.gateway.gateway.Gateway.open", lambda *_, **__: opened)
    monkeypatch.setattr("noiseworthy.deploy.gateway.server.serve", ended)
    monkeypatch.setattr("noiseworthy.cli.gateways.signal.signal", lambda *_: None)
    monkeypatch.setattr("noiseworthy.engines.compilation.use_persistent_cache", lambda: chosen.append(named))
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path) if named else "")
    serving(tmp_path / "owner.toml")
    assert chosen == [True] * named
