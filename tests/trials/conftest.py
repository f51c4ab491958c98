"""Shared by tests of trials: small federations, described by public facts alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.tasks import make_task
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.spaces import Space


@pytest.fixture(scope="session")
def facts_of() -> Callable[..., PublicFacts]:
    """Makes facts of a federation whose records have 4 numbers and 3 classes."""

    def made(family="gaussian", epsilon=20.0, sizes=(30, 30, 30, 30), model="softmax", **changes):
        budget = PrivacyBudget.of(epsilon, 1e-4 if family == "gaussian" else 0.0, len(sizes))
        facts = PublicFacts(
            problem=Problem(np.array(sizes), 12, budget, family, 1.0),
            record_shape=(4,),
            classes=3,
            make_task=lambda shape, classes, treatment, public=None: make_task(
                model, shape, classes, feature_norm=1.0, normalise=True, ridge=0.01,
                projection=treatment and treatment.projection,
            ),
            source="own",
            partition="iid",
        )  # fmt: skip
        return replace(facts, **changes)

    return made


@pytest.fixture(scope="session")
def space_of() -> Callable[..., Space]:
    """Makes a space of few rounds in which all but what is named is fixed."""

    def made(algorithm, rounds=4, **free):
        fixed = {
            "rounds": rounds, "work": 1, "clients_per_round": 4, "clip_norm": 0.5, "step_size": 1.0,
            "decay_rounds": 50.0, "momentum": 0.0, "averaging": 0.0,
        }  # fmt: skip
        return Space(algorithm, **{**fixed, **free})

    return made


@pytest.fixture(scope="module", autouse=True)
def short_races():
    """Races run in full here."""
