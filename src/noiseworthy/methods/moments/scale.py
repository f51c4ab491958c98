"""How large records are, the label weight that shares the noise out best, and the plan of one upload.

The noise of an upload grows with its clip C. With |x| <= R and |r| about b, C = R^2 + c^2 b^2 in L2, and
what noise there is in the solution of norm t has variance

    (R^2 + c^2 b^2)^2 (t^2 + 1/c^2),    least at c = R / (sqrt 2 b) where the outputs t R are as large as b

(docs/theory/moments.md#label-weight, also for L1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from noiseworthy.errors import InvalidInput
from noiseworthy.plans.moments import SecondMoments
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.means import SPREAD
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel

MOST_FEATURES = 1000
"""Of a record: half a million numbers in an upload."""
# Below the first one upload is level at best on the tables of docs/one_upload.md#against-many-uploads; beyond
# the second gradients get somewhere, whatever the noise.
_TELLING, _FEW_UPLOADS = 5.0, 8
CITATION = (
    "Noised second moments, solved once; Wang, revisiting differentially private linear regression, 2018; "
    "docs/theory/moments.md"
)


def worth_a_trial(problem: Problem, width: int) -> bool:
    """Whether one upload may do as well as many: `[resources]` pay for few, or there is little noise in x x'.

    The latter where n epsilon / sqrt N >= 5 w^2, in L2 alone: noise in L1 grows so fast with the uploads that
    plans of many have few of them, too.
    """
    known = np.median(problem.budget.epsilon) * problem.sizes.sum() / problem.n_clients**0.5
    clear = problem.norm == "l2" and known >= _TELLING * width**2
    return bool(clear or problem.most_uploads() < _FEW_UPLOADS)


@dataclass(frozen=True)
class RecordScale:
    """How large records are, from public bounds.

    Attributes:
        norm: of the clip.
        width: features w of a record, bias included.
        radius: R, the largest L2 norm of x.
        across: typical L1 norm of x.
        asked: typical L2 norm of r.
        asked_across: its L1 norm.
    """

    norm: Norm
    width: int
    radius: float
    across: float
    asked: float
    asked_across: float

    @classmethod
    def of(cls, task: Task, norm: Norm, label_scale: float | None) -> RecordScale:
        """That of a model.

        Args:
            task: a linear model.
            norm: of the clip.
            label_scale: typical size of what a regression predicts; classes need none.

        Raises:
            InvalidInput: another model, records of no known norm, or labels of no known size.
        """
        model = check_task(task)
        if model.record_norm is None:
            raise InvalidInput(
                "moments needs a public bound on the norm of records; set [task] feature_norm, and "
                "normalise = true to scale every record to it"
            )
        width = model.dimension // model.outputs
        # An L1 norm is never below the L2 norm, which the typical spread of one or two features would be.
        across = max(model.record_norm, SPREAD * width**0.5 * model.record_norm)
        return cls(norm, width, model.record_norm, across, *_asked(model, label_scale))

    @property
    def label_weight(self) -> float:
        """c that leaves least noise in the solution."""
        if self.norm == "l2":
            return self.radius / (2**0.5 * self.asked)
        alone = (self.across**2 + self.radius**2) / 2
        return (alone * self.radius**2 / (self.across * self.asked_across * self.asked**2)) ** (1 / 3)

    def clip(self, label_weight: float) -> float:
        """C that changes no typical record: in L2 none with labels of this size."""
        return self._size(label_weight, self.across)

    def unscaled(self, label_weight: float, clip_norm: float) -> float:
        """Least factor by which a clip scales the moments of a record with a label of this size."""
        # The largest L1 norm of that radius, not a typical one: the server takes this for a lower bound.
        return min(1.0, clip_norm / self._size(label_weight, self.radius * self.width**0.5))

    def _size(self, label_weight: float, across: float) -> float:
        if self.norm == "l2":
            return self.radius**2 + (label_weight * self.asked) ** 2
        return (across**2 + self.radius**2) / 2 + label_weight * across * self.asked_across


def _asked(model: LinearModel, label_scale: float | None) -> tuple[float, float]:
    """Typical L2 and L1 norms of r."""
    if model.loss == "softmax":
        rest = 1 - 1 / model.outputs
        return rest**0.5, 2 * rest
    if model.loss == "squared":
        if label_scale is None:
            raise InvalidInput(
                "the labels of a regression have no known size; state [algorithm] label_weight, about the "
                "norm of a record over the size of a label"
            )
        return label_scale, label_scale
    size = 0.5 if model.loss == "logistic" else 1.0
    return size, size


def stated(
    problem: Problem, task: Task, scale: RecordScale, step: StepSize, shrinkage: float, label_weight: float,
    weighting: float = 0.0,
) -> Plan:  # fmt: skip
    """One upload of every client, with the noise that it needs.

    Args:
        problem: its clip C is of second moments, whatever its clipping mode.
        task: what is trained.
        scale: how large its records are.
        step: tau; 1 is the solution of a least-squares problem.
        shrinkage: ridge in spectral norms of the noise.
        label_weight: c.
        weighting: how far uploads are weighted by their precision.

    Raises:
        InvalidInput: another model than a linear one, or resources that pay for no upload.
        UnsoundClaim: Poisson batches.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.array([100, 100]), 3, PrivacyBudget.of(1.0, 0.0, 2), "laplace", 1.0)
        >>> task = LinearModel(3, 1, "squared", feature_norm=1.0)
        >>> made = stated(problem, task, RecordScale.of(task, "l1", 1.0), StepSize(1.0), 1.0, 0.5)
        >>> made.noise, made.numbers  # 2 C / (n epsilon) on each of 6 + 3 + 1 numbers
        (array([0.02, 0.02]), 10)
    """
    model, problem = check_task(task), problem.clipped_as("M")
    if problem.most_uploads() < 1:
        raise InvalidInput("[resources] budget pays for no upload of some client; raise it")
    n, once = problem.n_clients, np.ones(problem.n_clients, np.int64)
    unscaled = scale.unscaled(label_weight, problem.clip_norm)
    moments = SecondMoments(model.outputs, model.loss == "squared", label_weight, shrinkage, unscaled)
    return Plan(
        "moments", CITATION, problem, 1, n, once, problem.release(once), None, {},
        f"Train on one upload of each of {n} clients, as stated.",
        step=step, moments=moments,
    ).weighed(weighting)  # fmt: skip


def check_task(task: Task) -> LinearModel:
    """The linear model that moments say enough of.

    Raises:
        InvalidInput: another model, class weights, or more features than an upload has room for.
    """
    if not isinstance(task, LinearModel):
        raise InvalidInput(
            'moments solves linear models; set [task] model = "softmax", "logistic", "svm" or "linear", or '
            "use another algorithm"
        )
    if task.weighted:
        raise InvalidInput(
            "moments knows nothing of weights of classes and records; leave them out or use another algorithm"
        )
    width = task.dimension // task.outputs
    if width > MOST_FEATURES:
        raise InvalidInput(
            f"moments uploads w (w + 1) / 2 numbers of records with w features, at most {MOST_FEATURES}, got "
            f"{width}; set [task] projection or pooling, or use another algorithm"
        )
    return task
