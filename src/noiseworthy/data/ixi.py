"""Fed-IXI: where is the brain? T1-weighted scans from three hospitals in London, with one mask each.

A folder holds one folder per subject, at any depth, as the IXI Tiny archive of FLamby unpacks:

    IXI002-Guys-0828/T1/IXI002-Guys-0828_image.nii.gz
    IXI002-Guys-0828/label/IXI002-Guys-0828_label.nii.gz

Source: du Terrail et al. (2022), "FLamby", arXiv:2210.04620 (Fed-IXI); Perez-Garcia et al. (2021), "TorchIO"
(IXI Tiny, 566 subjects); the IXI data set, https://brain-development.org/ixi-dataset/, CC BY-SA 3.0.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from noiseworthy._validate import count, non_negative
from noiseworthy.data.frames import needed
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.errors import DataError, InvalidInput

SHAPE = (48, 60, 48)
CENTRES = ("Guys", "HH", "IOP")
TEST_SUBJECTS = frozenset((
    2, 12, 15, 17, 24, 27, 34, 36, 49, 54, 58, 63, 65, 75, 97, 106, 107, 111, 112, 116, 118, 120, 121, 127,
    129, 135, 141, 145, 148, 151, 153, 161, 185, 189, 194, 201, 211, 214, 218, 229, 231, 238, 240, 248, 254,
    256, 264, 269, 270, 279, 282, 289, 291, 293, 294, 310, 313, 314, 319, 327, 328, 329, 336, 337, 362, 364,
    369, 383, 388, 398, 401, 402, 406, 408, 415, 420, 428, 430, 437, 444, 451, 456, 461, 470, 479, 485, 492,
    496, 499, 502, 503, 504, 511, 518, 519, 523, 524, 543, 547, 571, 585, 586, 589, 594, 595, 598, 607, 612,
    626, 633, 634, 635, 648,
))  # fmt: skip
"""Numbers of the test subjects in FLamby's split, 62 + 36 + 15 of 311 + 181 + 74; all others train."""
# averages of ones are differences of running sums, which round
_ROUNDING = 1e-6


def read_ixi(folder: Path) -> Records:
    """Scans and brain masks of 48x60x48 voxels; the hospitals Guys, HH and IOP are the owners.

    Prepared as in FLamby. Scan and mask are resized by adaptive averaging: voxel i of m along an axis is the
    mean of voxels floor(i n / m) to ceil((i + 1) n / m) - 1 of n. A scan is then standardised by its own mean
    and deviation, which reads no other record; a voxel belongs to the mask where its average is 1, so masks
    lose the voxels at their edge. Train and test are FLamby's (`TEST_SUBJECTS`).

    Args:
        folder: of the subjects, as the module describes. Read through the optional package nibabel.

    Returns:
        Records with x (n, 48, 60, 48) float32, y of the same shape in {0, 1}, in the order of the subjects.

    Raises:
        DataError: no package nibabel, no subjects, another hospital, a scan without its mask, damaged files,
            volumes of other axes, or masks of other values.
    """
    nibabel = needed("nibabel", "imaging", "a source ixi:FOLDER")
    scans = sorted(folder.glob("**/IXI*/T1/*.nii.gz"), key=lambda path: path.parent.parent.name)
    if not scans:
        raise DataError(f"no scans IXI*/T1/*.nii.gz in {folder}; unpack the IXI Tiny archive of FLamby there")
    subjects = [scan.parent.parent for scan in scans]
    x, y = np.empty((len(scans), *SHAPE), np.float32), np.empty((len(scans), *SHAPE), np.int32)
    for i, (subject, scan) in enumerate(zip(subjects, scans, strict=True)):
        x[i], y[i] = _prepared(scan, _label_of(subject), nibabel)
    is_test = np.array([_number(subject) in TEST_SUBJECTS for subject in subjects])
    centres = np.array([_centre(subject) for subject in subjects])
    return split_records(x, y, is_test, classes=2, name="ixi", client_ids=centres, test_origin="marked")


def resized(volume: NDArray, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A volume of another shape by adaptive averaging, axis by axis, as `read_ixi` defines it.

    Example:
        >>> resized(np.array([0.0, 1.0, 5.0]), (2,))
        array([0.5, 3. ])
    """
    for axis, size in enumerate(shape):
        volume = _averaged(volume, axis, size)
    return volume


def _averaged(volume: NDArray, axis: int, size: int) -> NDArray[np.float64]:
    n, i = volume.shape[axis], np.arange(size)
    starts, ends = i * n // size, -(-(i + 1) * n // size)
    sums = np.cumsum(np.insert(volume.astype(np.float64), 0, 0, axis=axis), axis=axis)
    widths = np.expand_dims(ends - starts, [other for other in range(volume.ndim) if other != axis])
    return (sums.take(ends, axis) - sums.take(starts, axis)) / widths


def _prepared(scan: Path, label: Path, nibabel: ModuleType) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    voxels, inside = _volume(scan, nibabel), _volume(label, nibabel)
    if inside.shape != voxels.shape or not np.all((inside == 0) | (inside == 1)):
        raise DataError(
            f"{label} must be a mask of 0 and 1 of the scan's shape {voxels.shape}, "
            f"got {inside.shape} and values from {inside.min():g} to {inside.max():g}"
        )
    seen = resized(voxels, SHAPE)
    # an empty scan stays 0
    return (seen - seen.mean()) / (seen.std() or 1), resized(inside, SHAPE) > 1 - _ROUNDING


def _volume(path: Path, nibabel: ModuleType) -> NDArray[np.float64]:
    broken = (nibabel.filebasedimages.ImageFileError, nibabel.spatialimages.HeaderDataError)
    try:
        volume = nibabel.load(path).get_fdata()
    except (*broken, OSError, EOFError, ValueError, zlib.error) as cause:
        raise DataError(f"{path} is not a complete NIfTI file ({cause}); unpack it again") from None
    if volume.ndim != 3 or not np.all(np.isfinite(volume)):
        raise DataError(f"{path} must be a finite volume of three axes, got shape {volume.shape}")
    return volume


def _label_of(subject: Path) -> Path:
    labels = sorted((subject / "label").glob("*.nii.gz"))
    if len(labels) != 1:
        raise DataError(f"{subject} must hold one mask label/*.nii.gz, got {len(labels)}; unpack it again")
    return labels[0]


def _number(subject: Path) -> int:
    digits = subject.name.split("-")[0].removeprefix("IXI")
    if not digits.isdecimal():
        raise DataError(f"{subject} must be named like IXI002-Guys-0828")
    return int(digits)


def _centre(subject: Path) -> str:
    centre = subject.name.partition("-")[2].partition("-")[0]
    if centre not in CENTRES:
        raise DataError(f"{subject} must name one of the hospitals {', '.join(CENTRES)}, got {centre!r}")
    return centre


def synthetic_volumes(
    volumes: int, shape: tuple[int, int, int] = (48, 60, 48), *, contrast: float = 1.0, seed: int
) -> Records:
    """Synthetic: one bright ellipsoid in white noise per volume, with its mask; not data about anybody.

        x = contrast * mask + e,   e ~ N(0, 1) per voxel,   then standardised per volume

    The mask is the set of voxels with sum_j ((v_j - c_j) / r_j)^2 <= 1. Centre and half-axes are uniform:
    c_j in [0.4, 0.6] and r_j in [0.2, 0.35] of the length of the axis, so the ellipsoid fills 3 to 18 % of
    the volume. A fixed random fifth of the volumes is the test set.

    Args:
        volumes: how many in all, at least 3.
        shape: voxels along each axis (D, H, W), at least 4 each.
        contrast: brightness of the ellipsoid in deviations of the noise; 0 leaves nothing to see.
        seed: of the ellipsoids and the noise.

    Returns:
        Records with x (n, D, H, W) float32, y of the same shape in {0, 1}, without owners.

    Raises:
        InvalidInput: a value outside its range.

    Example:
        >>> records = synthetic_volumes(10, (8, 10, 8), seed=0)
        >>> records.x.shape, records.test_y.shape, records.classes
        ((8, 8, 10, 8), (2, 8, 10, 8), 2)
    """
    count("volumes", volumes, least=3, remedy="a fifth of them is the test set")
    if len(shape) != 3:
        raise InvalidInput(f"shape must have three axes, got {shape}")
    for side in shape:
        count("each side of shape", side, least=4)
    rng = np.random.default_rng(count("seed", seed, least=0))
    masks = np.stack([_ellipsoid(shape, rng) for _ in range(volumes)])
    x = rng.standard_normal(masks.shape, np.float32)
    x += np.float32(non_negative("contrast", contrast)) * masks
    x -= x.mean(axis=(1, 2, 3), keepdims=True)
    x /= x.std(axis=(1, 2, 3), keepdims=True)
    is_test = holdout(np.zeros(volumes))
    return split_records(x, masks.astype(np.int32), is_test, classes=2, name="synthetic volumes")


def _ellipsoid(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.bool_]:
    sides = np.array(shape)
    centre, radii = rng.uniform(0.4, 0.6, 3) * sides, rng.uniform(0.2, 0.35, 3) * sides
    voxels = np.moveaxis(np.indices(shape), 0, -1) + 0.5
    return np.sum(((voxels - centre) / radii) ** 2, axis=-1) <= 1
