"""Pages of the site that lie outside docs/ or are made from code: a hook of mkdocs.

README.md, CONTRIBUTING.md, ...   -> index.md, contributing.md, ..., links turned to where things lie now
examples/, its notebooks          -> examples.md, every file in full
noiseworthy's public names        -> reference/python.md, reference/rooms.md
the command line                  -> reference/commands.md
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""Pages outside docs/, and where the site has them."""
LINK = re.compile(r"(\]\()([^)#\s]+)(#[^)]*)?(\))")
ROOMS = (
    "privacy", "plans", "data", "tasks", "model", "methods", "engines", "trials", "studies", "sweeps",
    "audit", "deploy", "reports", "calls", "cli", "testing",
)  # fmt: skip


def on_files(files: Any, *, config: Any) -> Any:
    """Lay the pages beside those of docs/."""
    from mkdocs.structure.files import File

    made = {page: (ROOT / source).read_text() for source, page in MOVED.items()}
    made |= {
        "examples.md": examples(),
        "reference/python.md": public_names(),
        "reference/rooms.md": rooms(),
        "reference/commands.md": commands(),
    }
    for page, text in made.items():
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Turn links within the repository into links within the site; what the site lacks becomes plain text."""
    home = {page_: ROOT / source for source, page_ in MOVED.items()}
    source = home.get(page.file.src_uri, ROOT / "docs" / page.file.src_uri)
    depth = "../" * page.file.src_uri.count("/")

    def turned(link: re.Match[str]) -> str:
        path, anchor = link[2], link[3] or ""
        if path.startswith(("http:", "https:", "mailto:")):
            return link[0]
        target = (source.parent / path).resolve()
        return f"{link[1]}{depth}{_place(target)}{anchor}{link[4]}" if target.exists() else link[0]

    return LINK.sub(turned, markdown).replace("```toml no-run", "```toml")


def _place(target: Path) -> str:
    """Where the site has a file or folder of the repository."""
    inside = target.relative_to(ROOT).as_posix()
    if inside in MOVED:
        return MOVED[inside]
    first, _, rest = inside.partition("/")
    if first == "docs":
        return rest or "index.md"
    if first == "src":
        room = rest.removeprefix("noiseworthy/").partition("/")[0]
        return f"reference/rooms.md#{room}" if room in ROOMS else "reference/python.md"
    return {"examples": "examples.md", "benchmarks": "benchmarks.md", "papers": "reproductions.md"}[first]


def examples() -> str:
    """Every file of examples/, in full."""
    parts = ["# Examples", "What a clone holds under `examples/`; CI runs all of it."]
    for path in sorted((ROOT / "examples").iterdir()):
        if path.suffix in (".py", ".toml"):
            language = path.suffix[1:].replace("py", "python")
            parts.append(f"## `{path.name}`\n\n```{language}\n{path.read_text().strip()}\n```")
    parts += [notebook(path) for path in sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))]
    return "\n\n".join(parts)


def notebook(path: Path) -> str:
    """A notebook in full, its headings below that of the page."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            language = "sh" if text.startswith("%%sh") else "toml" if ".toml\n" in text[:40] else "python"
            parts.append(f"```{language}\n{text}\n```")
        else:
            parts.append(re.sub("^#", "##", text, flags=re.MULTILINE).replace("](../../docs/", "]("))
    return "\n\n".join(parts)


def public_names() -> str:
    """What `import noiseworthy` offers, by the modules that hold it."""
    from noiseworthy.exports import HOME

    homes = sorted((home, name) for name, home in HOME.items())
    parts = ["# Python", "What `import noiseworthy as nw` offers. A name is loaded on first use.", ""]
    parts += [f"::: {home}.{name}" for home, name in homes]
    return "\n\n".join([*parts, "::: noiseworthy.rounds", "::: noiseworthy.errors"])


def rooms() -> str:
    """One line for every module, by room: the first line of its docstring."""
    import ast

    parts = ["# Rooms", "Every module and what it is. Imports go one way, from below to above."]
    for room in ROOMS:
        folder = ROOT / "src" / "noiseworthy" / room
        parts.append(f"## {room}")
        rows = []
        for path in sorted(folder.rglob("*.py")):
            said = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
            name = path.relative_to(folder).with_suffix("").as_posix().removesuffix("/__init__")
            rows.append(f"| `{name}` | {said} |" if name != "__init__" else f"| **{room}** | {said} |")
        parts.append("\n".join(["| module | what it is |", "| --- | --- |", *rows]))
    return "\n\n".join(parts)


def commands() -> str:
    """What the program says of itself with --help, as typer lays it out."""
    import click
    import typer.main
    from typer.cli import get_docs_for_click

    from noiseworthy.cli import app

    command: Any = typer.main.get_command(app)

    return get_docs_for_click(obj=command, ctx=click.Context(command), name="noiseworthy")
