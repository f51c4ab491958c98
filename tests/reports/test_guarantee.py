"""What a guarantee means, in words: true of tests, for named clients, for one move and for an exchange."""

from __future__ import annotations

import re

import numpy as np
import pytest

from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.privacy.power import GaussianPower, ProfiledPower
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.html import card_page
from noiseworthy.reports.privacy_statement import meaning, privacy_statement, told_apart
from noiseworthy.studies.statement import budgets
from noiseworthy.studies.typed_record import view


def percents(text):
    return [float(part) for part in re.findall(r"([\d.]+)\N{NO-BREAK SPACE}%", text)]


def test_no_page_says_how_sure_a_reader_becomes_or_bounds_single_outcomes(record):
    """Both were false: epsilon and delta bound no posterior, and an exchange is two moves of add-remove."""
    said = card_page(claim_card(record)) + " ".join(clause.text for clause in privacy_statement(record))
    for wrong in (r"% sure", r"sure of", r"no outcome", r"but for events of probability", r"e\^"):
        assert not re.search(wrong, said), wrong


def test_the_words_carry_the_numbers_of_the_exact_accountant_rounded_up(make_record):
    record = make_record("full")
    exact = GaussianPower(float(gaussian_mu(4.0, 1e-5)))
    written = percents(meaning(view(record)))
    wanted = [1, 5, *(100 * exact.at([0.01, 0.05])), 100 * exact.guess, 50]
    assert np.all(np.array(written) >= np.array(wanted) * (1 - 1e-6))
    np.testing.assert_allclose(written, wanted, rtol=0.01)
    assert claim_card(record)["told_apart"] == told_apart(view(record)).model_dump()
    assert meaning(view(record)) in card_page(claim_card(record))
    (spends,) = [c for c in privacy_statement(record) if c.title == "What each client spends"]
    assert meaning(view(record)) in spends.text


def test_a_record_of_an_earlier_version_tells_what_epsilon_and_delta_say_alone(make_record):
    record = make_record("full")
    exact = told_apart(view(record))
    del record["claim"]["told_apart"]
    alone = told_apart(view(record))
    assert alone.power == ProfiledPower(np.array([4.0]), np.array([1e-5])).at([0.01, 0.05]).tolist()
    assert alone.guess > exact.guess
    assert "every upload of a client." in meaning(view(record))
    many = make_record("many")
    del many["claim"]["told_apart"]
    worst = ProfiledPower(np.array([8.0]), np.array([0.0]))
    assert told_apart(view(many)).power == worst.at([0.01, 0.05]).tolist()
    assert (told_apart(view(many)).client, told_apart(view(many)).guess) == (499, worst.guess)


def test_under_add_remove_an_exchange_is_told_as_two_moves(make_record):
    record = make_record("full")
    assert "One change is" not in meaning(view(record))
    record["claim"], record["plan"]["privacy"]["relation"] = {}, "add-remove"
    said = meaning(view(record))
    assert "One change is a record left out or added. To exchange it takes two, and then" in said
    one, two = told_apart(view(record)).power, told_apart(view(record)).power_of_exchange
    assert np.all(np.array(two) > one)
    assert percents(said)[-2:] == [pytest.approx(100 * share, rel=0.01) for share in two]


def test_where_clients_differ_it_says_whose_numbers_they_are(make_record):
    record = make_record("many")
    assert "every upload of client 499, the client that is worst off." in meaning(view(record))
    assert budgets(view(record), "epsilon") == "0.5 (client 0) to 8 (client 499)"
    assert budgets(view(record), "delta") == "0"
    claim = claim_card(record)["claim"]
    assert "epsilon 0.5 (client 0) to 8 (client 499) at delta 0 for each record, by its client's own" in claim


def test_where_nothing_is_released_nothing_is_told_apart(make_record):
    assert meaning(view(make_record("do_not_train"))) == ""
