"""Random costs and budgets of clients, for tests of what planners do within them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from noiseworthy.plans.resources import Resources


def _random_resources(rng: np.random.Generator, clients: int, most: int) -> Resources:
    """Costs that are equal or differ, free communications or free steps, budgets from one round up."""
    n = clients if rng.random() < 0.5 else 1
    c1, c2 = rng.uniform(0.1, 50, n), rng.uniform(0.1, 5, n)
    free = rng.integers(0, 4)
    c1, c2 = c1 * (free != 0), c2 * (free != 1)
    rounds = 1 if rng.random() < 0.2 else rng.integers(1, most + 1, n)
    c1, c2, budget = (np.resize(values, clients) for values in (c1, c2, rounds * (c1 + c2)))
    return Resources.of(c1, c2, budget, clients)


@pytest.fixture(scope="session")
def random_resources() -> Callable[[np.random.Generator, int, int], Resources]:
    return _random_resources
