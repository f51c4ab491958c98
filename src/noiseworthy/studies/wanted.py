"""Whether a study is planned by trial; that is known before anything of trials is loaded."""

from __future__ import annotations

from noiseworthy.methods.registry import method
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.studies.prepare import Prepared
from noiseworthy.studies.tables import Study


def trials_wanted(prepared: Prepared) -> bool:
    """Whether a study is planned by trial: it says so, or has data and noise and leaves something free."""
    study = prepared.study
    if study.constants.source is not None:
        return study.constants.source == "fitted"
    free = method(study.algorithm.name).leaves_free(study.algorithm) or study.privacy.clip_norm == "auto"
    return _can_be_tried(prepared) and free


def _can_be_tried(prepared: Prepared) -> bool:
    """Whether there are data and noise, and nothing that trials know nothing of: constants, whom to ask."""
    study = prepared.study
    if prepared.federation is None or not law_of(study.privacy.mechanism).noisy:
        return False
    if study.constants.assumed() or isinstance(study.constants.heterogeneity, list | dict):
        return False
    return not tells_clients_apart(study)


def tells_clients_apart(study: Study) -> bool:
    """Whether its method is to ask clients as budgets or heterogeneity say, which trials know nothing of."""
    return method(study.algorithm.name).tells_clients_apart(study.algorithm)
