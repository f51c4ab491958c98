"""Sources as tests of the house read them: parsed once in a process."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of it."""
    return tuple(ast.walk(tree_of(path)))


def length(path: Path) -> int:
    """Its lines but for comments: a ceiling is for code and says nothing against a reason."""
    return sum(not line.lstrip().startswith("#") for line in path.read_text().splitlines())
