"""CIFAR-10 and chest X-rays: whole, damaged, and as they really are."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from noiseworthy.data import load_federation, load_records
from noiseworthy.errors import DataError

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (6, 32, 32, 3)).astype(np.uint8)
LABELS = np.array([0, 9, 3, 3, 1, 2], np.uint8)
FILES = {
    "cifar10": "cifar10/cifar10_lossless_5k.npz",
    "cifar10-jpeg": "cifar10/cifar10_jpeg_60k.npz",
    "pneumoniamnist": "pneumoniamnist/pneumoniamnist_balanced.npz",
}


def jpeg(pixels, **options):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", **options)
    return stream.getvalue()


def jpeg_arrays(streams):
    offset = np.cumsum([0, *(len(stream) for stream in streams)])
    return {"jpeg": np.frombuffer(b"".join(streams), np.uint8), "offset": offset, "y": LABELS, "n_train": 4}


ARRAYS = {
    "cifar10": {"x_train": PIXELS, "y_train": LABELS, "x_test": PIXELS[:2], "y_test": LABELS[:2]},
    "cifar10-jpeg": jpeg_arrays([jpeg(image, quality=95) for image in PIXELS]),
    "pneumoniamnist": {
        "train_images": PIXELS[:, :28, :28, 0],
        "train_labels": LABELS[:, None] % 2,
        "test_images": PIXELS[:2, :28, :28, 1],
        "test_labels": LABELS[:2, None] % 2,
    },
}


def folder(root, name, **changes):
    path = root / FILES[name]
    path.parent.mkdir()
    arrays = ARRAYS[name] | changes
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    return root


def test_exact_pixels_are_scaled_by_255_and_keep_their_axes(tmp_path):
    records = load_records("cifar10", data_dir=folder(tmp_path, "cifar10"))
    np.testing.assert_allclose(records.x, PIXELS / 255, rtol=1e-6)
    np.testing.assert_array_equal(records.y, LABELS)
    assert (records.classes, records.record_shape, records.x.dtype) == (10, (32, 32, 3), np.float32)


def test_streams_are_decoded_as_pillow_does_and_split_where_the_file_says(tmp_path):
    records = load_records("cifar10-jpeg", data_dir=folder(tmp_path, "cifar10-jpeg"))
    stream = jpeg(PIXELS[5], quality=95)
    np.testing.assert_allclose(records.test_x[1] * 255, np.asarray(Image.open(io.BytesIO(stream))), rtol=1e-5)
    assert (len(records), len(records.test_x)) == (4, 2)
    np.testing.assert_array_equal(records.y, LABELS[:4])


def test_xrays_are_grey_images_without_a_channel(tmp_path):
    records = load_records("pneumoniamnist", data_dir=folder(tmp_path, "pneumoniamnist"))
    assert (records.record_shape, records.classes, records.y.shape) == ((28, 28), 2, (6,))
    np.testing.assert_allclose(records.test_x * 255, PIXELS[:2, :28, :28, 1], rtol=1e-6)


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_is_named(tmp_path, name):
    with pytest.raises(DataError, match=f"no file .*{FILES[name]}"):
        load_records(name, data_dir=tmp_path)


@pytest.mark.parametrize("name", FILES)
def test_a_truncated_file_is_refused(tmp_path, name):
    path = folder(tmp_path, name) / FILES[name]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="is not an npz file of plain arrays"):
        load_records(name, data_dir=tmp_path)


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("cifar10", {"y_test": None}, "y_test is missing"),
        ("cifar10", {"x_train": PIXELS / 255}, "must hold bytes of shape"),
        ("cifar10", {"x_train": PIXELS[..., 0]}, r"must hold bytes of shape \(n, 32, 32, 3\)"),
        ("cifar10", {"y_train": LABELS[:3]}, "n labels"),
        ("cifar10", {"y_train": LABELS + 1}, r"whole labels in 0..9, got 10"),
        ("pneumoniamnist", {"train_labels": LABELS}, r"whole labels in 0..1, got 9"),
        ("cifar10-jpeg", {"offset": None}, "offset is missing"),
        ("cifar10-jpeg", {"y": LABELS[:4]}, "n labels"),
        ("cifar10-jpeg", jpeg_arrays([jpeg(PIXELS[0, :16])] * 6), "image 0 .* must be 32x32 in colour"),
        ("cifar10-jpeg", jpeg_arrays([jpeg(PIXELS[0, ..., 0])] * 6), "must be 32x32 in colour"),
        ("cifar10-jpeg", jpeg_arrays([jpeg(PIXELS[0])[:-400]] * 6), "image 0 .* no complete JPEG stream"),
        ("cifar10-jpeg", jpeg_arrays([b"plain text"] * 6), "no complete JPEG stream"),
    ],
)
def test_damaged_arrays_are_refused(tmp_path, name, changes, message):
    with pytest.raises(DataError, match=message):
        load_records(name, data_dir=folder(tmp_path, name, **changes))


@pytest.mark.data
def test_the_exact_subset_has_the_stated_counts(data_dir):
    records = load_records("cifar10", data_dir=data_dir)
    assert (records.x.shape, records.test_x.shape) == ((4000, 32, 32, 3), (1000, 32, 32, 3))
    assert (len(np.unique(records.y)), records.x.min(), records.x.max()) == (10, 0, 1)


@pytest.mark.slow
@pytest.mark.data
def test_jpeg_moved_the_shared_images_by_eight_grey_levels_and_no_label(data_dir):
    lossy, exact = (load_records(name, data_dir=data_dir) for name in ("cifar10-jpeg", "cifar10"))
    assert np.bincount(lossy.y).tolist() == [5000] * 10
    assert np.bincount(lossy.test_y).tolist() == [1000] * 10
    moved = 255 * (lossy.x[:4000] - exact.x)
    assert np.sqrt(np.mean(moved**2, axis=(1, 2, 3))).mean() == pytest.approx(7.9, abs=0.1)
    np.testing.assert_array_equal(lossy.y[:4000], exact.y)


@pytest.mark.data
def test_xrays_have_equal_classes_and_split_in_three(data_dir):
    fed = load_federation("pneumoniamnist", data_dir=data_dir, clients=3, seed=0)
    assert (sorted(fed.sizes), fed.test_x.shape) == ([809, 809, 810], (468, 28, 28))
    assert np.sum(fed.y) == 1214
