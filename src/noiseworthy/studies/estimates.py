"""What stage 1 of a training told of each client, as plain values for records and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from noiseworthy._json import strict_json
from noiseworthy.methods.dpfl_bcs.heterogeneity import as_printed
from noiseworthy.methods.dpfl_bcs.two_stages import stage_before

if TYPE_CHECKING:
    from noiseworthy.studies.two_stages import Estimation


def describe(stage: Estimation) -> dict[str, Any]:
    """What one training estimated and decided, client by client, ready for JSON.

    Args:
        stage: of `two_stages.run`.

    Returns:
        Lists with an entry per client, and one number:
        `epsilon` and `sizes`, the whole budgets and the records;
        `estimate`, Gamma_n for the planner; `raw`, the same before shrinking; `noise`, the standard
        deviation of the noise on a client's mean report (both None for clients that never reported);
        `as_printed`, Gamma_n as the paper estimates it; `spread`, the standard deviation between clients as
        estimated; `first` and `releases`, the counts of both stages.

    Guarantee: post-processing of released values; costs no privacy.
    """
    first, found, reports = stage_before(stage.plan), stage.found, stage.reports
    clients = len(found.value)
    number = np.maximum(np.bincount(reports.clients, minlength=clients), 1)
    told = {
        "epsilon": first.budget.epsilon.tolist(),
        "sizes": stage.plan.problem.sizes.tolist(),
        "estimate": found.value.tolist(),
        "raw": found.raw.tolist(),
        "noise": (reports.noise_std / np.sqrt(number)).tolist(),
        "as_printed": as_printed(reports, clients).tolist(),
        "spread": found.spread,
        "first": first.plan.releases.tolist(),
        "releases": stage.plan.releases.tolist(),
    }
    return strict_json(told)
