"""How long planning may take."""

import time


class Deadline:
    """A limit on the time of planning; infinite if none is set."""

    def __init__(self, seconds: float = float("inf")):
        self._end = time.monotonic() + seconds

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() > self._end
