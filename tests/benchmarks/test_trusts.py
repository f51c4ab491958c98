"""The table of trust in docs/plan_quality.md is that of the kept cells, none of which is made up."""

from __future__ import annotations

import numpy as np

import trusts
from noiseworthy.privacy.trust import TRUST_MODELS


def test_the_page_has_the_table_of_what_is_kept():
    page = trusts.PAGE.read_text()
    assert page == trusts.written(page, trusts.kept())


def test_every_cell_is_kept_under_each_trust_with_a_number_for_each_seed():
    cells = {(one["federation"], one["epsilon"], one["trust"]): one for one in trusts.kept()}
    asked = {
        (name, eps, trust) for name, each in trusts.BUDGETS.items() for eps in each for trust in TRUST_MODELS
    }
    assert cells.keys() == asked
    for one in cells.values():
        assert len(one["loss"]) == len(one["accuracy"]) == (len(trusts.SEEDS) if one["rounds"] else 1)
        assert np.all(np.isfinite(one["loss"]))
