"""Tables that ship: read by name, small, in [-1, 1], and no more than their licences allow."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from embed_tables import condensed
from federations import SOURCES
from noiseworthy.data import load_records
from noiseworthy.data.files import read_npz
from noiseworthy.data.shipped import FILE, PARENTS, read_shipped
from noiseworthy.errors import InvalidInput
from noiseworthy.trials.public import same_data

PAGE = Path(__file__).parents[2] / "docs" / "public_data.md"
HERE = all(find_spec(package) for package in ("river", "statsmodels"))
EACH = pytest.mark.parametrize("name", PARENTS)


@EACH
def test_a_table_that_ships_is_read_by_name(name):
    records, source = load_records(name), SOURCES[name]
    assert records.name == name
    assert records.classes == source.n_classes
    assert 170 <= len(records) <= 1000
    assert 40 <= len(records.test_x) <= 500
    for x, y in ((records.x, records.y), (records.test_x, records.test_y)):
        assert x.dtype == np.float32
        assert np.abs(x).max() <= 1
        if records.classes is None:
            assert np.abs(y).max() <= 1
            assert y.std() > 0.01
        else:
            assert set(np.unique(y).tolist()) == set(range(records.classes))


@pytest.mark.skipif(
    not HERE, reason="river or statsmodels is not installed; pip install 'noiseworthy[benchmarks]'"
)
@EACH
def test_what_ships_is_what_the_source_has(name):
    held = read_npz(FILE)
    for key, values in condensed(SOURCES[name]).items():
        np.testing.assert_array_equal(held[key], values)
    records, whole = read_shipped(name), SOURCES[name].records()
    np.testing.assert_allclose(records.x, whole.x[: len(records)], atol=5e-4)


TOLD_BY_OTHERS = {"modechoice-income", "solar-count"}
"""Another column predicted of records that ship: they do not ship twice, and plans keep their stand-ins."""


def test_only_what_a_licence_lets_ship_ships_and_none_of_the_data_folder():
    may = {name for name, one in SOURCES.items() if one.ships and not one.raw}
    assert set(PARENTS) == may - TOLD_BY_OTHERS
    assert {SOURCES[name].parent for name in TOLD_BY_OTHERS} <= {SOURCES[name].parent for name in PARENTS}
    assert {SOURCES[name].needs for name in PARENTS} == {"statsmodels", "river"}
    assert {SOURCES[name].licence for name in PARENTS} == {"CC BY 4.0", "public domain"}
    assert {key.split(" ")[0] for key in read_npz(FILE)} == set(PARENTS)


def test_the_file_is_small():
    assert FILE.stat().st_size < 1_000_000


def test_parents_are_those_of_the_sources():
    assert {name: SOURCES[name].parent for name in PARENTS} == PARENTS


def test_tables_of_one_source_are_the_same_data():
    assert same_data("anes-vote", "anes-party")
    assert not same_data("anes-vote", "randhie-visit")


@EACH
def test_the_page_lists_it(name):
    records, page = load_records(name), PAGE.read_text()
    counts = f"| `{name}` | {len(records):,} + {len(records.test_x):,} | {records.record_shape[0]} |"
    assert counts in page


def test_another_name_is_refused():
    with pytest.raises(InvalidInput, match="tables that ship are anes-vote"):
        read_shipped("no-such-table")
