"""Commands for writing study files: init, schema."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

from noiseworthy import _validate as check
from noiseworthy.cli.console import out
from noiseworthy.errors import ConfigError

if TYPE_CHECKING:
    from noiseworthy.data.intake.guesses import Guess
    from noiseworthy.studies.drafting import Draft


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
    from noiseworthy.cli.init import write_new, write_study

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


def write_study(
    table: str,
    label: str | None,
    client: str | None,
    query: str | None,
    out_file: Path,
    *,
    owners: bool,
    public: list[str],
    simulation: bool,
) -> None:
    """A study of a table, with a schema of its columns to fill in; what cells hold is shown here alone.

    Args:
        table: file, or `sql:` and a connection string.
        label: column to predict.
        client: column of owners.
        query: of a database.
        out_file: that is written.
        owners: whether every owner gets a file beside it.
        public: columns whose values are public just as they occur.
        simulation: whether everything is answered by the records.

    Raises:
        ConfigError: columns that the table does not have, or a file that is there already.
        DataError: a table that cannot be read.
    """
    from noiseworthy.data.intake.guesses import guesses
    from noiseworthy.data.readers import opened, read_columns
    from noiseworthy.studies.drafting import Draft

    cells = read_columns(opened(table, None, query), cells=True)[0]
    columns = guesses(cells, label, client)
    _check_public(public, columns)
    draft = Draft(columns, _from(table, out_file.parent), query, public, simulation)
    written = _files(draft, out_file, _clients(columns, cells) if owners else None)
    if there := [path for path in written if path.exists()]:
        raise ConfigError(f"{there[0]} is there already and is left as it is; name another by --out")
    for path, text in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_new(path, text)
    _say(draft, [*written])


def write_new(path: Path, text: str) -> None:
    """Write a file that is not there yet.

    Raises:
        ConfigError: it is, or it cannot be written.
    """
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{path} is there already and is left as it is; name another file") from None
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}; name another file") from None


def _check_public(public: list[str], columns: list[Guess]) -> None:
    listed = [one.name for one in columns if one.of_values]
    if unknown := [name for name in public if name not in listed]:
        raise ConfigError(
            f"--public must be a column with values or classes to state, got {unknown[0]!r}; these are: "
            f"{', '.join(listed) or 'none'}"
        )


def _clients(columns: list[Guess], cells: dict) -> list[str]:
    from noiseworthy.data.schema.values import keys

    name = next((one.name for one in columns if one.stated.get("role") == "client"), None)
    if name is None:
        raise ConfigError("--owners needs a column that says whose each record is; name it: --client COLUMN")
    return sorted(set(keys(cells[name])) - {""})


def _from(table: str, folder: Path) -> str:
    """A path as it is written in a file of a folder."""
    prefix = "sql:sqlite:///" if table.startswith("sql:sqlite:///") else ""
    path = table.removeprefix(prefix)
    if (table.startswith("sql:") and not prefix) or Path(path).is_absolute() or not Path(path).exists():
        return table
    return f"{prefix}{Path(os.path.relpath(path, folder)).as_posix()}"


def _files(draft: Draft, study: Path, clients: list[str] | None) -> dict[Path, str]:
    """Texts by their paths."""
    if clients is None:
        return {study: draft.study(study.name)}
    schema = study.parent / "columns.toml"
    files = {study: draft.study(study.name, apart=schema.name), schema: draft.tables()}
    for client in clients:
        name = "".join(one if one.isalnum() or one in "-_." else "_" for one in client)
        path = study.parent / "owners" / f"{name}.toml"
        if path in files:
            raise ConfigError(f"{path} would be the file of {client!r} and of another; rename one of them")
        files[path] = draft.owner(client, path.name)
    return files


def _say(draft: Draft, paths: list[Path]) -> None:
    """What was written, and what is asked; the cells' own answers are shown here and nowhere else."""
    from noiseworthy.studies.drafting import pasted
    from noiseworthy.studies.loading import in_key

    asked = draft.asked()
    lines = [f"Wrote {path}." for path in paths]
    if values := [one for one in asked if one.of_values]:
        lines += [
            "",
            "What cells hold, for your eyes; it is in no file. Where a code book lists just this, take the "
            "line, or name the column by --public:",
            *map(pasted, values),
        ]
    if ranges := [one.name for one in asked if not one.of_values]:
        lines += ["", f"Ranges to state from what is public: {', '.join(ranges)}."]
    if left := [one for one in draft.columns if one.stated.get("kind") == "left-out"]:
        lines += ["", "Left out; to learn from one, state its kind:"]
        lines += [f"{in_key(one.name)}: {one.why}" for one in left]
    answers = f"answer {len(asked)} question{'s' * (len(asked) != 1)}, " if asked else ""
    lines += ["", f"Next: {answers}noiseworthy check {quote(str(paths[0]))}"]
    out.print("\n".join(lines), soft_wrap=True, highlight=False)
