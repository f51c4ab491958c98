"""Gathering the uploads of one round: whom to ask, under which numbers, and what counts as an answer."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.correspondence import UNREADABLE, Correspondence, Found
from noiseworthy.deploy.gateway.messages import Reason, Refused, Request, Uploaded
from noiseworthy.privacy.uploads import Assurance

FINAL: tuple[Reason, ...] = ("malformed", "not-allowed", "floor", "budget")
"""Refusals that an owner does not take back during a run: its file stays, and what is spent stays spent."""
DRAWN: Assurance = "grid-csprng"
"""What noise of owners must be stamped with."""
AWAITED: Assurance = "awaited"
"""What uploads are stamped with to which a trusted server adds the noise."""
_IN_TIME = 0.8
"""Part of a round's patience in which an owner may still begin: the rest is for the way back."""


@dataclass(frozen=True)
class Gathering:
    """The way to the uploads of rounds.

    Attributes:
        asking: the requests of the run.
        letters: with the owners.
        clients: names of the owners, in the plan's order.
        patience: seconds that a round waits for replies.
        noted: called before an owner is asked under a number that is ahead of the schedule, to keep `ahead`:
            a run that goes on asks under the same number, and pays nothing twice.
    """

    asking: Asking
    letters: Correspondence
    clients: tuple[str, ...]
    patience: float
    noted: Callable[[], None]

    def uploads(self, t: int, cohort: NDArray[np.int32], theta: NDArray[np.float32]) -> Found:
        """What the owners of a cohort answer in a round, by name, in the cohort's order.

        Where fewer than half answered because releases were paid for and lost, as many of those owners as
        are needed are asked under their next numbers, the ones that lost the fewest first.

        Args:
            t: the round.
            cohort: places of clients in the plan.
            theta: the model, shape (p,).
        """
        found = self._asked(t, cohort, theta)
        while (lacking := self.least(cohort) - came(found)) > 0:
            further = self._further(t, cohort, found)[:lacking]
            if not further:
                break
            for client, number in further:
                self.letters.ahead[self.clients[client]] = number - self.number(t, client)
            self.noted()
            found |= self._asked(t, [client for client, _ in further], theta)
        return found

    @staticmethod
    def least(cohort: NDArray[np.int32]) -> int:
        """Owners that must answer: half of those asked."""
        return (len(cohort) + 1) // 2

    def may_answer(self, found: Found) -> int:
        """How many owners have answered a round, or may when it is asked again later."""
        return sum(not self._never(name, one) for name, one in found.items())

    def _never(self, name: str, one: Uploaded | Refused | str) -> bool:
        if not isinstance(one, Refused):
            return False
        planned = int(self.asking.planned[self.clients.index(name)])
        return one.reason in FINAL or (one.next is not None and one.next > planned)

    def number(self, t: int, client: int) -> int:
        """The number of a client's release by the schedule."""
        return int(self.asking.releases(t)[client]) + 1

    def used(self, t: int) -> NDArray[np.int64]:
        """Releases of this plan that clients were asked for before round t, shape (1, N).

        One that was paid for and lost, in whose place a later one was asked, counts as much.
        """
        asking, ahead = self.asking, [self.letters.ahead.get(name, 0) for name in self.clients]
        return (np.minimum(asking.releases(t) + ahead, asking.planned) - asking.made)[None]

    def _further(self, t: int, cohort: NDArray[np.int32], found: Found) -> list[tuple[int, int]]:
        """Clients that named a later release, and its number, within what was planned."""
        named: list[tuple[int, int]] = []
        for client in map(int, cohort):
            name = self.clients[client]
            one, ahead = found[name], self.letters.ahead.get(name, 0)
            if isinstance(one, Refused) and one.next is not None:
                asked = self.number(t, client) + ahead
                if asked < one.next <= self.asking.planned[client]:
                    named.append((client, one.next))
        return sorted(named, key=lambda pair: self.letters.ahead.get(self.clients[pair[0]], 0))

    def _asked(self, t: int, clients: Sequence[int] | NDArray[np.int32], theta: NDArray[np.float32]) -> Found:
        seconds = _IN_TIME * self.patience
        requests = {self.clients[client]: self.request(t, int(client), theta, seconds) for client in clients}
        spent = {
            name: self.spent(name)
            for name, request in requests.items()
            if request.release > self.asking.planned[self.clients.index(name)]
        }
        wanted = {name: request for name, request in requests.items() if name not in spent}
        answers = self.letters.ask(wanted, self.patience, (len(requests) + 1) // 2)
        held = {name: self._held(name, answers, wanted) for name in wanted}
        return {name: spent.get(name) or held[name] for name in requests}

    def _held(self, name: str, answers: Found, wanted: Mapping[str, Request]) -> Uploaded | Refused | str:
        """An answer, held against what the request makes a gateway draw."""
        one = answers[name]
        if not isinstance(one, Uploaded):
            return one
        job = self.asking.job(self.clients.index(name), wanted[name])
        stamp: Assurance = DRAWN if wanted[name].into is None else AWAITED
        if one.upload.assurance != stamp:
            return f"{UNREADABLE}: its noise has another origin than {stamp}"
        return one if job.made(one.upload) else f"{UNREADABLE}: numbers, grid or size are not what was asked"

    def spent(self, name: str) -> Refused:
        """What takes the place of an answer where no release of an owner is left."""
        place, lost = self.clients.index(name), self.letters.ahead.get(name, 0)
        message = f"all {self.asking.planned[place]} releases of the plan are spent, {lost} of them lost"
        return Refused(reason="budget", message=message)

    def request(self, t: int, client: int, theta: NDArray[np.float32], seconds: float) -> Request:
        """The request to a client in a round by all that is known of it, to be begun within some seconds."""
        name, letters = self.clients[client], self.letters
        return self.asking.request(
            client, t, theta, deadline=time.time() + seconds, head=letters.heads.get(name),
            received=letters.received.get(name, 0), ahead=letters.ahead.get(name, 0),
        )  # fmt: skip


def came(found: Found) -> int:
    """Uploads that came."""
    return sum(isinstance(one, Uploaded) for one in found.values())


def in_words(found: Found) -> dict[str, str]:
    """Why each upload did not come; empty for those that did."""
    return {name: _words(one) for name, one in found.items()}


def _words(one: Uploaded | Refused | str) -> str:
    if isinstance(one, Uploaded):
        return ""
    return f"{one.reason}: {one.message}" if isinstance(one, Refused) else one
