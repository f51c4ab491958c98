"""What Python code may import: every name with the type that a checker sees, nothing loaded too early."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import noiseworthy
from noiseworthy import exports
from noiseworthy.exports import HOME

TREE = ast.parse(Path(exports.__file__).read_text())
SEEN = {  # what a type checker takes each name for
    alias.name: block.module
    for block in ast.walk(TREE)
    if isinstance(block, ast.ImportFrom) and block.module and block.module.startswith("noiseworthy.")
    for alias in block.names
}


def test_names_that_a_checker_sees_are_those_that_are_loaded():
    assert sorted(SEEN) == sorted(noiseworthy.__all__) == sorted(HOME)
    assert noiseworthy.__all__ == sorted(noiseworthy.__all__)


@pytest.mark.parametrize("name", sorted(SEEN))
def test_a_name_is_loaded_from_where_a_checker_looks(name):
    assert HOME[name] == SEEN[name]
    assert getattr(noiseworthy, name) is getattr(sys.modules[SEEN[name]], name)


def test_an_unknown_name_is_an_error():
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        getattr(noiseworthy, "trian")  # noqa: B009


def test_importing_the_package_loads_neither_numbers_nor_the_training_stack():
    heavy = {"jax", "numpy", "pydantic", "noiseworthy.exports"}
    code = f"import noiseworthy, sys; print(*({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
