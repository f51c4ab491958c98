"""idx files: whole, damaged, missing; and MNIST as it really is."""

from __future__ import annotations

import gzip
import time

import numpy as np
import pytest

from noiseworthy.data import DATA_DIR_VARIABLE, load_federation, load_records
from noiseworthy.data.idx import read_idx
from noiseworthy.errors import DataError


def idx(array):
    return (
        bytes([0, 0, 8, array.ndim])
        + np.array(array.shape, ">u4").tobytes()
        + array.astype(np.uint8).tobytes()
    )


IMAGES = np.arange(3 * 28 * 28).reshape(3, 28, 28) % 256
LABELS = np.array([3, 1, 2])


def mnist_folder(root, *, labels=LABELS, writers=LABELS, name="mnist"):
    folder = root / name
    folder.mkdir()
    for part in ("train", "t10k"):
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(IMAGES)))
        (folder / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    np.savez(folder / "mnist_writers.npz", train_writer=writers)
    return root


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_arrays_survive_the_round_trip(tmp_path, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(gzip.compress(idx(IMAGES)) if suffix else idx(IMAGES))
    np.testing.assert_array_equal(read_idx(path), IMAGES)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must start with the idx magic"),
        (b"\x89PNG" + bytes(20), "must start with the idx magic"),
        (bytes([0, 0, 13, 1, 0, 0, 0, 1]), "must start with the idx magic"),
        (idx(LABELS)[:-1], "must hold 3 bytes of data, got 2"),
        (idx(LABELS) + b"!", "must hold 3 bytes of data, got 4"),
        (idx(IMAGES)[:9], "got 0; copy it again"),
        (idx(LABELS)[:4], "got 0; copy it again"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_idx(path)


@pytest.mark.parametrize(
    "damage", [lambda z: z[:-9], lambda z: b"plain" + z, lambda z: z[:20] + b"xxxx" + z[24:]]
)
def test_damaged_gzip_is_refused(tmp_path, damage):
    path = tmp_path / "file.gz"
    path.write_bytes(damage(gzip.compress(idx(IMAGES))))
    with pytest.raises(DataError, match="not a complete gzip file"):
        read_idx(path)


def test_a_missing_file_names_the_path_and_both_remedies(tmp_path):
    with pytest.raises(DataError, match=rf"mnist/train-images-idx3-ubyte.gz.*data_dir.*{DATA_DIR_VARIABLE}"):
        load_records("mnist", data_dir=tmp_path)


def test_no_folder_at_all_names_both_remedies():
    with pytest.raises(DataError, match=rf"mnist is read from files.*data_dir.*{DATA_DIR_VARIABLE}"):
        load_records("mnist")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match="nowhere does not exist"):
        load_records("mnist", data_dir=tmp_path / "nowhere")


def test_the_environment_variable_names_the_folder(tmp_path, monkeypatch):
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(mnist_folder(tmp_path, name="fashion-mnist")))
    records = load_records("fashion-mnist")
    np.testing.assert_allclose(records.x * 255, IMAGES, rtol=1e-6)
    np.testing.assert_array_equal(records.y, LABELS)


def test_images_and_labels_must_be_equally_many(tmp_path):
    with pytest.raises(DataError, match="images have shape"):
        load_records("mnist", data_dir=mnist_folder(tmp_path, labels=LABELS[:2]))


def test_labels_beyond_the_classes_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"must lie in 0..9, got 10"):
        load_records("mnist", data_dir=mnist_folder(tmp_path, labels=np.array([1, 10, 2])))


def test_writers_must_match_the_digits(tmp_path):
    with pytest.raises(DataError, match="train_writer with 3 entries"):
        load_records("mnist-writers", data_dir=mnist_folder(tmp_path, writers=LABELS[:2]))


def test_every_writer_is_a_client_unless_fewer_are_asked_for(tmp_path):
    root = mnist_folder(tmp_path, writers=np.array([7, 4, 7]))
    fed = load_federation("mnist-writers", data_dir=root, seed=0)
    assert (fed.clients, fed.sizes.tolist()) == (("4", "7"), [1, 2])
    assert load_federation("mnist-writers", data_dir=root, seed=0, clients=1).clients == ("4..7",)


@pytest.mark.full
@pytest.mark.data
def test_mnist_has_its_published_counts_and_two_digits_each_are_equal_shares(data_dir):
    start = time.perf_counter()
    fed = load_federation("mnist", data_dir=data_dir, clients=10, partition="label-shards", seed=0)
    assert time.perf_counter() - start < 20  # about one second where nothing else runs
    assert fed.sizes.tolist() == [6000] * 10
    assert np.bincount(fed.y.ravel()).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert fed.test_x.shape == (10_000, 28, 28)
    assert 0.1306 < fed.x.mean() < 0.1308  # the mean pixel of MNIST, 0.1307


@pytest.mark.full
@pytest.mark.data
def test_mnist_has_539_writers_of_19_to_131_digits(data_dir):
    fed = load_federation("mnist-writers", data_dir=data_dir, seed=0)
    assert (fed.n_clients, fed.sizes.min(), fed.sizes.max(), fed.sizes.sum()) == (539, 19, 131, 60_000)
    grouped = load_federation("mnist-writers", data_dir=data_dir, seed=0, clients=50, fraction=0.1)
    assert grouped.n_clients == 50


@pytest.mark.full
@pytest.mark.data
def test_fashion_mnist_has_equal_classes(data_dir):
    records = load_records("fashion-mnist", data_dir=data_dir)
    assert np.bincount(records.y).tolist() == [6000] * 10
