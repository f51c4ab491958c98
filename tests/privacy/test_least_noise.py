"""The least noise by an accountant's word: enough, hardly more, by few questions that take seconds each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.privacy.mechanisms.analysis import TOLERANCE, least_noise


class Asked:
    """An epsilon that falls as noise^-slope, or faster near to none; it keeps what was asked."""

    def __init__(self, least: float, epsilon: float, slope: float, bend: float):
        self.least, self.epsilon, self.slope, self.bend = least, epsilon, slope, bend
        self.noises: set[float] = set()

    def __call__(self, noise: float) -> float:
        self.noises.add(noise)
        ratio = self.least / noise
        return self.epsilon * max(ratio**self.slope - self.bend * (1 / ratio - 1), 0.0)


@given(
    least=st.floats(1e-3, 1e3), epsilon=st.floats(0.01, 20), slope=st.floats(1, 3), bend=st.floats(0, 3),
    off=st.floats(-4, 4),
)  # fmt: skip
def test_it_is_enough_and_hardly_more_whatever_was_guessed(least, epsilon, slope, bend, off):
    asked = Asked(least, epsilon, slope, bend)
    noise = least_noise(asked, epsilon, least * np.exp(off))
    assert asked(noise) <= epsilon
    assert noise <= least * (1 + 1.01 * TOLERANCE)


@pytest.mark.parametrize(
    ("off", "most"), [(0.0, 1), (0.0004, 3), (-0.0004, 3), (0.003, 3), (-0.003, 3), (0.1, 5), (-0.1, 5)]
)
@pytest.mark.parametrize("slope", [1.0, 1.3, 2.0])
def test_a_good_guess_takes_few_questions(off, most, slope):
    asked = Asked(2.0, 1.0, slope, 0.2)
    noise = least_noise(asked, 1.0, 2.0 * np.exp(off))
    assert len(asked.noises) <= most
    assert 2.0 <= noise <= 2.0 * (1 + 1.01 * TOLERANCE)
