"""What the experiments of Hu et al. choose: the averaging period by the bound, iterations by validation.

The bound's constants are measured on records that are public where there are such (the test file of Adult,
which the paper does not use), else on the simulated federation; the page says which.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.optimize import minimize

from noiseworthy.data import Federation
from noiseworthy.engines.shards import Shards
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.conditions import smoothness_of
from noiseworthy.methods.dp_pasgd.bound import LossShape
from noiseworthy.methods.dp_pasgd.planner import plan
from noiseworthy.plans.local_work import NoisySteps
from noiseworthy.plans.problem import Constant
from noiseworthy.plans.resources import Resources
from noiseworthy.tasks import Batch, LinearModel
from noiseworthy.tasks.structured_losses import LOSSES
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.settings import Averaging
from noiseworthy_papers.spec import Arm, Planned, Planner

_MEASURED = "measured beforehand"
"""Provenance of the constants; the page says on which records."""
LONGEST_PERIOD = 20
"""The largest tau of the grid."""
Public = Callable[[Laboratory], Federation]
"""Devices of public records, as many as there are private ones."""


def by_bound(public: Public | None, shape: LossShape) -> Planner:
    """Plans tau and K within privacy and resources, from constants measured beforehand.

    Args:
        public: gives devices to measure on; None measures on the simulated federation.
        shape: which bound; all but the general one, which is that of docs/theory/hu.md#bounds, count noise in
        the dimension
            that the loss feels.
    """

    def decide(
        laboratory: Laboratory, arm: Arm, epsilon: float, fraction: float, tell: Callable[[float], None]
    ) -> Planned:
        problem = laboratory.problem(arm, epsilon, fraction, arm.clip_norm)
        constants = _constants(laboratory, public, arm)
        if shape == "general":
            constants = {name: known for name, known in constants.items() if name != "noise_dimension"}
        made = plan(problem, constants, step=arm.step, shape=shape)
        setting = None
        if made.train and isinstance(made.local, NoisySteps):
            setting = Averaging(made.rounds * made.local.steps, made.local.steps, problem.n_clients)
        return Planned(setting, arm.clip_norm, arm.step)

    return decide


def _constants(laboratory: Laboratory, public: Public | None, arm: Arm) -> dict[str, Constant]:
    """Measured once for a laboratory, a step size and the longest training of the grid."""
    step, longest = arm.step.initial, LONGEST_PERIOD * max(affordable(arm, LONGEST_PERIOD))
    key = f"constants at step {step:g} over {longest}"
    if key not in laboratory.notes:
        devices = laboratory.federation if public is None else public(laboratory)
        task = laboratory.task
        if not isinstance(task, LinearModel):
            raise InvalidInput(f"constants are measured for linear models only, got {laboratory.bench.model}")
        laboratory.notes[key] = measured_constants(devices, task, step, longest)
    return laboratory.notes[key]


def by_validation(local_steps: int) -> Planner:
    """Every affordable number of rounds of tau steps, the best of them on the validation records.

    This is the paper's grid search. What it reads and trains is not charged: it is no private choice.
    """

    def decide(
        laboratory: Laboratory, arm: Arm, epsilon: float, fraction: float, tell: Callable[[float], None]
    ) -> Planned:
        clients = laboratory.federation.n_clients
        settings = [Averaging(r * local_steps, local_steps, clients) for r in affordable(arm, local_steps)]
        scores = []
        for setting in settings:
            training = Training(arm, setting, arm.clip_norm, arm.step, fraction, evaluations=1)
            scores.append(laboratory.train(training, arm.epsilons)[epsilon]["validation"])
            tell(len(scores) / len(settings))
        best = settings[int(np.argmax(scores))]
        return Planned(best, arm.clip_norm, arm.step)

    return decide


def affordable(arm: Arm, local_steps: int) -> range:
    """Numbers of rounds of tau steps that every device can pay for."""
    if arm.costs is None:
        return range(0)
    resources = Resources.of(*arm.costs, clients=1)
    return range(1, int(resources.most_rounds(local_steps)) + 1)


def measured_constants(
    federation: Federation, task: LinearModel, step: float, longest: int
) -> dict[str, Constant]:
    """Constants of the bound from records: L, lambda, xi^2, alpha, and the dimension that noise is felt in.

    L is the largest eigenvalue of A, the mean of c x x^T, which dominates every Hessian; noise_dimension is
    tr(A)/L; xi^2 the mean squared distance of a device's gradient from the mean of all at the optimum; and
    lambda the mean rate at which gradient descent without noise closes the gap over K steps,

        (F(theta_K) - F*)/(F(theta_0) - F*) = e^(-eta lambda K)

    which is larger than the constant that the proof asks for: that is the least rate on the way, and with it
    the bound would advise against trainings that help.

    Args:
        federation: the devices, which count alike.
        task: of one output, with records in a ball.
        step: eta of the gradient descent.
        longest: K.
    """
    losses = _DeviceLosses(Shards.load(federation, task).train, task)
    dominating = losses.dominating()
    smoothness = float(np.linalg.eigvalsh(dominating)[-1])
    start = np.zeros(task.dimension)
    best = minimize(losses.mean, start, jac=losses.gradient, method="L-BFGS-B", options={"maxiter": 3000})
    values = {
        "smoothness": smoothness,
        "strong_convexity": min(losses.rate(start, best.fun, step, longest), smoothness),
        "gradient_variance": losses.spread(best.x),
        "initial_gap": losses.mean(start) - best.fun,
        "noise_dimension": float(np.trace(dominating)) / smoothness,
    }
    return {name: Constant(float(number), _MEASURED) for name, number in values.items()}


@dataclass(frozen=True)
class _DeviceLosses:
    """The loss of every device and their mean, as functions of theta in float64."""

    train: Batch
    task: LinearModel

    def mean(self, theta: NDArray[np.float64]) -> float:
        """F(theta), the mean over devices of their mean losses."""
        return float(_mean_loss(self.task, jnp.asarray(theta, jnp.float32), self.train))

    def gradients(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each device, shape (M, p)."""
        return np.asarray(_gradients(self.task, jnp.asarray(theta, jnp.float32), self.train), np.float64)

    def gradient(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of F."""
        return self.gradients(theta).mean(axis=0)

    def spread(self, theta: NDArray[np.float64]) -> float:
        """Mean squared distance of a device's gradient from that of F."""
        each = self.gradients(theta)
        return float(np.mean(np.sum(np.square(each - each.mean(axis=0)), axis=1)))

    def dominating(self) -> NDArray[np.float64]:
        """A, the mean over devices of c X^T X/n."""
        curvature = (smoothness_of(self.task) or 1.0) / (self.task.record_norm or 1.0) ** 2
        x = np.asarray(self.train.x, np.float64)
        return curvature * np.mean(
            [rows.T @ rows / n for rows, n in zip(x, self.train.size, strict=True)], axis=0
        )

    def rate(self, theta: NDArray[np.float64], least: float, step: float, steps: int) -> float:
        """lambda of gap = e^(-eta lambda K), after K steps of gradient descent without noise."""
        gap = self.mean(theta) - least
        for _ in range(steps):
            theta = theta - step * self.gradient(theta)
        return float(np.log(gap / (self.mean(theta) - least)) / (step * steps))


@eqx.filter_jit
def _gradients(task: LinearModel, theta: Array, train: Batch) -> Array:
    return jax.vmap(task.gradient, in_axes=(None, 0))(theta, train)


@eqx.filter_jit
def _mean_loss(task: LinearModel, theta: Array, train: Batch) -> Array:
    values = jax.vmap(jax.vmap(LOSSES[task.loss].value))((train.x @ theta)[..., None], train.y)
    return jnp.mean(jnp.sum(values * train.mask, axis=1) / train.size)
