"""Names are data: brackets, colours and escapes in them reach no terminal and end no command."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from rich.table import Table

from noiseworthy import _names
from noiseworthy.cli import console, deploying, gateways, main
from noiseworthy.deploy.owners import Standing
from noiseworthy.deploy.remote import Round
from noiseworthy.errors import GatewayError
from noiseworthy.privacy.durable import Account, DurableLedger
from noiseworthy.reports.network import status_table

HOSTILE = {
    "[/red]": "[/red]",
    "site [north]": "site [north]",
    "site [south]": "site [south]",
    "[bold]loud[/]": "[bold]loud[/]",
    ":warning:": ":warning:",
    "\x1b[2Jgone": r"\x1b[2Jgone",
    "\x1b]0;title\x07": r"\x1b]0;title\x07",
    "two\nlines\r": r"two\nlines\r",
    "\x9b31mred": r"\x9b31mred",
    "left\u202eright": r"left\u202eright",
    "北京": "北京",
}


def ledger_of(path, names):
    with DurableLedger.open(path) as books:
        books.enrol([
            Account("data [/] \x1b[1m", "", name, "epsilon", 1.0, 1.0, 0.0, "replace-one", "record")
            for name in names
        ])  # fmt: skip


def check(text: str) -> None:
    """All names are there as data, and nothing else than text and lines."""
    for name in HOSTILE.values():
        assert name in text
    assert not any(character != "\n" and _names.shown(character) != character for character in text)


def test_a_ledger_shows_names_as_they_are_called(run, tmp_path):
    ledger_of(tmp_path / "ledger.sqlite", HOSTILE)
    answer = run("ledger", "show", "ledger.sqlite")
    assert answer.code == 0, answer.err
    check(answer.out)
    assert r"data [/] \x1b[1m, real data" in answer.out


def test_a_file_may_be_called_like_markup(run, tmp_path):
    ledger_of(tmp_path / "[red]led[/blue].sqlite", ["north"])
    answer = run("ledger", "backup", "[red]led[/blue].sqlite", "[red]led[/copy]")
    assert answer.out.endswith("Backup: [red]led[/copy]\n")
    answer = run("ledger", "show", "[/green]")
    assert answer.code == 2
    assert "[/green] does not exist" in answer.err


def test_a_name_that_the_terminal_cannot_write_is_shown_by_its_code(tmp_path, monkeypatch):
    """Such as one of a locale without UTF-8, or of a pipe that PYTHONIOENCODING names."""
    ledger_of(tmp_path / "ledger.sqlite", ["北京"])
    written = io.BytesIO()
    monkeypatch.setattr(sys, "argv", ["noiseworthy", "ledger", "show", f"{tmp_path}"])
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, "ascii", write_through=True))
    with pytest.raises(SystemExit, match="0"):
        main()
    assert rb"\u5317\u4eac" in written.getvalue()


def test_an_error_names_what_it_names_without_moving_the_terminal(run, monkeypatch):
    def told(*_):
        raise GatewayError("no gateway answers for \x1b[2Jnorth, [/red]; start it")

    monkeypatch.setattr("noiseworthy.studies.run_folder.opened_ledger", told)
    assert run("ledger", "show", "x").err == "error: no gateway answers for \\x1b[2Jnorth, [/red]; start it\n"


def printed(*things) -> str:
    """What a terminal with colours gets, its colours left out."""
    terminal = console.Plain()
    terminal.file, terminal.width = io.StringIO(), 400
    terminal.print(*things)
    return terminal.file.getvalue()


def test_the_status_of_a_deployment_shows_names_as_they_are_called():
    check(printed(status_table([Standing(name, True, False, None, None) for name in HOSTILE])))


def test_whatever_is_printed_moves_no_terminal_though_nobody_thought_of_it():
    table = Table(title="\x1b[2J[/red]")
    for name in HOSTILE:
        table.add_row(name.replace("\n", " ").replace("\r", ""))
    text = printed(table, *HOSTILE)
    assert r"\x1b[2J[/red]" in text
    assert "\x1b" not in text + "".join(printed(name) for name in HOSTILE)


def test_colours_of_ours_still_reach_a_terminal():
    terminal = console.Plain()
    terminal.file, terminal._force_terminal, terminal._color_system = io.StringIO(), True, None
    terminal.print("plain", style="bold")
    assert terminal.file.getvalue() == "plain\n"


def test_why_an_owner_was_missing_is_told_as_data(capsys):
    show = deploying._shown(lambda *_: None)
    show(0.5, Round(3, {"\x1b[2J[/red]": "refused: \x1b[31m:smile:"}, 1.0))
    assert capsys.readouterr().err == "round 4: \\x1b[2J[/red]: refused: \\x1b[31m:smile:\n"


def test_a_gateways_log_shows_what_a_server_sent_and_takes_no_line_of_it_for_an_entry():
    record = logging.LogRecord("x", logging.INFO, "", 0, "%s", ("run \x1b[2J\nnext \x9b",), None)
    assert gateways._Plain("%(message)s").format(record) == "run \\x1b[2J\n    next \\x9b"


def test_other_text_is_left_as_it_is():
    for text in ("µ² ≤ ε – Zürich, 東京, naïve → “quoted” 🏥", "a\u00a0b", ""):
        assert _names.shown(text) == text


@pytest.mark.parametrize("name", ["\t", "\u2028", "\ud800", "\u200b", "\x7f"])
def test_what_shows_nothing_is_made_visible(name):
    assert _names.shown(name).startswith("\\")
