"""Least-squares coefficients with errors that count the noise (docs/theory/moments.md#standard-errors).

    theta = A^-1 B less its first bias, and theta_0,    Var(theta) = A^-1 (V_noise + V_records) A^-1
    V_noise = v (|t|^2 I + t t') + v_B I, t = theta - theta_0,    V_records = sigma^2 A sum_i a_i^2 / n_i

v and v_B are the known variances of the noise in an entry of A off its diagonal and in one of B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.moments.wire import Layout
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.sensitivity import Norm

_LEAST = 2.0
"""Smallest eigenvalue of A over the norm of its noise, below which A says too little to be inverted."""


@dataclass(frozen=True)
class Estimates:
    """Coefficients of a least-squares regression.

    Attributes:
        coefficients: without a ridge, the constant's last where records have one, shape (w,).
        covariance: of the noise, and of the records as a sample, shape (w, w).
        covariance_of_noise: the part that is the noise's alone, shape (w, w).
        residual: standard deviation of what the model leaves of a label.
    """

    coefficients: Real
    covariance: Real
    covariance_of_noise: Real
    residual: float

    @property
    def errors(self) -> Real:
        """Standard errors, shape (w,)."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def errors_of_noise(self) -> Real:
        """What they would be if every record there is were held, shape (w,)."""
        return np.sqrt(np.diag(self.covariance_of_noise))

    def seen_through(self, matrix: Real) -> Estimates:
        """Linear functions of the coefficients, such as those in other units: a row for each."""
        both, alone = (matrix @ one @ matrix.T for one in (self.covariance, self.covariance_of_noise))
        return Estimates(matrix @ self.coefficients, both, alone, self.residual)

    def interval(self, confidence: float = 0.95) -> Real:
        """Ends of the intervals that hold the coefficients with such a confidence, shape (w, 2)."""
        level = check.in_unit_interval("confidence", confidence, closed_left=False).item()
        reach = ndtri((1 + level) / 2) * self.errors
        return np.column_stack([self.coefficients - reach, self.coefficients + reach])


def estimates(
    plan: Plan,
    mean: Real,
    start: ArrayLike = 0.0,
    uploads: ArrayLike = 1,
    places: NDArray[np.int64] | None = None,
) -> Estimates:
    """Coefficients from the weighted mean of what clients uploaded.

    Args:
        plan: of one upload of a regression.
        mean: of the noised moments, weighted as the plan says, shape (u,).
        start: theta_0 that labels are seen from, shape (w,), 0 but for the constant.
        uploads: of each client, 0 of those whose upload is not in the mean and whose weight others have.
        places: of the features to regress on, k of them in the place of w; None takes all.

    Raises:
        InvalidInput: no plan of a regression by moments, another number of moments, or noise that hides
            the smallest eigenvalue of A.

    Guarantee: post-processing of noised uploads; it costs no privacy. Errors are those of large samples and
    of noise that is small beside A, of which the first bias is taken out.
    """
    if plan.moments is None or not plan.moments.squares or plan.release is None:
        raise InvalidInput(
            'standard errors are of regressions by one upload; use algorithm = "moments", model = "linear"'
        )
    if len(mean) != plan.numbers:
        raise InvalidInput(f"the plan has {plan.numbers} moments of a client, got {len(mean)}")
    width, weight = plan.problem.dimension, plan.moments.label_weight
    gram, cross, square = unpacked(mean, width, weight, plan.problem.norm)
    factor = 2.0 if plan.problem.norm == "l2" else 1.0  # off the diagonal moments are sent times its root
    there = plan.weights * np.asarray(uploads)
    weights = there * np.sum(plan.weights) / np.sum(there)
    size = plan.variance_factor * np.sum(np.square(weights * plan.noise))
    of_gram, of_cross = size / factor, size / (factor * weight**2)
    if places is not None:
        gram, cross, width = gram[np.ix_(places, places)], cross[places], len(places)
    _check_told(gram, 2 * np.sqrt(width * of_gram))
    inverse = np.linalg.inv(gram)
    raw = inverse @ cross
    # E[N M N] = v (tr(M) I + M) for noise N with variance 2v on its diagonal; in L1 that is v, and M goes in
    # without its own.
    across = inverse - (0 if factor == 2 else np.diag(np.diag(inverse)))
    theta = raw - of_gram * inverse @ (np.trace(inverse) * raw + across @ raw)
    outer = np.outer(theta, theta) - (0 if factor == 2 else np.diag(theta**2))
    noise = of_gram * (theta @ theta * np.eye(width) + outer) + of_cross * np.eye(width)
    left = max(square - 2 * theta @ cross + theta @ gram @ theta, 0.0)
    records = left * gram * np.sum(np.square(weights) / plan.problem.sizes)
    both, alone = (inverse @ part @ inverse for part in (noise + records, noise))
    from_zero = np.broadcast_to(start, plan.problem.dimension)
    theta = theta + (from_zero if places is None else from_zero[places])
    return Estimates(theta, both, alone, float(np.sqrt(left)))


def unpacked(mean: Real, width: int, label_weight: float, norm: Norm) -> tuple[Real, Real, float]:
    """A (w, w), B (w,) and the mean square of r, from the moments of a regression."""
    layout = Layout.of(width, norm)
    terms = len(layout.rows)
    gram = np.zeros((width, width))
    gram[layout.rows, layout.columns] = mean[:terms] / layout.triangle
    gram += np.triu(gram, 1).T
    cross = mean[terms : terms + width] / (layout.cross * label_weight)
    return gram, cross, float(mean[-1]) / label_weight**2


def _check_told(gram: Real, noise: float) -> None:
    values = np.linalg.eigvalsh(gram)
    # Simulated moments are float32: without noise, what rounding leaves of a zero passes for an eigenvalue.
    least, noise = float(values[0]), max(noise, float(np.finfo(np.float32).eps * values[-1]))
    if least <= _LEAST * noise:
        raise InvalidInput(
            "the noise hides what tells the features apart: the smallest eigenvalue of their moments is "
            f"{least:.3g}, the noise {noise:.3g}; leave out features that others determine, or raise epsilon"
        )
