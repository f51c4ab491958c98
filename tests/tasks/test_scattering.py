"""Wavelet scattering: the numbers of an implementation of others, and each image alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import Preparation, Reference, make_task
from noiseworthy.tasks.scattering import scattering, shape_after

KYMATIO = {
    (28, 28): [
        0.4364, 0.06188, 0.05439, 0.03588, 0.01886, 0.01063, 0.01244, 0.02567, 0.04635, 0.1231, 0.09633,
        0.04684, 0.02273, 0.01582, 0.02069, 0.02923, 0.064, 0.006034, 0.00521, 0.002987, 0.001844, 0.001806,
        0.002607, 0.003754, 0.00479, 0.005105, 0.004874, 0.002991, 0.002331, 0.001698, 0.00202, 0.002648,
        0.003276, 0.003511, 0.003705, 0.002466, 0.00199, 0.001184, 0.0009351, 0.001171, 0.001537, 0.002004,
        0.002356, 0.001689, 0.001336, 0.0007837, 0.0008315, 0.0009189, 0.0009762, 0.001401, 0.002073,
        0.001967, 0.001791, 0.001435, 0.001486, 0.001339, 0.001058, 0.002005, 0.002046, 0.001899, 0.001879,
        0.001935, 0.002124, 0.002091, 0.001692, 0.003952, 0.003198, 0.002162, 0.001671, 0.001956, 0.002569,
        0.003035, 0.003039, 0.00443, 0.004111, 0.002581, 0.001584, 0.00165, 0.002636, 0.00331, 0.003896,
    ],
    (12, 20): [
        0.4058, 0.04063, 0.03898, 0.03306, 0.02384, 0.0166, 0.01561, 0.02366, 0.03294, 0.08158, 0.0754,
        0.05875, 0.03458, 0.02877, 0.03255, 0.04181, 0.05596, 0.005755, 0.00608, 0.00323, 0.002111,
        0.001804, 0.002293, 0.003217, 0.00422, 0.004988, 0.006024, 0.003722, 0.003253, 0.002645, 0.002674,
        0.002867, 0.003447, 0.003818, 0.004954, 0.003244, 0.003141, 0.00206, 0.001748, 0.001826, 0.002035,
        0.00273, 0.003341, 0.002232, 0.002289, 0.001476, 0.001802, 0.001522, 0.00146, 0.00195, 0.002788,
        0.002773, 0.002602, 0.002737, 0.002822, 0.002161, 0.001485, 0.002274, 0.002634, 0.002834, 0.002734,
        0.003268, 0.003677, 0.003122, 0.002126, 0.00396, 0.003057, 0.002228, 0.002049, 0.002872, 0.003566,
        0.003734, 0.003301, 0.004819, 0.004273, 0.002282, 0.001745, 0.001827, 0.002649, 0.003358, 0.004302,
    ],
}  # fmt: skip
"""Means over an image of the 81 channels, of kymatio 0.3.0: Scattering2D(J=2, shape, L=8)."""


def image(height, width):
    i, j = np.mgrid[:height, :width]
    return ((1 + np.sin(0.4 * i + 0.02 * j * j)) * (i + 2 * j) / (height + 2 * width)).astype(np.float32)


@pytest.mark.full
@pytest.mark.parametrize("shape", KYMATIO, ids=str)
def test_its_numbers_are_those_of_kymatio(shape):
    found = scattering(jnp.asarray(image(*shape)[None]))
    assert found.shape == (1, 81, shape[0] // 4, shape[1] // 4)
    np.testing.assert_allclose(found[0].mean(axis=(1, 2)), KYMATIO[shape], rtol=2e-3, atol=2e-6)


@pytest.mark.full
def test_a_stroke_is_seen_by_the_wavelets_across_it_whatever_its_place():
    """A wave along the rows answers in one orientation; moved by four pixels its numbers move by one."""
    wave = np.cos(3 / 8 * np.pi * np.arange(64))[:, None] * np.ones(64)
    found = np.asarray(scattering(jnp.asarray(wave[None], jnp.float32)))[0, 9:17].mean(axis=(1, 2))
    assert found.argmax() == 3
    assert np.sort(found)[-2] < found.max() / 2
    spot = np.zeros((2, 64, 64), np.float32)
    spot[0, 30, 30] = spot[1, 34, 30] = 1.0
    here, moved = np.asarray(scattering(jnp.asarray(spot)))
    np.testing.assert_allclose(moved[:, 5:12, 4:12], here[:, 4:11, 4:12], atol=1e-6)


@pytest.mark.full
def test_colours_are_seen_apart_and_flat_squares_as_images():
    x = np.random.default_rng(0).random((2, 8, 8, 3), np.float32)
    found = np.asarray(scattering(jnp.asarray(x)))
    assert found.shape == (2, *shape_after((8, 8, 3))) == (2, 243, 2, 2)
    np.testing.assert_allclose(found[:, 81:162], scattering(jnp.asarray(x[..., 1])), atol=1e-6)
    flat = scattering(jnp.asarray(x[..., 1].reshape(2, 64)))
    np.testing.assert_array_equal(flat, scattering(jnp.asarray(x[..., 1])))


@pytest.mark.parametrize("shape", [(30,), (5, 28), (4, 8, 8, 3)])
def test_what_is_no_image_is_refused_in_words(shape):
    with pytest.raises(InvalidInput, match=r"scattering"):
        make_task("softmax", shape, 3, features="scattering")


REFERENCE = Reference.of(
    [
        np.asarray(scattering(jnp.asarray(np.random.default_rng(k).random((30, 8, 8), np.float32))))
        for k in (1, 2)
    ],
    channels=True,
)
SEEN = Preparation(projection=20, reference=REFERENCE, features="scattering")


@pytest.mark.full
def test_channels_are_standardised_by_public_images_then_records_seen_along_their_directions():
    x = np.random.default_rng(3).random((5, 8, 8), np.float32)
    f = np.asarray(scattering(jnp.asarray(x)), float)
    few = [
        np.asarray(scattering(jnp.asarray(np.random.default_rng(k).random((30, 8, 8), np.float32))), float)
        for k in (1, 2)
    ]
    public = np.concatenate(few).transpose(1, 0, 2, 3).reshape(81, -1)
    z = ((f - public.mean(1)[:, None, None]) / public.std(1)[:, None, None]).reshape(5, -1)
    expected = (z / np.linalg.norm(z, axis=1, keepdims=True) - REFERENCE.mean) @ REFERENCE.directions[:20].T
    np.testing.assert_allclose(SEEN(jnp.asarray(x)), expected, atol=1e-4)
    gram = REFERENCE.directions @ REFERENCE.directions.T
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-5)
    assert SEEN.shape_after((8, 8)) == (20,)


def test_one_record_changes_its_own_row_alone_bit_by_bit():
    """So that the clip, which follows, bounds what a neighbour changes."""
    task = make_task(
        "softmax",
        (8, 8),
        3,
        features="scattering",
        projection=20,
        reference=REFERENCE,
        feature_norm=1.0,
        normalise=True,
    )
    prepare, x = jax.jit(task.prepare), np.random.default_rng(4).random((70, 8, 8), np.float32)
    before = np.asarray(prepare(jnp.asarray(x)))
    assert np.all(np.linalg.norm(before, axis=1) <= 1)
    for other in (0.0, 1e30, np.nan):
        x[41] = other
        after = np.asarray(prepare(jnp.asarray(x)))
        changed = np.any(before != after, axis=1)
        assert changed.tolist() == [place == 41 for place in range(70)]
        assert np.all(np.isfinite(after))
    assert task.dimension == 60
