"""Imports point one way, and planning and accounting need no jax."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from parsed import nodes_of

import noiseworthy

ROOT = Path(noiseworthy.__file__).parent

ORDER = {  # each part may import parts of a lower number, and itself
    "errors": 0, "_types": 0, "_names": 0, "_mistakes": 0, "_wording": 0,
    "_json": 0, "_jax": 0, "_float32": 1, "_validate": 1, "_keys": 1, "_places": 1, "_tables": 1,
    "privacy": 2,
    "plans": 3, "data": 3, "tasks": 3,
    "model": 4,
    "methods": 4,
    "rounds": 5, "home": 5,
    "engines": 6,
    "audit": 7, "trials": 7,
    "studies": 8,
    "sweeps": 9, "deploy": 9, "estimators": 9,
    "experiments": 10,
    "reports": 11,
    "calls": 12,
    "cli": 13, "exports": 14, "__init__": 15, "__main__": 15, "testing": 15,
}  # fmt: skip


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported_modules(nodes: Iterable[ast.AST], package: list[str]) -> dict[str, int]:
    """Dotted names that a source imports anywhere, in functions and under TYPE_CHECKING too, with a line."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name: node.lineno for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            found |= {f"{prefix}.{alias.name}": node.lineno for alias in node.names}
    return found


def parts_used(path: Path) -> dict[str, int]:
    package = ["noiseworthy", *path.relative_to(ROOT).parent.parts]
    names = imported_modules(nodes_of(path), package).items()
    split = ((name.split("."), line) for name, line in names)
    return {name[1]: line for name, line in split if name[0] == "noiseworthy" and len(name) > 1}


SOURCES = sorted(ROOT.rglob("*.py"))


def test_every_part_has_its_place_in_the_order():
    assert {part_of(path) for path in SOURCES} <= set(ORDER)
    assert len(SOURCES) > 20


def test_imports_point_one_way():
    uses = [(path, part_of(path), *use) for path in SOURCES for use in parts_used(path).items()]
    assert {used for _, _, used, _ in uses} <= set(ORDER)
    assert [
        f"{path}:{line}: {mine} may not import {used}"
        for path, mine, used, line in uses
        if used != mine and ORDER[used] >= ORDER[mine]
    ] == []


def test_the_reader_of_imports_sees_every_form():
    """Were it blind, the test above could not fail."""
    source = (
        "import noiseworthy.cli\nfrom noiseworthy import engines\nfrom noiseworthy.tasks.base import Task\n"
        "from ..trials import search\ndef f():\n    from . import sibling\n"
    )
    found = imported_modules(ast.walk(ast.parse(source)), ["noiseworthy", "privacy"])
    assert set(found) == {
        "noiseworthy.cli",
        "noiseworthy.engines",
        "noiseworthy.tasks.base.Task",
        "noiseworthy.trials.search",
        "noiseworthy.privacy.sibling",
    }


def loads_jax(modules: list[str]) -> str:
    code = (
        f"import {', '.join(modules)}, sys; "
        "print(*({name.split('.')[0] for name in sys.modules} & {'jax', 'jaxlib', 'equinox', 'optax'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_planning_and_accounting_never_load_jax():
    """Nor does any method's file, nor linear models, which planning asks how smooth they are."""
    rooms = [
        *(ROOT / "plans").glob("*.py"),
        *(ROOT / "privacy").rglob("*.py"),
        *ROOT.glob("methods/*/method.py"),
    ]
    files = [path for path in rooms if not path.stem.endswith(("__init__", "analysis"))]
    modules = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in files]
    assert len(modules) > 60
    assert loads_jax([*modules, "noiseworthy.tasks.linear", "noiseworthy.calls.steps"]) == ""


def test_the_watch_for_jax_is_awake():
    assert "jax" in loads_jax(["noiseworthy.methods.algorithm"])


HEAVY = {"jax", "pandas", "pyarrow", "scipy", "sklearn", "matplotlib", "dp_accounting"}
READ = """
import sys
sys.argv = ["noiseworthy", "train", sys.argv[1]]
from noiseworthy.cli import main
try:
    main()
except SystemExit as ended:
    print(ended.code, *sorted({name.split(".")[0] for name in sys.modules}))
"""


def loaded_for(study: Path, text: str) -> set[str]:
    """Packages of a process that refused to train a study."""
    study.write_text(text)
    done = subprocess.run([sys.executable, "-c", READ, str(study)], capture_output=True, text=True)
    code, *names = done.stdout.split()
    assert code == "2", done
    return set(names)


def test_a_mistake_in_a_study_waits_for_nothing_heavy(tmp_path):
    privacy = '[privacy]\nmechanism = "gaussian"\ndelta = 1e-5\n'
    typo = f"[federation]\nsizes = [5]\n{privacy}[algorithm]\nname = 'dp-fedavg'\nlocal_step = 3\n"
    assert loaded_for(tmp_path / "typo.toml", typo) & HEAVY == set()
    (tmp_path / "own.csv").write_text("a,b\n1,2\n")
    column = f"[federation]\ndata = 'own.csv'\nlabel_column = 'c'\n{privacy}"
    assert loaded_for(tmp_path / "column.toml", column) & HEAVY == {"pandas", "pyarrow"}


def test_only_the_flower_engine_imports_flower():
    for path in SOURCES:
        if "flower" not in path.parts:
            names = imported_modules(nodes_of(path), ["noiseworthy"])
            assert not any(name.split(".")[0] == "flwr" for name in names), path
