"""What a communication and a local step cost: bytes by counting, seconds by timing on this machine.

Steps are timed on records of zeros in the shape of the study's: nothing about a private record enters. Their
number, which is public, is all that a time depends on.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from platform import machine
from time import perf_counter
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from noiseworthy import _validate as check
from noiseworthy._tables import PerClient
from noiseworthy.errors import ConfigError
from noiseworthy.methods.base import LocalStep
from noiseworthy.methods.local import clip_whole
from noiseworthy.methods.registry import method
from noiseworthy.plans.resources import ResourceUnit
from noiseworthy.privacy.clipping import clip_norm_of
from noiseworthy.studies.clients import Stated, by_name
from noiseworthy.studies.decision import Progress
from noiseworthy.studies.loading import in_line
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.batch import Batch

BYTES_PER_NUMBER = 4
"""Parameters travel as float32, down to a client and up again."""
MOST_SIZES = 8
_FEWEST_REPEATS, _MOST_REPEATS, _ENOUGH_SECONDS = 5, 200, 0.5
_EXAMPLE_ROUNDS = 100
_DIGITS = 4

Step: TypeAlias = Callable[[Array, Batch], Array]
ResourcesKeys: TypeAlias = dict[str, Any]
"""The keys of a `[resources]` table."""


@dataclass(frozen=True)
class TimedStep:
    """One local step on so many records: the median time in seconds of some repeats."""

    records: int
    seconds: float
    repeats: int


@dataclass(frozen=True)
class Costs:
    """What a study's communications and local steps cost.

    Attributes:
        dimension: parameters p.
        records: in a step of each client, shape (N,); None for a study without data.
        timed: steps of some numbers of records, ascending; empty for a study without data.
        machine: what they were timed on.
        clients: names, in order; empty where clients have no names of their own.
        uploaded: numbers in an upload where they are not the parameters: second moments.
    """

    dimension: int
    records: NDArray[np.int64] | None
    timed: tuple[TimedStep, ...]
    machine: str
    clients: tuple[str, ...] = ()
    uploaded: int | None = None

    @property
    def bytes_up(self) -> int:
        """An upload: 4 p, but for second moments."""
        return BYTES_PER_NUMBER * (self.uploaded or self.dimension)

    @property
    def bytes_per_round(self) -> int:
        """The model down to a client, 4 p, and its upload."""
        return BYTES_PER_NUMBER * self.dimension + self.bytes_up

    @property
    def seconds_per_step(self) -> NDArray[np.float64] | None:
        """Of each client, shape (N,); interpolated between the numbers of records that were timed."""
        if self.records is None:
            return None
        seconds = [step.seconds for step in self.timed]
        return np.interp(self.records, [step.records for step in self.timed], seconds)


def measure(prepared: Prepared, on_progress: Progress = lambda done: None) -> Costs:
    """Count the bytes of a communication and time a local step of each client.

    A step is a gradient with the clip of the study's algorithm, over all records or a minibatch: compiled,
    warm, the median of several repeats on records of zeros. Federations with many different sizes are timed
    at `MOST_SIZES` of them, the smallest and the largest included. The sizes take turns, so that whatever
    else the machine does slows them alike.

    Args:
        prepared: a study; without data only its bytes can be counted.
        on_progress: told the share of the work that is done.

    Returns:
        The costs, a function of public sizes and shapes alone.
    """
    if prepared.federation is None:
        return Costs(prepared.dimension, None, (), "")
    records, device = step_records(prepared), jax.devices()[0]
    sizes = np.unique(records)  # at most `MOST_SIZES` of them, evenly chosen with both ends
    some = np.linspace(0, len(sizes) - 1, min(MOST_SIZES, len(sizes))).round().astype(int)
    timed = _timed(prepared, sizes[some].tolist(), on_progress)
    names = prepared.names if prepared.named else ()
    what, numbers = f"{device.device_kind} on {machine()}", _local_step(prepared).numbers
    return Costs(prepared.dimension, records, timed, what, names, numbers)


def step_records(prepared: Prepared) -> NDArray[np.int64]:
    """Records in one local step of each client, shape (N,): all that it holds, or a minibatch.

    DP-PASGD deals minibatches without replacement, so that a client never has more than it holds. Poisson
    batches count as all records, because that is what computing them takes at most.
    """
    return _local_step(prepared).records


def _timed(prepared: Prepared, sizes: list[int], on_progress: Progress) -> tuple[TimedStep, ...]:
    """Steps of each size, compiled and warm, in turns until their times add up or repeats are many."""
    _, task = prepared.trained()
    step, theta = _step(prepared), task.initial(jax.random.key(0))
    batches = [zeros(prepared, size) for size in sizes]
    for done, batch in enumerate(batches):
        jax.block_until_ready((step(theta, batch), batch))
        on_progress((done + 1) / (2 * len(sizes)))
    times = np.array([[_seconds(step, theta, batch) for batch in batches] for _ in range(_FEWEST_REPEATS)])
    more = int(np.clip(_ENOUGH_SECONDS / np.median(times, axis=0).mean(), 0, _MOST_REPEATS))
    for turn in range(more):
        times = np.vstack([times, [_seconds(step, theta, batch) for batch in batches]])
        on_progress(0.5 + 0.5 * (turn + 1) / more)
    on_progress(1.0)
    medians = np.median(times, axis=0).tolist()
    return tuple(TimedStep(size, median, len(times)) for size, median in zip(sizes, medians, strict=True))


def _seconds(step: Step, theta: Array, batch: Batch) -> float:
    began = perf_counter()
    jax.block_until_ready(step(theta, batch))
    return perf_counter() - began


def _local_step(prepared: Prepared) -> LocalStep:
    """What a step of the study's method takes."""
    table = prepared.study.algorithm
    return method(table.name).local_step(prepared.question, table)


def _step(prepared: Prepared) -> Step:
    """A compiled local step: each record's gradient clipped, the batch's, or (mode D) none."""
    _, task = prepared.trained()
    mode, clip = _local_step(prepared).mode, jnp.float32(1.0)
    norm = clip_norm_of(mode, prepared.study.privacy.mechanism)

    def step(theta: Array, batch: Batch) -> Array:
        if mode in ("A", "B", "E"):
            return task.clipped_gradient_sum(theta, batch, clip, norm)
        gradient = task.gradient(theta, batch)
        return clip_whole(gradient, clip, norm) if mode == "C" else gradient

    return jax.jit(step)


def zeros(prepared: Prepared, records: int) -> Batch:
    """So many records of zeros, of the shape and type of the study's and prepared for its model."""
    federation, task = prepared.trained()
    x = jnp.zeros((records, *federation.x.shape[2:]), federation.x.dtype)
    y = jnp.zeros((records, *federation.y.shape[2:]), federation.y.dtype)
    return Batch(task.prepare(x), y, jnp.ones(records))


# Tables to paste --------------------------------------------------------------------------------------


def resource_tables(
    costs: Costs, study: Study, bandwidth: float | None = None, watts: float | None = None
) -> dict[ResourceUnit, ResourcesKeys]:
    """`[resources]` tables by unit, as far as they are known.

    Bytes cost nothing to a step. A communication takes bytes / bandwidth seconds, and energy is watts times
    seconds. The budget is the study's own where that is of the unit, else that of 100 rounds of one step.

    Args:
        costs: from `measure`.
        study: whose budget is kept.
        bandwidth: of a client's connection, in bytes per second; without it a communication has no seconds.
        watts: power of a client that computes or communicates.

    Raises:
        InvalidInput: a bandwidth or watts that are not above 0.
        ConfigError: watts without a bandwidth.

    Example:
        >>> from noiseworthy.studies.loading import parse_study
        >>> study = parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "none"}})
        >>> resource_tables(Costs(250, None, (), ""), study)["bytes"]
        {'cost_per_round': 2000.0, 'cost_per_step': 0.0, 'budget': 200000.0, 'unit': 'bytes'}
    """
    check_rates(bandwidth, watts)
    table = partial(_table, study=study, clients=costs.clients)
    tables: dict[ResourceUnit, ResourcesKeys] = {"bytes": table(float(costs.bytes_per_round), 0.0, "bytes")}
    if bandwidth is None or (computing := costs.seconds_per_step) is None:
        return tables
    sending = costs.bytes_per_round / bandwidth
    tables["seconds"] = table(_rounded(sending), _rounded(computing), "seconds")
    if watts is not None:
        tables["joules"] = table(_rounded(watts * sending), _rounded(watts * computing), "joules")
    return tables


def check_rates(bandwidth: float | None, watts: float | None) -> None:
    """Refuse a bandwidth or watts that are not above 0, and watts without a bandwidth.

    Raises:
        InvalidInput, ConfigError: as said.
    """
    for name, rate in (("--bandwidth", bandwidth), ("--watts", watts)):
        if rate is not None:
            check.positive(name, rate)
    if watts is not None and bandwidth is None:
        raise ConfigError("--watts needs --bandwidth: a communication takes power for as long as it lasts")


def _table(
    per_round: PerClient, per_step: PerClient, unit: ResourceUnit, study: Study, clients: tuple[str, ...]
) -> ResourcesKeys:
    example = float(f"{_EXAMPLE_ROUNDS * (np.max(per_round) + np.max(per_step)):.8g}")
    return {
        "cost_per_round": by_name(per_round, clients),
        "cost_per_step": by_name(per_step, clients),
        "budget": _own_budget(study, unit) or example,
        "unit": unit,
    }


def _own_budget(study: Study, unit: ResourceUnit) -> Stated | None:
    own = study.resources
    return own.budget if own is not None and own.unit == unit else None


def _rounded(value: float | NDArray[np.float64]) -> PerClient:
    """To few digits; one number where all clients have the same."""
    numbers = [float(f"{number:.{_DIGITS}g}") for number in np.atleast_1d(value)]
    return numbers if len(set(numbers)) > 1 else numbers[0]


def as_toml(table: ResourcesKeys, study: Study) -> str:
    """A `[resources]` table as a study file has it.

    Example:
        >>> from noiseworthy.studies.loading import parse_study
        >>> study = parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "none"}})
        >>> print(as_toml(resource_tables(Costs(250, None, (), ""), study)["bytes"], study))
        [resources]
        cost_per_round = 2000.0
        cost_per_step = 0.0
        budget = 200000.0  # 100 rounds of one step; yours to choose
        unit = "bytes"
    """
    remark = "" if _own_budget(study, table["unit"]) else _REMARK
    lines = (f"{key} = {in_line(value)}{remark * (key == 'budget')}" for key, value in table.items())
    return "\n".join(["[resources]", *lines])


_REMARK = f"  # {_EXAMPLE_ROUNDS} rounds of one step; yours to choose"


def as_dict(costs: Costs, tables: dict[ResourceUnit, ResourcesKeys]) -> dict[str, Any]:
    """The answer of `noiseworthy measure --json`."""
    seconds = costs.seconds_per_step
    return {
        "dimension": costs.dimension,
        "bytes_down": costs.bytes_per_round - costs.bytes_up,
        "bytes_up": costs.bytes_up,
        "machine": costs.machine or None,
        "records_per_step": None if costs.records is None else costs.records.tolist(),
        "seconds_per_step": None if seconds is None else seconds.tolist(),
        "timed": [vars(step) for step in costs.timed],
        "resources": tables,
    }
