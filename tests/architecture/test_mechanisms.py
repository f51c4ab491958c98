"""Mechanisms are told apart in their own files alone: nothing else asks for a name or a class of noise."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

import pytest
from parsed import nodes_of

import noiseworthy
from noiseworthy.privacy.mechanisms.analysis import Analysis
from noiseworthy.privacy.mechanisms.base import Law
from noiseworthy.privacy.mechanisms.laplace import LAW
from noiseworthy.privacy.mechanisms.registry import LAWS

ROOT = Path(noiseworthy.__file__).parent
CLASSES = {"Gaussian", "Laplace", "NoNoise"}
NAMES, NOTHING = {"gaussian", "laplace"}, "none"
ALLOWED: frozenset[str] = frozenset()
"""Nothing may."""


def constants(node: ast.AST) -> set[object]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant)}


def speaks_of_noise(node: ast.AST) -> bool:
    text = ast.unparse(node)
    return "mechanism" in text or "family" in text


def branches(nodes: Iterable[ast.AST]) -> list[int]:
    """Lines that compare with a mechanism's name, look up by it, ask for its class or import that."""
    lines = []
    for node in nodes:
        if isinstance(node, ast.Compare | ast.MatchValue):
            asked = constants(node)
            if asked & NAMES or (NOTHING in asked and speaks_of_noise(node)):
                lines.append(node.lineno)
        elif isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            if {key for key in keys if isinstance(key, str)} & NAMES:
                lines.append(node.lineno)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            if CLASSES & {ast.unparse(one).split(".")[-1] for one in ast.walk(node.args[1])}:
                lines.append(node.lineno)
        elif isinstance(node, ast.ImportFrom) and CLASSES & {alias.name for alias in node.names}:
            lines.append(node.lineno)
    return lines


SOURCES = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if not {"mechanisms", "papers"} & set(path.relative_to(ROOT).parts[:-1])
]


def test_nothing_else_branches_on_a_mechanism():
    assert len(SOURCES) > 200
    found = {str(path.relative_to(ROOT)): branches(nodes_of(path)) for path in SOURCES}
    assert {path: lines for path, lines in found.items() if lines and path not in ALLOWED} == {}


@pytest.mark.parametrize(
    "source",
    [
        'a == "laplace"',
        'f = 1 if "gaussian" != problem.family else 2',
        'x = plan["mechanism"] == "none"',
        'x = owner.mechanism in ("gaussian", "other")',
        'size = {"laplace": 2, "gaussian": 1}[family]',
        'match family:\n    case "laplace":\n        pass',
        "isinstance(release.mechanism, Gaussian)",
        "isinstance(noise, (mechanisms.Laplace, int))",
        "from noiseworthy.privacy.mechanisms import NoNoise",
    ],
)
def test_the_watch_sees_every_form(source):
    assert len(branches(ast.walk(ast.parse(source)))) == 1


@pytest.mark.parametrize(
    "source", ['step_decay == "none"', 'a = "laplace"', 'f("gaussian")', '"none" in words']
)
def test_the_watch_lets_the_rest_alone(source):
    assert branches(ast.walk(ast.parse(source))) == []


def test_an_incomplete_law_is_refused_where_it_is_made():
    """No default stands in for a missing part."""
    facts = {field.name: getattr(LAW, field.name) for field in fields(LAW)}

    class Half(Analysis):
        pass

    with pytest.raises(TypeError, match="abstract"):
        Half()  # pyright: ignore[reportAbstractUsage]
    for name in facts:
        with pytest.raises(TypeError, match=name):
            Law(**{key: value for key, value in facts.items() if key != name})


def test_every_law_has_its_analysis():
    assert {name: isinstance(law.analysis, Analysis) for name, law in LAWS.items()} == dict.fromkeys(
        LAWS, True
    )
