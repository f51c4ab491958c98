"""How the clients of a study are believed to hold their records."""

from __future__ import annotations

from typing import Any

from noiseworthy.studies.tables import Study
from noiseworthy.trials.facts import OWNERS as GIVEN_OWNERS


def believed_partition(study: Study) -> tuple[str, dict[str, Any]]:
    """How trials deal records out: as the study says, as other owners hold theirs, or iid.

    How given owners differ, only the private data could tell; public owners stand in for them.
    """
    table = study.federation
    if table.partition == GIVEN_OWNERS or (table.partition is None and table.clients is None):
        return GIVEN_OWNERS, {}
    if table.partition in ("label-shards", "dirichlet", "sorted"):
        settings = {"labels_per_client": table.labels_per_client, "alpha": table.alpha}
        return table.partition, {name: value for name, value in settings.items() if value is not None}
    return "iid", {}
