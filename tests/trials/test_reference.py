"""References by name: never of the study's own data, of one kind, and in trials never of the trial's own."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.tasks import Preparation, Reference
from noiseworthy.trials.public import whole
from noiseworthy.trials.reference import alike, apart_from, reference_of


def test_images_are_alike_whatever_their_size_and_tables_where_they_are_as_wide():
    sources = ["digits", "wine", "prior:0"]
    assert alike(sources, (28, 28)) == ["digits"]
    assert alike(sources, (13,)) == ["wine"]
    assert alike(sources, (5, 5, 3)) == []


def test_nothing_is_seen_against_itself():
    assert apart_from(["digits", "wine"], "digits", (8, 8)) == []
    assert apart_from(["digits"], "mnist", (8, 8)) == ["digits"]


def test_the_reference_of_a_name_is_that_of_its_records():
    x = whole("digits").x
    chosen = np.sort(np.random.default_rng(20).permutation(len(x))[:2000])
    assert reference_of(["digits"], "own", (8, 8)) == Reference.of([x[chosen]])
    pooled = Reference.of([np.asarray(Preparation(2)(x[chosen]))])
    assert reference_of(["digits"], "own", (8, 8), pooling=2) == pooled


@pytest.mark.parametrize(
    ("sources", "shape", "error", "says"),
    [
        (["digits"], (8, 8), InvalidInput, "digits is the private data of this study and cannot be its ref"),
        (["wine"], (8, 8), InvalidInput, r"wine under \[task\] reference does not hold records like those"),
        (["prior:0"], (8, 8), InvalidInput, r"prior:0 under \[task\] reference does not hold records like"),
        (["nope"], (8, 8), (InvalidInput, DataError), "source must be one of"),
    ],
)
def test_other_references_are_refused_by_name(sources, shape, error, says):
    with pytest.raises(error, match=says):
        reference_of(sources, "digits", shape)
