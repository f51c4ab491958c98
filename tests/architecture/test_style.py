"""House rules that no linter of ours checks: no assert on input, no global randomness, docstrings."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import settings

REPOSITORY = Path(__file__).parents[2]
SOURCES = sorted(path for part in ("src", "papers/src") for path in (REPOSITORY / part).rglob("*.py"))
GENERATORS = {"default_rng", "Generator", "SeedSequence", "PCG64", "Philox", "BitGenerator"}


def asserts(tree: ast.AST) -> list[int]:
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)]


def dotted(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def global_draws(tree: ast.AST) -> list[int]:
    """Lines that use NumPy's global generator, Python's random, or a generator without a seed."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            name = dotted(node)
            if name.startswith(("np.random.", "numpy.random.")) and name.split(".")[2] not in GENERATORS:
                lines.append(node.lineno)
        if isinstance(node, ast.Call) and dotted(node.func).endswith("default_rng") and not node.args:
            lines.append(node.lineno)
        if isinstance(node, ast.Import) and any(alias.name == "random" for alias in node.names):
            lines.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "random":
            lines.append(node.lineno)
    return lines


def undocumented(tree: ast.Module) -> list[str]:
    """Public functions, classes and methods without a docstring, and the module itself."""
    missing = [] if ast.get_docstring(tree) else ["module"]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
            continue
        for node in owner.body:
            if isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node):
                missing.append(node.name)
    return missing


def pytest_id(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


@pytest.mark.parametrize("path", SOURCES, ids=pytest_id)
def test_input_is_never_checked_by_assert(path):
    if "testing" not in path.relative_to(REPOSITORY).parts:
        assert asserts(ast.parse(path.read_text())) == []


@pytest.mark.parametrize("path", SOURCES, ids=pytest_id)
def test_nothing_draws_from_global_randomness(path):
    assert global_draws(ast.parse(path.read_text())) == []


@pytest.mark.parametrize("path", SOURCES, ids=pytest_id)
def test_everything_public_is_documented(path):
    assert undocumented(ast.parse(path.read_text())) == []


def test_the_checks_see_what_they_look_for():
    source = (
        "import random\nimport numpy as np\ndef f(x):\n    assert x\n    np.random.seed(0)\n"
        "    np.random.default_rng()\n    np.random.default_rng(3)\nclass A:\n    def b(self): ...\n"
    )
    tree = ast.parse(source)
    assert asserts(tree) == [4]
    assert sorted(global_draws(tree)) == [1, 5, 6]
    assert undocumented(tree) == ["module", "f", "A", "b"]


def test_a_run_of_all_tests_never_fails_by_luck(request):
    """Properties draw the same examples in every run, but for one that asks for new ones."""
    searching = request.config.getoption("--hypothesis-profile")
    if searching:
        pytest.skip(f"drawn under the profile {searching}")
    assert settings.default is not None
    assert settings.default.derandomize
