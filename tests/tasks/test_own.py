"""Models of the user's own: run exactly as they were read, in equinox, flax or haiku, or refused by name."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.tasks import Batch
from noiseworthy.tasks.own import _function, _task, digest_of, own_task

EQUINOX = """
import equinox as eqx, jax
def make(shape, classes):
    dense = eqx.nn.Linear(6, classes or 1, key=jax.random.key(0))
    return eqx.nn.Sequential([eqx.nn.Lambda(lambda x: x.ravel()), dense])
"""
LINEN = """
from flax import linen as nn
class Network(nn.Module):
    outputs: int
    @nn.compact
    def __call__(self, x):
        return nn.Dense(self.outputs)(x.ravel())
def make(shape, classes):
    return Network(classes or 1)
"""
NNX = """
from flax import nnx
class Network(nnx.Module):
    def __init__(self, outputs, rngs):
        self.dense = nnx.Linear(6, outputs, rngs=rngs)
    def __call__(self, x):
        return self.dense(x.ravel())
def make(shape, classes):
    return Network(classes or 1, nnx.Rngs(0))
"""
HAIKU = """
import haiku as hk
def make(shape, classes):
    return hk.transform(lambda x: hk.Linear(classes or 1)(x.ravel()))
"""
HAIKU_WITHOUT_RNG = HAIKU.replace("hk.transform(", "hk.without_apply_rng(hk.transform(") + ")"
PURE = """
import jax.numpy as jnp
from noiseworthy import model_task
def make(shape, classes):
    loss = "softmax" if classes else "squared"
    return model_task(lambda w, x: x.ravel() @ w, jnp.zeros((6, classes or 1)), loss)
"""
TOKENS = PURE.replace("x.ravel() @ w", "w[x.ravel()].sum(axis=0)")
KINDS = {"equinox": EQUINOX, "linen": LINEN, "nnx": NNX, "haiku": HAIKU, "haiku-bare": HAIKU_WITHOUT_RNG}
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def write(tmp_path):
    def source(text: str, name: str = "my_module.py") -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(text)
        return tmp_path

    return source


def made(folder, classes=3, ridge=0.0, shape=(2, 3), model="my_module:make"):
    return own_task(model, folder, digest_of(model, folder), shape, classes, ridge)


@pytest.mark.full
@pytest.mark.parametrize("kind", [*KINDS, "pure"])
@pytest.mark.parametrize("classes", [3, None])
def test_a_model_of_each_library_is_a_task_whose_gradients_are_clipped(kind, classes, write):
    task = made(write({**KINDS, "pure": PURE}[kind]), classes)
    assert task.dimension == (6 + (kind != "pure")) * (classes or 1)
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(5, 2, 3)), jnp.float32)
    batch = Batch(task.prepare(x), jnp.arange(5) % (classes or 2), jnp.ones(5))
    theta = task.initial(jax.random.key(3)) + 1.0
    whole = task.clipped_gradient_sum(theta, batch, 1e-3, "l2")
    rest = task.clipped_gradient_sum(theta, Batch(batch.x[1:], batch.y[1:], batch.mask[1:]), 1e-3, "l2")
    assert 0 < float(jnp.linalg.norm(whole - rest)) <= 1e-3 * (1 + 1e-5)
    assert bool(jnp.isfinite(task.score(theta, batch.x, batch.y).loss))


@pytest.mark.parametrize("kind", ["equinox", "linen", "nnx", "haiku"])
def test_libraries_agree_on_a_linear_model(kind, write):
    """Bias and weights in whatever order: a linear model started at zeros has the loss of guessing."""
    task = made(write(KINDS[kind]))
    score = task.score(jnp.zeros(task.dimension), jnp.ones((4, 2, 3)), jnp.arange(4) % 3)
    assert float(score.loss) == pytest.approx(np.log(3), rel=1e-6)


def test_equal_arguments_give_the_same_task_and_ridge_is_added(write):
    folder = write(EQUINOX)
    assert made(folder) is made(folder)
    assert made(folder, ridge=0.1).ridge == 0.1
    assert made(write(PURE), ridge=0.1).ridge == 0.1
    linear = (
        "import noiseworthy as nw\ndef make(shape, classes):\n    return nw.make_task('softmax', shape, 3)"
    )
    assert made(write(linear), ridge=0.1).ridge == 0.1


# What is run is what was read -----------------------------------------------------------------------------

CONSTANT = """
import jax.numpy as jnp
from noiseworthy import model_task
from helper import VALUE
def make(shape, classes):
    return model_task(lambda w, x: x.ravel()[:3] * w, jnp.full(3, VALUE))
"""


def start(folder, model="my_module:make"):
    return float(made(folder, model=model).initial(jax.random.key(0))[0])


@pytest.mark.parametrize("kind", ["equinox", "linen", "nnx", "haiku"])
def test_a_model_starts_from_the_same_numbers_where_float64_is_enabled(kind, write):
    """Its digest and seed say what is trained: no setting of a process may change the draws."""

    def told():
        _task.cache_clear()
        _function.cache_clear()
        return made(write(KINDS[kind])).start(jax.random.key(0))

    expected = told()
    with jax.enable_x64(True):
        found = told()
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, expected)


def test_a_module_of_the_folder_that_is_imported_counts_as_source(write):
    folder = write(CONSTANT)
    write("VALUE = 1.0", "helper.py")
    write("VALUE = 3.0", "unused.py")
    before = digest_of("my_module:make", folder)
    assert start(folder) == 1.0
    write("VALUE = 4.0", "unused.py")
    assert digest_of("my_module:make", folder) == before
    stamp = (folder / "helper.py").stat()
    write("VALUE = 2.0", "helper.py")
    os.utime(folder / "helper.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert digest_of("my_module:make", folder) != before
    assert start(folder) == 2.0
    with pytest.raises(ConfigError, match="was changed since the study was read"):
        own_task("my_module:make", folder, before, (2, 3), 3, 0.0)


def test_two_studies_may_have_modules_of_one_name(write, tmp_path):
    for name, value in (("a", 1.0), ("b", 2.0)):
        write(CONSTANT, f"{name}/my_module.py")
        write(f"VALUE = {value}", f"{name}/helper.py")
    assert [start(tmp_path / name) for name in ("a", "b", "a")] == [1.0, 2.0, 1.0]
    assert str(tmp_path / "a") not in sys.path


def test_packages_and_relative_imports_are_followed(write, tmp_path):
    write("", "nets/__init__.py")
    write(CONSTANT.replace("from helper", "from ..common"), "nets/deep/small.py")
    write("from .small import make", "nets/deep/__init__.py")
    write("VALUE = 5.0", "nets/common.py")
    assert start(tmp_path, "nets.deep:make") == start(tmp_path, "nets.deep.small:make") == 5.0
    before = digest_of("nets.deep:make", tmp_path)
    write("VALUE = 6.0", "nets/common.py")
    assert digest_of("nets.deep:make", tmp_path) != before


def test_a_digest_is_taken_without_running_anything(write):
    folder = write("raise SystemExit('ran')")
    assert len(digest_of("my_module:make", folder)) == 64


# What is refused ------------------------------------------------------------------------------------------

BATCH_NORM = LINEN.replace("nn.Dense", "nn.BatchNorm(False)(nn.Dense").replace("x.ravel())", "x.ravel()))")
NNX_DROPOUT = NNX.replace("self.dense =", "self.drop = nnx.Dropout(0.5, rngs=rngs)\n        self.dense =")
RNN = "self.rnn = nnx.RNN(nnx.GRUCell(3, 6, rngs=rngs))"
NNX_RNN = NNX.replace("self.dense =", RNN + "\n        self.dense =")
NNX_RNN = NNX_RNN.replace("x.ravel()", "self.rnn(x, rngs=nnx.Rngs(0))[-1]")
HAIKU_STATE = HAIKU.replace("hk.transform(", "hk.transform_with_state(")
EQUINOX_STATE = """
import equinox as eqx
def make(shape, classes):
    return eqx.nn.make_with_state(eqx.nn.BatchNorm)(3, axis_name="batch", mode="batch")[0]
"""


DRAWN = PURE.replace(
    "jnp.zeros((6, classes or 1))", "jnp.asarray(rng.normal(size=(6, classes)), jnp.float32)"
)


@pytest.mark.parametrize("seed", ["", "3"])
def test_a_start_that_is_drawn_anew_at_each_call_is_refused(seed, write):
    """The digest stayed, and two processes trained two models."""
    drawn = f"    rng = np.random.default_rng({seed})\n    loss ="
    source = "import numpy as np\n" + DRAWN.replace("    loss =", drawn)
    if seed:
        assert made(write(source)).dimension == 18
        return
    with pytest.raises(
        InvalidInput, match=r"my_module:make\" starts elsewhere at each call.* from a fixed key"
    ):
        made(write(source))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (BATCH_NORM, "no state beside its parameters"),
        (NNX_DROPOUT, "no state beside its parameters"),
        (NNX_RNN, "make an nnx.RNN with rngs=False, and call it with rngs=nnx.Rngs"),
        (HAIKU_STATE, "no state beside its parameters"),
        (EQUINOX_STATE, "no state beside its parameters"),
        (EQUINOX.replace("classes or 1", "classes + 2"), r"a number for each class.* got shape \(5,\)"),
        (EQUINOX.replace("dense])", "dense, eqx.nn.Lambda(lambda z: (z, z))])"), "got a tuple and the loss"),
        ("def make(shape, classes):\n    return 3", r"must return an equinox module, .* got builtins\.int"),
        ("def make(shape, classes):\n    return 1 / 0", r"division by zero \(line 2 of my_module\.py\)"),
        (TOKENS, r"float32 records of shape \(2, 3\) and 3 classes: TypeError: Indexer .* \(line 6 of my"),
        (PURE.replace("jnp.zeros((6, classes or 1))", "()"), "give the model at least one parameter"),
        (PURE.replace("jnp.zeros((6,", "jnp.nan * jnp.ones((6,"), "parameters must be finite"),
        ("def make(shape):\n    return 1", r"records of shape \(2, 3\) and 3 classes: TypeError"),
    ],
)
def test_what_is_no_model_is_refused_by_name(source, said, write):
    with pytest.raises(InvalidInput, match=said) as refused:
        made(write(source))
    assert '[task] model = "my_module:make"' in str(refused.value)


def test_a_recurrent_network_without_a_stream_of_draws_is_taken(write):
    assert made(write(NNX_RNN.replace("rngs=rngs))", "rngs=rngs), rngs=False)"))).dimension > 0


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import nothing_like_it", r"cannot be imported: ModuleNotFoundError: .* \(line 1 of my_module"),
        ("x = 1", "my_module has no function 'make'"),
        ("def make(:", "cannot be read as Python"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(source, said, write):
    with pytest.raises(ConfigError, match=said):
        made(write(source))


@pytest.mark.full
def test_a_module_that_is_not_there_is_refused_with_where_it_was_looked_for(tmp_path):
    with pytest.raises(ConfigError, match=r"no my/module\.py in .*put it beside the study's file"):
        digest_of("my.module:make", tmp_path)
