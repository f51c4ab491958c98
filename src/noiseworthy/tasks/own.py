"""Models of the user's own: a function in a file beside the study, known by a digest of its source.

What is run is what the digest was taken of: the module and all that it imports from its own folder. A gateway
makes those that its owner has approved, from the owner's own copy.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from noiseworthy._float32 import in_float32
from noiseworthy._jax import jax
from noiseworthy.errors import ConfigError, InvalidInput, UserError
from noiseworthy.tasks.names import OWN

if TYPE_CHECKING:
    from noiseworthy.tasks.base import Task


class Source(NamedTuple):
    """A module of a model: its dotted name, where it lies and what it says."""

    name: str
    path: Path
    text: str


Sources = tuple[Source, ...]
"""The module of a model, and those of its folder that it imports, by name."""


def is_own(model: str | None) -> bool:
    """Whether a name is that of a user's own model: a function in a module.

    Example:
        >>> is_own("my_module:make"), is_own("softmax"), is_own("my module:make")
        (True, False, False)
    """
    return model is not None and OWN.fullmatch(model) is not None


def digest_of(model: str, folder: Path) -> str:
    """SHA-256 over the `sources_of` a model, by their names; arguments and errors are the same."""
    return _digest(sources_of(model, folder))


def own_task(
    model: str, folder: Path, digest: str | None, shape: tuple[int, ...], classes: int | None, ridge: float
) -> Task:
    """The task of a model of the user's own; equal arguments give the same object.

    Args:
        model: "module:function"; the function takes the shape of a record and the number of classes (None
            where labels are numbers).
        folder: where the module is looked up.
        digest: of the source that is to be run.
        shape, classes, ridge: as `adapters.as_task`.

    Raises:
        ConfigError: a source that changed, or cannot be run, or a function that returns no model.
        InvalidInput: a model whose outputs do not fit the labels.
    """
    sources = sources_of(model, folder)
    if digest not in (None, found := _digest(sources)):
        raise ConfigError(
            f'[task] model = "{model}" was changed since the study was read: its digest is {found[:12]}; '
            "start again"
        )
    return _task(model, sources, shape, classes, ridge)


@lru_cache(maxsize=64)
def _task(model: str, sources: Sources, shape: tuple[int, ...], classes: int | None, ridge: float) -> Task:
    from noiseworthy.tasks.adapters import as_task, try_floats

    make = _function(model, sources)
    try:
        # numbers that it draws are the same ones whatever a user has enabled
        with _served(sources), in_float32():
            task, again = (as_task(model, make(shape, classes), shape, classes, ridge) for _ in range(2))
            starts = [np.asarray(one.initial(jax.random.key(0))) for one in (task, again)]
            if not np.array_equal(*starts, equal_nan=True):
                raise InvalidInput(
                    f'[task] model = "{model}" starts elsewhere at each call, while its digest stays; draw '
                    "its start from a fixed key, such as jax.random.key(0)"
                )
            try_floats(task, shape)
            return task
    except UserError as error:
        named = "" if "[task] model" in str(error) else f'[task] model = "{model}": '
        raise type(error)(f"{named}{error}") from error
    except Exception as error:
        labels = "real targets" if classes is None else f"{classes} classes"
        raise InvalidInput(
            f'[task] model = "{model}" makes no model for float32 records of shape {shape} and {labels}: '
            f"{_said(error, sources)}"
        ) from error


@lru_cache(maxsize=16)
def _function(model: str, sources: Sources) -> Callable[[tuple[int, ...], int | None], object]:
    """The function of a source, which is imported once."""
    module, _, name = model.partition(":")
    try:
        with _served(sources), in_float32():
            for source in sources:
                sys.modules.pop(source.name, None)  # of another study, or as it was before a change
            made = getattr(import_module(module), name, None)
    except Exception as error:
        raise ConfigError(f'[task] model = "{model}" cannot be imported: {_said(error, sources)}') from error
    if not callable(made):
        raise ConfigError(f'[task] model = "{model}": {module} has no function {name!r}; name one of its own')
    return made


# Sources ----------------------------------------------------------------------------------------------


def sources_of(model: str, folder: Path) -> Sources:
    """What a model is made of; nothing is run.

    Args:
        model: "module:function".
        folder: where the module is looked up.

    Raises:
        ConfigError: no such module, or one that is no Python.
    """
    module = model.partition(":")[0]
    found: dict[str, Source] = {}
    waiting = [*_with_parents(module)]
    while waiting:
        name = waiting.pop()
        if name in found or (path := _file(folder, name)) is None:
            continue
        try:
            text = path.read_text("utf-8")
            tree = ast.parse(text, str(path))
        except (OSError, ValueError, SyntaxError) as error:
            raise ConfigError(f'[task] model = "{model}": {path} cannot be read as Python: {error}') from None
        found[name] = Source(name, path, text)
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        waiting += [part for used in _imported(tree, package) for part in _with_parents(used)]
    if module not in found:
        raise ConfigError(
            f'[task] model = "{model}": there is no {module.replace(".", "/")}.py in {folder}; put it beside '
            "the study's file"
        )
    return tuple(found[name] for name in sorted(found))


def _imported(tree: ast.AST, package: str) -> Iterator[str]:
    """Dotted names that a module may import, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}".strip(".") for alias in node.names)
            yield base


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)) if name)


def _file(folder: Path, name: str) -> Path | None:
    place = folder.joinpath(*name.split("."))
    candidates = (place / "__init__.py", place.with_name(f"{place.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


def _digest(sources: Sources) -> str:
    content = hashlib.sha256()
    for source in sources:
        text = source.text.encode()
        content.update(f"{source.name} {len(text)}\n".encode() + text)
    return content.hexdigest()


# Running them -----------------------------------------------------------------------------------------


class _Finder(MetaPathFinder, Loader):
    """Serves the texts that were read, and no file that may have changed since."""

    def __init__(self, sources: Sources):
        self._sources = {source.name: source for source in sources}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a name, if it is among the sources."""
        if (source := self._sources.get(fullname)) is None:
            return None
        package = source.path.name == "__init__.py"
        spec = ModuleSpec(fullname, self, origin=str(source.path), is_package=package)
        spec.has_location = True
        return spec

    def exec_module(self, module: ModuleType) -> None:
        """Run the text of a module."""
        source = self._sources[module.__name__]
        exec(compile(source.text, str(source.path), "exec"), vars(module))


@contextmanager
def _served(sources: Sources) -> Iterator[None]:
    finder = _Finder(sources)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


def _said(error: Exception, sources: Sources) -> str:
    """What went wrong, with the last line of the user's own files that it came through."""
    own = {str(source.path) for source in sources}
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
    where = f" (line {lines[-1].lineno} of {Path(lines[-1].filename).name})" if lines else ""
    return f"{type(error).__name__}: {' '.join(str(error).split())}{where}"
