"""Budgets and sensitivities: the numbers of the contract, and brute force over neighbouring data sets."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.sensitivity import of_mean_gradient
from noiseworthy.privacy.trust import ADVERSARY


def clipped_mean(gradients, norm, clip, divisor):
    lengths = np.linalg.norm(gradients, ord=1 if norm == "l1" else 2, axis=1)
    return (gradients / np.maximum(1, lengths / clip)[:, None]).sum(axis=0) / divisor


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_no_neighbour_moves_the_clipped_mean_further_and_one_moves_it_as_far(norm, relation):
    rng = np.random.default_rng(11)
    clip, n = 1.5, 7
    bound = of_mean_gradient(clip, [n], norm, relation).value[0]
    order = 1 if norm == "l1" else 2
    most = 0.0
    for trial in range(500):
        data = rng.normal(size=(n, 3)) * rng.choice([0.1, 10])
        other = data.copy()
        if relation == "replace-one":
            other[2] = rng.normal(size=3) * 10
            if trial == 0:  # the worst case: opposite directions, both clipped
                data[2], other[2] = [9, 0, 0], [-9, 0, 0]
        else:
            other = np.delete(data, 2, axis=0)
        moved = clipped_mean(data, norm, clip, n) - clipped_mean(other, norm, clip, n)
        most = max(most, np.linalg.norm(moved, ord=order))
    assert most <= bound * (1 + 1e-12)
    assert most >= bound * (1 - 1e-9)


def test_a_poisson_batch_divides_by_its_fixed_share():
    sensitivity = of_mean_gradient(2.0, [50, 100], "l2", "add-remove", 0.1)
    np.testing.assert_allclose(sensitivity.value, [2 / 5, 2 / 10])
    assert sensitivity.sampling_rate == 0.1


def test_sensitivity_carries_what_it_holds_for():
    sensitivity = of_mean_gradient(2.0, [50], "l1")
    assert (sensitivity.norm, sensitivity.relation, sensitivity.unit) == ("l1", "replace-one", "record")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            lambda: of_mean_gradient(0.0, [5], "l2"),
            "clip_norm must be finite and above 0, got 0; a clip of 0",
        ),
        (lambda: of_mean_gradient(float("inf"), [5], "l2"), "clip_norm must be finite and above 0, got inf"),
        (lambda: of_mean_gradient(1.0, [5, 0], "l2"), "sizes .* got 0 for client 1; leave a client without"),
        (
            lambda: of_mean_gradient(1.0, [5, 2.5], "l2"),
            "sizes must be whole numbers .* got 2.5 for client 1",
        ),
        (lambda: of_mean_gradient(1.0, [], "l2"), "sizes must be a list with one entry per client"),
        (lambda: of_mean_gradient(1.0, [5], "l3"), "norm must be one of 'l1', 'l2', got 'l3'"),
        (lambda: of_mean_gradient(1.0, [5], "l2", "replace_one"), "relation must be one of .* 'replace_one'"),
        (lambda: of_mean_gradient(1.0, [5], "l2", "add-remove", 0.0), "sampling_rate .* above 0, got 0"),
        (lambda: of_mean_gradient(1.0, [5], "l2", "add-remove", 2.0), r"sampling_rate .* \(0, 1\], got 2"),
        (lambda: PrivacyBudget.of(0.0, 0.0, 2), "epsilon .* above 0, got 0 for client 0; ask such a client"),
        (lambda: PrivacyBudget.of([1.0, -3.0], 0.0, 2), "epsilon .* got -3 for client 1"),
        (lambda: PrivacyBudget.of(float("nan"), 0.0, 2), "epsilon must be a number, got NaN; remove"),
        (
            lambda: PrivacyBudget.of(1.0, 1.0, 2),
            r"delta must lie in \[0, 1\), got 1 for client 0; use a delta",
        ),
        (lambda: PrivacyBudget.of(1.0, [0.0, -0.1], 2), r"delta .* got -0.1 for client 1"),
        (lambda: PrivacyBudget.of([1.0, 1.0], 0.0, 3), r"epsilon must be one number or a list of 3 .* got 2"),
        (lambda: PrivacyBudget.of(1.0, [0.0] * 4, 3), r"delta must be one number or a list of 3 .* got 4"),
        (lambda: PrivacyBudget(np.ones(2), np.zeros(3)), r"epsilon and delta .* got \(2,\) and \(3,\); Priv"),
        (lambda: PrivacyBudget(np.array(1.0), np.array(0.0)), "lists with one entry per client"),
        (
            lambda: PrivacyBudget.of(1.0, 0.0, 2, "swap"),
            "relation must be one of 'replace-one', 'add-remove'",
        ),
    ],
)
def test_bad_input_is_refused_by_name_value_and_remedy(call, says):
    with pytest.raises(InvalidInput, match=says):
        call()


def test_a_budget_states_unit_relation_and_adversary():
    budget = PrivacyBudget.of(1.0, 0.0, 3)
    assert (budget.unit, budget.relation, budget.clients) == ("record", "replace-one", 3)
    assert "every upload" in ADVERSARY
