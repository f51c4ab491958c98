"""The command that looks at records before anybody trains on them, at their owner's own machine: check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noiseworthy.cli.console import out
from noiseworthy.cli.options import AsJson, DataDir

if TYPE_CHECKING:
    from noiseworthy.studies.checking import Checked

_HEADINGS = {"refused": "Refused, training would stop here", "warning": "Warnings", "note": "Notes"}


def check(
    file: Annotated[Path, typer.Argument(help="study file, or an owner's file", show_default=False)],
    as_json: AsJson = False, data: DataDir = None,
) -> None:  # fmt: skip
    """Say everything that is wrong with the records, in one pass; exit code 1 where training is refused."""
    found = _found(file, data)
    if as_json:
        print(json.dumps(found.told(), allow_nan=False))
    else:
        out.print(_page(found), soft_wrap=True, highlight=False)
    if found.refused:
        raise typer.Exit(1)


def _found(file: Path, data: Path | None) -> Checked:
    from noiseworthy._tables import read_toml
    from noiseworthy.studies.checking import Terms, check_own, check_study

    if "owner" not in read_toml(file, "file"):
        from noiseworthy.studies.loading import load_study

        study = load_study(file)
        return check_study(study if data is None else study.with_data_dir(data))
    from noiseworthy.deploy.gateway.owner import load_owner

    owner = load_owner(file)
    table = owner.federation if data is None else owner.federation.model_copy(update={"data_dir": data})
    budget = owner.budget
    return check_own(table, owner.rows, Terms(budget.mechanism, budget.epsilon, budget.delta))


def _page(found: Checked) -> str:
    columns = f", {found.columns} columns" if found.columns else ""
    lines = [f"{found.source}: {found.records} records{columns}"]
    for level, heading in _HEADINGS.items():
        if those := [one for one in found.findings if one.level == level]:
            lines += ["", f"{heading} ({len(those)})"]
        for one in those:
            lines += [f"  {one.where + ': ' if one.where else ''}{one.says}"]
            lines += [f"      {example}" for example in one.examples]
    end = "Training would be refused." if found.refused else "Nothing stands against training."
    lines += ["", f"{end} Nothing was written or sent; what this page tells of records is for their owner."]
    return "\n".join(lines)
