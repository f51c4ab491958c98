"""Every citation resolves: sections of the theory, relative links, tests that pages name, authors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("src", "tests", "papers", "benchmarks", "examples", "docs")
BIBLIOGRAPHY = "docs/theory/bibliography.md"

NUMBERED = re.compile(r"\btheory(?: sections?)?[\s_#]+\d(?:[._]\d+)*\b", re.IGNORECASE)
SECTION = re.compile(r"docs/theory/[\w-]+\.md(?:#[\w-]+)?")
LINK = re.compile(r"\]\((?!https?:|mailto:)(?P<target>[^()\s]+)\)")
TEST = re.compile(r"`(?P<file>(?:papers/)?tests/[\w/]+\.py)::(?P<name>\w+)`")
HEADING = re.compile(r"^#{1,6} (?P<title>.+?)\s*$", re.MULTILINE)
MARKED = re.compile(r"<a (?:id|name)=\"(?P<anchor>[^\"]+)\"")
CODE = re.compile(r"^(?P<fence>```|~~~).*?^(?P=fence)", re.MULTILINE | re.DOTALL)

MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
NAME, YEAR = rf"(?!(?:{MONTHS})\b)[A-Z][\w-]+", r"(?:18|19|20)\d\d\b"
CITED = re.compile(
    rf"\b(?:(?P<leader>{NAME}) et al\.(?:,? \(?(?P<loose>{YEAR}))?"
    rf"|(?P<first>{NAME})(?:(?:,? (?:&|and) |, ){NAME})* (?:\((?P<enclosed>{YEAR})\)|(?P<bare>{YEAR})))"
)
"""Dong, Roth & Su 2022 · Fisher (1936) · Zhou et al. · Yang et al. (2023)."""
ENTRY = re.compile(r"^### (?:[a-z]+ )*(?P<first>\w[\w-]+)(?: .*)? (?P<year>\d{4})$", re.MULTILINE)
NOT_AUTHORS = {"Authority", "Club", "FLamby", "Nov", "PrivateFL", "U-Net", "V-Net"}
"""What stands before a year and is no author: data, titles after their authors, a date."""


def texts(*suffixes: str) -> Iterator[tuple[str, str]]:
    """Path from the root and text of every file of code and docs, this one left out."""
    found = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in suffixes)
    for path in sorted([*found, ROOT / "README.md"]):
        if path != Path(__file__) and path.suffix in suffixes and "__pycache__" not in path.parts:
            yield str(path.relative_to(ROOT)), path.read_text()


def at(name: str, text: str, match: re.Match[str]) -> str:
    """file:line: what stands there."""
    return f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {match.group(0)}"


def anchors(page: str) -> set[str]:
    """Anchors of a page by GitHub's rule: lower case, no punctuation, hyphens for spaces, -1 for a second."""
    found: set[str] = set()
    for match in HEADING.finditer(CODE.sub("", page)):
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match["title"])
        base = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        later = (f"{base}-{n}" for n in range(1, 1000))
        found.add(base if base not in found else next(one for one in later if one not in found))
    return found | {match["anchor"] for match in MARKED.finditer(page)}


def missing(target: str, folder: Path) -> str:
    """What of a target, a file and an anchor, does not exist; empty if all does."""
    name, _, anchor = target.partition("#")
    path = (folder / name).resolve()
    if not path.exists():
        return "no such file"
    if anchor and path.suffix == ".md" and anchor not in anchors(path.read_text()):
        return "no such section"
    return ""


def unresolved(name: str, text: str) -> list[str]:
    """Citations `docs/theory/PAGE.md#section` of a text that name no section."""
    found = ((match, missing(match.group(0), ROOT)) for match in SECTION.finditer(text))
    return [f"{at(name, text, match)}: {what}" for match, what in found if what]


def broken(name: str, text: str) -> list[str]:
    """Relative links of a page that lead nowhere."""
    here = (ROOT / name).parent
    prose = CODE.sub(lambda block: "\n" * block.group(0).count("\n"), text)
    found = (
        (
            match,
            missing(
                match["target"] if match["target"][0] != "#" else Path(name).name + match["target"], here
            ),
        )
        for match in LINK.finditer(prose)
    )
    return [f"{at(name, prose, match)}: {what}" for match, what in found if what]


def unlisted(name: str, text: str, entries: set[tuple[str, str]]) -> list[str]:
    """Authors, with their year where one stands there, that the bibliography does not list."""
    known = {first for first, _ in entries}
    found = []
    for match in CITED.finditer(text):
        first, year = match["leader"] or match["first"], match["loose"] or match["enclosed"] or match["bare"]
        if first not in NOT_AUTHORS and ((first, year) not in entries if year else first not in known):
            found.append(at(name, text, match))
    return found


def listed() -> set[tuple[str, str]]:
    """First author and year of every entry."""
    return {(match["first"], match["year"]) for match in ENTRY.finditer((ROOT / BIBLIOGRAPHY).read_text())}


def test_nothing_cites_a_numbered_theory():
    """Its sections have names; a number is one of a document that is not here."""
    left = [
        at(name, text, match)
        for name, text in texts(".py", ".md", ".toml", ".json")
        for match in NUMBERED.finditer(text)
    ]
    assert not left, "\n".join(left)


def test_every_cited_section_of_the_theory_exists():
    found = list(texts(".py", ".md", ".json"))
    assert sum(len(SECTION.findall(text)) for _, text in found) > 150
    lost = [line for name, text in found for line in unresolved(name, text)]
    assert not lost, "\n".join(lost)


def test_every_relative_link_of_the_docs_leads_somewhere():
    lost = [line for name, text in texts(".md") for line in broken(name, text)]
    assert not lost, "\n".join(lost)


def test_every_test_that_the_theory_names_exists():
    pages = [(name, text) for name, text in texts(".md") if name.startswith("docs/theory/")]
    named = [(at(name, text, match), match) for name, text in pages for match in TEST.finditer(text)]
    assert len(named) > 80
    sources = {
        file: (ROOT / file).read_text() if (ROOT / file).exists() else ""
        for file in {m["file"] for _, m in named}
    }
    lost = [line for line, match in named if f"def {match['name']}(" not in sources[match["file"]]]
    assert not lost, "\n".join(lost)


def test_every_author_is_in_the_bibliography():
    entries = listed()
    assert len(entries) > 50
    cited = [(name, text) for name, text in texts(".py", ".md") if name != BIBLIOGRAPHY]
    unknown = [line for name, text in cited for line in unlisted(name, text, entries)]
    assert not unknown, "\n".join(unknown)


def test_the_checks_see_what_they_look_for():
    numbered = "Theory 2.6, item 1; theory sections 1 and theory_0_5; the theory, 2 / mu"
    assert NUMBERED.findall(numbered) == ["Theory 2.6", "theory sections 1", "theory_0_5"]
    assert unresolved("a.py", "\n# docs/theory/fu.md#none, docs/theory/none.md, docs/theory/fu.md#bound") == [
        "a.py:2: docs/theory/fu.md#none: no such section",
        "a.py:2: docs/theory/none.md: no such file",
    ]
    page = "[a](none.md)\n```\n[b](none.md)\n```\n[c](theory/fu.md#none) [d](theory/fu.md#bound) [e](https://x.y)"
    assert broken("docs/a.md", page) == [
        "docs/a.md:1: ](none.md): no such file",
        "docs/a.md:5: ](theory/fu.md#none): no such section",
    ]
    page = '# One\n## A `b`, c_d!\n## One\n```\n# no\n```\n<a id="here"></a>'
    assert anchors(page) == {"one", "a-b-c_d", "one-1", "here"}
    wrong = "Dong, Roth & Su 2023\nDong & Roth (2022), Zhou et al.\nFu et al., Fisher (1936), not May 2026"
    assert unlisted("a", wrong, {("Dong", "2022"), ("Zhou", "2021")}) == [
        "a:1: Dong, Roth & Su 2023",
        "a:3: Fu et al.",
        "a:3: Fisher (1936)",
    ]
