"""Rounds of which the server sees a sum alone: whom to ask, under which numbers, what a void one leaves.

An owner whose release went into a void round has paid for it, and it never leaves again: its next one is
asked, within what was planned. Numbers of sums only grow within a run, and each is kept before it is used.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from noiseworthy._wording import count
from noiseworthy.deploy.correspondence import SILENT, introduced
from noiseworthy.deploy.gateway.messages import Refused, Request
from noiseworthy.deploy.gathering import FINAL, Gathering
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.deploy.summing import SumFound, Void, summed, terms_for
from noiseworthy.errors import NoMoreReplies, TooFewReplies, UnsoundClaim
from noiseworthy.privacy.trust import Sharing

_LOOK = 5.0
"""Seconds to wait for owners who were silent, where the round can be made without them."""
MOST_VOID = 3
"""Void sums of one round that owners had paid for, with which a run ends and spends no more."""
_BEFORE_UPLOADS = 3
"""Steps until an owner has paid, each of which may take a round's patience."""


@dataclass(frozen=True)
class SumRounds:
    """The way to the sums of rounds.

    Attributes:
        gathering: whom to ask, and the requests of the run.
        roster: of the owners' signing keys.
    """

    gathering: Gathering
    roster: Roster

    def mean(
        self, t: int, cohort: NDArray[np.int32], theta: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], dict[str, str]]:
        """The weighted mean of the uploads of those who survived a round, and why the others are missing.

        A void round is asked again under the next number, as long as it made owners' releases go ahead, and
        `MOST_VOID` times at most.

        Args:
            t: the round.
            cohort: places of clients in the plan.
            theta: the model, shape (p,).

        Returns:
            The mean, shape (p,), and for each owner of the cohort an empty text or why it is not in it.

        Raises:
            TooFewReplies: too few owners are there; what was paid stays paid.
            NoMoreReplies: too few may ever be in this round, or too many sums of it were void.
        """
        names = {self.gathering.clients[int(client)]: int(client) for client in cohort}
        voids = 0
        while True:
            self._look_for_silent(names)
            try:
                found = self._tried(t, names, theta)
            except Void as void:
                self._heard(void)
                if not self._moved_on(t, names, void):
                    raise self._given_up(t, names, void) from None
                voids += bool(void.uploaded)
                if voids == MOST_VOID:
                    raise _too_many(t, void) from None
                continue
            self._heard(found)
            for name in found.survivors:
                self.gathering.letters.received[name] = self._release(t, name, names[name])
            for name, refused in found.refused.items():
                self._catch_up(t, name, names[name], refused)
            weights = self._sharing.weights
            whole = sum(weights[names[name]] for name in found.survivors)
            return found.values / whole, {name: found.missing.get(name, "") for name in names}

    @property
    def _sharing(self) -> Sharing:
        release = self.gathering.asking.plan.release
        if release is None or release.sharing is None:
            raise UnsoundClaim("owners sum what was planned for sums alone; plan again, with that trust")
        return release.sharing

    def _fewest(self, names: dict[str, int]) -> int:
        return len(names) - self.gathering.asking.plan.problem.trust.dropouts

    def _tried(self, t: int, names: dict[str, int], theta: NDArray[np.float32]) -> SumFound:
        """One sum, under a number that was kept before anybody is asked."""
        gathering, letters = self.gathering, self.gathering.letters
        letters.sums += 1
        gathering.noted()
        within = _BEFORE_UPLOADS * gathering.patience
        requests = {name: gathering.request(t, client, theta, within) for name, client in names.items()}
        spent = {name: gathering.spent(name) for name in names if self._is_spent(t, name, names[name])}
        absent = dict.fromkeys(letters.silent & names.keys(), SILENT) | {
            name: f"{one.reason}: {one.message}" for name, one in spent.items()
        }
        terms, weights = self._terms(names, requests)
        asked = {name: request for name, request in requests.items() if name not in absent}
        if len(asked) < (fewest := self._fewest(names)):
            why = "; ".join(f"{name}: {told}" for name, told in absent.items())
            there = f"{len(asked)} of {len(names)} owners can be asked, at least {fewest} must"
            raise Void(f"round {letters.sums}: {there} ({why})", {}, absent, spent, ())
        collector = Collector(terms, self.roster)
        try:
            found = summed(letters.exchange, collector, asked, weights, gathering.patience)
        except Void as void:
            void.missing.update(absent)
            void.refused.update(spent)
            raise
        found.missing.update(absent)
        found.refused.update(spent)
        return found

    def _terms(self, names: dict[str, int], requests: dict[str, Request]) -> tuple[Terms, dict[str, float]]:
        asking, sharing = self.gathering.asking, self._sharing
        weights = {name: float(sharing.weights[client]) for name, client in names.items()}
        clips = [
            weights[name] * asking.job(client, requests[name]).sums[0].mechanism.clip_norm
            for name, client in names.items()
        ]
        share = min(weights[name] * requests[name].noise for name in names)
        trust = asking.plan.problem.trust
        number, reach = self.gathering.letters.sums, max(clips)
        terms = terms_for(
            self.roster, number, requests, reach, trust.colluders, trust.dropouts, share, asking.plan.numbers
        )
        return terms, weights

    def _release(self, t: int, name: str, client: int) -> int:
        """The number under which an owner is asked."""
        return self.gathering.number(t, client) + self.gathering.letters.ahead.get(name, 0)

    def _is_spent(self, t: int, name: str, client: int) -> bool:
        return self._release(t, name, client) > self.gathering.asking.planned[client]

    def _look_for_silent(self, names: dict[str, int]) -> None:
        """Ask owners who were silent for a word; the round begins without those who are."""
        letters = self.gathering.letters
        if not (silent := letters.silent & names.keys()):
            return
        enough = len(names) - len(silent) >= self._fewest(names)
        seconds = min(_LOOK, self.gathering.patience) if enough else self.gathering.patience
        letters.silent -= {about.client for about in introduced(letters.exchange, silent, seconds)}

    def _heard(self, one: SumFound | Void) -> None:
        letters = self.gathering.letters
        letters.heads.update(one.heads)
        letters.silent |= {name for name, why in one.missing.items() if why == SILENT}

    def _catch_up(self, t: int, name: str, client: int, refused: Refused) -> None:
        """Bring the number of an owner whom a round was made without to the one that it named."""
        ahead, due = self.gathering.letters.ahead, self.gathering.number(t, client) + 1
        if refused.next is not None and refused.next > due + ahead.get(name, 0):
            ahead[name] = refused.next - due

    def _moved_on(self, t: int, names: dict[str, int], void: Void) -> bool:
        """Whether a void round brought owners' numbers ahead, and enough of them may still be asked."""
        ahead, moved = self.gathering.letters.ahead, False
        for name, client in names.items():
            now, refused = self._release(t, name, client), void.refused.get(name)
            named = refused.next if refused is not None and refused.next is not None else now
            later = max(named, now + (name in void.uploaded))
            if later > now:
                ahead[name], moved = ahead.get(name, 0) + later - now, True
        return moved and self._may_answer(t, names, void) >= self._fewest(names)

    def _may_answer(self, t: int, names: dict[str, int], void: Void) -> int:
        gone = {name for name, refused in void.refused.items() if refused.reason in FINAL}
        return sum(name not in gone and not self._is_spent(t, name, own) for name, own in names.items())

    def _given_up(self, t: int, names: dict[str, int], void: Void) -> TooFewReplies:
        fewest = self._fewest(names)
        told = f"round {t + 1}, sum {str(void).removeprefix('round ')}"
        if self._may_answer(t, names, void) < fewest:
            return NoMoreReplies(f"{told}, and fewer than {fewest} still may: this round can never be made")
        return TooFewReplies(
            f"{told}; the run is kept as it was before this round, see to the owners and go on with --resume"
        )


def _too_many(t: int, void: Void) -> NoMoreReplies:
    model = f"its model is that of the {count(t, 'round')} before" if t else "no model can come of it"
    return NoMoreReplies(
        f"round {t + 1}: {MOST_VOID} sums of it were void after owners had paid, at last sum "
        f"{str(void).removeprefix('round ')}; the run ends so that no more is spent on it, and {model}"
    )
