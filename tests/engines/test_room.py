"""What is computed side by side where a device has room gives the numbers of one after the other."""

import equinox as eqx
import jax
import numpy as np
import pytest

from noiseworthy.data import Federation
from noiseworthy.engines import flat, resident
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.dp_fedavg import planner as local_steps
from noiseworthy.methods.dp_scaffnew import planner as coins
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel, model_task

N, COHORT, STEP = 8, 6, StepSize(0.3, np.inf)
LINEAR = LinearModel(20, 3, "softmax", ridge=0.05, feature_norm=2.0)
NETWORK = model_task(lambda w, x: jax.numpy.tanh(x @ w), np.full((20, 3), 0.1))


def problem(mode, task=LINEAR):
    budget = PrivacyBudget.of(4.0, 1e-3, N, unit="record" if mode == "A" else "client")
    return Problem(np.full(N, 5), task.dimension, budget, "gaussian", 0.5, clipping=mode)


CASES = {
    "gradients": (LINEAR, replies.stated(problem("A"), 4, COHORT, STEP)),
    "local steps": (LINEAR, local_steps.stated(problem("D"), 12, 3, COHORT, STEP)),
    "memories": (LINEAR, coins.stated(problem("D"), 12, 0.3, STEP)),
    "networks": (NETWORK, local_steps.stated(problem("D", NETWORK), 12, 3, COHORT, STEP)),
}
SEEDS = [0, 1]


@pytest.fixture(scope="module")
def federation() -> Federation:
    rng = np.random.default_rng(0)
    clients = [(rng.normal(size=(5, 20)), rng.integers(0, 3, 5)) for _ in range(N)]
    return Federation.from_clients(clients, test=clients[0], classes=3, name="even")


@pytest.fixture
def asked(monkeypatch):
    """Rounds with so much room, and how many sharers it was asked for."""
    advance = resident._advance.__wrapped__

    def rooms(numbers):
        told = []
        for module in (resident, flat):
            monkeypatch.setattr(module, "room", lambda cached, sharers=1: told.append(sharers) or numbers)
        # rounds that are compiled anew: all that was compiled is not forgotten, for the sake of other tests
        monkeypatch.setattr(resident, "_advance", eqx.filter_jit(lambda *args: advance(*args)))
        return told

    return rooms


@pytest.mark.parametrize("case", CASES)
def test_a_cohort_side_by_side_gives_the_numbers_of_one_client_after_the_other(case, federation, asked):
    task, plan = CASES[case]
    shards, runs, widths = Shards.load(federation, task), [], []
    algorithms = [make(plan, task, seed) for seed in SEEDS]
    for numbers in (1, 10**9):
        told = asked(numbers)
        runs.append(simulate(algorithms, plan.uploads, shards, np.array([plan.rounds]), SEEDS))
        widths.append(told)
    assert np.linalg.norm(runs[0].theta) > 0.01
    np.testing.assert_allclose(runs[0].theta, runs[1].theta, rtol=1e-4, atol=1e-6)
    if case == "networks":  # whose clients fill a device one by one
        assert widths == [[], []]
    elif case == "memories":  # where everybody is asked nothing is gathered: trainings share the device
        assert set(widths[0]) == set(widths[1]) == {len(SEEDS)}
    else:  # without room for what two trainings gather, one after the other has the device for itself
        assert (set(widths[0]), set(widths[1])) == ({1}, {1, len(SEEDS)})
