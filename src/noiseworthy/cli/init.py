"""Commands for writing study files: init, schema."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from noiseworthy import _validate as check
from noiseworthy.cli.console import out
from noiseworthy.errors import ConfigError

TEMPLATES = {
    "hospital": "{plan}",
    "images": "{plan}",
    "own-model": "{plan}; to train, name data and your network in it, as it says",
    "leaf": "put a LEAF data set into the folder femnist beside it, then {plan}",
    "owners": "put owners.json and test.csv beside it, as it says, then {plan}",
}
"""Studies to begin with, files of the folder templates, and what comes next."""

Source = Annotated[
    str | None,
    typer.Argument(help="table: a file, or sql:URL; with --template, the file to write", show_default=False),
]
Template = Annotated[str | None, typer.Option(help=f"one of {', '.join(TEMPLATES)}", show_default=False)]
Label = Annotated[str | None, typer.Option(help="column to predict", show_default=False)]
Client = Annotated[str | None, typer.Option(help="column that says whose each record is", show_default=False)]
Query = Annotated[str | None, typer.Option(help="of a database, with order by", show_default=False)]
Out = Annotated[Path | None, typer.Option("--out", help="study file to write", show_default="study.toml")]
Owners = Annotated[bool, typer.Option("--owners", help="write a file for every owner, too")]
Public = Annotated[
    list[str] | None,
    typer.Option(help="column whose values are public just as they occur; repeatable", show_default=False),
]
Simulation = Annotated[
    bool, typer.Option("--simulation", help="answer all by the records; such a study is never deployed")
]


def init(
    source: Source = None, template: Template = None, label: Label = None, client: Client = None,
    query: Query = None, out_file: Out = None, owners: Owners = False, public: Public = None,
    simulation: Simulation = False,
) -> None:  # fmt: skip
    """Write a commented study to begin with, of a table or a template; no file is overwritten."""
    from noiseworthy.cli.drafting import write_new, write_study

    if template is None:
        if source is None:
            raise ConfigError(f"init needs a table, or --template, one of {', '.join(TEMPLATES)}")
        write_study(
            source, label, client, query, out_file or Path("study.toml"), owners=owners, public=public or [],
            simulation=simulation,
        )  # fmt: skip
        return
    check.one_of("--template", template, TEMPLATES)
    of_table = {"--label": label, "--client": client, "--query": query, "--owners": owners,
                "--public": public, "--simulation": simulation, "--out": out_file}  # fmt: skip
    if given := [name for name, value in of_table.items() if value]:
        raise ConfigError(f"{', '.join(given)} go with a table, and --template with none")
    place = Path(source or f"{template}.toml")
    write_new(place, (files("noiseworthy") / "templates" / f"{template}.toml").read_text("utf-8"))
    following = TEMPLATES[template].format(plan=f"noiseworthy plan {quote(str(place))}")
    out.print(f"Wrote {place}. Next: {following}", soft_wrap=True)


def schema() -> None:
    """Print the JSON schema of study files, for editors that complete and check TOML."""
    from noiseworthy.studies.editors import study_schema

    print(json.dumps(study_schema(), indent=1, ensure_ascii=False))
