"""Second moments at owners: one noised sum of the upper triangles of products of q = (x, c r).

r is minus the slope of the loss: what the label asks of the outputs. Nothing of it is larger than the clip,
whatever a record or model holds: q is scaled until its moments have norm C (docs/theory/moments.md#release).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import Array, jnp
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.rows import RowSum, noise_of
from noiseworthy.methods.wire import Asked, Job, Size, Vector, Wire, Work
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import RIGHT_ANGLED, Norm, of_moments
from noiseworthy.privacy.sums import MARGIN, NoisedSum
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.linear import LinearModel

if TYPE_CHECKING:
    from noiseworthy.plans.plan import Plan
    from noiseworthy.tasks.base import Task


class MomentsWork(Work):
    """The mean of second moments of records and what their labels ask."""

    name: Literal["moments"] = "moments"
    label_weight: Size


class Layout(NamedTuple):
    """Places and scales of an upload: the upper triangle of x x', then x (c r)', then c^2 |r|^2 if wanted.

    What is off the diagonal of q q' counts sqrt 2 in L2, so that norms are those of the matrix.
    """

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    triangle: Real
    cross: float

    @classmethod
    def of(cls, width: int, norm: Norm) -> Layout:
        """The layout for records of so many features, bias included."""
        rows, columns = np.triu_indices(width)
        twice = 2**0.5 if norm == "l2" else 1.0
        return cls(rows, columns, np.where(rows == columns, 1.0, twice), twice)


def asked_of_outputs(task: LinearModel, outputs: Array, batch: Batch) -> Array:
    """r of every record, shape (n, K): minus the slope of its loss, of classes at outputs of zero."""
    # Numbers shrink to what a start leaves of them, and their noise with them. Classes do not: at the shares
    # of the classes a rare one would be larger than at zero, and the clip would cut it.
    at = outputs if task.loss == "squared" else jnp.zeros((len(batch.x), task.outputs), jnp.float32)
    return -task.slopes(at, batch.x, batch.y)


def size_of(x: Any, r: Any, label_weight: Any, norm: Norm, squares: bool, where: Any) -> Any:
    """What is clipped of every record, shape (n,): |q|_2^2, or the L1 norm of what is uploaded.

    Of features x (n, w) and what labels ask r (n, K), with or without the `squares` of r, by a numpy.
    """
    features, labels = where.sum(x * x, axis=1), label_weight**2 * where.sum(r * r, axis=1)
    if norm == "l2":
        return features + labels
    across, asked = where.sum(where.abs(x), axis=1), label_weight * where.sum(where.abs(r), axis=1)
    # sum |x_i x_j| over i <= j, without its w^2/2 products
    return (across * across + features) / 2 + across * asked + (labels if squares else 0.0)


def moment_rows(x: Real, r: Real, label_weight: float, norm: Norm, squares: bool, clip_norm: float) -> Real:
    """The clipped moments of every record, one row each, shape (n, u); zeros of a record that is not finite.

    Guarantee: a row is that of some q with |q|_2^2 <= C (1 - 2^-18) in L2, but for less than 2^-40 C.
    """
    layout = Layout.of(x.shape[1], norm)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        size = size_of(x, r, label_weight, norm, squares, np)
        usable = np.isfinite(size)[:, None]
        # A record shrinks as a whole, by a root because its moments are quadratic. Blocks of a row clipped
        # apart would be no moments of any q: two rows could be at an obtuse angle, more than sqrt 2 C apart.
        shrunk = np.sqrt(np.minimum(1.0, clip_norm * MARGIN / size))[:, None]
        x, r = (np.where(usable, shrunk * part, 0.0) for part in (x, r))
    asked = label_weight * r
    parts = [
        x[:, layout.rows] * x[:, layout.columns] * layout.triangle,
        layout.cross * (x[:, :, None] * asked[:, None, :]).reshape(len(x), -1),
    ]
    return np.concatenate([*parts, np.sum(asked * asked, axis=1, keepdims=True)][: 2 + squares], axis=1)


def rows_of(task: Task, theta: Vector, batch: Batch, weight: float, clip_norm: float, norm: Norm) -> Real:
    """The clipped moments of every record at a model, shape (n, u)."""
    model = _linear(task)
    x = np.asarray(batch.x, np.float64)
    # Sums of rows, not a product over all records, which may round one by how many others there are.
    outputs = [np.sum(x * one, axis=1) for one in theta.reshape(-1, model.outputs).T]
    asked = asked_of_outputs(model, jnp.asarray(np.stack(outputs, axis=1), jnp.float32), batch)
    return moment_rows(x, np.asarray(asked, np.float64), weight, norm, model.loss == "squared", clip_norm)


def _linear(task: Task) -> LinearModel:
    if not isinstance(task, LinearModel) or task.weighted:
        raise InvalidInput("moments are uploaded for linear models without weights alone")
    return task


def _work(plan: Plan, client: int, t: int) -> MomentsWork:
    if plan.moments is None:
        raise InvalidInput("this plan has no second moments; plan it again")
    return MomentsWork(label_weight=plan.moments.label_weight)


def _job(request: Asked, work: MomentsWork, task: Task, records: int) -> Job:
    model, noise = _linear(task), noise_of(request, request.noise)
    width = task.dimension // model.outputs
    numbers = width * (width + 1) // 2 + task.dimension + (model.loss == "squared")
    release = Release(noise, of_moments(request.clip_norm, [records], noise.norm))
    # Rows at right angles need not stay so once they are truncated to the grid: what `MARGIN` leaves free
    # makes up for it.
    total = NoisedSum.planned(
        release, request.clip_norm, records, numbers, apart=RIGHT_ANGLED[noise.norm], slack=1 - MARGIN
    )
    clip, norm, c = total.mechanism.clip_norm, noise.norm, work.label_weight
    return RowSum(task, request.theta, total, lambda few: rows_of(task, request.theta, few, c, clip, norm))


WIRE = Wire(table=MomentsWork, work=_work, job=_job)
