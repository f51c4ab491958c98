"""Train a model of your own, a pure function, by a stated plan on the digits that ship with scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np

import noiseworthy as nw
from noiseworthy.methods.fedsgd_dpc.planner import stated

federation = nw.load_federation("digits", clients=5, partition="iid", seed=0)
first, second = jax.random.split(jax.random.key(0))
params = {"in": 0.1 * jax.random.normal(first, (64, 16)), "out": 0.1 * jax.random.normal(second, (16, 10))}


def network(params, image):
    """Two layers on one 8x8 image; noiseworthy maps it over records."""
    return jnp.tanh(image.ravel() @ params["in"]) @ params["out"]


task = nw.model_task(network, params)
budget = nw.PrivacyBudget.of(epsilon=8.0, delta=1e-5, clients=5)
problem = nw.Problem(federation.sizes, task.dimension, budget, "gaussian", clip_norm=0.5)
plan = stated(problem, rounds=30, clients_per_round=5, step=nw.StepSize(4.0))

run = nw.train(plan, federation, task, seeds=[0, 1, 2])
print(f"{task.dimension} parameters, epsilon {np.max(plan.spent()):.3f} per record")
print(f"test accuracy {run.final_accuracy.mean():.2f} over {len(run.final_accuracy)} seeds")
