"""The federations that plans are judged by: real, stated, whole, and split for good."""

from __future__ import annotations

import os
from importlib.util import find_spec

import numpy as np
import pytest

import noiseworthy as nw
from federations import FEDERATIONS, SOURCES, half, relatives_of
from federations.deals import power_law
from federations.source import MOST_RECORDS


def _marked(name: str):
    """Sources of the data folder have its marker; those of packages that are missing are skipped."""
    needs = SOURCES[name].needs
    if needs == "folder":
        there = pytest.mark.skipif("NOISEWORTHY_DATA" not in os.environ, reason="needs NOISEWORTHY_DATA")
        return pytest.param(name, marks=[pytest.mark.data, there])
    reason = f"{needs} is not installed; pip install 'noiseworthy[benchmarks]'"
    return pytest.param(name, marks=pytest.mark.skipif(find_spec(needs) is None, reason=reason))


EACH = pytest.mark.parametrize("name", [_marked(name) for name in SOURCES])
SMALL = pytest.mark.parametrize(
    "name", [_marked(name) for name in ("breast-cancer", "anes-party", "star98-raw", "phishing", "digits")]
)


def test_there_are_25_tables_and_6_sets_of_images_without_the_raw_ones():
    stated = [one for one in SOURCES.values() if not one.raw]
    assert sum(not one.is_image for one in stated) >= 25
    assert sum(one.is_image for one in stated) >= 6
    assert {one.needs for one in stated} == {"sklearn", "statsmodels", "river", "folder"}


def test_there_are_regressions_two_and_many_classes_and_raw_tables():
    found = [one.n_classes for one in SOURCES.values() if not one.is_image]
    assert found.count(None) >= 8
    assert found.count(2) >= 8
    assert sum((n or 0) >= 7 for n in found) >= 6
    assert sum(one.raw for one in SOURCES.values()) >= 6


def test_relatives_are_on_one_side():
    for name, one in FEDERATIONS.items():
        assert name in one.relatives
        assert {FEDERATIONS[other].half for other in one.relatives} == {one.half}
    assert set(relatives_of("mnist")) == {"mnist", "mnist-odd", "mnist-writers"}
    assert "lending-2018-rate" in relatives_of("lending-default")


def test_the_halves_are_the_ones_that_were_drawn_once():
    """Written down when the federations were made; a name that moves would spoil what was judged."""
    assert {SOURCES[name].parent for name in half("tuning")} == {
        "banana", "breast-cancer", "chicks", "digits", "elnino", "fair", "heart-disease", "mnist",
        "modechoice", "pneumoniamnist", "school", "shakespeare", "shuttle", "solar-flare", "trump-approval",
    }  # fmt: skip
    assert len(half("judging")) >= 30
    assert not {*half("tuning")} & {*half("judging")}


@pytest.mark.full
@EACH
def test_records_are_whole_and_as_stated(name):
    records, source = FEDERATIONS[name].records, SOURCES[name]
    assert records.classes == source.n_classes
    assert 170 <= len(records) + len(records.test_x) <= MOST_RECORDS
    for x, y in ((records.x, records.y), (records.test_x, records.test_y)):
        assert np.isfinite(x).all()
        assert np.isfinite(y).all()
        if not source.raw:
            assert np.abs(x).max() <= 1
        if source.n_classes is None:
            least, most = source.columns[source.label]["range"]
            assert least <= y.min() < y.max() <= most
        else:
            assert set(np.unique(y).tolist()) <= set(range(source.n_classes))
    assert len(np.unique(records.y)) >= min(2, source.n_classes or 2)


@pytest.mark.full
@EACH
def test_records_are_dealt_to_4_to_500_owners(name):
    one = FEDERATIONS[name]
    federation = one.federation()
    assert 4 <= federation.n_clients == one.deal.clients <= 500
    assert federation.sizes.sum() == len(one.records)


@SMALL
def test_a_study_of_a_federation_has_its_records(name, tmp_path):
    one = FEDERATIONS[name]
    privacy = {"privacy": {"mechanism": "laplace", "epsilon": 1.0}}
    made = nw.prepare(nw.parse_study({**one.study(tmp_path), **privacy}))
    federation = one.federation()
    assert made.federation.classes == federation.classes
    np.testing.assert_array_equal(made.federation.sizes, federation.sizes)
    np.testing.assert_allclose(made.federation.x, federation.x, atol=1e-6)
    np.testing.assert_array_equal(made.federation.y, federation.y)


def test_a_power_law_gives_owner_k_a_kth():
    sizes = np.unique(power_law(10_000, 100), return_counts=True)[1]
    assert sizes.sum() == 10_000
    assert sizes[0] / sizes[9] == pytest.approx(10, rel=0.05)
    assert sizes.min() >= 2
