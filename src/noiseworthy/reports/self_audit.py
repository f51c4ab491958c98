"""The audit of an installation, for the terminal."""

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
    rows = [
        {
            "algorithm": one["algorithm"],
            "releases": f"{one['trials']:,}",
            "named wrongly": f"{one['errors']:,}",
            "epsilon charged": rounded_up(one["charged_epsilon"]),
            proven: rounded_down(one["proven_epsilon"]),
        }
        for one in audit["attacks"]
    ]
    return of_verdicts(rows, [one["passed"] for one in audit["attacks"]])


def _checks(audit: Record) -> Table:
    rows = [
        {"check": one["name"], "verdict": "passed" if one["passed"] else "FAILED", "found": one["says"]}
        for one in audit["checks"]
    ]
    return of_verdicts(rows, [one["passed"] for one in audit["checks"]])
