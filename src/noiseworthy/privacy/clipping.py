"""What is clipped before noise is added, and what that lets one claim: modes, each with its condition.

A client that takes E local steps uploads Delta = theta_local - theta. With step sizes eta_i and
H = sum of the eta_i in one round, what one change of the data can do to Delta depends on where the clip sits:

    mode  what is clipped                        sensitivity of Delta        needs                      unit
    A     each record's gradient, one step       2 eta zeta / n              E = 1                      record
    B     each record's gradient, every step     2 zeta H / n, L2 only       convexity, eta <= 2/lambda record
    C     the batch gradient, every step         2 zeta H, no 1/n            nothing                    client
    D     the update Delta                       2 zeta                      nothing                    client
    E     as B, measured in L1                   sqrt(p) 2 zeta H / n        as B                       record
    M     each record's second moments           sqrt 2 zeta / n, L1 2/n     one upload                 record

Of persons, all records of one are a row: its gradient is that of the mean of its records' losses, which is
clipped as a whole; n counts persons, and the unit is the person. That is so in modes A, C and D: the clipped
gradient of a mean over several records is not that of a convex loss, as B and E need, and M clips records.

Clipping records does not give 1/n for E > 1 on a general model, because two runs that differ in one record
compute their gradients at different parameters (docs/theory/fu.md#local-sensitivity).
Source: docs/theory/fu.md#clipping-modes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy import _validate as check
from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import Relation, Row, Unit
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.privacy.sensitivity import Norm, Sensitivity, of_clipped_whole, of_mean_gradient, of_moments

GradientMode = Literal["A", "B", "C", "D", "E"]
"""Of gradients and updates; M is of second moments, which need no gradient."""
ClippingMode = Literal["A", "B", "C", "D", "E", "M"]
CLIPPING_MODES: tuple[ClippingMode, ...] = ("A", "B", "C", "D", "E", "M")

WORDS: dict[ClippingMode, str] = {
    "A": "each record's gradient is clipped and the client takes one step",
    "B": "each record's gradient is clipped in every local step of a convex, smooth loss (L2)",
    "C": "the gradient of the client's whole batch is clipped in every local step",
    "D": "the client's whole update is clipped",
    "E": "each record's gradient is clipped in L2 in every local step of a convex, smooth loss, "
    "and its effect is measured in L1",
    "M": "each record's second moments are clipped, and uploaded once",
}
"""A mode in words, for statements and errors."""


def unit_of(mode: ClippingMode, row: Row = "record") -> Unit:
    """Whose change a mode hides: one row of a client, a record or a person, or everything that it holds.

    Example:
        >>> unit_of("B"), unit_of("B", "person"), unit_of("C", "person")
        ('record', 'person', 'client')
    """
    return "client" if mode in ("C", "D") else row


def clip_norm_of(mode: ClippingMode, family: Family) -> Norm:
    """The norm in which a mode clips: L2 for B and E, else the norm that the noise needs."""
    return "l2" if mode == "E" else law_of(family).norm


def of_upload(
    mode: ClippingMode, clip_norm: float, sizes: ArrayLike, dimension: int, family: Family,
    relation: Relation = "replace-one", sampling_rate: float = 1.0, row: Row = "record",
) -> Sensitivity:  # fmt: skip
    """Sensitivity of one upload under a mode, per unit of H for A, B, C and E (the table of this module).

    Args:
        mode: where the clip sits.
        clip_norm: zeta, or C for mode D.
        sizes: rows n_i of each client, shape (N,).
        dimension: number of parameters p.
        family: the noise, which decides the norm.
        relation: `replace-one` or `add-remove`.
        sampling_rate: q of Poisson batches, mode A only.
        row: what sizes count and the clip bounds: records, or persons, whose records are clipped together.

    Returns:
        A `Sensitivity` in the norm of the noise, with the unit of the mode. Scaling noise and update by the
        same step sizes leaves their ratio as it is, so one value serves rounds with different steps.

    Raises:
        UnsoundClaim: a mode without proof for this noise, for Poisson batches or for persons.
        InvalidInput: a clip, a size or a relation out of range.

    Example:
        >>> [float(of_upload(mode, 1.0, [100], 9, "gaussian").value[0]) for mode in ("A", "B", "C", "D")]
        [0.02, 0.02, 2.0, 2.0]
        >>> float(of_upload("E", 1.0, [100], 9, "laplace").value[0])
        0.06

    Source: docs/theory/fu.md#clipping-modes.
    """
    check.one_of("clipping_mode", mode, CLIPPING_MODES)
    _check_noise(mode, family)
    if row == "person":
        _check_bounds_persons(mode)
    if mode != "A" and sampling_rate != 1.0:
        raise UnsoundClaim(f"clipping mode {mode} has no proof for Poisson batches; use sampling_rate = 1")
    norm = clip_norm_of(mode, family)
    if unit_of(mode, row) == "client":
        return of_clipped_whole(clip_norm, len(check.counts("sizes", sizes)), norm, relation)
    if mode == "M":
        return of_moments(clip_norm, sizes, norm, relation)
    one = replace(of_mean_gradient(clip_norm, sizes, norm, relation, sampling_rate), unit=row)
    if mode != "E":
        return one
    # |v|_1 <= sqrt(p) |v|_2, with equality where all coordinates are as large
    return replace(one, value=np.sqrt(dimension) * one.value, norm="l1")


def _check_bounds_persons(mode: ClippingMode) -> None:
    if mode == "M":
        raise UnsoundClaim(
            "second moments are clipped record by record, which bounds no person; take another [algorithm], "
            'or [privacy] unit = "record"'
        )
    if mode in ("B", "E"):
        raise UnsoundClaim(
            f"clipping mode {mode} is proved where clipped gradients are those of a convex loss, and those "
            "of persons with several records are not; use mode A, C or D"
        )


def _check_noise(mode: ClippingMode, family: Family) -> None:
    norm = law_of(family).norm
    if mode == "B" and norm == "l1":
        raise UnsoundClaim(
            f"clipping mode B is proved in L2 only and needs Gaussian noise, got {family}; "
            "use mode E, which pays sqrt(dimension) for L1, or C, or gaussian noise"
        )
    if mode == "E" and norm != "l1":
        raise UnsoundClaim(
            f"clipping mode E turns an L2 sensitivity into L1 for Laplace noise, got {family}; use mode B"
        )
