"""House rules that no linter of ours checks: no assert on input, no global randomness, docstrings."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from hypothesis import settings
from parsed import tree_of

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


def undocumented(tree: ast.Module) -> list[int]:
    """Lines of public functions, classes and methods without a docstring; 1 for the module itself."""
    missing = [] if ast.get_docstring(tree) else [1]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
            continue
        for node in owner.body:
            if isinstance(node, kinds) and not node.name.startswith("_") and not ast.get_docstring(node):
                missing.append(node.lineno)
    return missing


def found(check: Callable[[ast.Module], list[int]], sources: Iterable[Path] = SOURCES) -> list[str]:
    """Every place that a check finds, as file:line."""
    return [f"{path.relative_to(REPOSITORY)}:{line}" for path in sources for line in check(tree_of(path))]


def test_input_is_never_checked_by_assert():
    assert (
        found(asserts, [path for path in SOURCES if "testing" not in path.relative_to(REPOSITORY).parts])
        == []
    )


def test_nothing_draws_from_global_randomness():
    assert found(global_draws) == []


def test_everything_public_is_documented():
    assert found(undocumented) == []


def test_there_are_sources_to_check():
    assert len(SOURCES) > 20


def test_the_checks_see_what_they_look_for():
    source = (
        "import random\nimport numpy as np\ndef f(x):\n    assert x\n    np.random.seed(0)\n"
        "    np.random.default_rng()\n    np.random.default_rng(3)\nclass A:\n    def b(self): ...\n"
    )
    tree = ast.parse(source)
    assert asserts(tree) == [4]
    assert sorted(global_draws(tree)) == [1, 5, 6]
    assert undocumented(tree) == [1, 3, 8, 9]


PROOFS = ("algorithms", "audit", "deploy", "engines", "mutants", "privacy", "statistical", "testing")
"""Folders of tests that prove privacy."""


def marked(sources: Iterable[Path], mark: str) -> list[str]:
    return [
        f"{path}:{number}"
        for path in sources
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if f"mark.{mark}" in line
    ]


def test_no_test_that_proves_privacy_waits_for_the_full_run():
    tests = REPOSITORY / "tests"
    assert all((tests / folder).is_dir() for folder in PROOFS)
    assert marked((path for folder in PROOFS for path in (tests / folder).rglob("*.py")), "full") == []
    assert marked(tests.rglob("*.py"), "full"), "the search finds none at all"


def test_a_run_of_all_tests_never_fails_by_luck(request):
    """Properties draw the same examples in every run, but for one that asks for new ones."""
    searching = request.config.getoption("--hypothesis-profile")
    if searching:
        pytest.skip(f"drawn under the profile {searching}")
    assert settings.default is not None
    assert settings.default.derandomize
