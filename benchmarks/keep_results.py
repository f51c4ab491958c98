"""Results of `noiseworthy reproduce PAPER ITEM --out FOLDER` for the repository, which verdicts rest on.

Of every curve start, least and end are kept for each seed, so that claims can be judged again untrained:

    python benchmarks/keep_results.py hu runs/reproductions docs/reproductions/results
    noiseworthy reproduce hu --kept docs/reproductions/results --out docs/reproductions
    python benchmarks/keep_results.py pages docs/reproductions/results docs/reproductions

The last line writes every page anew, the list of what is measured (`items.md`) and the counts of the index.
"""

from __future__ import annotations

import sys
from pathlib import Path

from noiseworthy_papers import PAPERS
from noiseworthy_papers.coverage import coverage
from noiseworthy_papers.keeping import compact, load, save
from noiseworthy_papers.pages import items_page, with_counts, write_reproductions


def keep(paper: str, source: str, folder: str) -> None:
    """Keep every result of a paper that a folder holds."""
    for result in load(source, PAPERS[paper]):
        save(compact(result), folder)


def pages(results: str, folder: str) -> None:
    """Write the page of every paper, and the list of items."""
    items = []
    for paper in PAPERS.values():
        found = load(results, paper)
        write_reproductions(paper, found, folder, drawn=False)
        items += coverage(paper, found)
    (Path(folder) / "items.md").write_text(items_page(items))
    index = Path(folder).with_suffix(".md")
    index.write_text(with_counts(index.read_text(), items))


if __name__ == "__main__":
    what, source, target = sys.argv[1:]
    pages(source, target) if what == "pages" else keep(what, source, target)
