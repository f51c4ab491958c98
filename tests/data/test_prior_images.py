"""Images of the prior: the same for the same arguments, of four kinds, as varied as real sets."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.data.prior_images import prior_images
from noiseworthy.data.scenes import scenes
from noiseworthy.errors import InvalidInput
from prior import Statistics

STROKES, SILHOUETTES, SCENES, VIEWS = (0, 3, 6), (1, 4, 7), (2, 8, 14), (5, 11, 17)


@pytest.mark.full
@pytest.mark.parametrize(
    ("shape", "classes"), [((8, 8), 2), ((28, 28), 10), ((12, 20), 3), ((16, 16, 3), 5), ((9, 9, 2, 2), 26)]
)
def test_images_have_the_shape_of_the_study_and_lie_between_0_and_1(shape, classes):
    for seed in (0, 1, 2, 5):
        images = prior_images(shape, classes, seed)
        assert (images.x.shape, images.test_x.shape) == ((1500, *shape), (500, *shape))
        assert (images.x.dtype, images.y.dtype) == (np.float32, np.int32)
        assert (images.name, images.classes) == (f"prior:{seed}", classes)
        for numbers in (images.x, images.test_x):
            assert np.all(np.isfinite(numbers))
            assert 0 <= numbers.min() <= numbers.max() <= 1
        assert np.bincount(np.concatenate([images.y, images.test_y])).min() >= 2000 // classes


@pytest.mark.full
def test_the_same_arguments_give_the_same_images_and_others_others():
    one, again, other = (prior_images((8, 8), 3, seed) for seed in (5, 5, 6))
    for name in ("x", "y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(one, name), getattr(again, name))
    assert not np.array_equal(one.x, other.x)


def test_an_image_of_one_pixel_is_an_image():
    for seed in (2, 5):
        assert np.all(np.isfinite(prior_images((1, 1), 2, seed, records=40).x))


@pytest.mark.full
@pytest.mark.parametrize(("seed", "least"), [(0, 0.8), (1, 0.6), (2, 0.2), (5, 0.2)])
def test_small_images_can_be_learned_because_they_are_means_of_finer_ones(seed, least):
    """Drawn pixel by pixel at 8 x 8, the first three gave a linear model 0.90, 0.62 and 0.12."""
    assert Statistics.of(prior_images((8, 8), 10, seed)).gain > least


@pytest.mark.parametrize(("classes", "records", "seed"), [(10, 79, 0), (10, 80, -1)])
def test_too_few_images_and_seeds_below_0_are_refused(classes, records, seed):
    with pytest.raises(InvalidInput, match="eight for each class" if seed == 0 else "seed"):
        prior_images((8, 8), classes, seed, records=records)


@pytest.mark.full
@pytest.mark.parametrize(
    ("seeds", "black", "gain", "mean_share"),
    [
        (STROKES, (0.5, 0.95), (0.65, 1.0), (0.45, 0.75)),
        (SILHOUETTES, (0.4, 0.9), (0.6, 0.98), (0.4, 0.65)),
        (SCENES, (0.0, 0.1), (0.15, 0.55), (0.75, 0.95)),
        (VIEWS, (0.0, 0.2), (0.15, 0.65), (0.65, 0.85)),
    ],
    ids=["strokes", "silhouettes", "scenes", "views"],
)
def test_the_kinds_differ_in_what_plans_turn_on(seeds, black, gain, mean_share):
    """How far a linear model gets, and how much of an image is the mean of all: MNIST has 0.86 and 0.40."""
    for seed in seeds:
        images = prior_images((28, 28), 10, seed)
        found = Statistics.of(images)
        assert black[0] <= np.mean(images.x < 0.1) <= black[1]
        assert gain[0] <= found.gain <= gain[1]
        assert mean_share[0] <= found.mean_share <= mean_share[1]


def how_unlike(images: np.ndarray) -> np.ndarray:
    """Spreads of light, log contrast and spectral fall between images, and how much one direction leads."""
    frequencies = np.meshgrid(*[len(images[0]) * np.fft.fftfreq(len(images[0]))] * 2, indexing="ij")
    frequency, angle = np.hypot(*frequencies), np.arctan2(*frequencies)
    inside = (frequency > 0) & (frequency < len(images[0]) / 2)
    power = np.abs(np.fft.fft2(images)) ** 2 + 1e-9
    falls = np.polyfit(np.log(frequency[inside]), np.log(power[:, inside]).T, 1)[0]
    slopes = frequency**2 * power
    leads = np.abs(np.sum(slopes * np.exp(2j * angle), axis=(1, 2))) / slopes.sum(axis=(1, 2))
    contrast = np.log(images.std(axis=(1, 2)) + 1e-3)
    return np.array([images.mean(axis=(1, 2)).std(), contrast.std(), falls.std(), np.median(leads)])


def test_views_differ_in_light_contrast_and_texture_as_photographs_do():
    """Two fifths of it at least: scenes, of one contrast and grain, do by 10 to 40 % of it."""
    seen = how_unlike(scenes((28, 28)))
    for seed in VIEWS:
        share = how_unlike(prior_images((28, 28), 10, seed).x) / seen
        assert np.all((share > 0.4) & (share < 1.6)), share


@pytest.mark.full
def test_neighbouring_pixels_are_alike_as_in_any_image():
    """Stand-ins whose pixels can be shuffled tell nothing of pooling, nor of convolutions."""
    for seed in range(6):
        x = prior_images((28, 28), 10, seed).x
        centred = x - x.mean(axis=0)
        if seed in VIEWS:  # each has a light of its own, which is not what pixels tell of each other
            centred -= centred.mean(axis=(1, 2), keepdims=True)
        beside = np.mean(centred[:, :, 1:] * centred[:, :, :-1]) / np.mean(centred**2)
        far = np.mean(centred[:, :, 14:] * centred[:, :, :-14]) / np.mean(centred**2)
        assert beside > 0.6 > 0.5 > abs(far)


@pytest.mark.full
def test_channels_of_an_image_are_one_image_in_a_colour():
    images = prior_images((16, 16, 3), 4, 1)
    red, green, blue = np.moveaxis(images.x, -1, 0)
    assert np.corrcoef(red.ravel(), green.ravel())[0, 1] > 0.9
    tints = np.log((red.mean(axis=(1, 2)) + 1e-6) / (blue.mean(axis=(1, 2)) + 1e-6))
    assert 0.05 < tints.std() < 0.5
