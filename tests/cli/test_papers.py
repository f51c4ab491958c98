"""The papers are a package of their own: without it the command says where to get it."""

from __future__ import annotations

import sys


def test_without_the_papers_package_the_command_says_where_to_get_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "noiseworthy_papers", None)
    answer = run("reproduce", "zhou", "table-1")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == (
        "error: reproduce needs the package noiseworthy-papers, which is not installed with noiseworthy; "
        "clone the repository of noiseworthy and run there: pip install -e papers\n"
    )


def test_with_the_package_its_table_is_judged_and_written(run, tmp_path):
    answer = run("reproduce", "zhou", "table-1", "--out", tmp_path / "pages")
    assert answer.code == 0
    assert "agrees" in answer.out
    assert (tmp_path / "pages" / "zhou.md").read_text().startswith("# Reproductions of Zhou et al.")
