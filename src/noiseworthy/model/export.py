"""A model as ONNX: one graph from encoded records to probabilities, for programs without Python or jax.

The graph does what a task's `prepare` and `answers` do, node by node: a linear model's preparation (with an
encoder as the body of a loop over records), norm, matrix and intercept; or two convolutions and dense
layers, the networks of `tasks.models.cnn` without norms.
"""

import json
import math
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._places import write_whole, writing
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.model.model import Model
from noiseworthy.tasks.batch import SAFETY
from noiseworthy.tasks.clipping import upper_norm
from noiseworthy.tasks.encoder import Encoder
from noiseworthy.tasks.images import image_shape
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.models.cnn import DESIGNS
from noiseworthy.tasks.preparation import Preparation

OPSET, IR = 17, 9
"""Old enough for every runtime since 2023."""
INPUT, CLASSES, NUMBER = "records", "probabilities", "prediction"
_NETWORKS = tuple(name for name, design in DESIGNS.items() if not design.groups)


def export_onnx(model: Model, file: Path | str) -> Path:
    """Write a model as an ONNX file.

    The input `records` is float32 of shape (n, *record_shape), as `Model.encoded` makes it. The output is
    `probabilities` (n, K), or `prediction` (n, 1): the number of a regression, the margin of an svm. Names of
    the features and classes and the privacy claim go along as metadata.

    Raises:
        InvalidInput: a model that cannot be exported, by name.
        ConfigError: an installation without onnx.
        DataError: a file that cannot be written.
    """
    if find_spec("onnx") is None:
        raise ConfigError("onnx is not installed; pip install 'noiseworthy[onnx]'")
    import onnx
    from onnx import TensorProto, helper

    name, z = _outputs(graph := _Graph(), model)
    shape = ["n", *model.description.record_shape]
    width = 1 if name == NUMBER else len(model.classes or ())
    made = helper.make_model(
        helper.make_graph(
            [*graph.nodes, helper.make_node("Identity", [z], [name])],
            "noiseworthy",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", OPSET), *graph.domains],
        ir_version=IR,
        producer_name="noiseworthy",
        producer_version=model.description.version,
    )
    helper.set_model_props(made, _said(model))
    onnx.checker.check_model(made, full_check=True)
    with writing(file, "name another file"):
        write_whole(Path(file), made.SerializeToString())
    return Path(file)


def _said(model: Model) -> dict[str, str]:
    """What a graph has no place for, as text."""
    description = model.description
    features = None if description.columns is None else list(description.columns.feature_names)
    said = {"features": features, "classes": description.classes, "privacy": description.privacy.model_dump()}
    return {name: json.dumps(value, ensure_ascii=False) for name, value in said.items()}


class _Graph:
    """Nodes under way; every value has a name."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.domains: list[Any] = []

    def put(self, value: ArrayLike, kind: type = np.float32) -> str:
        """A constant."""
        from onnx import numpy_helper

        name = f"{self.prefix}c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """A node; returns the name of its one output."""
        from onnx import helper

        name = f"{self.prefix}v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, inputs, [name], **attributes))
        return name

    def shaped(self, x: str, *shape: int) -> str:
        """A value in another shape; -1 is the number of records."""
        return self.add("Reshape", x, self.put(shape, np.int64))

    def sum(self, x: str) -> str:
        """Sum along the last axis, which stays with length 1."""
        return self.add("ReduceSum", x, self.put([-1], np.int64), keepdims=1)


def _outputs(graph: _Graph, model: Model) -> tuple[str, str]:
    """The name of what comes out, and the value that it is."""
    task, said = model.task, model.description
    theta, shape = np.asarray(model.kept.theta, np.float32), tuple(said.record_shape)
    if isinstance(task, LinearModel):
        z = _linear(graph, task, theta, shape)
    elif said.task.model in _NETWORKS:
        z = _network(graph, said.task.model, theta, shape, len(said.classes or ()))
    else:
        raise InvalidInput(
            f"{said.task.model or 'a network of your own'} cannot be exported to ONNX; linear models and "
            f"{', '.join(_NETWORKS)} can, use nw.load_model for others"
        )
    if model.gives_probabilities and said.scale != 1:
        z = graph.add("Mul", z, graph.put(said.scale))
    if model.loss == "softmax":
        return CLASSES, graph.add("Softmax", z, axis=-1)
    if model.loss == "logistic":
        other = graph.add("Sigmoid", graph.add("Neg", z))
        return CLASSES, graph.add("Concat", other, graph.add("Sigmoid", z), axis=1)
    return NUMBER, z


def _linear(graph: _Graph, task: LinearModel, theta: NDArray[np.float32], shape: tuple[int, ...]) -> str:
    if isinstance(features := task.preparation.features, str):
        raise InvalidInput(
            f'a model of features = "{features}" cannot be exported to ONNX; use '
            "nw.load_model, or train without features"
        )
    rows = _scaled(graph, task, _prepared(graph, task.preparation, shape))
    weights = theta.reshape(-1, task.outputs)
    intercept = task.bias * weights[-1] if task.bias else np.zeros(task.outputs)
    return graph.add("Gemm", rows, graph.put(weights[: task.features]), graph.put(intercept))


def _prepared(graph: _Graph, preparation: Preparation, shape: tuple[int, ...]) -> str:
    """Records as rows: pooled, seen against a reference, projected."""
    rows, numbers = INPUT, math.prod(shape)
    if preparation.pooling > 1:
        rows = _pooled(graph, preparation.pooling, image_shape("pooling", shape))
        shape = Preparation(preparation.pooling).shape_after(shape)
        numbers = math.prod(shape)
    if isinstance(preparation.features, Encoder):
        rows, numbers = _encoded(graph, preparation.features, rows, shape), preparation.features.size(shape)
    rows = graph.shaped(rows, -1, numbers)
    if (seen := preparation.reference) is not None:
        if seen.center is not None:
            centered = graph.add("Sub", rows, graph.put(seen.center))
            rows = graph.add("Div", centered, graph.put(np.asarray(seen.spread)))
        norms = graph.add("Sqrt", graph.sum(graph.add("Mul", rows, rows)))
        zero = graph.add("Equal", norms, graph.put(0.0))
        units = graph.add("Div", rows, graph.add("Where", zero, graph.put(1.0), norms))
        rows = graph.add("Sub", units, graph.put(preparation.reference.mean))
    if preparation.projection is None:
        return rows
    if preparation.reference is not None:
        directions = preparation.reference.directions[: preparation.projection].T
    else:
        alone = Preparation(projection=preparation.projection, seed=preparation.seed)
        directions = np.asarray(alone(jnp.eye(numbers)))
    return graph.add("MatMul", rows, graph.put(directions))


def _encoded(graph: _Graph, encoder: Encoder, rows: str, shape: tuple[int, ...]) -> str:
    """Features of records, one after the other: the encoder as the body of a loop over them."""
    import onnx
    from onnx import TensorProto, compose, helper, version_converter

    try:
        whole = onnx.load_model_from_string(encoder.content)
        (now,) = (one.version for one in whole.opset_import if not one.domain)
        whole = whole if now == OPSET else version_converter.convert_version(whole, OPSET)
        whole = compose.add_prefix(whole, "encoder/")
    except Exception as error:
        raise InvalidInput(
            f"the encoder {encoder.name} cannot be brought to ONNX operator set {OPSET}, which is exported "
            f"({str(error)[:100]}); export the encoder with it, or use nw.load_model"
        ) from None
    axes, into = encoder.view(shape)
    known = {one.name for one in whole.graph.initializer}
    (taken,) = (one.name for one in whole.graph.input if one.name not in known)
    body = _Graph("record/")
    record = "record" if axes is None else body.add("Transpose", "record", perm=axes)
    alone = helper.make_node("Reshape", [record, body.put([1, *into], np.int64)], [taken])
    flat = helper.make_node(
        "Reshape", [whole.graph.output[0].name, body.put([encoder.size(shape)], np.int64)], ["features"]
    )
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, known)
        for name, known in (("record", [*shape]), ("features", [encoder.size(shape)]))
    ]
    nodes = [*body.nodes, alone, *whole.graph.node, flat]
    constants = [*body.constants, *whole.graph.initializer]
    inner = helper.make_graph(nodes, "one record", ends[:1], ends[1:], constants)
    graph.domains = [one for one in whole.opset_import if one.domain]
    return graph.add("Scan", rows, body=inner, num_scan_inputs=1)


def _pooled(graph: _Graph, side: int, image: tuple[int, ...]) -> str:
    """Sums over blocks, divided by their side; channels last again."""
    height, width, *_ = image
    beyond = [0, 0, -height % side, -width % side]
    means = graph.add(
        "AveragePool", _channels_first(graph, image), kernel_shape=[side, side], strides=[side, side],
        pads=beyond, count_include_pad=1,
    )  # fmt: skip
    return graph.add("Transpose", graph.add("Mul", means, graph.put(side)), perm=[0, 2, 3, 1])


def _channels_first(graph: _Graph, image: tuple[int, ...]) -> str:
    height, width, *channels = image
    images = graph.shaped(INPUT, -1, height, width, *(channels or [1]))
    return graph.add("Transpose", images, perm=[0, 3, 1, 2])


def _scaled(graph: _Graph, task: LinearModel, rows: str) -> str:
    """Rows within the ball of the task, or on its sphere."""
    if task.feature_norm is None:
        return rows
    peak = graph.add("ReduceMax", graph.add("Abs", rows), axes=[-1], keepdims=1)
    safe = graph.add("Where", graph.add("Greater", peak, graph.put(0.0)), peak, graph.put(1.0))
    units = graph.add("Div", rows, safe)
    # As `upper_norm` adds it: a record of zeros then has a finite reach, and stays zero instead of NaN.
    least = np.square(float(upper_norm(jnp.zeros(task.features), "l2")))
    squares = graph.add("Add", graph.sum(graph.add("Mul", units, units)), graph.put(least))
    reach = graph.add("Div", graph.put(SAFETY * task.feature_norm), graph.add("Sqrt", squares))
    moved = graph.add("Mul", units, reach)
    if task.normalise:
        return moved
    return graph.add("Where", graph.add("LessOrEqual", peak, reach), rows, moved)


def _network(graph: _Graph, model: str, theta: NDArray, shape: tuple[int, ...], classes: int) -> str:
    design, image = DESIGNS[model], image_shape(model, shape)
    layers = design.layers(jnp.asarray(theta), classes, image)
    x = _channels_first(graph, image)
    for i, (_, _, margin) in enumerate(design.convolutions):
        weight, bias = (np.asarray(layers[f"conv{i}"][part]) for part in ("weight", "bias"))
        kernel = graph.put(weight.transpose(3, 2, 0, 1))
        x = graph.add("Conv", x, kernel, graph.put(bias), pads=[margin] * 4)
        x = graph.add("Relu", graph.add("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]))
    x = graph.add("Transpose", x, perm=[0, 2, 3, 1])
    for i in range(len(design.dense) + 1):
        weight, bias = (np.asarray(layers[f"dense{i}"][part]) for part in ("weight", "bias"))
        x = graph.add("Relu", x) if i else graph.shaped(x, -1, len(weight))
        x = graph.add("Gemm", x, graph.put(weight), graph.put(bias))
    return x
