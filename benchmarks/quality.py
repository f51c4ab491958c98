"""How good a plan is: its loss on a federation beside the best of a full grid, under seeds it never saw.

    lost gain = (L_plan - L_best) / (L_untrained - L_best)

the share of what training can gain that the plan throws away: 0 for the best of the grid, below 0 for a plan
that beats it, 1 for a plan that does not train. It reads the private test records without noise, so it
measures planners and is never part of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.data import Federation
from noiseworthy.data.ragged import held
from noiseworthy.engines.shards import Shards
from noiseworthy.engines.simulation import simulate
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.methods.registry import make
from noiseworthy.plans.plan import Plan
from noiseworthy.plans.problem import Problem
from noiseworthy.tasks import LinearModel, Task

SCORING_SEEDS = tuple(range(1000, 1010))
"""Seeds of schedule and noise that no planner uses."""
_TEST_SEED = 0
Statistic = Callable[[NDArray[np.float64]], float]


class Scores(NamedTuple):
    """Test loss and accuracy (R^2 for regression) of one plan under each of S seeds, shapes (S,)."""

    loss: NDArray[np.float64]
    accuracy: NDArray[np.float64]


@dataclass(frozen=True)
class Arena:
    """A federation small enough to train on thousands of times, which keeps the sizes of the whole one.

    Of client i only n_i of its d_i records are held, and each stands for d_i / n_i of them. The noise is that
    of all records.

    Attributes:
        problem: sizes and budgets of the whole federation; its clip is a placeholder.
        task: a linear model.
        shards: the records that are held.
        untrained_loss: test loss of the start.
        untrained_accuracy: its accuracy.
    """

    problem: Problem
    task: LinearModel
    shards: Shards
    untrained_loss: float
    untrained_accuracy: float

    @classmethod
    def of(
        cls,
        federation: Federation,
        task: Task,
        problem: Problem,
        records: ArrayLike = 200,
        test: int = 10_000,
    ) -> Arena:
        """The first records of every client, and a fixed random choice of test records.

        Args:
            federation: the whole of it.
            task: a linear model for its records.
            problem: made for its sizes.
            records: most records of a client to hold, one number or one for each.
            test: most test records to hold.

        Raises:
            InvalidInput: a network, whose gradients do not weigh records.
            DataError: a problem for other sizes.
        """
        if not isinstance(task, LinearModel):
            raise InvalidInput(
                f"an arena needs a linear model, got {type(task).__name__}; take fewer records"
            )
        if not np.array_equal(problem.sizes, federation.sizes):
            raise DataError("the problem was made for other sizes than the federation's; plan its own sizes")
        shards = stand_ins(_fewer_tests(federation, test), task, records)
        nothing = np.zeros(task.dimension, np.float32)
        start = task.score(jnp.asarray(nothing), shards.test_x, shards.test_y)
        return cls(problem, task, shards, float(start.loss), float(start.accuracy))


def stand_ins(federation: Federation, task: LinearModel, records: ArrayLike) -> Shards:
    """At most so many records of each client, each standing for its share of all of them.

    Args:
        federation: the whole of it.
        task: prepares records.
        records: one number or one for each client.

    Returns:
        Shards whose mask is d_i / n_i on the n_i records of client i, so that clipped sums estimate those
        over all d_i records; exact where d_i <= records.

    Example:
        >>> one = Federation.from_clients(
        ...     [([[1.0], [2.0], [3.0]], [0, 1, 0])], test=([[3.0]], [1]), classes=2, name="toy"
        ... )
        >>> stand_ins(one, LinearModel(1, 1, "logistic"), 2).train.mask.tolist()
        [[1.5, 1.5]]
    """
    few = federation.take_records(check.counts("records", records))
    x, y = held([*few.x], [*few.y])  # those that lay end to end may be few enough to stack
    few = replace(few, x=x, y=y)
    shards = Shards.load(few, task)
    weight = jnp.asarray(federation.sizes / few.sizes, jnp.float32)
    train = shards.train._replace(mask=shards.train.mask * weight[:, None])
    return Shards(train, shards.test_x, shards.test_y)


def _fewer_tests(federation: Federation, most: int) -> Federation:
    chosen = np.random.default_rng(_TEST_SEED).permutation(len(federation.test_x))[:most]
    return replace(federation, test_x=federation.test_x[chosen], test_y=federation.test_y[chosen])


def score(arena: Arena, plan: Plan, seeds: Sequence[int] = SCORING_SEEDS) -> Scores:
    """Test loss and accuracy of a plan's last model under each seed; of the start if it does not train.

    Args:
        arena: where to train.
        plan: for the arena's task and sizes.
        seeds: S seeds of schedule and noise.

    Returns:
        Its scores; losses of trainings that diverged are infinite.
    """
    if not plan.train:
        start = (arena.untrained_loss, arena.untrained_accuracy)
        return Scores(*(np.full(len(seeds), value) for value in start))
    algorithms = [make(plan, arena.task, seed) for seed in seeds]
    run = simulate(algorithms, plan.uploads, arena.shards, np.array([plan.rounds]), seeds)
    return Scores(finite(run.final_loss), run.final_accuracy)


def finite(losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Losses with infinity for trainings that diverged."""
    return np.where(np.isnan(losses), np.inf, losses)


# Lost gain --------------------------------------------------------------------------------------------


def lost_gain(loss: ArrayLike, best: float, untrained: float) -> NDArray[np.float64]:
    """(L - L_best) / (L_untrained - L_best): the share of the attainable gain that is thrown away.

    Args:
        loss: L of some plans, any shape.
        best: L_best, of the best setting of a full grid.
        untrained: L_untrained, of the start.

    Returns:
        The shape of `loss`.

    Raises:
        InvalidInput: nothing can be gained, so that no share of it can be lost.

    Example:
        >>> lost_gain([0.5, 0.6, 2.5, 0.4], best=0.5, untrained=2.5).round(3)
        array([ 0.  ,  0.05,  1.  , -0.05])
    """
    if not best < untrained:
        raise InvalidInput(
            f"best must lie below the untrained loss {untrained:.4g}, got {best:.4g}; raise the budget"
        )
    return np.divide(np.asarray(loss, float) - best, untrained - best)


def p90(values: NDArray[np.float64]) -> float:
    """The 90th percentile.

    Example:
        >>> p90(np.arange(11.0))
        9.0
    """
    return float(np.quantile(values, 0.9))


def bootstrap_limit(
    lost: Mapping[str, Sequence[float]], statistic: Statistic, *, level: float = 0.95, draws: int = 10_000
) -> float:
    """Upper confidence limit of a statistic over cells, with federations drawn again and again.

    Cells of one federation share data and partition, so whole federations are drawn with replacement, as
    many as there are, and all cells of each come along.

    Args:
        lost: lost gain of the cells of each federation.
        statistic: of a vector, e.g. `np.mean`, `np.max` or `p90`.
        level: confidence.
        draws: bootstrap samples.

    Returns:
        The `level` quantile of the statistic. Of a maximum it never exceeds the maximum at hand.

    Raises:
        InvalidInput: no federation, or a level outside (0, 1).

    Example:
        >>> bootstrap_limit({"a": [0.01, 0.02], "b": [0.05], "c": [0.0, 0.1]}, np.mean) > 0.036
        True

    Source: Efron & Tibshirani (1993), An Introduction to the Bootstrap, section 8.
    """
    if not lost:
        raise InvalidInput(
            "a bootstrap needs the cells of at least one federation, got none; score some plans"
        )
    if not 0 < level < 1:
        raise InvalidInput(f"level must lie in (0, 1), got {level:g}; 0.95 is usual")
    cells = [np.asarray(values, float) for values in lost.values()]
    chosen = np.random.default_rng(0).integers(0, len(cells), (draws, len(cells)))
    values = [statistic(np.concatenate([cells[i] for i in drawn])) for drawn in chosen]
    return float(np.quantile(values, level))
