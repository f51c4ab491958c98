"""An upload that is really sent, by a planned release: clip, quantise, sum and noise on a public grid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput, UnsoundClaim
from noiseworthy.privacy.deployed_noise import STEPS, DeployedNoise
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Norm
from noiseworthy.privacy.uploads import LIMIT, Grid, Noise, Upload

REACH = 64
"""Noise passes 64 times its size with probability below e^-64 per coordinate."""
_MORE = 1 + 2.0**-20
"""Noise beyond the planned: a millionth, which pays the grid surcharge."""
_LAST_BITS = 2.0**-41
"""Disagreement of two ways to compute 2C/n that the clip's own margin, 2^-40, covers."""


@dataclass(frozen=True)
class GridMechanism:
    """How one client makes an upload on its grid: clip, quantise, sum, noise.

    Attributes:
        clip_norm: C, of each row.
        norm: of the clip.
        records: rows that are summed at most, and the public divisor of their sum: n_i, or 1 for an update
            that is clipped as a whole.
        grid: public, a power of two.
        noise: in steps of the grid.
    """

    clip_norm: float
    norm: Norm
    records: int
    grid: Grid
    noise: Noise

    @classmethod
    def of(
        cls, release: Release, client: int, clip_norm: float, records: int, scale: float = 1.0,
        apart: float = 2.0,
    ) -> GridMechanism:  # fmt: skip
        """The mechanism of a client by its accounted release, on the finest grid that has room.

        Args:
            release: what the plan accounts for; full batches.
            client: whose.
            clip_norm: C, of a record's gradient or of the whole update.
            records: n_i, public; not used where the unit is the client.
            scale: factor of clip and noise in this round, `Plan.upload_scale`.
            apart: the most that two rows differ by, over the clip: 2, or less by how they are made.

        Raises:
            UnsoundClaim: a release accounted for less than this clip and divisor can change, or Poisson
                batches.
            InvalidInput: a clip so large beside the noise that totals pass 2^53 steps, or no noise.

        Guarantee: the noise on the total, in units of the most that a neighbour changes, is at least that
        of `as_drawn(release)`, a millionth more than planned.
        """
        rows = 1 if release.sensitivity.unit == "client" else records
        _check_covers(release, client, clip_norm, rows, apart)
        clip = clip_norm * check.positive("scale", scale).item()
        size = scale * rows * release.mechanism.size[client]
        size = float(check.positive("noise", size, remedy="plan with gaussian or laplace")) * _MORE
        grid = Grid.finest(rows * clip + REACH * size)
        if size / grid.spacing < STEPS:
            raise InvalidInput(
                f"clipped totals may reach {rows * clip / size:.3g} times the noise, and a grid has room for "
                f"{LIMIT / STEPS / 2:.3g}; clip at less, or release with more noise"
            )
        noise = DeployedNoise(release.mechanism.family, size / grid.spacing)
        return cls(clip, release.sensitivity.norm, rows, grid, noise)

    def upload(self, gradients: ArrayLike) -> Upload:
        """The upload from one gradient per record, shape (n, p), or from one whole update, shape (1, p).

        Raises:
            InvalidInput: more rows than `records`, which the claim does not cover.
        """
        rows = np.atleast_2d(np.asarray(gradients, np.float64))
        if len(rows) > self.records:
            told = f"at most {self.records} rows are covered, got {len(rows)}; nothing was released"
            raise InvalidInput(told)
        total = clipped_sum(rows, self.clip_norm, self.norm, self.grid)
        return Upload(self.noise.added_to(total), self.grid, self.records, self.noise.assurance)


def as_drawn(release: Release) -> Release:
    """A planned release with the noise that grid mechanisms add at least.

    Example:
        >>> from noiseworthy.privacy.mechanisms import Gaussian
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> planned = Release(Gaussian(np.array([0.4])), of_mean_gradient(5.0, [100], "l2"))
        >>> float((as_drawn(planned).mechanism.size / planned.mechanism.size - 1).round(9)[0])
        9.54e-07
    """
    # less what the products of `GridMechanism.of` may lose in their last bits, so that it is never more
    drawn = release.mechanism.size * (_MORE * (1 - 2.0**-50))
    return replace(release, mechanism=release.mechanism.law.noise(drawn))


def _check_covers(release: Release, client: int, clip_norm: float, divisor: int, apart: float) -> None:
    """Refuse an accounted sensitivity below what this clip and divisor can change."""
    if release.sampling_rate < 1:
        raise UnsoundClaim("deployed noise is for full batches; use sampling_rate = 1")
    clip = check.positive("clip_norm", clip_norm).item()
    check.count("records", divisor)
    factor = apart if release.sensitivity.relation == "replace-one" else 1.0
    needed, accounted = factor * clip / divisor, release.sensitivity.value[client]
    if needed > accounted * (1 + _LAST_BITS):
        raise UnsoundClaim(
            f"a {release.sensitivity.unit} may change this upload by {needed:g}, but client {client} is "
            f"accounted for {accounted:g}; plan with the clip and the records that are used"
        )
