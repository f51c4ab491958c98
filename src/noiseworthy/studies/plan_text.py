"""The text of a plan file: plain values under a schema, a version and a digest.

The digest is SHA-256 of the canonical text of everything else in the file. It tells one plan from another and
finds slips of the pen; it is no signature, whoever changes a plan can compute it again. Nothing heavy is
loaded, so that a file that is no plan is told at once.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from noiseworthy.errors import PlanError

SCHEMA, VERSION = "noiseworthy plan", 1


def canonical(content: Any) -> str:
    """The one text of plain values: keys in order, no spaces, ASCII."""
    # infinities are let through: 1e999 in a changed file is read as one, and its digest must tell the change
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


def digest_of(content: dict[str, Any]) -> str:
    """SHA-256, in hexadecimal digits, of everything in a plan file but its digest."""
    rest = {key: part for key, part in content.items() if key != "digest"}
    return hashlib.sha256(canonical(rest).encode()).hexdigest()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Plain values under the schema, the version and the digest of plan files."""
    whole = {"schema": SCHEMA, "version": VERSION, **content}
    return {"schema": SCHEMA, "version": VERSION, "digest": digest_of(whole), **content}


def opened(path: Path) -> dict[str, Any]:
    """The content of a plan file, all of it held against its digest.

    Raises:
        PlanError: no file, no plan, a plan of another version, or one that was changed.
    """
    try:
        content = json.loads(path.read_text(), object_pairs_hook=_once, parse_constant=_no_number)
    except FileNotFoundError:
        raise PlanError(f"{path} does not exist; noiseworthy plan STUDY writes it") from None
    except (OSError, ValueError, RecursionError) as error:
        raise PlanError(f"{path} is no plan: {error}; noiseworthy plan STUDY writes one") from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise PlanError(f'{path} is no plan: its schema is not "{SCHEMA}"; noiseworthy plan STUDY writes one')
    if content.get("version") != VERSION:
        raise PlanError(
            f"{path} is a plan of version {content.get('version')!r}, this program reads version {VERSION}; "
            "plan the study again"
        )
    if (found := digest_of(content)) != content.get("digest"):
        raise PlanError(
            f"{path} was changed after it was planned: its digest is {content.get('digest')!r:.14}..., its "
            f"content has {found[:12]}...; take the plan that was reviewed, or plan the study again"
        )
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, none of whose keys is stated twice: of two values a reader sees one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is stated twice")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
