"""One upload: every client sends its noised second moments once, and the server solves for the model.

docs/theory/moments.md#algorithm. With q = (x, c r), r = minus the slope of the loss, of numbers at the start
theta_0, of classes at outputs of zero:

    upload_i = (1/n_i) sum_records u(clip(q)) + w_i,       u(q): the upper triangle of q q', less r r'
    A, B     = sum_i a_i E_i[x x'], sum_i a_i E_i[x r'],   a_i = n_i/n, or by precision as the plan weighs
    theta    = tau (h A + s |noise| + ridge)^-1 B,         features centred where there is an intercept

which for a squared loss (tau = h = 1) is ridge regression, added to theta_0, and for classes a step of
Newton's method of length tau / (1 - R^2), with an intercept that keeps the shares of the classes. |noise| is
the spectral norm of the noise in A. All that follows the noise costs no privacy.
"""

from typing import ClassVar

import numpy as np

from noiseworthy._jax import Array, jnp
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.algorithm import NoisedUploads, ServerState
from noiseworthy.methods.eigen import eigh
from noiseworthy.methods.local import Memory, Numbers
from noiseworthy.methods.making import as_float, trainable
from noiseworthy.methods.moments.scale import check_task
from noiseworthy.methods.moments.wire import Layout, asked_of_outputs, size_of
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.clipping import clip_factor, flushed
from noiseworthy.tasks.linear import LinearModel

CURVATURE = {"logistic": 0.25, "hinge": 1.0, "squared": 1.0}
"""h, second derivative of the loss at zero; of a softmax along differences of its K outputs 1/K."""
# 1 - R^2 is divided by, and noise can make it as small as it likes: steps grow to two and a half times.
_TINY, _MOST_EXPLAINED = 1e-6, 0.6


class Moments(NoisedUploads):
    """The numbers of one planned training, whose clip is that of each record's moments.

    Attributes:
        label_weight: c.
        shrinkage: s.
        unscaled: least factor by which the clip scales the moments of a typical record.
        weights: a_i, shape (N,).
        divisors: n_i, shape (N,).
        steps: tau, shape (1,).
    """

    schedules: ClassVar[tuple[str, ...]] = ("steps", "cohorts")
    condensed = False
    """Clipping reads every record."""
    moves_locally = False
    """Clients compute no gradient at all."""

    label_weight: Numbers
    shrinkage: Numbers
    unscaled: Numbers
    weights: Numbers
    divisors: Numbers
    steps: Numbers

    @property
    def linear(self) -> LinearModel:
        """The model."""
        return check_task(self.task)

    @property
    def squares(self) -> bool:
        """Whether the second moment of r is uploaded."""
        return self.linear.loss == "squared"

    @property
    def width(self) -> int:
        """Features of a record, bias included."""
        return self.task.dimension // self.linear.outputs

    @property
    def layout(self) -> Layout:
        """Of an upload."""
        return Layout.of(self.width, self.norm)

    @property
    def numbers(self) -> int:
        """In an upload."""
        return len(self.layout.rows) + self.task.dimension + self.squares

    def init(self, theta: Array) -> ServerState:
        """theta_0; the server keeps the mean moments and theta_0, which standard errors are made of."""
        return super().init(theta)._replace(memory=(jnp.zeros(self.numbers), theta))

    def local_update(
        self, state: ServerState, client: Array, memory: Memory, shard: Batch, key: Array
    ) -> tuple[Array, Memory]:
        """Mean of the clipped second moments of the client's records."""
        x, r = shard.x, asked_of_outputs(self.linear, self.linear.answers(state.theta, shard.x), shard)
        size = size_of(x, r, self.label_weight, self.norm, self.squares, jnp)
        usable = jnp.isfinite(size) & (shard.mask > 0)
        kept = jnp.where(usable, shard.mask * clip_factor(size, jnp.asarray(self.clip_norm)), 0.0)
        # Cut out, not only weighed by 0: 0 times a number that is not finite is NaN.
        x, asked = (jnp.where(usable[:, None], part, 0.0) for part in (x, self.label_weight * r))
        weighed, layout = flushed(x * kept[:, None]), self.layout
        gram = jnp.matmul(weighed.T, x, precision="highest")[layout.rows, layout.columns]
        cross = jnp.matmul(weighed.T, asked, precision="highest").ravel()
        square = jnp.sum(kept[:, None] * asked**2).reshape(1)
        parts = (gram * layout.triangle.astype(np.float32), layout.cross * cross, square)
        return jnp.concatenate(parts[: 2 + self.squares]) / self.divisors[client], memory

    def weight(self, client: Array) -> Array:
        """a_i."""
        return jnp.asarray(self.weights)[client]

    def aggregate(self, state: ServerState, total: Array) -> ServerState:
        """The model that the mean moments say."""
        solved = self.solved(total, self.steps[state.round]).ravel()
        reached = state.theta + solved if self.squares else solved
        return ServerState(reached, state.round + 1, (total, state.theta))

    # The server -----------------------------------------------------------------------------------------

    def unpacked(self, total: Array) -> tuple[Array, Array]:
        """A, shape (w, w), and B, shape (w, K), from an upload or a weighted mean of uploads."""
        layout, triangle = self.layout, len(self.layout.rows)
        half = total[:triangle] / layout.triangle.astype(np.float32)
        gram = jnp.zeros((self.width, self.width)).at[layout.rows, layout.columns].set(half)
        gram = gram + jnp.triu(gram, 1).T
        cross = total[triangle : triangle + self.task.dimension] / (layout.cross * self.label_weight)
        return gram, cross.reshape(self.width, -1)

    @property
    def deviation(self) -> Array:
        """Standard deviation of the noise in an entry of A off the diagonal, c times that of one of B."""
        size = jnp.sqrt(jnp.sum(jnp.square(jnp.asarray(self.weights) * jnp.asarray(self.noise))))
        return size * (law_of(self.family).variance_factor / self.parts) ** 0.5 / self.layout.cross

    def noise_norm(self) -> Array:
        """Spectral norm of the noise in A: 2 sqrt w times the deviation of an entry off the diagonal."""
        return 2 * self.width**0.5 * self.deviation

    def solved(self, total: Array, length: Array) -> Array:
        """theta from the mean moments, shape (w, K)."""
        gram, cross = self.unpacked(total)
        task = self.linear
        curvature = CURVATURE.get(task.loss, 1 / task.outputs)
        ridge = jnp.asarray(self.shrinkage * self.noise_norm() + task.ridge / curvature)
        if not task.bias:
            slopes, explained = self._shrunk(gram, cross, ridge)
            return length / curvature * slopes / _unexplained(task, jnp.zeros(task.outputs), explained)
        # The constant tells by how much the clip scaled records on average, which centring has to divide out;
        # noise may take it beyond what a clip can do, and below 0.
        own = jnp.clip(gram[-1, -1], self.unscaled * task.bias**2, task.bias**2)
        mean, asked = gram[:-1, -1] / own, cross[-1] * task.bias / own
        spread, left = gram[:-1, :-1] - own * jnp.outer(mean, mean), cross[:-1] - mean[:, None] * cross[-1]
        slopes, explained = self._shrunk(spread, left, ridge)
        slopes = length / curvature * slopes / _unexplained(task, asked, explained)
        # Under noise `spread` has a negative part, which only `_shrunk` takes off.
        varies = jnp.maximum(jnp.sum(slopes * jnp.matmul(spread, slopes, precision="highest"), axis=0), 0.0)
        return jnp.concatenate([slopes, (_middle(task, asked, varies) / task.bias - mean @ slopes)[None]])

    def _shrunk(self, gram: Array, cross: Array, ridge: Array) -> tuple[Array, Array]:
        """(A_+ + ridge)^-1 B, A_+ being A without its negative part, which is noise.

        And how much of r it explains, B' (A_+ + ridge)^-1 B less what the noise in B adds to that.
        """
        values, vectors = eigh(gram)
        kept = jnp.maximum(values, 0.0) + ridge
        # float32 knows an eigenvalue to 1e-7 of the largest: without a ridge, as without noise, those of
        # features that determine each other are rounding. 1e-30 is for records that are all zero.
        kept = jnp.maximum(kept, _TINY * jnp.max(jnp.abs(values)) + 1e-30)
        turned = jnp.matmul(vectors.T, cross, precision="highest")
        added = jnp.square(self.deviation / self.label_weight) * jnp.sum(1 / kept) * self.linear.outputs
        slopes = jnp.matmul(vectors, turned / kept[:, None], precision="highest")
        return slopes, jnp.sum(turned**2 / kept[:, None]) - added


def _unexplained(task: LinearModel, asked: Array, explained: Array) -> Array:
    """1 - R^2, by which the step of a classifier is divided: as in linear discriminant analysis.

    Classes with means m_k, shares p_k and one covariance W have logits W^-1 m_k, and those of least squares
    are smaller by 1 - R^2, because the spread between the classes is in A. 1 of numbers and of margins.
    """
    if task.loss in ("squared", "hinge"):
        return jnp.ones(())
    shares = _shares(task, asked)
    share = explained / jnp.sum(shares * (1 - shares))
    return 1 - jnp.clip(share, 0.0, _MOST_EXPLAINED)


def _shares(task: LinearModel, asked: Array) -> Array:
    """Shares of the classes from the mean of r, kept away from 0."""
    count = max(2, task.outputs)
    least = 0.1 / count
    return jnp.clip(asked + 1 / count, least, 1 - least)


def _middle(task: LinearModel, asked: Array, variance: Array) -> Array:
    """Outputs of the mean record, shape (K,): those that keep the shares of classes; else the mean of r.

    An output that varies by v between records is spread by sqrt(1 + pi v / 8) where its sigmoid has a mean
    (docs/theory/bibliography.md#mackay-1992).
    """
    if task.loss in ("squared", "hinge"):
        return asked
    spread, shares = jnp.sqrt(1 + jnp.pi * variance / 8), _shares(task, asked)
    if task.loss == "logistic":
        return spread * jnp.log(shares / (1 - shares))
    return spread * (jnp.log(shares) - jnp.mean(jnp.log(shares)))


def make(plan: Plan, task: Task, seed: int) -> Moments:
    """The algorithm of a plan: all clients in one round, its numbers from the plan alone.

    Args:
        plan: with `train` true, second moments and a step size.
        task: a linear model without class weights, of the dimension that the plan was made for.
        seed: not needed: everybody is asked.

    Raises:
        InvalidInput: a plan that does not train, without second moments, or another task.
    """
    step, problem = trainable(plan, task), plan.problem
    model = check_task(task)
    if plan.moments is None:
        raise InvalidInput("this plan has no second moments; plan it again")
    return Moments(
        task=model, family=problem.family, parts=plan.parts, norm=problem.norm,
        clip_norm=as_float(problem.clip_norm), label_weight=as_float(plan.moments.label_weight),
        shrinkage=as_float(plan.moments.shrinkage), unscaled=as_float(plan.moments.unscaled),
        noise=as_float(plan.noise), weights=as_float(plan.weights), divisors=as_float(problem.sizes),
        steps=as_float(step.at(np.arange(1))), cohorts=np.arange(problem.n_clients, dtype=np.int32)[None],
    )  # fmt: skip
