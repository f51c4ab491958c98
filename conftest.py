"""Shared by all tests: how programs are compiled, and where the real data lie."""

from __future__ import annotations

import gc
import hashlib
import json
import os
from functools import cache
from importlib.metadata import version
from pathlib import Path
from shutil import disk_usage
from typing import IO, Any

import jax
import numpy as np
import pytest
from _pytest.unraisableexception import gc_collect_iterations_key
from hypothesis import settings
from jax._src.interpreters import mlir
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from noiseworthy.data import load_records
from noiseworthy.data.scenes import scenes
from noiseworthy.methods.space import Grid
from noiseworthy.privacy import loss_distribution
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.reports import style
from noiseworthy.trials import race, spaces, stand_ins

settings.register_profile("same examples", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None)
settings.load_profile("same examples")  # make search draws others in every run

KEPT = Path(__file__).parent / ".cache"
"""Compiled programs outlive a run, for processes that tests start too; `make clean` removes them."""

OLDER = " --xla_cpu_use_fusion_emitters=false" if version("jaxlib").startswith("0.10.") else ""
"""Newer XLA ends the process at a flag that it does not know."""

for name, value in {
    "NOISEWORTHY_CACHE": str(KEPT),
    "JAX_COMPILATION_CACHE_DIR": str(KEPT / "noiseworthy"),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": 0.0,
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": -1,
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": 0,
    "OPENBLAS_NUM_THREADS": 1,
    "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1" + OLDER,
}.items():
    if name not in os.environ:
        os.environ[name] = str(value)
        if name.startswith("JAX_"):
            jax.config.update(name.lower(), value)

MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and disk_usage(MEMORY).free > 2**31:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
"""Ledgers write through to a disk, for which deployments would wait a fifth of their time. Memory outlives a
killed process, too."""

mlir.make_ir_context = cache(mlir.make_ir_context)
"""Programs of a process share what they are lowered in: to make it takes as long as to lower a small one."""

gc.set_threshold(100_000, 50, 100)
"""What many thousand tests keep is not looked through for waste again and again."""

threadpool_limits(1, "blas")
"""Matrices of tests are small: threads would wait for each other, five times as long as one computes."""

DATA_DIR = Path(os.environ.get("NOISEWORTHY_DATA", Path(__file__).parents[1] / "shared" / "data"))


def pytest_configure(config: pytest.Config) -> None:
    config.stash[gc_collect_iterations_key] = 0  # at the end there is much waste: five seconds each


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("data") and not DATA_DIR.is_dir():
        pytest.skip(f"no data folder {DATA_DIR}; set NOISEWORTHY_DATA")


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real data files; for tests marked `data`."""
    return DATA_DIR


WRITERS = ("f0000_14", "f0001_41", "f0002_00", "f0003_22")


@pytest.fixture(scope="session")
def femnist_folder(tmp_path_factory) -> Path:
    """Real digits as LEAF writes FEMNIST: flat lists of 28 x 28 numbers, ink 0 on paper 1, by writer."""
    digits, folder = load_records("digits"), tmp_path_factory.mktemp("femnist")
    images = np.pad(np.kron(digits.x, np.ones((3, 3))), ((0, 0), (2, 2), (2, 2)))
    flat = 1.0 - images.reshape(len(images), -1)
    for part, first, each in (("train", 0, 20), ("test", 100, 2)):
        data = {
            writer: {"x": flat[place : place + each].tolist(), "y": digits.y[place : place + each].tolist()}
            for place, writer in zip(range(first, first + 4 * each, each), WRITERS, strict=True)
        }
        content = {"users": list(WRITERS), "num_samples": [each] * 4, "user_data": data}
        (folder / part).mkdir()
        name = f"all_data_0_niid_0_keep_0_{part}_9.json"
        (folder / part / name).write_text(json.dumps(content))
    return folder


STRICT = {"algorithms", "engines", "tasks", "trials"}
"""Folders of tests in which a number changes its type only where the code says so."""


@pytest.fixture(scope="module", autouse=True)
def stated_types(request):
    strict = STRICT & {parent.name for parent in request.path.parents}
    with jax.numpy_dtype_promotion("strict" if strict else "standard"):
        yield


@pytest.fixture(scope="session", autouse=True)
def every_race_is_run():
    """Tests shorten races in ways that no key of the product's own cache tells apart."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("noiseworthy.trials.cache.cache_folder", lambda: None)
        yield


_SHORT = (
    (race, "RUNGS", ()),
    (race, "_OF_IMAGES", ()),
    (spaces.Space, "grid", Grid(passes=(2, 20), work=(1, 3), clips=(1.0, 0.2), reaches=(3, 30))),
    (stand_ins, "_REAL", 1),
    (stand_ins, "_PRIOR", stand_ins._PRIOR[:1]),
)
_WHOLE = [(owner, name, getattr(owner, name)) for owner, name, _ in _SHORT]


@pytest.fixture(scope="module", autouse=True)
def short_races():
    """Plans by trial in tests come from a small grid, the final alone and two tables if a study names none.

    Those of `trials` race in full.
    """
    with pytest.MonkeyPatch.context() as patch:
        for one in _SHORT:
            patch.setattr(*one)
        yield


@pytest.fixture
def whole_races(monkeypatch) -> None:
    """For tests of how good plans are: races as users have them."""
    for one in _WHOLE:
        monkeypatch.setattr(*one)


@pytest.fixture(scope="module", autouse=True)
def known_losses(request):
    """A calibration to Poisson batches takes seconds, and many tests need one that is not their subject.

    What this very code answered is kept beside the compiled programs; tests of privacy ask it anew.
    """
    asked = loss_distribution.poisson_gaussian_epsilon
    code = Path(loss_distribution.__file__).read_bytes() + version("dp-accounting").encode()

    def known(*numbers: float, settled: bool = True) -> float:
        key = hashlib.sha256(code + repr((*map(float, numbers), settled)).encode()).hexdigest()
        path = KEPT / "losses" / key
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            written = path.with_suffix(f".{os.getpid()}")
            written.write_text(repr(asked(*numbers, settled=settled)))
            written.replace(path)
        return float(path.read_text())

    with pytest.MonkeyPatch.context() as patch:
        if "privacy" not in {parent.name for parent in request.path.parents}:
            patch.setattr(loss_distribution, "poisson_gaussian_epsilon", known)
        yield


@pytest.fixture
def drawn() -> None:
    """For tests of commands and studies that look at pictures."""


@pytest.fixture(autouse=True)
def blank(request, monkeypatch):
    """Of commands and studies figures are made, not laid out nor drawn, nine tenths of a short command."""

    def saved(self: Figure, file: IO[Any], *, format: str, **_: Any) -> None:
        file.write(b"" if format == "png" else "<svg></svg>")

    if _OF_STUDIES & {parent.name for parent in request.path.parents} and "drawn" not in request.fixturenames:
        monkeypatch.setattr(Figure, "savefig", saved)
        monkeypatch.setattr(style, "_lay_out", lambda figure: None)


_OF_STUDIES = {"cli", "studies", "calls"}
"""Tests of reports draw them."""


_MOST_MAPS, _ADDED = 45_000, 5_000
"""Of a process, and by a module of tests at most; beyond 65,530 on Linux a compilation crashes."""


@pytest.fixture(scope="session")
def modules_until_counted() -> list[int]:
    """How many modules of tests may end before maps could be too many; to list 45,000 takes 30 ms."""
    return [1]


@pytest.fixture(scope="module", autouse=True)
def few_programs(modules_until_counted):
    """Compiled programs take memory maps: many thousand tests in one process let theirs go in time."""
    yield
    modules_until_counted[0] -= 1
    maps = Path("/proc/self/maps")
    if modules_until_counted[0] or not maps.exists():
        return
    there = maps.read_bytes().count(b"\n")
    if there > _MOST_MAPS:
        jax.clear_caches()
    modules_until_counted[0] = 1 + max(_MOST_MAPS - there, 0) // _ADDED


@pytest.fixture
def silent(monkeypatch) -> list[int]:
    """Deployed noise that counts its draws and adds nothing, so that totals can be compared."""
    draws: list[int] = []

    def added(self: DeployedNoise, total: np.ndarray) -> np.ndarray:
        draws.append(len(total))
        return total

    monkeypatch.setattr(DeployedNoise, "added_to", added)
    return draws


@pytest.fixture(scope="session")
def photos() -> bytes:
    """An encoder of images of 8 x 8 pixels, made of public photographs: one convolution, 256 numbers.

    Its filters are principal patches of 3 x 3 pixels, each with both signs, after Coates and Ng (2011).
    """
    from onnx import TensorProto, helper, numpy_helper

    patches = np.lib.stride_tricks.sliding_window_view(scenes((8, 8)), (3, 3), axis=(1, 2)).reshape(-1, 9)
    patches = patches - patches.mean(axis=1, keepdims=True)
    found = np.linalg.eigh(patches.T @ patches)[1][:, :0:-1].T
    filters = np.concatenate([found, -found]).reshape(16, 1, 3, 3).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["x", "filters"], ["seen"], pads=[1] * 4),
        helper.make_node("Relu", ["seen"], ["there"]),
        helper.make_node("AveragePool", ["there"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["pooled"], ["features"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", *shape])
        for name, shape in (("x", [1, 8, 8]), ("features", [256]))
    ]
    made = helper.make_graph(
        nodes, "photos", ends[:1], ends[1:], [numpy_helper.from_array(filters, "filters")]
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(made, opset_imports=opsets, ir_version=9).SerializeToString()
