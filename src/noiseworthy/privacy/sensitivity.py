"""What one record can change in an upload: the single place where 2C/n is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.budget import RELATIONS, Relation, Unit

Norm = Literal["l1", "l2"]
NORMS: tuple[Norm, ...] = ("l1", "l2")
OPPOSITE: dict[Norm, float] = {"l1": 2.0, "l2": 2.0}
"""The most that two vectors of norm 1 are apart,"""
RIGHT_ANGLED: dict[Norm, float] = {"l1": 2.0, "l2": 2**0.5}
"""and second moments, which are at right angles at most."""
ANSWER_LENGTHS: dict[Norm, float] = {"l1": 3.0, "l2": 3**0.5}
"""Norms of three numbers that are each 1 or -1."""


@dataclass(frozen=True)
class Sensitivity:
    """The largest change of one upload between neighbouring data sets, in a stated norm.

    Attributes:
        value: shape (N,), in units of the un-multiplied mean gradient.
        norm: the norm in which `value` holds; Laplace noise needs l1, Gaussian noise l2.
        relation: the neighbouring relation it is proved for.
        unit: whose change it bounds.
        sampling_rate: probability with which a batch takes a record; the divisor it was computed for.
    """

    value: NDArray[np.float64]
    norm: Norm
    relation: Relation
    unit: Unit = "record"
    sampling_rate: float = 1.0


def of_mean_gradient(
    clip_norm: float, sizes: ArrayLike, norm: Norm, relation: Relation = "replace-one",
    sampling_rate: float = 1.0,
) -> Sensitivity:  # fmt: skip
    """Sensitivity of a client's mean of per-record clipped gradients.

    Every record contributes a vector of norm at most C, divided by the fixed public number q n.
    Exchanging a record moves the sum by at most 2C, adding or removing one by at most C:

        replace-one: 2C / n          add-remove: C / (q n)

    Args:
        clip_norm: per-record bound C on the gradient norm, above 0.
        sizes: records n_i of each client, shape (N,).
        norm: the norm in which records are clipped.
        relation: `replace-one` or `add-remove`.
        sampling_rate: probability q with which a Poisson batch takes a record; 1 is the full batch.

    Raises:
        InvalidInput: a clip that is not above 0, a client without records, an unknown norm or relation,
            a sampling rate outside (0, 1].

    Guarantee: holds for every pair of neighbouring data sets because each summand is bounded on its
    own; clipping the batch instead of the records would not give the 1/n.

    Example:
        >>> of_mean_gradient(10.0, [1000, 2000], "l2").value
        array([0.02, 0.01])

    Source: docs/theory/accounting.md#guarantee, docs/theory/zhou.md#algorithm; Zhou et al., section IV (which
        omits the factor 2 for Gaussian noise).
    """
    clip = check.positive("clip_norm", clip_norm, remedy="a clip of 0 would remove every gradient").item()
    records = check.counts("sizes", sizes, remedy="leave a client without records out").astype(float)
    check.one_of("norm", norm, NORMS)
    check.one_of("relation", relation, RELATIONS)
    rate = check.positive("sampling_rate", sampling_rate).item()
    if rate > 1:
        raise InvalidInput(f"sampling_rate must be a probability in (0, 1], got {rate:g}")
    factor = 2.0 if relation == "replace-one" else 1.0
    return Sensitivity(factor * clip / (rate * records), norm, relation, sampling_rate=rate)


def of_moments(
    clip_norm: float, sizes: ArrayLike, norm: Norm, relation: Relation = "replace-one"
) -> Sensitivity:
    """Sensitivity of a client's mean of second moments u(q) of records q, each clipped to C.

    u(q) is the upper triangle of q q'; in L2 its off-diagonals count sqrt 2, so that |u(q)|_2 = |q|_2^2 and
    <u(q), u(t)> = <q, t>^2 >= 0: two of norm C at most differ by sqrt 2 C. L1 has no angles:

        replace-one: sqrt 2 C / n in L2, 2C / n in L1          add-remove: C / n in both

    Args:
        clip_norm: C above 0, on |q|_2^2 in L2 and on the L1 norm of what is uploaded in L1.
        sizes, norm, relation: as `of_mean_gradient`.

    Guarantee: holds for any part of u(q), because leaving coordinates out brings vectors no further apart.

    Example:
        >>> of_moments(1.0, [100], "l2").value.round(6), of_moments(1.0, [100], "l1").value
        (array([0.014142]), array([0.02]))

    Source: docs/theory/moments.md#sensitivity.
    """
    one = of_mean_gradient(clip_norm, sizes, norm, relation)
    return replace(one, value=one.value * (RIGHT_ANGLED[norm] / 2 if relation == "replace-one" else 1.0))


def of_mean_and_class(
    clip_norm: float, of_class: float, sizes: ArrayLike, norm: Norm, relation: Relation = "replace-one"
) -> Sensitivity:
    """Sensitivity of a client's mean of (x, w e_y): records x of norm C at most, with their classes y.

    Two classes are at right angles: of 4 w^2, which opposite ones would be apart in L2, that is half.

        replace-one: 2 sqrt(C^2 + w^2/2) / n in L2, 2 (C + w) / n in L1
        add-remove: sqrt(C^2 + w^2) / n, (C + w) / n

    Args:
        clip_norm: C above 0.
        of_class: w above 0.
        sizes, norm, relation: as `of_mean_gradient`.

    Example:
        >>> of_mean_and_class(1.0, 2**0.5, [10], "l2").value.round(3)
        array([0.283])

    Source: docs/theory/accounting.md#mean-of-records.
    """
    turned = 0.5 if relation == "replace-one" else 1.0
    most = clip_norm + of_class if norm == "l1" else (clip_norm**2 + turned * of_class**2) ** 0.5
    return of_mean_gradient(most, sizes, norm, relation)


def mean_rows(
    x: ArrayLike, labels: ArrayLike, clip_norm: float, of_class: float, classes: int, norm: Norm
) -> NDArray[np.float64]:
    """(clip(x/|x|), w e_y) of every record x of class y, one row each, shape (n, d + K).

    A record that is zero or holds a number that is not finite counts as zero.

    Args:
        x: records, shape (n, ...) with d numbers each.
        labels: their classes 0..K-1, shape (n,).
        clip_norm: C, the most of a record in the norm of the noise once its L2 norm is 1.
        of_class, classes, norm: w, K, and that of the noise.

    Example:
        >>> mean_rows([[3.0, 4.0], [np.nan, 1.0]], [1, 0], 1.0, 0.5, 2, "l2")
        array([[0.6, 0.8, 0. , 0.5],
               [0. , 0. , 0.5, 0. ]])
    """
    rows = np.asarray(x, np.float64)
    rows = rows.reshape(len(rows), -1)
    # NaN and infinity both come through a maximum of magnitudes, so that one test finds either
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    known = np.isfinite(largest) & (largest > 0)
    rows = np.divide(rows, largest, out=np.zeros_like(rows), where=known)  # so that no square overflows
    rows /= np.where(known, np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
    across = np.linalg.norm(rows, 1 if norm == "l1" else 2, axis=1, keepdims=True)
    rows *= clip_norm / np.maximum(across, clip_norm)
    return np.concatenate([rows, of_class * np.eye(classes)[np.asarray(labels, np.int64)]], axis=1)


def of_mean_loss(cap: float, sizes: ArrayLike, norm: Norm, relation: Relation = "replace-one") -> Sensitivity:
    """Sensitivity of a client's mean of per-record losses, each clipped to [0, Theta].

    Exchanging a record moves the sum by at most Theta, and so does adding or removing one:

        Theta / n under either relation

    Args:
        cap: Theta above 0.
        sizes, relation: as `of_mean_gradient`.
        norm: the norm it is stated in; a single number has the same size in both.

    Guarantee: the model at which losses are computed must not depend on the records but through values that
    were released with noise; else the sensitivity is that of the model too
    (docs/theory/ma.md#loss-at-a-noised-model).

    Example:
        >>> of_mean_loss(2.0, [100, 200], "l2").value
        array([0.02, 0.01])

    Source: docs/theory/ma.md#stages; Ma et al., section IV-C.
    """
    # two numbers in [0, Theta] are as far apart as two of norm Theta / 2; one that comes or goes moves a
    # sum by all of Theta, because losses are not centred, so that no relation halves it
    theta = check.positive("loss_cap", cap, remedy="a cap of 0 would remove every loss").item()
    relation = check.one_of("relation", relation, RELATIONS)
    return replace(of_mean_gradient(theta / 2, sizes, norm), relation=relation)


def of_mean_answer(clip_norm: float, sizes: ArrayLike, norm: Norm, *, two_classes: bool) -> Sensitivity:
    """Sensitivity of a client's mean of what its records say of a model, under replace-one neighbours.

    A record says r in [-1, 1] times C, or of two classes (r, c, r c) at norm C with c = 1 or -1, of which
    any two differ in two numbers at most where r is 1 or -1, by two each, and less in between:

        2C / n        two classes: sqrt(8/3) C / n in L2, 4C / (3n) in L1

    Args:
        clip_norm: C above 0.
        sizes, norm: as `of_mean_gradient`.
        two_classes: whether rows are those of two classes.

    Example:
        >>> of_mean_answer(1.0, [100], "l2", two_classes=True).value.round(5)
        array([0.01633])

    Source: docs/theory/accounting.md#scores.
    """
    one = of_mean_gradient(clip_norm, sizes, norm)
    apart = 2 * RIGHT_ANGLED[norm] / ANSWER_LENGTHS[norm] if two_classes else OPPOSITE[norm]
    return replace(one, value=one.value * apart / 2)


def of_clipped_whole(
    clip_norm: float, clients: int, norm: Norm, relation: Relation = "replace-one"
) -> Sensitivity:
    """Sensitivity of an upload that is clipped as a whole, to everything that its client holds.

    Nothing is divided by the number of records, because one record may turn the whole vector:

        replace-one: 2C          add-remove (the client uploads zero): C

    Args:
        clip_norm: bound C on the norm of the upload, or per unit of H = sum of the step sizes on the batch
            gradient of every local step: sum eta_i clip(g_i) has norm at most C H on any path.
        clients: number of clients N.
        norm: the norm of the clip.
        relation: `replace-one` or `add-remove`, of clients.

    Returns:
        A `Sensitivity` of unit `client` with the same value for all.

    Raises:
        InvalidInput: a clip that is not above 0, no client, an unknown norm or relation.

    Guarantee: holds for any two data sets of the client and any local algorithm, minibatches included.

    Example:
        >>> of_clipped_whole(10.0, 3, "l2").value
        array([20., 20., 20.])

    Source: docs/theory/fu.md#clipping-modes (modes C and D), docs/theory/hou.md#sensitivity; Hou et al.,
        Lemma 1 (which omits the factor 2).
    """
    one = of_mean_gradient(clip_norm, np.ones(check.count("clients", clients)), norm, relation)
    return replace(one, unit="client")
