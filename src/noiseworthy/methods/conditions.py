"""When a clipping mode's proof holds for a task: the tightest is chosen, a false one refused by name."""

from noiseworthy.errors import UnsoundClaim
from noiseworthy.plans.estimation import CURVATURE
from noiseworthy.plans.local_work import LocalSteps
from noiseworthy.privacy.budget import Relation, Row
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.linear import LinearModel


def smoothness_of(task: Task) -> float | None:
    """Public bound on the smoothness of one record's loss, without the ridge, of a linear model.

    R^2 times 1 (squared, hinge), 1/4 (logistic) or 1/2 (softmax), with R its `record_norm`: the Hessian is
    x x^T times the second derivative of the loss in its outputs, and diag(p) - p p^T is at most 1/2. Weights
    multiply it by their largest.

    Returns:
        None of a network, and without `feature_norm`.
    """
    if not isinstance(task, LinearModel) or task.record_norm is None:
        return None
    return largest_weight(task) * CURVATURE[task.loss] * task.record_norm**2


def largest_weight(task: LinearModel) -> float:
    """Public bound on what the loss of a record is multiplied by."""
    return max(task.class_weights or (1.0,)) * (1.0 if task.most_weight is None else task.most_weight)


def missing_convexity(task: Task) -> str:
    """Why modes B and E have no proof for a task, empty if they have one.

    Both rest on theta -> theta - eta grad f(theta) being non-expansive in L2, that is on a convex loss with a
    public smoothness. The clipped gradient of a scalar linear model is the gradient of such a loss; that of
    a model with several outputs is not a gradient at all (docs/theory/fu.md#clipping-modes).
    """
    if not isinstance(task, LinearModel):
        return "the loss of a network is not convex"
    if task.outputs > 1:
        return "clipped gradients of a model with several outputs are not gradients of a convex loss"
    if smoothness_of(task) is None:
        return "no public bound on the smoothness: set [task] feature_norm"
    return ""


def largest_step(task: Task) -> float:
    """2 / (lambda + ridge), up to which a step of modes B and E is non-expansive; 0 without a lambda."""
    smoothness = smoothness_of(task)
    return 0.0 if smoothness is None else 2 / (smoothness + task.ridge)


def check_condition(
    mode: ClippingMode, task: Task, step_size: float, local: LocalSteps, relation: Relation
) -> None:
    """Refuse a mode whose condition a task does not meet.

    Args:
        mode: A to E.
        task: model and loss.
        step_size: the largest step eta of the training.
        local: local steps and batch.
        relation: what neighbours are.

    Raises:
        UnsoundClaim: more than one step in mode A; in modes B and E a loss that is not provably convex and
            smooth, or a step above 2/(lambda + ridge); minibatches outside C and D; in C a step above
            1/ridge, or any ridge under add-remove.

    Source: docs/theory/fu.md#clipping-modes.
    """
    if mode == "A" and local.steps > 1:
        raise UnsoundClaim(
            f"clipping mode A takes one local step, got local_steps = {local.steps}; use mode B, C or D"
        )
    check_mode(mode, task, local.batch_size)
    if mode in ("B", "E") and step_size > largest_step(task):
        raise UnsoundClaim(
            f"clipping mode {mode} needs steps of at most 2/(smoothness + ridge) = {largest_step(task):.4g}, "
            f"got {step_size:.4g}; take smaller steps, or use mode C or D"
        )
    # what two runs differ by is multiplied by 1 - eta ridge in every step, and must not outgrow the sum of
    # steps
    if mode == "C" and step_size * task.ridge > 1:
        raise UnsoundClaim(
            f"clipping mode C needs step_size * ridge of at most 1, got {step_size * task.ridge:g}; "
            "take smaller steps"
        )
    # a client that is left out uploads zero, one that is there moves by the ridge beside its clipped steps
    if mode == "C" and relation == "add-remove" and task.ridge > 0:
        raise UnsoundClaim(
            f"clipping mode C under add-remove neighbours needs a model without ridge, got ridge = "
            f"{task.ridge:g}, which moves whoever takes part beside the clip; set ridge = 0, use mode D, or "
            'relation = "replace-one"'
        )


def check_mode(mode: str, task: Task | None, batch_size: int | None) -> None:
    """Refuse a mode that no step size makes sound, as `check_condition`; a task of None is not looked at."""
    if mode in ("B", "E") and task is not None and (missing := missing_convexity(task)):
        raise UnsoundClaim(f"clipping mode {mode} has no proof here: {missing}; use mode C or D")
    if mode in ("A", "B", "E") and batch_size is not None:
        raise UnsoundClaim(
            f"clipping mode {mode} is proved for full batches, got batch_size = {batch_size}; "
            "leave it out, or use mode C or D"
        )


def tightest_mode(
    task: Task | None, family: Family, batch_size: int | None, row: Row = "record"
) -> tuple[ClippingMode, str]:
    """The mode with the least noise whose proof holds for several local steps of rows, and why.

    A client that takes a single full-batch step is better served by mode A, whatever the model.

    Returns:
        The mode and the reason in words.
    """
    if batch_size is not None:
        return "C", "minibatches have a proof only where the whole batch gradient or update is clipped"
    if task is None:
        return "C", "without a model at hand only a clipped batch gradient is proved"
    if row == "person":
        return "C", "clipped gradients of persons are not gradients of a convex loss"
    if missing := missing_convexity(task):
        return "C", missing
    if law_of(family).norm == "l1":
        return "C", "convex steps are non-expansive in L2, not in L1 (mode E pays sqrt(dimension) for it)"
    return "B", "a scalar linear model with records in a ball is convex and smooth, so 1/n holds in L2"
