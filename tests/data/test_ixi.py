"""Fed-IXI: files of its layout, prepared as defined, and what is refused."""

from __future__ import annotations

import gzip
import sys

import nibabel
import numpy as np
import pytest

from noiseworthy.data import load_federation, load_records
from noiseworthy.data.ixi import TEST_SUBJECTS, resized
from noiseworthy.errors import DataError

SUBJECTS = ("IXI002-Guys-0828", "IXI012-HH-1211", "IXI013-HH-1212", "IXI016-Guys-0697", "IXI035-IOP-0873")
SIDES = (83, 44, 55)  # of the real volumes


def volume(seed, sides=SIDES):
    return np.random.default_rng(seed).gamma(2, 100, sides).astype(np.float32)


def ball(sides=SIDES):
    axes = np.meshgrid(*(np.linspace(-1, 1, side) for side in sides), indexing="ij")
    return (sum(axis**2 for axis in axes) < 0.5).astype(np.uint8)


def save(array, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    nibabel.save(nibabel.Nifti1Image(array, np.eye(4)), path)


def subject(root, name, scan=None, label=None):
    save(volume(0) if scan is None else scan, root / name / "T1" / f"{name}_image.nii.gz")
    save(ball() if label is None else label, root / name / "label" / f"{name}_label.nii.gz")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("7kd5wj7v7p-1") / "IXI_sample"
    for i, name in enumerate(SUBJECTS):
        subject(root, name, volume(i))
    return root


def window(i, size, n):
    return slice(i * n // size, -(-(i + 1) * n // size))


def test_hospitals_are_the_clients_and_flambys_split_the_test_set(folder):
    fed = load_federation(f"ixi:{folder}", seed=0)
    assert (fed.clients, fed.sizes.tolist(), fed.classes) == (("Guys", "HH", "IOP"), [1, 1, 1], 2)
    assert (fed.record_shape, fed.label_shape, len(fed.test_x)) == ((48, 60, 48), (48, 60, 48), 2)
    assert (fed.x.dtype, fed.y.dtype, set(fed.y.ravel())) == (np.float32, np.int32, {0, 1})


def test_the_archive_may_be_given_at_any_depth(folder):
    above = load_records("ixi:IXI_sample", data_dir=folder.parent)
    np.testing.assert_array_equal(above.x, load_records(f"ixi:{folder.parent}").x)


@pytest.mark.full
def test_a_voxel_is_the_mean_of_its_window_standardised_by_its_own_scan(folder):
    records = load_records(f"ixi:{folder}")
    scan = nibabel.load(folder / SUBJECTS[2] / "T1" / f"{SUBJECTS[2]}_image.nii.gz").get_fdata()
    means = np.empty((48, 60, 48))
    for i, j, k in np.ndindex(means.shape):
        means[i, j, k] = scan[window(i, 48, 83), window(j, 60, 44), window(k, 48, 55)].mean()
    np.testing.assert_allclose(records.x[0], (means - means.mean()) / means.std(), atol=1e-4)
    np.testing.assert_allclose([records.x.mean(), records.x.std()], [0, 1], atol=1e-4)


def test_a_voxel_is_brain_where_its_whole_window_is(folder):
    records, label = load_records(f"ixi:{folder}"), ball()
    for i, j, k in np.random.default_rng(0).integers(0, 48, (500, 3)):
        inside = label[window(i, 48, 83), window(j, 60, 44), window(k, 48, 55)].all()
        assert records.y[0, i, j, k] == inside


@pytest.mark.parametrize("sides", [(1,), (2,), (5,), (7,), (14,)])
def test_resizing_keeps_constants_and_whole_multiples_exactly(sides):
    np.testing.assert_array_equal(resized(np.full(7, 3.0), sides), np.full(sides, 3.0))
    blocks = np.arange(14.0).reshape(7, 2)
    np.testing.assert_allclose(resized(blocks.ravel(), (7,)), blocks.mean(axis=1))
    np.testing.assert_array_equal(resized(np.arange(3.0), (6,)), [0, 0, 1, 1, 2, 2])


def test_one_subject_changes_no_other(tmp_path, folder):
    for i, name in enumerate(SUBJECTS):
        subject(tmp_path, name, volume(i) if i != 3 else volume(99))
    changed, before = load_records(f"ixi:{tmp_path}"), load_records(f"ixi:{folder}")
    assert [np.array_equal(a, b) for a, b in zip(changed.x, before.x, strict=True)] == [True, False, True]


def test_the_test_subjects_are_as_many_as_published():
    assert len(TEST_SUBJECTS) == 62 + 36 + 15
    assert max(TEST_SUBJECTS) < 663


def test_an_empty_scan_stays_zero(tmp_path):
    for name in SUBJECTS:
        subject(tmp_path, name, np.zeros((6, 6, 6), np.float32), np.zeros((6, 6, 6), np.uint8))
    assert not load_records(f"ixi:{tmp_path}").x.any()


@pytest.mark.parametrize(
    ("name", "scan", "label", "message"),
    [
        ("IXI002-Paris-0828", None, None, "hospitals Guys, HH, IOP, got 'Paris'"),
        ("IXI002", None, None, "hospitals Guys, HH, IOP, got ''"),
        ("IXIab-HH-1211", None, None, "must be named like IXI002-Guys-0828"),
        (SUBJECTS[0], volume(0, (4, 4)), None, r"finite volume of three axes, got shape \(4, 4\)"),
        (SUBJECTS[0], np.full(SIDES, np.nan, np.float32), None, "finite volume"),
        (SUBJECTS[0], None, ball() * 2, "mask of 0 and 1 .* values from 0 to 2"),
        (SUBJECTS[0], None, ball((4, 4, 4)), r"scan's shape \(83, 44, 55\), got \(4, 4, 4\)"),
        (SUBJECTS[0], None, None, "0 training and 1 test records"),
    ],
)
def test_other_subjects_are_refused(tmp_path, name, scan, label, message):
    subject(tmp_path, name, scan, label)
    with pytest.raises(DataError, match=message):
        load_records(f"ixi:{tmp_path}")


def test_a_scan_needs_exactly_one_mask(tmp_path):
    subject(tmp_path, SUBJECTS[0])
    mask = tmp_path / SUBJECTS[0] / "label" / f"{SUBJECTS[0]}_label.nii.gz"
    (mask.parent / "second.nii.gz").write_bytes(mask.read_bytes())
    with pytest.raises(DataError, match=r"one mask label/\*.nii.gz, got 2"):
        load_records(f"ixi:{tmp_path}")
    for file in mask.parent.iterdir():
        file.unlink()
    with pytest.raises(DataError, match=r"one mask label/\*.nii.gz, got 0"):
        load_records(f"ixi:{tmp_path}")


@pytest.mark.parametrize(
    "damage",
    [
        lambda z: b"",
        lambda z: b"not gzip",
        lambda z: z[: len(z) // 2],
        lambda z: z[:40] + bytes(40) + z[80:],
        lambda z: gzip.compress(bytes(400)),
        lambda z: gzip.compress(b"\x5c\x01\x00\x00" + bytes(348)),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage):
    subject(tmp_path, SUBJECTS[0])
    path = tmp_path / SUBJECTS[0] / "T1" / f"{SUBJECTS[0]}_image.nii.gz"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(DataError, match=r"image\.nii\.gz"):
        load_records(f"ixi:{tmp_path}")


def test_a_folder_without_scans_says_what_belongs_there(tmp_path):
    with pytest.raises(DataError, match=r"no scans IXI\*/T1/\*.nii.gz .* unpack"):
        load_records(f"ixi:{tmp_path}")


def test_without_nibabel_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "nibabel", None)
    with pytest.raises(DataError, match=r"pip install 'noiseworthy\[imaging\]'"):
        load_records(f"ixi:{folder}")
