"""What the wheel holds: the product without papers and benchmarks, and no more than so many lines."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

from parsed import length, nodes_of

REPOSITORY = Path(__file__).parents[2]
MOST_LINES = 77_963
OUTSIDE = {"noiseworthy_papers", *(path.stem for path in (REPOSITORY / "benchmarks").glob("*.py"))}


def wheel(project: Path) -> list[Path]:
    """Python files that setuptools packs: all below `where`, because nothing is included or excluded."""
    settings = tomllib.loads((project / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert settings["packages"] == {"find": {"where": ["src"]}}
    return sorted((project / "src").rglob("*.py"))


def packages(project: Path) -> set[str]:
    return {path.relative_to(project / "src").parts[0] for path in wheel(project)}


def imported(path: Path) -> set[str]:
    """First names of what a file imports anywhere."""
    found = set()
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_the_wheel_holds_the_product_and_no_papers():
    assert packages(REPOSITORY) == {"noiseworthy"}
    assert packages(REPOSITORY / "papers") == {"noiseworthy_papers"}


def test_the_wheel_is_no_longer_than_it_was():
    """A ceiling to lower, comments free: what only papers, benchmarks or tests use lies outside."""
    assert 30_000 < sum(map(length, wheel(REPOSITORY))) <= MOST_LINES


def test_nothing_in_the_wheel_imports_what_lies_outside():
    assert {"noiseworthy_papers", "oracle", "quality"} <= OUTSIDE
    assert not [path for path in wheel(REPOSITORY) if imported(path) & OUTSIDE]
    assert imported(REPOSITORY / "benchmarks" / "plan_quality.py") >= {"oracle", "quality"}


def test_the_command_line_starts_without_the_papers():
    code = "import sys, noiseworthy.cli; print('noiseworthy_papers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
