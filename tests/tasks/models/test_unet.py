"""3D-UNet: sizes of the published network, its shape, its way up, and what its joins carry."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.tasks import unet3d
from noiseworthy.tasks.models import unet

VOLUME = (4, 8, 4)


def test_the_parameters_are_those_of_flamby_with_one_output():
    """246,156 with two outputs, of which one and its 16 weights and bias are left out."""
    assert unet3d().dimension == 246_156 - 17
    assert unet3d((8, 8, 8)).dimension == 246_156 - 17


def test_a_volume_gives_an_output_per_voxel():
    theta = jax.ShapeDtypeStruct((unet3d().dimension,), jnp.float32)
    record = jax.ShapeDtypeStruct((48, 60, 48), jnp.float32)
    assert jax.eval_shape(unet3d().outputs, theta, record).shape == (48, 60, 48)


def test_the_way_up_is_linear_between_the_centres_of_voxels():
    """Twice the side: weights 3/4 and 1/4 of the two nearest centres, the edge repeated."""
    below = np.random.default_rng(0).normal(size=(2, 3, 2, 1)).astype(np.float32)
    expected = below
    for axis in range(3):
        here = np.moveaxis(expected, axis, 0)
        before, after = np.concatenate([here[:1], here[:-1]]), np.concatenate([here[1:], here[-1:]])
        pairs = np.stack([0.75 * here + 0.25 * before, 0.75 * here + 0.25 * after], axis=1)
        expected = np.moveaxis(pairs.reshape(-1, *here.shape[1:]), 0, axis)
    joined = unet._joined(jnp.zeros((4, 6, 4, 2)), jnp.asarray(below))
    np.testing.assert_allclose(joined[..., 2:], expected, rtol=1e-5, atol=1e-6)
    assert not np.any(joined[..., :2])


@pytest.mark.full
def test_every_part_speaks():
    """Without any one convolution the outputs change: no level and no join is left aside."""
    params, x = unet._initial(jax.random.key(0), 4), jax.random.normal(jax.random.key(1), VOLUME)
    apply, leaves, tree = jax.jit(unet._apply), *jax.tree.flatten(params)
    outputs = apply(params, x)
    for i, leaf in enumerate(leaves):
        if leaf.ndim > 1:
            without = [np.zeros_like(leaf) if k == i else other for k, other in enumerate(leaves)]
            moved = np.max(np.abs(apply(jax.tree.unflatten(tree, without), x) - outputs))
            assert moved > 1e-3, jax.tree.leaves_with_path(params)[i][0]


@pytest.mark.full
def test_fine_detail_passes_the_bottom_by():
    """With the bottom cut off, a voxel moves its own output: the first join carries it."""
    params, x = unet._initial(jax.random.key(0), 4), jax.random.normal(jax.random.key(1), VOLUME)
    apply = jax.jit(unet._apply)
    cut = {**params, "bottom": jax.tree.map(np.zeros_like, params["bottom"])}
    moved = apply(cut, x.at[2, 5, 1].add(1.0)) - apply(cut, x)
    assert float(jnp.abs(moved[2, 5, 1])) > 1e-3


@pytest.mark.parametrize("volume", [(48, 60), (48, 62, 48), (0, 4, 4), (4, 4, 4, 1)])
def test_volumes_that_cannot_be_halved_twice_are_refused(volume):
    with pytest.raises(InvalidInput, match=r"unet3d needs volumes .* multiples of 4"):
        unet3d(volume)


@pytest.mark.parametrize(("channels", "message"), [(0, "at least 4"), (6, "multiple of 4, got 6")])
def test_channels_that_make_no_groups_are_refused(channels, message):
    with pytest.raises(InvalidInput, match=message):
        unet3d(VOLUME, channels=channels)
