"""How a plan may have records treated before training: each alone, in public, so that none costs privacy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from noiseworthy.tasks.names import MEAN

_SIDES = (2, 4)
_LEAST_SIDE = 4
"""Images are pooled to no fewer pixels a side."""
_DIRECTIONS = (100, 40, 16)
"""Principal directions of a reference that are tried, where records have half as many more numbers."""
_FEW = 8
"""Of so few numbers the norm says much, whatever is predicted."""
_ROOM = 1.25
"""Norm that records in their public ranges are scaled down to, over the one that their columns suggest."""
_FEATURE_DIRECTIONS = (200, 100, 40)
"""The same where public features are seen, whose directions say more."""
_FREQUENCIES, _BANDWIDTHS = (40, 160), (1.0, 2.0)
"""Random Fourier features that are tried: numbers of them, and bandwidths over the norm of records."""
_LARGEST = 2000
"""Larger images are not seen against others: their principal directions would take longer than trials do."""


@dataclass(frozen=True)
class Treatment:
    """What becomes of a record before training, as keys of `[task]`.

    Attributes:
        pooling: k, blocks of k x k pixels become their sum over k; 1 leaves images alone.
        projection: numbers left by a public projection; None leaves records alone.
        feature_norm: the norm that every record is scaled to.
        normalise: whether records are scaled to it; else only those above it are, so that sizes tell, too.
        reference: names of public data whose mean is subtracted and whose directions a projection keeps.
        features: name of a public map that records are replaced by, or None.
        centred: whether they are seen against their own mean, which all clients tell with noise for a share
            of their budgets (`privacy.means`).
    """

    pooling: int = 1
    projection: int | None = None
    feature_norm: float = 1.0
    reference: tuple[str, ...] = ()
    normalise: bool = True
    features: str | None = None
    centred: bool = False

    def keys(self) -> dict[str, Any]:
        """What it writes into `[task]`."""
        return {
            "normalise": self.normalise,
            "feature_norm": self.feature_norm,
            "pooling": self.pooling,
            "projection": self.projection,
            "reference": [MEAN] if self.centred else [*self.reference] or None,
            "features": self.features,
        }


def treatments(
    record_shape: tuple[int, ...],
    alike: Sequence[str] = (),
    size: float | None = None,
    classes: int | None = None,
) -> list[Treatment]:
    """Preparations worth trying for records of a shape; nearly all scale records to norm 1.

    With one norm the clip and the step mean the same on every data set, so that trials carry over. Of a few
    numbers the norm is a good part of what they say, and numbers to predict grow with it, so that these are
    also tried as public ranges of columns bring them. Pooling
    images, and projecting them, shrinks the L1 norm, which Laplace noise pays for, and the number of
    parameters; of rows a random projection loses more than it saves. What images have in common with public
    ones tells no class from another.

    Args:
        record_shape: of the private records.
        alike: real public data of the same kind. With fewer than two no trial could see public records
            against others, so that none becomes a reference.
        size: norm of a record that its columns suggest; None where they have no public ranges.
        classes: number of classes; None of numbers to predict.

    Example:
        >>> (
        ...     [p.pooling for p in treatments((28, 28))],
        ...     [p.normalise for p in treatments((3,), size=0.9, classes=2)],
        ... )
        ([1, 2, 4], [True, False])
        >>> [p.normalise for p in treatments((100,), size=5.0, classes=2)]
        [True]
        >>> [p.projection for p in treatments((8, 8), ["mnist", "fashion-mnist"]) if p.reference]
        [None, 40, 16]
    """
    plain, features = Treatment(), math.prod(record_shape)
    if len(record_shape) not in (2, 3):
        if size is None or (classes is not None and features > _FEW):
            return [plain]
        return [plain, Treatment(feature_norm=float(f"{_ROOM * size:.2g}"), normalise=False)]
    pooled = [Treatment(k) for k in _SIDES if min(record_shape[:2]) >= k * _LEAST_SIDE]
    if len(alike) < 2 or features > _LARGEST:
        return [plain, *pooled]
    seen = Treatment(reference=tuple(alike))
    few = [replace(seen, projection=count) for count in _DIRECTIONS if 3 * count <= 2 * features]
    return [plain, *pooled, seen, *few]


def curved(size: float | None) -> list[Treatment]:
    """Preparations worth trying with random Fourier features of rows, whose bandwidths follow public sizes.

    Args:
        size: norm of a record that its columns suggest; None where they have no public ranges.

    Example:
        >>> [one.features for one in curved(2.0)][:2]
        ['fourier:40:2:0', 'fourier:40:4:0']
    """
    if size is None:
        return []
    named = [f"fourier:{count}:{factor * size:.2g}:0" for count in _FREQUENCIES for factor in _BANDWIDTHS]
    return [Treatment(features=one) for one in named]


def encoded(name: str, numbers: int, alike: Sequence[str]) -> list[Treatment]:
    """Preparations worth trying with the features of an encoder: as they are, and seen against public ones.

    Args:
        name: of its file.
        numbers: that it gives for a record.
        alike: public images that it takes, whatever their labels; none of rows.

    Example:
        >>> [(one.reference, one.projection) for one in encoded("e.onnx", 64, ["scenes"])]
        [((), None), (('scenes',), None), (('scenes',), 40)]
    """
    plain = Treatment(features=name)
    seen = replace(plain, reference=tuple(alike))
    few = [replace(seen, projection=count) for count in _FEATURE_DIRECTIONS if 3 * count <= 2 * numbers]
    whole = [plain, seen] if numbers <= _LARGEST or not (alike and few) else []
    return [*whole, *few] if alike else [plain]


def featured(alike: Sequence[str]) -> list[Treatment]:
    """Preparations worth trying with public features of images: all seen along directions of public ones.

    Args:
        alike: public images, whatever their labels.

    Example:
        >>> [(one.features, one.projection) for one in featured(["digits", "scenes"])]
        [('scattering', 200), ('scattering', 100), ('scattering', 40)]
    """
    seen = Treatment(reference=tuple(alike), features="scattering")
    return [replace(seen, projection=count) for count in _FEATURE_DIRECTIONS]
