"""What a study reads off its private records before anything is planned, and that it is a simulation then."""

from __future__ import annotations

import json

from noiseworthy.data import Federation
from noiseworthy.data.dealing import hanging
from noiseworthy.errors import ConfigError
from noiseworthy.studies.tables import Study


def read_off(study: Study, federation: Federation | None) -> tuple[str, ...]:
    """What one record could change beside itself, a sentence each; nothing of a study that states all.

    Args:
        study: whose `[federation]` names records.
        federation: what it names.
    """
    said = [] if federation is None else hanging(study.federation, federation, study.privacy.relation)
    if study.federation.simulation:
        said.append(
            "ranges, values and classes of [columns] were read off the private records, so that one of them "
            "can change how all others are seen; whoever states them from what is public leaves [federation] "
            "simulation out"
        )
    return tuple(f"This study is a simulation: {one}. No epsilon covers that." for one in said)


def check_nothing_is(study: Study, federation: Federation) -> None:
    """Refuse to deploy a study that reads private records before it is planned.

    Raises:
        ConfigError: with what was read, and what to state instead.
    """
    if not (said := read_off(study, federation)):
        return
    stated = json.dumps(federation.classes_found, ensure_ascii=False)
    remedy = f" To deploy it, state classes = {stated} in [federation]" if federation.classes_found else ""
    raise ConfigError(f"nothing is deployed. {said[0]}{'' if study.federation.simulation else remedy}")
