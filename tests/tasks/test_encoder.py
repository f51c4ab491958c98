"""Encoders of a file: each record alone and to the last bit, nothing that its digest was not taken of."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.tasks import encoder as encoders
from noiseworthy.tasks import make_task
from noiseworthy.tasks.encoder import Encoder, _Memory

X = np.random.default_rng(0).random((9, 8, 8), np.float32)


def graph(*nodes, taken=("n", 8, 8), given=None, weights=(), kind=TensorProto.FLOAT) -> onnx.ModelProto:
    """A graph from x to y."""
    ends = [helper.make_tensor_value_info("x", kind, taken), helper.make_tensor_value_info("y", kind, given)]
    made = helper.make_graph(list(nodes), "made", ends[:1], ends[1:], list(weights))
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def node(operation: str, *inputs: str, to: str = "y", **attributes):
    return helper.make_node(operation, inputs, [to], **attributes)


def read(folder, made: onnx.ModelProto | bytes) -> Encoder:
    content = made if isinstance(made, bytes) else made.SerializeToString()
    (folder / "made.onnx").write_bytes(content)
    return Encoder.read(folder, "made.onnx")


@pytest.fixture
def fresh(monkeypatch):
    """Nothing is remembered of other tests, and nothing is kept on disk."""
    monkeypatch.setattr(encoders, "_MEMORY", _Memory())


FLAT = node("Flatten", "x")
CENTERED = (node("ReduceMean", "x", to="m", axes=[0]), node("Sub", "x", "m", to="c"), node("Flatten", "c"))


def test_it_gives_what_the_runtime_gives_inside_of_compiled_programs_too(tmp_path, photos, fresh):
    import onnxruntime

    session = onnxruntime.InferenceSession(photos, providers=["CPUExecutionProvider"])
    wanted = session.run(None, {"x": X[:, None]})[0]
    encoder = read(tmp_path, photos)
    assert encoder.shape_after((8, 8)) == encoder.shape_after((64,)) == (256,)
    np.testing.assert_allclose(encoder(jnp.asarray(X)), wanted, atol=1e-6)
    np.testing.assert_allclose(jax.jit(encoder)(jnp.asarray(X.reshape(9, 64))), wanted, atol=1e-6)
    several = jax.jit(jax.vmap(encoder))(jnp.asarray(X.reshape(3, 3, 8, 8)))
    np.testing.assert_allclose(several.reshape(9, 256), wanted, atol=1e-6)
    assert encoder(jnp.zeros((0, 8, 8))).shape == (0, 256)


@pytest.mark.parametrize("how", ["a convolution", "the mean of its batch subtracted"])
def test_a_record_changes_its_own_features_alone_to_the_last_bit(tmp_path, photos, fresh, monkeypatch, how):
    """An encoder that looks at its whole batch sees one record in it, whoever is beside it."""
    encoder = read(tmp_path, photos if how == "a convolution" else graph(*CENTERED))
    task = make_task("softmax", (8, 8), 3, features=encoder, feature_norm=1.0, normalise=True, bias=0.3)
    other = X.copy()
    other[4] = 1e30
    made = []
    for map_ in (encoder, task.prepare):
        for x in (X, other):
            monkeypatch.setattr(encoders, "_MEMORY", _Memory())
            made.append(np.asarray(map_(jnp.asarray(x))))
    same = np.arange(9) != 4
    np.testing.assert_array_equal(made[0][same], made[1][same])
    np.testing.assert_array_equal(made[2][same], made[3][same])
    monkeypatch.setattr(encoders, "_MEMORY", _Memory())
    np.testing.assert_array_equal(np.concatenate([encoder(jnp.asarray(x[None])) for x in X]), made[0])
    if how != "a convolution":
        np.testing.assert_array_equal(made[0], 0)


def test_a_record_on_which_it_fails_counts_as_zeros_and_is_not_told_of(tmp_path, fresh):
    """It picks the pixel whose number stands in the first one, which not all records have."""
    place = [node("Flatten", "x", to="f"), node("Slice", "f", "zero", "one", "last", to="p"),
             helper.make_node("Cast", ["p"], ["i"], to=TensorProto.INT64)]  # fmt: skip
    numbers = {"zero": [0], "one": [1], "last": [1]}
    weights = [numpy_helper.from_array(np.array(v), name) for name, v in numbers.items()]
    picked = [*place, node("GatherElements", "f", "i", axis=1)]
    encoder = read(tmp_path, graph(*picked, weights=weights))
    x = X.copy()
    x[:, 0, 0], x[2, 0, 0] = 3.0, 1000.0
    found = np.asarray(encoder(jnp.asarray(x)))
    assert np.isnan(found[2]).all()
    np.testing.assert_array_equal(np.delete(found, 2, axis=0)[:, 0], np.delete(x, 2, axis=0)[:, 0, 3])
    task = make_task("softmax", (8, 8), 3, features=encoder, feature_norm=1.0, bias=0.3)
    assert np.asarray(task.prepare(jnp.asarray(x)))[2].tolist() == [0.0, 0.0]


NOISE = node("RandomNormalLike", "x", to="r"), node("Add", "x", "r", to="s"), node("Flatten", "s")
TWO = graph(FLAT)
TWO.graph.output.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, None))
REFUSED = {
    "takes 4 records at once, and records are encoded one at a time": graph(FLAT, taken=(4, 8, 8)),
    "must take one float tensor and give one, got x tensor.double., y": graph(FLAT, kind=TensorProto.DOUBLE),
    "must take one float tensor and give one, got x tensor.float., y": TWO,
    "gives other numbers for the same record each time": graph(*NOISE),
    "must give finite numbers of shape .1, ....": graph(node("ReduceMean", "x", axes=[0], keepdims=0)),
    "is no ONNX graph that onnxruntime opens by itself": b"not a graph",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_encodes_no_single_records_is_refused(tmp_path, words):
    with pytest.raises(ConfigError, match=words):
        read(tmp_path, REFUSED[words]).shape_after((8, 8))


def test_weights_beside_the_file_are_refused_as_its_digest_was_not_taken_of_them(tmp_path, monkeypatch):
    weights = [numpy_helper.from_array(np.ones((64, 300), np.float32), "w")]
    made = graph(node("Flatten", "x", to="f"), node("MatMul", "f", "w"), weights=weights)
    onnx.save_model(made, tmp_path / "made.onnx", save_as_external_data=True, location="made.bin")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="with its weights inside the file"):
        Encoder.read(tmp_path, "made.onnx").shape_after((8, 8))


def test_records_that_it_does_not_take_are_refused_in_one_sentence(tmp_path, photos):
    encoder = read(tmp_path, photos)
    assert not encoder.fits((28, 28))
    with pytest.raises(InvalidInput) as caught:
        encoder.shape_after((28, 28))
    assert str(caught.value) == (
        'features = "made.onnx" takes records of shape (1, 8, 8), got records of shape (28, 28); export the '
        "encoder for such records, or leave features out"
    )


@pytest.mark.parametrize(
    ("record", "taken"),
    [
        ((8, 8, 3), (3, 8, 8)),
        ((8, 8, 3), (8, 8, 3)),
        ((12,), (12,)),
        ((4, 4), (16,)),
        ((8, 8, 3), (3, "h", "w")),
    ],
)
def test_records_are_turned_to_the_axes_that_it_takes(tmp_path, fresh, record, taken):
    encoder = read(tmp_path, graph(FLAT, taken=("n", *taken)))
    x = np.random.default_rng(1).random((2, *record), np.float32)
    wanted = np.moveaxis(x, 3, 1) if taken[0] == 3 else x
    np.testing.assert_array_equal(encoder(jnp.asarray(x)), wanted.reshape(2, -1))


def test_without_the_runtime_its_extra_is_named(tmp_path, photos, monkeypatch):
    monkeypatch.setattr(encoders, "find_spec", lambda _: None)
    encoders._opened.cache_clear()
    encoders._fitting.cache_clear()
    with pytest.raises(ConfigError, match=r"onnxruntime, which is not .*'noiseworthy\[encoders\]'"):
        read(tmp_path, photos).shape_after((8, 8))


def test_another_file_than_was_stated_is_refused(tmp_path, photos):
    digest = read(tmp_path, photos).digest
    assert Encoder.read(tmp_path, "made.onnx", digest) == Encoder(digest, "other name", b"")
    with pytest.raises(ConfigError, match=r"the file has digest .* and 000000000000 is stated"):
        Encoder.read(tmp_path, "made.onnx", "0" * 64)
    with pytest.raises(ConfigError, match=r"none\.onnx cannot be read"):
        Encoder.read(tmp_path, "none.onnx")


def test_features_are_kept_on_disk_for_one_pair_of_eyes_and_remembered(tmp_path, photos, monkeypatch):
    monkeypatch.setattr(encoders, "LEAST_KEPT", 9)
    runs = []
    run = encoders._run
    monkeypatch.setattr(encoders, "_run", lambda fitting, x: runs.append(len(x)) or run(fitting, x))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "cache"))
    try:
        encoder, found = read(tmp_path, photos), []
        for _ in range(2):
            monkeypatch.setattr(encoders, "_MEMORY", _Memory())
            found += [encoder(jnp.asarray(X)), encoder(jnp.asarray(X[::-1]))[::-1]]
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    assert runs == [9], "the other three were remembered, read, and remembered"
    assert all(np.array_equal(one, found[0]) for one in found)
    (file,) = (tmp_path / "cache" / "features").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_was_asked_for_longest_ago_is_forgotten_first(monkeypatch):
    monkeypatch.setattr(encoders, "_REMEMBERED", 2 * 16)
    memory, rows = _Memory(), np.zeros((3, 4), np.float32)
    memory.keep([b"1", b"2"], rows[:2])
    memory.of([b"1"])
    memory.keep([b"3", b"3"], rows[1:])
    assert [*memory.of([b"1", b"2", b"3"])] == [b"1", b"3"]
