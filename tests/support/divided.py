"""Small trainings that several devices can divide among them, or cannot."""

from __future__ import annotations

import equinox as eqx
import jax
import numpy as np

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.methods.dp_fedavg import planner as local_steps
from noiseworthy.methods.dp_scaffnew import planner as coins
from noiseworthy.methods.fedsgd_dpc import planner as replies
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import LinearModel
from noiseworthy.tasks.adapters import as_task

N, TASK, STEP = 8, LinearModel(20, 3, "softmax", ridge=0.05, feature_norm=2.0), StepSize(0.3, np.inf)
rng = np.random.default_rng(0)
clients = [(rng.normal(size=(5, 20)), rng.integers(0, 3, 5)) for _ in range(N)]
federation = Federation.from_clients(clients, test=clients[0], classes=3, name="even")
shards = Shards.load(federation, TASK)


MODULE = eqx.nn.MLP(20, 3, width_size=4, depth=1, key=jax.random.key(0))
NETWORK = as_task("mlp", MODULE, (20,), 3, 0.05)


def problem(mode, task=TASK):
    budget = PrivacyBudget.of(4.0, 1e-3, N, unit="record" if mode == "A" else "client")
    return Problem(np.full(N, 5), task.dimension, budget, "gaussian", 0.5, clipping=mode)


CASES = {
    "everybody": (replies.stated(problem("A"), 4, N, STEP), [0]),
    "seeds": (replies.stated(problem("A"), 4, 4, STEP), [0, 1, 2, 3]),
    "shared seeds": (replies.stated(problem("A"), 4, 4, STEP), [0, 1, 0, 1]),
    "memory": (coins.stated(problem("D"), 12, 0.3, STEP, 3), [0]),
    "span": (local_steps.stated(problem("D"), 40, 10, 4, STEP), [0]),
    "indivisible": (replies.stated(problem("A"), 4, 5, STEP), [0]),
}
OF_NETWORK = (replies.stated(problem("A", NETWORK), 4, 4, STEP), [0, 1])


def run(plan, seeds, resume=None, kept=None, *, hosts=False):
    """Trainings of one of the cases; checkpoints are appended to what is given."""
    task = TASK if plan.problem.dimension == TASK.dimension else NETWORK
    algorithms = [make(plan, task, seed) for seed in seeds]
    scored = np.array([0, 2, plan.rounds])
    return simulate(
        algorithms, plan.uploads, shards, scored, seeds, resume=resume, hosts=hosts,
        on_segment=(lambda reached: None) if kept is None else kept.append,
    )  # fmt: skip
