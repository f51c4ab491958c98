"""Noised sums: all that leaves an owner is one, or is computed from such alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.grid_mechanism import REACH, GridMechanism
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.uploads import Upload

MARGIN = 1 - 2.0**-18
"""What rows leave of a clip for rounding to float64 and to the grid of uploads."""
_MORE = 1 + 2.0**-10
"""For rounding, and the millionth of noise that grid mechanisms add."""


@dataclass(frozen=True)
class NoisedSum:
    """Rows that are clipped one by one on a grid, added up exactly, and noised.

    Attributes:
        release: what one is accounted for.
        mechanism: clip, grid and noise.
        dimension: coordinates of a row.
        times: how often a job draws one.
        apart: the most that two rows differ by, over the clip: 2, or less by how they are made.
        slack: part of the clip that rows leave free, so that they are no further apart once truncated.

    Example:
        >>> from noiseworthy.privacy.mechanisms import Gaussian
        >>> from noiseworthy.privacy.sensitivity import of_mean_gradient
        >>> release = Release(Gaussian(np.array([0.01])), of_mean_gradient(1.0, [2], "l2"))
        >>> rows = [[3.0, 4.0]], [[0.0, 0.5]]
        >>> upload = NoisedSum.planned(release, 1.0, 2, 2).of(map(np.array, rows))
        >>> upload.divisor, bool(np.abs(upload.values - [0.3, 0.65]).max() < 0.1)
        (2, True)
    """

    release: Release
    mechanism: GridMechanism
    dimension: int
    times: int = 1
    apart: float = 2.0
    slack: float = 0.0

    @classmethod
    def planned(
        cls, release: Release, clip_norm: float, records: int, dimension: int, times: int = 1,
        apart: float = 2.0, slack: float = 0.0,
    ) -> NoisedSum:  # fmt: skip
        """The sum of an accounted release of one client, looked over while nothing is spent.

        Args:
            release: full batches, noise for one client.
            clip_norm: of a row.
            records: n, public; not used where the whole update is the one row.
            dimension, times, apart, slack: as the attributes.

        Raises:
            UnsoundClaim: a release accounted for less than this clip can change.
            InvalidInput: a clip too large or too small beside the noise.
        """
        mechanism = GridMechanism.of(release, 0, clip_norm, records, apart=apart)
        # of no rows, for its refusal of a clip below one step: later it would come after the payment
        clipped_sum(np.zeros((0, 1)), clip_norm, mechanism.norm, mechanism.grid)
        made = cls(release, mechanism, dimension, times, apart, slack)
        if not made.stays_apart(mechanism.grid.spacing):
            raise InvalidInput("the grid is too coarse for these rows; ask for less noise beside the clip")
        return made

    def stays_apart(self, spacing: float) -> bool:
        """Whether rows that are truncated to multiples of `spacing` differ by `apart` clips at most.

        Truncation moves a row by at most sqrt(p) spacing, and makes it no longer: rows that may be as far
        apart as two clips still are no further.
        """
        moved = 2 * np.sqrt(self.dimension) * spacing
        return self.apart >= 2 or bool(moved <= self.slack * self.mechanism.clip_norm)

    def silenced(self) -> RehearsedSum:
        """The same without noise, for zeros in the place of records."""
        return RehearsedSum(**self.plain)

    @property
    def plain(self) -> dict[str, Any]:
        """What makes a noised sum, whatever else an heir has."""
        return {part.name: getattr(self, part.name) for part in fields(NoisedSum)}

    @property
    def reach(self) -> float:
        """The most that a coordinate of an upload can be: all rows at the clip, and 64 sizes of noise.

        Noise passes that with probability below e^-64.
        """
        mechanism, size = self.mechanism, float(self.release.mechanism.size[0])
        return _MORE * (mechanism.clip_norm + REACH * size)

    def drew(self, upload: object, dimension: int | None = None) -> bool:
        """Whether something may be an upload of this sum, as far as public numbers tell.

        Args:
            upload: what an owner says it drew.
            dimension: coordinates of it, where some of the row's stay with the owner.
        """
        mechanism, length = self.mechanism, self.dimension if dimension is None else dimension
        return (
            isinstance(upload, Upload)
            and upload.grid == mechanism.grid
            and upload.divisor == mechanism.records
            and len(upload.steps) == length
            and self.reaches(upload.values)
        )

    def reaches(self, values: NDArray[np.float64]) -> bool:
        """Whether all of some numbers are within `reach`."""
        return bool(np.all(np.abs(values) <= self.reach))

    def of(self, parts: Iterable[NDArray[np.floating]]) -> Upload:
        """The noised sum of rows that come in parts of shape (m, dimension); whole numbers add exactly."""
        return self._upload(self.mechanism.noise.added_to(self._total(parts)))

    def _total(self, parts: Iterable[NDArray[np.floating]]) -> NDArray[np.int64]:
        mechanism, total = self.mechanism, np.zeros(self.dimension, np.int64)
        for rows in parts:
            total += clipped_sum(rows, mechanism.clip_norm, mechanism.norm, mechanism.grid)
        return total

    def _upload(self, steps: NDArray[np.int64]) -> Upload:
        mechanism = self.mechanism
        return Upload(steps, mechanism.grid, mechanism.records, mechanism.noise.assurance)


class RehearsedSum(NoisedSum):
    """A sum that draws no noise, for zeros in the place of records."""

    def of(self, parts: Iterable[NDArray[np.floating]]) -> Upload:
        """The sum of rows that come in parts, as it is: it must not leave."""
        return self._upload(self._total(parts))
