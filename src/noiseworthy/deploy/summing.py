"""The server's side of a secure sum over an exchange: its steps, and what came of them."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.deploy.correspondence import SILENT, answers
from noiseworthy.deploy.exchange import Exchange
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.messages import Refused, Request
from noiseworthy.deploy.gateway.sums import Summed, SumRequest, subject_of
from noiseworthy.deploy.secure_sum.collector import Collector
from noiseworthy.deploy.secure_sum.keys import Roster
from noiseworthy.deploy.secure_sum.messages import STEPS
from noiseworthy.deploy.secure_sum.terms import Terms
from noiseworthy.errors import InvalidInput, TooFewReplies, VoidRound
from noiseworthy.privacy.grid_mechanism import REACH
from noiseworthy.privacy.uploads import Grid

_ROOM = 60
"""Bits of a sum of uploads at their reach; rounding an upload takes half a step, 2^-61 of that."""

_ROUNDING = 1 + 2.0**-10
"""Room for the millionth of noise that owners add beyond the planned."""


@dataclass(frozen=True)
class SumFound:
    """What came of a round.

    Attributes:
        values: sum over the survivors of weight times upload, float64, shape (p,).
        survivors: whose uploads are in it.
        heads: of the owners' ledgers, as they told last.
        missing: why the others are not in it, in words.
        refused: those of them who refused, with the number of their next release where they named it.
    """

    values: Real
    survivors: tuple[str, ...]
    heads: dict[str, str]
    missing: dict[str, str]
    refused: dict[str, Refused]


class Void(TooFewReplies):
    """A round that is not opened, with what its owners told.

    Attributes:
        heads: as of `SumFound`.
        missing: as of `SumFound`, of everybody who was there too late or not at all.
        refused: as of `SumFound`.
        uploaded: owners whose upload arrived: they have paid, and it is of no use any more.
    """

    def __init__(
        self,
        message: str,
        heads: dict[str, str],
        missing: dict[str, str],
        refused: dict[str, Refused],
        uploaded: tuple[str, ...],
    ):
        super().__init__(message)
        self.heads, self.missing, self.refused, self.uploaded = heads, missing, refused, uploaded


def terms_for(
    roster: Roster, number: int, requests: Mapping[str, Request], reach: float, colluders: int, dropouts: int,
    share: float = 0.0, coordinates: int | None = None,
) -> Terms:  # fmt: skip
    """The terms of a round, on the finest grid that has room for its sum.

    Args:
        roster: of the owners.
        number: of the round within its run.
        requests: the release that each owner of the cohort is asked for.
        reach: the largest coordinate of an upload times its weight, with its noise; beyond it owners clip.
            Where noise is shared, the largest clip times weight.
        colluders: t.
        dropouts: d.
        share: deviation of the noise that each owner adds to the sum, where owners share it.
        coordinates: of an upload; None takes the parameters of the model that is sent.

    Raises:
        InvalidInput: a cohort that cannot be sound.
    """
    check.positive("reach", reach)
    exponent = math.frexp(reach * len(requests))[1] - _ROOM
    if share:
        exponent = Grid.finest(reach + REACH * share).exponent
    steps = math.ldexp(share, -exponent)
    first = next(iter(requests.values()))
    return Terms(
        run=first.run, round=number, roster=roster.digest, cohort=tuple(sorted(requests)),
        colluders=colluders, dropouts=dropouts, coordinates=coordinates or len(first.theta),
        exponent=exponent, clipped=math.ceil(math.ldexp(reach, -exponent)),
        deviation=_ROUNDING * math.sqrt(len(requests)) * steps, subject=subject_of(first), share=steps,
    )  # fmt: skip


def summed(
    exchange: Exchange,
    collector: Collector,
    requests: Mapping[str, Request],
    weights: Mapping[str, float],
    seconds: float,
) -> SumFound:
    """The sum of the releases of a cohort, of which single ones are not seen.

    Args:
        exchange: with the owners.
        collector: of the round, which was not started yet.
        requests: the release that each owner is asked for, alike in `subject`; who of the cohort is left out
            is missing from the start.
        weights: of each owner's upload, public.
        seconds: to wait for each of the five steps; an owner who is later is missing from then on.

    Raises:
        Void: too few owners are left, and nothing is opened. What they paid stays paid, and a next round
            needs next numbers.
        InvalidInput: requests that differ, or are of other owners than the round.
    """
    terms = collector.terms
    subjects = {subject_of(request) for request in requests.values()}
    if subjects != {terms.subject} or not requests.keys() <= set(terms.cohort):
        raise InvalidInput("the owners of a secure sum must all be asked alike, and only they")
    missing: dict[str, str] = {}
    heads: dict[str, str] = {}
    refused: dict[str, Refused] = {}
    begin = collector.start()
    messages = {name: begin[name] for name in requests}
    steps, uploaded = iter(STEPS), ()
    while messages:
        step = next(steps)
        begun = requests if step == STEPS[0] else {}
        sent = {
            name: packed(SumRequest(message=message, request=begun.get(name), weight=weights[name]))
            for name, message in messages.items()
        }
        found = answers(exchange, sent, seconds, (Summed, Refused))
        for name in sent:
            one = found.get(name)
            if isinstance(one, Summed):
                heads[name] = one.head
            else:
                missing[name] = SILENT if one is None else f"{one.reason}: {one.message}"
            if isinstance(one, Refused):
                refused[name] = one
        replies = {name: one.message for name, one in found.items() if isinstance(one, Summed)}
        uploaded = tuple(replies) if step == "upload" else uploaded
        try:
            messages = collector.step(replies)
        except VoidRound as error:
            missing |= collector.faults
            why = "; ".join(f"{name}: {told}" for name, told in missing.items())
            message = f"round {terms.round}: {error} ({why})"
            raise Void(message, heads, missing, refused, uploaded) from None
    told = missing | collector.faults
    outside = {name: why for name, why in told.items() if name not in collector.survivors}
    return SumFound(collector.values, collector.survivors, heads, outside, refused)
