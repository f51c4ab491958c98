"""An exchange without a network: owners within reach of a call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from noiseworthy.deploy import correspondence
from noiseworthy.deploy.exchange import Answer, check_free
from noiseworthy.errors import GatewayError


@dataclass
class Clock:
    """The time of who asks: that of the machine, and the seconds that were waited for nothing."""

    skipped: float = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.skipped

    def sleep(self, seconds: float) -> None:
        self.skipped += seconds

    time = staticmethod(time.time)


if not hasattr(correspondence.time, "skipped"):  # doctests load this file a second time, under another name
    correspondence.time = Clock()
CLOCK: Clock = correspondence.time


@dataclass
class Direct:
    """Owners within reach of a call: gateways in this process, or behind sockets of this machine.

    Attributes:
        owners: what answers each of them.
        come_back: whether owners who do not answer may do so later: else the time in which they do not is
            over at once, since a wait would keep a core busy for seconds.

    Example:
        >>> direct = Direct({"north": bytes.upper})
        >>> direct.send("north", b"aye", deadline=0.0)
        >>> direct.receive(1.0)
        [('north', b'AYE')]
    """

    owners: Mapping[str, Callable[[bytes], bytes]]
    come_back: bool = False
    _answers: dict[str, bytes | None] = field(default_factory=dict)

    @property
    def clients(self) -> tuple[str, ...]:
        """Everybody."""
        return tuple(self.owners)

    @property
    def waiting(self) -> frozenset[str]:
        """Owners whose answers were not taken yet."""
        return frozenset(self._answers)

    def send(self, client: str, message: bytes, deadline: float) -> None:
        """Ask at once."""
        check_free(self, client)
        try:
            self._answers[client] = self.owners[client](message)
        except GatewayError:
            self._answers[client] = None

    def receive(self, seconds: float) -> list[Answer]:
        """All answers that were not taken yet."""
        taken, self._answers = list(self._answers.items()), {}
        if all(data is None for _, data in taken):
            if self.come_back:
                time.sleep(min(max(seconds, 0.0), 0.02))
            else:
                CLOCK.sleep(max(seconds, 0.0))
        return taken

    def absent(self, client: str) -> str:
        """Its gateway is all that there could be."""
        return "no gateway answers; start it with noiseworthy gateway"
