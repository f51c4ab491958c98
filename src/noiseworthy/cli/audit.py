"""The command that doubts the privacy: audit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy.cli.console import out, progress_bar, shows_progress
from noiseworthy.cli.options import AsJson, DataDir, OutFolder, PlanJson, Sets, StudyFile, limit
from noiseworthy.cli.steps import decide_plan, prepare_study

Trials = Annotated[int | None, typer.Option(help="coins that the attacker names; by default 40,000", min=1)]
AuditSeconds = Annotated[
    float | None,
    typer.Option("--budget-seconds", help="time for the trials; by default 40", min=0, callback=limit),
]


@shows_progress
def audit(
    study: StudyFile, out_folder: OutFolder = None, plan: PlanJson = None, data: DataDir = None,
    as_json: AsJson = False, trials: Trials = None, seconds: AuditSeconds = None, sets: Sets = None,
) -> None:  # fmt: skip
    """What an attacker can prove about epsilon, beside what the study's plan claims; exit code 1 if more."""
    folder = out_folder or Path("runs") / study.stem
    prepared = prepare_study(study, data, sets=sets, plan=plan, folder=folder, trains=False)
    from noiseworthy.audit.audits import TRIALS
    from noiseworthy.engines.compilation import use_persistent_cache
    from noiseworthy.reports.audit import audit_panel, write_audit
    from noiseworthy.reports.html import write_report
    from noiseworthy.studies.audit import SECONDS, audit_study, kept_run, with_audit
    from noiseworthy.studies.occupied import held
    from noiseworthy.studies.record import save_record

    planned = decide_plan(prepared, plan)
    use_persistent_cache()
    with held(folder):
        planned.keep(folder)
        with progress_bar("Attacking", 100, "%") as bar:
            made = audit_study(
                planned.prepared, planned.decision, name=study.stem, folder=folder, trials=trials or TRIALS,
                seconds=SECONDS if seconds is None else seconds, on_progress=bar,
            )  # fmt: skip
        page = write_audit(made, folder)
        if (record := kept_run(planned.plan, folder)) is not None:
            record = with_audit(record, made)
            save_record(record, folder)
            write_report(record, folder)
    if as_json:
        print(json.dumps(made, allow_nan=False))
    else:
        out.print(audit_panel(made))
        out.print(f"Report: {page}", soft_wrap=True)
    if not made["passed"]:
        raise typer.Exit(1)
