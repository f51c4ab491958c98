"""Pages of reproductions: what stands on them is what the kept results and the one judge say, and no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noiseworthy.cli import app
from noiseworthy.errors import InvalidInput
from noiseworthy_papers import PAPERS
from noiseworthy_papers.coverage import FULL, MINIATURE, MISSING, counted, coverage
from noiseworthy_papers.keeping import compact, load, save
from noiseworthy_papers.pages import counts_table, items_page, reproductions_page, with_counts

DOCS = Path(__file__).parents[2] / "docs"
PAGES, KEPT = DOCS / "reproductions", DOCS / "reproductions" / "results"


@pytest.fixture(scope="module")
def results():
    return {name: load(KEPT, paper) for name, paper in PAPERS.items()}


@pytest.fixture(scope="module")
def items(results):
    return [one for name, paper in PAPERS.items() for one in coverage(paper, results[name])]


@pytest.fixture(scope="module")
def verdicts(results):
    return {
        (name, result.item): {verdict.claim: verdict for verdict in result.verdicts}
        for name, found in results.items()
        for result in found
    }


def said(verdicts, paper, item, start):
    return next(verdict for claim, verdict in verdicts[paper, item].items() if claim.startswith(start))


# What stands on the pages -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAPERS)
def test_a_page_is_what_its_kept_results_say(results, name):
    """Written by benchmarks/keep_results.py; no verdict is typed."""
    assert (PAGES / f"{name}.md").read_text() == reproductions_page(PAPERS[name], results[name])


def test_the_index_counts_what_is_measured(items):
    index = (DOCS / "reproductions.md").read_text()
    assert counts_table(items) in index
    assert with_counts(index, items) == index
    assert (PAGES / "items.md").read_text() == items_page(items)
    assert "Every table and figure" not in index


def test_every_item_of_every_paper_is_counted_once(items, results):
    assert len(items) == sum(len(paper.items) for paper in PAPERS.values())
    papers = [one for one in items if not one.ours]
    assert len(papers) == 85
    counts = counted(items)
    assert counts[FULL] + counts[MINIATURE] + counts[MISSING] == 85
    kept = {(name, result.item) for name, found in results.items() for result in found}
    assert {(one.paper, one.item) for one in items if one.status != MISSING} == kept
    assert all(one.why for one in items if one.status != FULL)
    assert all(set(paper.ours) <= set(paper.items) for paper in PAPERS.values())


def test_what_is_scaled_is_not_called_full(items, results):
    """A full item is at scale 1, with the paper's repeats, and says of nothing that it is scaled."""
    found = {(name, result.item): result for name, kept in results.items() for result in kept}
    for one in (one for one in items if one.status == FULL):
        result = found[one.paper, one.item]
        trained = bool(result.points or result.statistics)
        assert not trained or (result.scale == 1 and result.seeds >= result.repeats)
        assert not any(mark in note for note in result.notes for mark in ("Scaled:", "miniature", "SUBSET"))
        assert "linear" not in one.item


# The known cases, as measured ---------------------------------------------------------------------------


def test_three_equal_optima_do_not_agree_that_local_steps_grow(verdicts):
    found = said(verdicts, "fu", "figure-5", "E should be larger if ε is smaller")
    assert found.word == "not testable here"
    assert "12 (6–15) to 12 (6–15)" in found.evidence


def test_biased_selection_is_no_significant_improvement_everywhere(verdicts):
    lending = said(verdicts, "ma", "table-1-lending", "Biased selection significantly improves")
    assert lending.word == "partly"
    assert "Cannot be told in 1 of 2: gaussian" in lending.evidence
    assert "+8.75 ± 14.78" in lending.evidence
    mnist = said(verdicts, "ma", "table-1-mnist-linear", "Biased selection significantly improves")
    assert mnist.word == "disagrees"
    assert "Fails in 1 of 2: laplace" in mnist.evidence


@pytest.mark.parametrize(
    ("item", "claim", "word", "gap"),
    [
        ("figure-2-mnist-linear", "DPFL-BCS achieves the highest utility", "partly", "+0.48 ±"),
        ("figure-2-lending", "PrivateFL outperforms DPSGD", "not testable here", "+2.64 ± 13.13"),
        ("figure-2-lending", "One stage, planned by budgets", "not testable here", "+1.78 ± 11.11"),
    ],
)
def test_gaps_below_their_noise_do_not_agree(verdicts, item, claim, word, gap):
    found = said(verdicts, "ma", item, claim)
    assert (found.word, gap in found.evidence) == (word, True)


@pytest.mark.parametrize("case", ["adult-1", "adult-2", "vehicle-1", "vehicle-2"])
def test_the_central_claim_of_hu_has_a_verdict(verdicts, case):
    found = said(verdicts, "hu", f"figure-3-{case}", "The planned τ is close to the best of the grid")
    assert not found.ours
    assert found.word == "not testable here"
    assert "best" in found.evidence


def test_the_rule_of_hu_is_judged_by_the_gain(verdicts):
    found = said(verdicts, "hu", "figure-3-adult-1", "Our planned τ loses at most 5%")
    assert found.word != "agrees", "it keeps 3 % of the gain under the least budgets"


# Kept results -------------------------------------------------------------------------------------------


def test_verdicts_are_judged_again_when_results_are_read(tmp_path):
    """A verdict in a file counts for nothing."""
    (result, *_) = load(KEPT, PAPERS["hu"])
    save(result, tmp_path)
    path = tmp_path / f"hu-{result.item}.json"
    raw = json.loads(path.read_text())
    raw["verdicts"][0]["word"] = "disagrees"
    path.write_text(json.dumps(raw))
    assert load(tmp_path, PAPERS["hu"]) == [result]


def test_compact_results_have_the_same_verdicts(results):
    for found in results.values():
        for result in found:
            assert compact(result).verdicts == result.verdicts
            assert [p.loss for p in compact(result).points] == pytest.approx([p.loss for p in result.points])


def test_the_command_judges_kept_results_without_training(tmp_path):
    app(["reproduce", "hu", "--kept", str(KEPT), "--out", str(tmp_path)], standalone_mode=False)
    assert (tmp_path / "hu.md").read_text() == (PAGES / "hu.md").read_text()
    assert not list((tmp_path / "figures").glob("*.png"))


def test_of_one_item_its_own_verdicts_are_printed(tmp_path, capsys):
    app(["reproduce", "zhou", "table-1", "--kept", str(KEPT), "--out", str(tmp_path)], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "table-1" in printed
    assert "figure-" not in printed


@pytest.mark.parametrize(
    ("paper", "item", "says"),
    [("zhou", "table-9", "item must be one of"), ("hou", "figure-3", "holds no results of figure-3")],
)
def test_an_item_of_which_nothing_was_kept_is_named(tmp_path, paper, item, says):
    with pytest.raises(InvalidInput, match=says):
        app(["reproduce", paper, item, "--kept", str(KEPT), "--out", str(tmp_path)], standalone_mode=False)
