"""The page of a ledger says what is left of each data set's lifetime budget over all runs."""

from __future__ import annotations

import numpy as np
import pytest

from noiseworthy.privacy.durable import Account, Charge, DurableLedger
from noiseworthy.privacy.durable.leases import lease
from noiseworthy.privacy.durable.statement import epsilon_of
from noiseworthy.privacy.gaussian import gaussian_mu
from noiseworthy.reports.ledger_page import budgets_figure, data_sets, ledger_page

NAMES = ("north", "<b>south</b>")


def laplace(client, data="wards", world=""):
    return Account(data, world, client, "epsilon", 4.0, 4.0, 0.0, "replace-one", "record")


def gaussian(client):
    mu = float(gaussian_mu(np.array([4.0]), 1e-5)[0])
    return Account("scans", "", client, "mu^2", mu, 4.0, 1e-5, "replace-one", "record")


@pytest.fixture
def books(tmp_path):
    """Two owners of one data set: runs of epsilon 1 and 0.5, and one that holds 1 of the first."""
    with DurableLedger.open(tmp_path / "ledger.sqlite") as ledger:
        accounts = ledger.enrol([laplace(name) for name in NAMES])
        for run, cost, releases in (("spring", 0.5, 2), ("autumn", 0.25, 2)):
            number = ledger.begin(run)
            for release in range(releases):
                spent = [Charge(account, release, account_share(cost)) for account in accounts]
                ledger.seal(ledger.reserve(number, spent).number, b"sealed")
        assert lease(ledger, ledger.begin("winter"), accounts[0], account_share(1.0)) is None
        yield ledger


def account_share(epsilon):
    return laplace("anybody").share(epsilon)


def test_what_is_left_is_neither_spent_nor_held(books):
    """By hand: of 4, 1.5 are spent in two runs; the first client holds 1 for a third."""
    [wards] = data_sets(books)
    left = {one.account.client: one for one in wards.clients}
    assert left["north"].left == pytest.approx((4 - 1.5 - 1) / 4)
    assert left["north"].epsilon_left == pytest.approx(1.5)
    assert left["<b>south</b>"].left == pytest.approx(2.5 / 4)
    assert [(run["run"], run["releases"]) for run in wards.runs] == [("spring", "4"), ("autumn", "4")]
    assert wards.finding == "At least 37.5\N{NO-BREAK SPACE}% of the lifetime budget of every client is left."


def test_the_bars_are_the_runs_in_their_order(books):
    [wards] = data_sets(books)
    (axes,) = budgets_figure(wards).axes
    spent = [patch.get_width() for patch in axes.patches if patch.get_gid() == "spent"]
    assert spent == pytest.approx([0.25, 0.125, 0.25, 0.125])
    held = [patch.get_width() for patch in axes.patches if patch.get_gid() == "held"]
    assert held == pytest.approx([0.25, 0.0])


def test_gaussian_budgets_are_left_in_squares(tmp_path):
    """Half of mu^2 is spent; what a further training may claim is the epsilon of the other half."""
    with DurableLedger.open(tmp_path / "ledger.sqlite") as ledger:
        [account] = ledger.enrol([gaussian("north")])
        run = ledger.begin("spring")
        half = gaussian("north").share(gaussian("north").whole / 2)
        ledger.reserve(run, [Charge(account, 0, half)])
        [scans] = data_sets(ledger)
        [one] = scans.clients
        assert one.left == pytest.approx(0.5)
        assert one.epsilon_left == pytest.approx(epsilon_of(one.account, half), rel=1e-9)
        assert one.epsilon_left > 2.0


def test_nothing_left_is_said_and_real_data_come_before_simulated_worlds(tmp_path):
    with DurableLedger.open(tmp_path / "ledger.sqlite") as ledger:
        _, real = ledger.enrol([laplace("north", world="seed 0"), laplace("north")])
        run = ledger.begin("spring")
        ledger.reserve(run, [Charge(real, 0, account_share(4.0))])
        first, second = data_sets(ledger)
        assert first.finding == "Nothing is left of the lifetime budget of 1 of 1 client."
        assert (second.name, second.clients[0].left) == ("wards, simulated: seed 0", 1.0)
        assert "A simulated world" in ledger_page(ledger)


def test_what_rounding_left_of_a_budget_is_nothing(tmp_path):
    """A page said that at least 0 % were left, or counted 172 of 500 clients that had all spent theirs."""
    with DurableLedger.open(tmp_path / "ledger.sqlite") as ledger:
        numbers = ledger.enrol([laplace(name) for name in NAMES])
        whole = account_share(4.0)
        spent = [Charge(number, 0, whole - place) for place, number in enumerate(numbers)]
        ledger.reserve(ledger.begin("spring"), spent)
        [wards] = data_sets(ledger)
        assert wards.clients[1].left > 0
        assert wards.finding == "Nothing is left of the lifetime budget of 2 of 2 clients."


def test_names_are_no_markup_and_an_empty_ledger_says_so(books, tmp_path):
    page = ledger_page(books)
    assert "<b>south" not in page
    assert "&lt;b&gt;south" in page
    assert "src=" not in page
    with DurableLedger.open(tmp_path / "empty.sqlite") as empty:
        assert "No account was opened" in ledger_page(empty)
