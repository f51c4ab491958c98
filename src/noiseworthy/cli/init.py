"""Commands for writing study files: init, schema."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from noiseworthy import _validate as check
from noiseworthy.cli.console import out
from noiseworthy.errors import ConfigError

TEMPLATES = ("hospital", "images", "own-model", "leaf", "owners")
"""Studies to begin with, files of the folder templates."""

Place = Annotated[Path | None, typer.Argument(help="file to write; by default TEMPLATE.toml")]
Template = Annotated[str, typer.Option(help=f"study to begin with: {', '.join(TEMPLATES)}")]


def init(template: Template, path: Place = None) -> None:
    """Write a commented study to begin with; a file that is there is never overwritten."""
    check.one_of("--template", template, TEMPLATES)
    place = path or Path(f"{template}.toml")
    text = (files("noiseworthy") / "templates" / f"{template}.toml").read_text("utf-8")
    try:
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise ConfigError(f"{place} is there already and is left as it is; name another file") from None
    except OSError as error:
        raise ConfigError(f"{place} cannot be written: {error.strerror}; name another file") from None
    out.print(f"Wrote {place}. Next: noiseworthy plan {place}", soft_wrap=True)


def schema() -> None:
    """Print the JSON schema of study files, for editors that complete and check TOML."""
    from noiseworthy.studies.editors import study_schema

    print(json.dumps(study_schema(), indent=1, ensure_ascii=False))
