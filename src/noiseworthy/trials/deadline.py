"""How long planning may take."""

from __future__ import annotations

import time


class Deadline:
    """A limit on the time of planning; infinite if none is set."""

    def __init__(self, seconds: float = float("inf")):
        self._end = time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() > self._end

    def share(self, own: float, others: float) -> Deadline:
        """That of a part of what is left, by its effort beside that of all that is still to come."""
        return Deadline(max(self._end - time.monotonic(), 0.0) * own / (own + others))
