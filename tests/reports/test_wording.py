"""Numbers are written truly: privacy losses never too small, labels in order and apart."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from noiseworthy._wording import level, number, rounded_up, shortened, shortened_apart, span
from noiseworthy.reports.marks import spread


@given(st.floats(1e-9, 1e9), st.integers(4, 6))
@example(1234.4, 6)
def test_a_privacy_loss_is_never_written_smaller_than_it_is(value, digits):
    written = float(rounded_up(value, digits).replace(",", ""))
    assert value * (1 - 2e-9) <= written <= value * 1.0011


@given(st.floats(1e-6, 1e8))
def test_losses_and_numbers_read_back(value):
    assert np.isclose(float(level(value).replace(",", "")), value, rtol=0.006)
    assert np.isclose(float(number(value)), value, rtol=0.006)


def test_words_for_what_is_missing():
    assert level(None) == level(float("inf")) == level(float("nan")) == "diverged"
    assert number(None) == "none"
    assert number(float("nan")) == "not a number"
    assert rounded_up(0.0) == "0"
    assert rounded_up(float("inf")) == "inf"


def test_a_span_of_equal_looking_numbers_is_one_number():
    assert span([2.0001, 2.0002]) == "2"
    assert span([5, 6]) == "5 to 6"
    assert shortened("abc", 3) == "abc"


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.2))
def test_spread_labels_keep_their_order_and_distance(heights, gap):
    placed = spread(heights, gap)
    order = np.argsort(heights, kind="stable")
    assert np.all(np.diff(placed[order]) >= gap - 1e-9)
    assert np.isclose(placed.mean(), np.mean(heights))


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=8), st.floats(0.01, 0.1))
def test_spread_labels_stay_between_the_ends(heights, gap):
    placed = spread(heights, gap, 0.0, 1.0)
    order = np.argsort(heights, kind="stable")
    assert np.all(np.diff(placed[order]) >= gap - 1e-9)
    assert np.all((placed >= -1e-9) & (placed <= 1 + 1e-9))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.floats(0.01, 0.3))
def test_labels_move_as_little_as_a_solver_says(heights, gap):
    order, below = np.argsort(heights, kind="stable"), gap * np.arange(len(heights))
    solved = isotonic_regression(np.array(heights)[order] - below).x + below
    assert np.allclose(spread(heights, gap)[order], solved)


def test_labels_at_an_end_do_not_move_the_others():
    assert np.allclose(spread([1.0, 1.0, 0.4], 0.1, 0.0, 1.0), [0.9, 1.0, 0.4])


def test_spread_moves_nothing_without_need():
    assert np.array_equal(spread([0.9, 0.1, 0.5], 0.2), [0.9, 0.1, 0.5])


def test_names_that_are_cut_alike_keep_the_word_in_which_they_differ():
    wards = [
        f"University hospital of the north, campus {town} (cardiology)" for town in ("Kiel", "Koeln", "Ulm")
    ]
    assert shortened_apart(["west", *wards]) == [
        "west",
        "Univer…Kiel (card…",
        "Univer…Koeln (car…",
        "Univer…Ulm (cardi…",
    ]
    assert shortened_apart(["hospitalnumberoftheregion7", "hospitalnumberoftheregion8"]) == [
        "hospit…7",
        "hospit…8",
    ]
    longer = "hospital of the north"
    assert shortened_apart([longer, f"{longer} and west", longer]) == [
        "hospit…north",
        "hospit…north and …",
        "hospit…north",
    ]
    assert shortened_apart([longer, longer]) == [shortened(longer)] * 2
