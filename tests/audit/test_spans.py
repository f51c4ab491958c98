"""Local steps in the span of the records release what is claimed; one without its clip is caught there."""

from __future__ import annotations

from functools import partial

import jax
import pytest

from noiseworthy.audit.audits import Effort, audit
from noiseworthy.audit.observations import Watched
from noiseworthy.methods.span import Direction, Spanned, Walk
from noiseworthy.tasks.batch import Batch

IN_SPAN = (
    "dp-fedavg B gaussian", "dp-fedavg C gaussian, minibatches", "dp-fedavg E laplace",
    "dp-scaffnew gaussian, minibatches",
)  # fmt: skip
TRIALS = 6_000


@pytest.fixture
def in_span(monkeypatch) -> list[int]:
    """Watched clients move coefficients, of the data set that they hold and of both; returns their calls."""
    update, calls = Watched.local_update, []

    def spanned(self, state, client, memory, shard, key):
        calls.append(1)
        both = jax.vmap(partial(Spanned.of, self.task))(Batch(*shard))
        return update(self, state, client, memory, both, key)

    monkeypatch.setattr(Watched, "local_update", spanned)
    jax.clear_caches()
    yield calls
    jax.clear_caches()


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SPAN)
def test_sound_plans_pass_in_the_span(plans, in_span, name):
    for made in audit(plans[name](), Effort(ridge=0.02, trials=TRIALS)):
        assert made.passed, [check.says for check in made.checks]
        assert made.proven > 0.75 * made.claimed
    assert in_span


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SPAN[:2])
def test_a_step_in_the_span_without_its_clip_is_caught(plans, in_span, name, monkeypatch):
    def whole(self, slopes, *_):
        return self.mean(slopes, None, jax.random.key(0))

    monkeypatch.setattr(Walk, "clipped_sum", whole)
    monkeypatch.setattr(Direction, "clipped", lambda self, _: self)
    monkeypatch.setattr("noiseworthy.methods.dp_fedavg.algorithm.clip_whole", lambda own, *_: own)
    found = audit(plans[name](), Effort(ridge=0.02, trials=TRIALS))
    assert not all(made.passed for made in found)
    assert in_span
