"""The audit of an installation, for the terminal."""

from __future__ import annotations

from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from noiseworthy._wording import rounded_down, rounded_up
from noiseworthy.reports.tables import of_verdicts, panel

Record = dict[str, Any]


def self_audit_panel(audit: Record) -> Group:
    """Verdict, bounds and checks of `gateway --self-audit`, readable at 80 columns.

    Args:
        audit: `SelfAudit.as_dict`.
    """
    verdict = Text(audit["verdict"], style="bold green" if audit["passed"] else "bold red")
    how = Text(
        f"{audit['trials']:,} releases attacked on made-up records in {audit['seconds']:.0f} s; no "
        "record and no budget of the owner was touched"
    )
    return Group(panel("self-audit", verdict, how), _attacks(audit), _checks(audit))


def _attacks(audit: Record) -> Table:
    proven = f"proven ({100 * audit['confidence']:g} %)"
    table = of_verdicts("algorithm", "releases", "named wrongly", "epsilon charged", proven)
    for one in audit["attacks"]:
        table.add_row(
            one["algorithm"], f"{one['trials']:,}", f"{one['errors']:,}", rounded_up(one["charged_epsilon"]),
            rounded_down(one["proven_epsilon"]), style=None if one["passed"] else "bold red",
        )  # fmt: skip
    return table


def _checks(audit: Record) -> Table:
    table = of_verdicts("check", "verdict", "found")
    for one in audit["checks"]:
        verdict = "passed" if one["passed"] else "FAILED"
        table.add_row(one["name"], verdict, Text(one["says"]), style=None if one["passed"] else "bold red")
    return table
