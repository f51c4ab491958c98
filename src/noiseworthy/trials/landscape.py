"""Short trainings on public proxies with the noise of the private federation, many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy._keys import schedule_generator
from noiseworthy.algorithms.fedsgd_dpc import FedSGDDPC
from noiseworthy.algorithms.selection import reshuffled_round_robin
from noiseworthy.engines.simulation import simulate
from noiseworthy.planning.plan import StepSize
from noiseworthy.planning.replies_bound import uploads
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Batch
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.proxies import Proxy


class Setting(NamedTuple):
    """What a trial may choose besides the counts: step sizes and per-record clip."""

    step: StepSize
    clip_norm: float


class GradientScale(NamedTuple):
    """Typical per-record gradient norms at the start, from public records: in the clip's norm, and L2."""

    clip: float
    l2: float


def gradient_scale(proxies: Sequence[Proxy], norm: Norm) -> GradientScale:
    """Geometric mean over proxies of the mean per-record gradient norm at theta_0."""
    scales = [(_mean_norm(proxy, norm), _mean_norm(proxy, "l2")) for proxy in proxies]
    return GradientScale(*np.exp(np.mean(np.log(scales), axis=0)).tolist())


def _mean_norm(proxy: Proxy, norm: Norm) -> float:
    train, theta = proxy.shards.of(0), proxy.task.initial(jax.random.key(0))
    few = min(64, len(train.x))

    def size(x: Array, y: Array) -> Array:
        one = Batch(x[None], y[None], jnp.ones(1))
        gradient = proxy.task.clipped_gradient_sum(theta, one, jnp.float32(1e9), norm)
        return jnp.sum(jnp.abs(gradient)) if norm == "l1" else jnp.linalg.norm(gradient)

    sizes = jax.lax.map(lambda record: size(*record), (train.x[:few], train.y[:few]))
    return float(jnp.mean(sizes))


def trial_losses(
    facts: PublicFacts,
    proxy: Proxy,
    rounds: int,
    cohort: int,
    settings: Sequence[Setting],
    seeds: Sequence[int],
    horizon: int,
) -> NDArray[np.float64]:
    """Final test loss of each setting under each seed, as a share of the untrained loss.

    Runs FedSGD-DPC on the proxy. Clients of the proxy are equal, and their noise is such that one
    aggregate carries the noise that it would carry in the private federation (theory 0.7), whatever its
    sizes and budgets.

    Args:
        facts: the private federation's public facts.
        proxy: where to train.
        rounds: T.
        cohort: clients of the proxy per round.
        settings: S settings to try.
        seeds: R seeds of schedule and noise.
        horizon: arrays are padded to it, so that all T share a compiled program.

    Returns:
        shape (S, R); infinite where training diverged.
    """
    planned = int(uploads(rounds, cohort, proxy.clients))
    unit_noise = _unit_noise(facts, proxy, planned)
    schedules = [_schedule(proxy.clients, cohort, rounds, seed, horizon) for seed in seeds]
    algorithms = [
        _trial(facts, proxy, setting, unit_noise, rounds, schedule)
        for setting in settings
        for schedule in schedules
    ]
    counts = np.full(proxy.clients, planned)
    every = [seed for _ in settings for seed in seeds]
    run = simulate(algorithms, counts, proxy.shards, np.array([rounds]), every)
    losses = run.final_loss.reshape(len(settings), len(seeds)) / proxy.untrained_loss
    return np.where(np.isfinite(losses), losses, np.inf)


def _schedule(clients: int, cohort: int, rounds: int, seed: int, horizon: int) -> NDArray[np.int32]:
    """A round robin padded to the horizon."""
    cohorts = reshuffled_round_robin(clients, cohort, rounds, schedule_generator(seed))
    return np.pad(cohorts, ((0, horizon - rounds), (0, 0)))


def _unit_noise(facts: PublicFacts, proxy: Proxy, planned: int) -> float:
    """Noise size per client and coordinate for clip 1, the same for all clients of the proxy."""
    problem = replace(facts.problem, clip_norm=1.0)
    total = float(problem.weighted_noise(np.array([planned]))[0]) / problem.dimension
    variance = proxy.clients * total
    return float(np.sqrt(variance / 2 if problem.family == "laplace" else variance))


def _trial(
    facts: PublicFacts,
    proxy: Proxy,
    setting: Setting,
    unit_noise: float,
    rounds: int,
    schedule: NDArray[np.int32],
) -> FedSGDDPC:
    n, (horizon, cohort) = proxy.clients, schedule.shape
    steps = np.pad(setting.step.at(np.arange(rounds)), (0, horizon - rounds))
    return FedSGDDPC(
        task=proxy.task,
        family=facts.problem.family,
        norm=facts.problem.norm,
        sampled=False,
        clip_norm=np.asarray(setting.clip_norm, np.float32),
        noise=np.full(n, setting.clip_norm * unit_noise, np.float32),
        weights=np.full(n, 1 / cohort, np.float32),
        divisors=proxy.sizes,
        sampling_rate=np.ones((), np.float32),
        steps=steps.astype(np.float32),
        momentum=np.zeros((), np.float32),
        cohorts=schedule,
    )
