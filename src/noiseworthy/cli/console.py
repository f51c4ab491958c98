"""What commands print to: stdout for answers, stderr for a progress bar and for what is to come."""

from __future__ import annotations

import inspect
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import StrEnum
from functools import wraps
from typing import Annotated, Any, ParamSpec

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from noiseworthy._names import shown

P = ParamSpec("P")


class Plain(Console):
    """A terminal on which all strings are data: no markup, no emoji by name, no control characters.

    What is to be bold is a `Text`.
    """

    def __init__(self, *, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """As rich renders it, with what would move the terminal made visible."""
        for segment in super().render(renderable, options):
            lines = "\n".join(map(shown, segment.text.split("\n")))
            yield segment if segment.control else segment._replace(text=lines)


err = Plain(stderr=True)
out = Plain()


def noted(said: str) -> None:
    """What a user should know of a study."""
    err.print(f"note: {said}", soft_wrap=True)


def foretell(seconds: float) -> None:
    """How long networks will train, before they start."""
    if _style.get() not in (Style.none, Style.json):
        err.print(f"Networks to train: {about(seconds)} on this machine.")


def about(seconds: float) -> str:
    """A time that nobody should take to the second.

    Example:
        >>> about(14.2), about(700), about(20_000)
        ('about 14 seconds', 'about 12 minutes', 'about 5.6 hours')
    """
    if seconds < 90:
        return f"about {max(seconds, 1):.0f} seconds"
    minutes = seconds / 60
    return f"about {minutes:.0f} minutes" if minutes < 90 else f"about {minutes / 60:.1f} hours"


class _Rate(ProgressColumn):
    """Units per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        unit = task.fields["unit"]
        return Text("" if not speed or unit == "%" else f"{speed:.0f} {unit}/s", style="cyan")


EVERY = 30.0
"""Seconds between two lines of progress."""
_SECOND = 1.0


class Style(StrEnum):
    """How progress is shown on stderr."""

    bar = "bar"
    plain = "plain"
    json = "json"
    none = "none"


_Progress = Annotated[Style | None, typer.Option(help="shown as a bar on a terminal, else as plain lines")]
_Quiet = Annotated[bool, typer.Option("--quiet", help="show no progress")]
_style: ContextVar[Style | None] = ContextVar("style", default=None)


def shows_progress(command: Callable[P, None]) -> Callable[P, None]:
    """A command that takes `--progress` and `--quiet` as well."""

    @wraps(command)
    def shown_so(*given: Any, progress: Style | None = None, quiet: bool = False, **options: Any) -> None:
        before = _style.set(Style.none if quiet else progress)
        try:
            command(*given, **options)
        finally:
            _style.reset(before)

    own = inspect.signature(command, eval_str=True)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, kind, default in (("progress", _Progress, None), ("quiet", _Quiet, False))
    ]
    kinds = {one.name: one.annotation for one in (*own.parameters.values(), *added)}
    shown_so.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # pyright: ignore
    shown_so.__annotations__ = {**kinds, "return": None}
    return shown_so


@dataclass
class _Lines:
    """Progress as plain lines, for logs; what is done sooner than the first of them says nothing."""

    label: str
    total: int
    unit: str
    began: tuple[float, float] | None = None
    said: float = field(default_factory=lambda: time.monotonic())

    def update(self, done: float, what: str = "") -> None:
        """Say how far it is, if a line is due."""
        now = time.monotonic()
        since, before = self.began = self.began or (now, done)
        if self._is_due(now - self.said, done):
            self.said = now
            self._say(done, what, (done - before) / (now - since) if now > since and done > before else None)

    def _is_due(self, waited: float, done: float) -> bool:
        return waited >= EVERY

    def _say(self, done: float, what: str, speed: float | None) -> None:
        counted = f"{done * self.total:.0f} of {self.total} {self.unit}"
        said = f"{100 * done:.0f} %" if self.unit == "%" else counted
        if speed is not None:
            said += "" if self.unit == "%" else f", {speed * self.total:.2g} {self.unit}/s"
            said += f", {about((1 - done) / speed)} left" if done < 1 else ""
        err.print(f"{f'{self.label} {what}'.strip()}: {said}", highlight=False, soft_wrap=True)


@dataclass
class _JsonLines(_Lines):
    """Progress as lines of JSON, for programs: at the beginning, about once a second, and at the end."""

    said: float = -math.inf

    def _is_due(self, waited: float, done: float) -> bool:
        return waited >= _SECOND or done >= 1

    def _say(self, done: float, what: str, speed: float | None) -> None:
        line = {
            "stage": self.label,
            "what": what,
            "done": round(done * self.total, 6),
            "total": self.total,
            "unit": self.unit,
            "rate": None if speed is None else round(speed * self.total, 6),
            "remaining": None if speed is None else round((1 - done) / speed, 3),
        }
        print(json.dumps(line, ensure_ascii=False, allow_nan=False), file=sys.stderr, flush=True)


@contextmanager
def progress_bar(label: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """A bar on stderr with rate and time left; yields a callback that takes the share done, and on what.

    Where stderr is no terminal, there are plain lines instead, every half minute; `--progress` and `--quiet`
    say otherwise.
    """
    style = _style.get()
    if style is Style.none:
        yield lambda done, what="": None
        return
    if style is Style.json:
        lines = _JsonLines(label, total, unit)
        lines.update(0.0)
        lines.began = None  # rates count from the first tick, before which programs are compiled
        yield lines.update
        return
    if style is Style.plain or (style is None and not err.is_terminal):
        yield _Lines(label, total, unit).update
        return
    columns = [TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
               _Rate(), TimeRemainingColumn(elapsed_when_finished=True)]  # fmt: skip
    with Progress(*columns, console=err) as progress:
        task = progress.add_task(label, total=total, unit=unit)

        def update(done: float, what: str = "") -> None:
            progress.update(task, completed=done * total, description=f"{label} {what}".strip())

        yield update
