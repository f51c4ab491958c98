"""What a round costs an owner: the protocol alone, as benchmarks/secure_sum.py measures it."""

from __future__ import annotations

import pytest

from secure_sum import PARAMETERS, round_of


@pytest.mark.slow
def test_a_round_of_fifty_owners_costs_each_less_than_two_seconds_of_its_processor(tmp_path):
    """Processor time, which other work on the machine does not lengthen; 0.1 s were measured."""
    made = round_of(50, tmp_path)
    assert (PARAMETERS, made["survivors"]) == (100_000, 45)
    assert made["owner_seconds"] < 2
