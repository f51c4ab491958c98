"""What commands print to: stdout for answers, stderr for a progress bar and for what is to come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.segment import Segment
from rich.text import Text

from noiseworthy._names import shown


class Plain(Console):
    """A terminal on which all strings are data: no markup, no emoji by name, no control characters.

    What is to be bold is a `Text`.
    """

    def __init__(self, *, stderr: bool = False):
        super().__init__(stderr=stderr, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """As rich renders it, with what would move the terminal made visible."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=_lines_shown(segment.text))


def _lines_shown(text: str) -> str:
    return "\n".join(map(shown, text.split("\n")))


err = Plain(stderr=True)
out = Plain()


def foretell(seconds: float) -> None:
    """How long networks will train, before they start."""
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
        """The speed so far."""
        speed = task.finished_speed or task.speed
        unit = task.fields["unit"]
        return Text("" if not speed or unit == "%" else f"{speed:.0f} {unit}/s", style="cyan")


@contextmanager
def progress_bar(label: str, total: int, unit: str) -> Iterator[Callable[..., None]]:
    """A bar on stderr with rate and time left; yields a callback that takes the share done, and on what."""
    columns = [TextColumn("{task.description:<10}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
               _Rate(), TimeRemainingColumn(elapsed_when_finished=True)]  # fmt: skip
    with Progress(*columns, console=err, disable=not err.is_terminal) as progress:
        task = progress.add_task(label, total=total, unit=unit)

        def update(done: float, what: str = "") -> None:
            progress.update(task, completed=done * total, description=f"{label} {what}".strip())

        yield update
