"""Nothing but the registry and the methods themselves knows which methods there are."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from parsed import tree_of

import noiseworthy
from noiseworthy.methods.base import Method
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.methods.words import Noised, Words

ROOT = Path(noiseworthy.__file__).parent
KINDS = {"LocalSteps", "NoisySteps", "Coins", "FirstStage"}
KEYS = {"noised", "communication_probability", "batch_size", "coin_seed"}
"""Keys that some plans lack: whether one is there tells methods apart."""


def sources() -> dict[str, ast.Module]:
    """Modules outside the room of methods, by their paths in the package."""
    paths = {path.relative_to(ROOT).as_posix(): path for path in ROOT.rglob("*.py")}
    return {name: tree_of(path) for name, path in paths.items() if name.split("/")[0] != "methods"}


def named(tree: ast.AST) -> int:
    """Strings that are the name of a method; docstrings and longer texts are none."""
    return sum(isinstance(node, ast.Constant) and node.value in METHODS for node in ast.walk(tree))


def kinds_asked(tree: ast.AST) -> int:
    """Calls of `isinstance` with a kind of plan, and class patterns of `match`."""
    found = 0
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            found += bool(KINDS & mentioned(node.args[1]))
        elif isinstance(node, ast.MatchClass):
            found += bool(KINDS & mentioned(node.cls))
    return found


def keys_asked(tree: ast.AST) -> int:
    """Tests whether a key that only some plans have is among them."""
    return sum(
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.In | ast.NotIn)
        and isinstance(node.left, ast.Constant)
        and node.left.value in KEYS
        for node in ast.walk(tree)
    )


def mentioned(node: ast.AST) -> set[str]:
    """Names and last parts of dotted names in an expression."""
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    return names | {part.attr for part in ast.walk(node) if isinstance(part, ast.Attribute)}


def counted(count: Callable[[ast.AST], int]) -> Counter[str]:
    """How many each module has, of those that have any."""
    return +Counter({name: count(tree) for name, tree in sources().items()})


def test_no_module_outside_its_room_names_a_method():
    assert not counted(named)


def test_no_module_outside_its_room_asks_which_kind_of_plan_it_holds():
    assert not counted(kinds_asked)


def test_no_module_outside_its_room_tells_plans_apart_by_keys_that_some_lack():
    assert not counted(keys_asked)


SEEN = """
def f(plan, record):
    \"\"\"A docstring may say dp-fedavg.\"\"\"
    if plan.algorithm == "dp-fedavg" or plan.algorithm in ("pfa", "weiavg"):
        return isinstance(plan.local, kinds.Coins | None)
    if "noised" in record or "coin_seed" not in record:
        return isinstance(plan, Plan)
    match plan.local:
        case NoisySteps():
            return "dp-fedavg is named in a sentence"
"""


def test_the_reader_sees_what_it_is_to_refuse():
    """Were it blind, the tests above could not fail."""
    tree = ast.parse(SEEN)
    assert (named(tree), kinds_asked(tree), keys_asked(tree)) == (3, 2, 2)


@pytest.mark.parametrize("value", [Method, Words, Noised])
def test_no_default_stands_in_for_a_part_that_a_method_lacks(value):
    assert [
        part.name for part in fields(value) if (part.default, part.default_factory) != (MISSING, MISSING)
    ] == []


@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_words_for_what_it_decides(name):
    words = method(name).words
    assert {*words.decided} <= words.terms.keys()
    assert words.symbols(dict.fromkeys(words.decided, 3), words.decided).count(" = 3") == len(words.decided)
    assert "rounds" in words.courses
    assert words.called.replace("-", "").lower() == name.replace("-", "")
    assert words.online(3, 7)
    once = {"releases": [1], "rounds": 1, "privacy": {"unit": "record"}}
    assert words.noised.release in words.noised.caption(once)
