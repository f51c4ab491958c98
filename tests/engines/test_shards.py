"""Records are prepared once for trainings that follow each other, and again where they changed."""

from __future__ import annotations

from dataclasses import replace

import jax
import numpy as np

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards, loaded
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.preparation import Preparation
from noiseworthy.tasks.reference import Reference

TASK = LinearModel(3, 1, "squared")


def federation() -> Federation:
    rng = np.random.default_rng(5)
    clients = [(rng.normal(size=(4, 3)), rng.normal(size=4)) for _ in range(3)]
    return Federation.from_clients(clients, test=clients[0], classes=None, name="again")


def test_the_same_records_are_prepared_once_whoever_holds_them():
    assert loaded(federation(), TASK).train is loaded(federation(), TASK).train


def test_records_that_were_changed_in_place_are_prepared_again():
    held = federation()
    loaded(held, TASK)
    held.x[1, 2, 0] += 1.0
    np.testing.assert_array_equal(loaded(held, TASK).train[0], held.x)
    held.test_y[0] += 1.0
    np.testing.assert_array_equal(loaded(held, TASK).test_y, held.test_y)


def test_what_was_prepared_stays_as_it_was_where_its_records_change_in_place():
    """Arrays of 64 bytes' alignment would be shared with the device, and not copied."""
    records = np.arange(4096 * 3, dtype=np.float32).reshape(-1, 3)
    room = np.empty(4096 + 16, np.float32)
    start = -(room.ctypes.data // 4) % 16
    labels = room[start : start + 4096]
    labels[:] = 1.0
    held = Federation.from_clients([(records, labels)], test=(records, labels), classes=None, name="kept")
    held = replace(held, test_y=labels)
    kept = Shards.load(held, TASK)
    labels[:] = 7.0
    assert np.all(np.asarray(kept.test_y) == 1.0)


def test_another_task_prepares_the_same_records_otherwise():
    plain, held = loaded(federation(), TASK), federation()
    scaled = loaded(held, LinearModel(3, 1, "squared", feature_norm=1.0, normalise=True))
    assert not np.allclose(plain.train[0], scaled.train[0])
    assert type(loaded(held, TASK, condensed=True).train) is not type(plain.train)


def test_what_records_are_seen_against_is_no_part_of_a_program(caplog):
    """The second reference compiles nothing, and each one's records are those that its task prepares."""
    held, rng = federation(), np.random.default_rng(0)
    seen = [Reference(rng.normal(size=3).astype(np.float32), np.eye(3, dtype=np.float32)) for _ in range(2)]
    tasks = [
        replace(TASK, features=2, feature_norm=1.0, preparation=Preparation(projection=2, reference=one))
        for one in seen
    ]
    compiled = []
    for task in tasks:
        caplog.clear()
        with jax.log_compiles(), caplog.at_level("WARNING"):
            shards = Shards.load(held, task)
        compiled.append(sum("Compiling jit(prepare)" in one.getMessage() for one in caplog.records))
        np.testing.assert_allclose(shards.train[0][1], task.prepare(held.x[1]), atol=1e-6)
        np.testing.assert_allclose(shards.test_x, task.prepare(held.test_x), atol=1e-6)
    assert compiled == [1, 0]
