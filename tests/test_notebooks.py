"""The notebooks of examples/ run from top to bottom in a process of their own, and print what they claim."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "examples" / "notebooks"
NAMES = ("deploying", "hospital_table", "images", "own_network")


PATIENT: dict[str, Any] = {"startup_timeout": 300, "iopub_timeout": 120, "raise_on_iopub_timeout": True}
"""By default what a cell prints is dropped without a word where it comes 4 s after the cell's end, as it does
on a busy machine; and a kernel that takes a minute to start is given up."""


def cells(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


def test_four_notebooks_are_kept_without_outputs():
    assert sorted(path.name for path in FOLDER.iterdir()) == [f"{name}.ipynb" for name in NAMES]
    for name in NAMES:
        book = cells(name)
        nbformat.validate(book)
        assert 6 <= len(book.cells) <= 13
        code = [cell for cell in book.cells if cell.cell_type == "code"]
        assert all(cell.outputs == [] and cell.execution_count is None for cell in code)


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """What a notebook prints, run in an empty folder in which it leaves nothing; a cell that fails raises."""
    here, temporary = tmp_path / "here", tmp_path / "t"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))

    def call(name: str) -> str:
        book = cells(name)
        NotebookClient(
            book, timeout=600, kernel_name="python3", resources={"metadata": {"path": here}}, **PATIENT
        ).execute()
        assert list(here.iterdir()) == []
        outputs = [output for cell in book.cells for output in cell.get("outputs", [])]
        said = "".join(output.get("text", "") for output in outputs)  # a stream comes in pieces
        print(said)  # pytest shows it where a claim fails
        return said

    return call


def number(said: str, before: str) -> float:
    """The first number after some words."""
    found = re.search(re.escape(before) + r" ([\d.]+)", said)
    assert found, f"{before!r} is not in\n{said}"
    return float(found[1])


@pytest.mark.full
def test_a_hospitals_table_ends_in_predictions_above_the_majority(printed):
    said = printed("hospital_table")
    assert 'range = "?"' in said
    assert "Nothing stands against training." in said
    assert number(said, "accuracy") > number(said, "majority") + 0.15
    assert number(said, "right on") > 75


@pytest.mark.full
def test_images_are_told_apart_within_the_budget(printed):
    said = printed("images")
    assert number(said, "accuracy") > number(said, "majority") + 0.5
    assert 3.99 < number(said, "epsilon spent") <= 4.0


@pytest.mark.full
def test_a_network_of_ones_own_learns_and_a_changed_one_is_refused(printed):
    said = printed("own_network")
    assert number(said, "accuracy") > number(said, "majority") + 0.3
    assert number(said, "parameters, accuracy") > number(said, "majority") + 0.3
    assert "refused:" in said
    assert number(said, "the kept model is right on") > 40


@pytest.mark.slow  # it failed twice in five runs on a busy machine, where what cells print could be dropped
def test_an_owner_refuses_a_plan_beyond_its_file_and_audits_its_gateway(printed):
    said = printed("deploying")
    assert number(said, "simulated: accuracy") > number(said, "majority") + 0.15
    assert "noise_floor" in said
    assert "the plan spends epsilon 4" in said
    assert "(not served)" in said
    assert "Nothing speaks against this installation" in said
