"""What a guarantee means: how well the best test tells neighbouring data sets apart, in numbers and words."""

from __future__ import annotations

import numpy as np

from noiseworthy._wording import percent_up, shortened_apart
from noiseworthy.privacy.power import ProfiledPower
from noiseworthy.studies.claims import best_tests
from noiseworthy.studies.typed_record import PrivacyPart, RunRecord, ToldApartPart

_NOTHING = 0.99
"""A guess that is right more often makes a guarantee next to none."""
_MOVE = {"record": "a record", "person": "a person with all its records", "client": "all that a client holds"}


def told_apart(record: RunRecord) -> ToldApartPart | None:
    """How well the best test tells neighbours apart, at any client, and which of them is worst off.

    Args:
        record: a run record with noise; an earlier version's numbers follow from epsilon and delta alone.

    Returns:
        Whose, how well, and how often a guess between two equally likely data sets is right at most. None
        where nothing is released.
    """
    claim = record.claim
    known = claim is not None and "told_apart" in claim.model_fields_set
    return claim.told_apart if claim and known else _by_epsilon(record.plan.privacy)


def _by_epsilon(privacy: PrivacyPart) -> ToldApartPart:
    places = {(row.epsilon, row.delta): place for place, row in reversed([*enumerate(privacy.clients)])}
    found = {place: ProfiledPower(*np.array([*pair])[:, None]) for pair, place in places.items()}
    return ToldApartPart(**best_tests(found, len(places) == 1, privacy.relation))


def meaning(record: RunRecord) -> str:
    """The same in words; empty where nothing is released."""
    if (known := told_apart(record)) is None:
        return ""
    name = shortened_apart(record.client_names, 40)[known.client]
    whose = "a client" if known.alike else f"{name}, the client that is worst off"
    at = _both(known.false_alarms)
    seen = "every noised sum with an upload" if record.plan.whom.in_sums else "every upload"
    vain = " That is next to no guarantee." if known.guess > _NOTHING else ""
    return (
        f"Take somebody who knows all but which of two neighbouring data sets is held, and sees {seen} "
        f"of {whose}. With false alarms in {at} of cases, no test finds the change in more than "
        f"{_both(known.power)}. A guess between the two, where both are equally likely, is right with "
        f"probability {percent_up(known.guess)} at most; 50\N{NO-BREAK SPACE}% is blind."
        f"{vain}{_exchange(record, known)}"
    )


def _exchange(record: RunRecord, known: ToldApartPart) -> str:
    if known.power_of_exchange is None:
        return ""
    return (
        f" One change is {_MOVE[record.plan.privacy.unit]} left out or added. To exchange it takes "
        f"two, and then no test finds the change in more than {_both(known.power_of_exchange)}."
    )


def _both(shares: list[float]) -> str:
    return " and ".join(percent_up(share) for share in shares)
