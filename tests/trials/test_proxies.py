"""Public data made to look like the private federation: clients, skew, weights; never the data themselves."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.data import load_records
from noiseworthy.data.prior_columns import Block, size_of
from noiseworthy.data.prior_images import prior_images
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.methods.space import Setting
from noiseworthy.plans.resources import Resources
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.facts import MOST_CLIENTS
from noiseworthy.trials.landscape import landscape
from noiseworthy.trials.proxies import make_proxies
from noiseworthy.trials.public import public_records, same_data
from noiseworthy.trials.reference import reference_of
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.stand_ins import TABLES, public_sources
from noiseworthy.trials.treatment import Treatment

DRAWN = ("prior:0", "prior:1", "prior:2")


@pytest.mark.parametrize(
    ("shape", "source", "classes", "expected"),
    [
        ((8, 8), "mnist", 10, ["digits", *DRAWN]),
        ((28, 28, 1), "own.npz", 10, ["digits", *DRAWN]),
        ((28, 28, 3), "own.npz", 10, [*DRAWN]),
        ((8, 8), "digits", 10, [*DRAWN]),
        ((4,), "iris", 3, ["wine", "randhie-health"]),
        ((13,), "wine", 3, ["iris", "randhie-health"]),
        ((30,), "own.csv", 2, ["breast-cancer", "solar-flare"]),
        ((30,), "breast-cancer", 2, ["solar-flare", "segment-grows"]),
        ((20,), "segment", 7, ["wine", "solar-class"]),
        ((11,), "own.csv", None, ["diabetes-progression", "elnino"]),
        ((10,), "diabetes", None, ["sunspots", "randhie-visits"]),
    ],
)
def test_what_stands_in_is_of_the_same_kind_and_never_the_data_themselves(
    facts_of, shape, source, classes, expected
):
    """Images by name; of tables the nearest two, four at most of one kind, and three of the prior."""
    found = list(public_sources(facts_of(record_shape=shape, source=source, classes=classes)))
    if len(shape) > 1:
        assert found == expected
        return
    real, drawn = found[:-3], found[-3:]
    assert (real[:2], drawn, len(real)) == (expected, [*DRAWN], 4)
    assert not any(same_data(source, name) for name in real)
    several = min(classes or 0, 3)
    assert {min(TABLES[name].classes or 0, 3) for name in real} == {several}


def test_what_is_known_of_tables_that_ship_is_true():
    for name, (features, classes, records, codes) in TABLES.items():
        table = load_records(name)
        assert (table.record_shape, table.classes, len(table)) == ((features,), classes, records)
        assert np.all(np.isin(table.x, (-1, 0, 1)), axis=0).mean() == pytest.approx(codes, abs=0.006)
        assert np.abs(table.x).max() <= 1


def test_real_tables_weigh_by_likeness_and_only_those_that_are_not_left_out(facts_of):
    facts = facts_of(record_shape=(30,), classes=2, sizes=(114, 114, 114, 114))
    weights = public_sources(facts)
    assert weights["breast-cancer"] == pytest.approx(1.0)
    assert weights["prior:0"] == weights["prior:1"] == 0.4
    left_out = public_sources(facts, without=["breast-cancer", "solar-class"])
    assert not {"breast-cancer", "solar-flare", "solar-class"} & {*left_out}
    assert len(left_out) == len(weights)


def test_tables_of_the_same_kinds_of_columns_are_nearer(facts_of):
    numbers, codes = (Block("number"),) * 30, (Block("category", 3),) * 10
    first = [
        next(
            iter(
                public_sources(facts_of(record_shape=(30,), classes=2, source="breast-cancer", columns=kinds))
            )
        )
        for kinds in (numbers, codes)
    ]
    assert first == ["segment-grows", "solar-flare"]


@pytest.mark.parametrize("source", ["wine", "prior:0"])
def test_as_many_columns_are_in_units_of_their_own_as_the_study_leaves_undescribed(facts_of, source):
    described, not_described = (Block("number"),) * 20, (Block("number", described=False),) * 20

    def beyond(columns: tuple[Block, ...]) -> int:
        records = public_records(facts_of(record_shape=(40,), classes=3, columns=columns), source)
        return int(np.sum(np.abs(records.x).max(axis=0) > 1.001))

    told = np.sum(np.ptp(public_records(facts_of(record_shape=(40,), classes=3), source).x, axis=0) > 0)
    assert beyond(described * 2) == 0
    assert beyond(not_described * 2) > 0.6 * told
    assert 0.2 * told < beyond(described + not_described) < 0.7 * told


def test_tables_of_regressions_stay_in_their_ranges(facts_of):
    columns = (Block("number", described=False),) * 12
    records = public_records(facts_of(record_shape=(12,), classes=None, columns=columns), "prior:0")
    assert np.abs(records.x).max() <= 1


def test_no_two_real_tables_hold_the_same_records(facts_of):
    for features in (5, 9, 18, 40):
        for classes in (None, 2, 5):
            names = [*public_sources(facts_of(record_shape=(features,), classes=classes))]
            assert not [(a, b) for a, b in itertools.combinations(names, 2) if same_data(a, b)]


@pytest.mark.parametrize(
    ("source", "public"),
    [
        ("wine", ["wine"]),
        ("mnist-writers", ["digits", "mnist"]),
        ("mnist", ["mnist-writers"]),
        ("cifar10", ["cifar10-jpeg"]),
        ("diabetes-progression", ["diabetes"]),
    ],
)
def test_the_private_data_are_never_public(facts_of, source, public):
    with pytest.raises(InvalidInput, match=r"is the private data of this study .* \[planning\] public"):
        make_proxies(facts_of(source=source), public)


def test_at_least_one_source_is_needed(facts_of):
    with pytest.raises(InvalidInput, match=r"at least one public data set under \[planning\] public"):
        make_proxies(facts_of(), [])
    with pytest.raises((InvalidInput, DataError), match="source must be one of"):
        make_proxies(facts_of(), ["nope"])


def test_a_proxy_has_the_clients_of_the_study_and_its_start(facts_of):
    wine, drawn = make_proxies(facts_of(), ["wine", "prior:0"])
    assert (wine.records.name, drawn.records.name) == ("wine", "prior:0")
    assert (wine.task.dimension, drawn.task.dimension) == (39, 12)
    for proxy in (wine, drawn):
        assert proxy.deal().shards.clients == proxy.problem.n_clients == 4
        assert proxy.problem.dimension == proxy.task.dimension
        assert proxy.deal().untrained_loss == pytest.approx(np.log(3), rel=1e-5)
        assert proxy.noise_factor == 1.0


@pytest.mark.parametrize("sizes", [[1, 2, 3000], [30, 30], [1, 1, 1, 1], [400, 900, 3, 70, 2000]])
def test_the_records_of_a_client_weigh_as_many_as_the_study_has(facts_of, sizes):
    (proxy,) = make_proxies(facts_of(sizes=sizes), ["prior:0"])
    mask = np.asarray(proxy.deal().shards.train.mask)
    np.testing.assert_allclose(mask.sum(axis=1), sizes, rtol=1e-5)
    assert np.all((mask > 0).sum(axis=1) <= sizes)
    assert (mask > 0).sum() <= 1000 + 4 * len(sizes)
    for group in proxy.deal().shards.groups:
        weighed = np.asarray(group.train.mask).sum(axis=1)
        np.testing.assert_allclose(weighed, np.array(sizes)[np.asarray(group.clients)], rtol=1e-5)


def test_of_a_large_federation_clients_of_all_sizes_are_kept(facts_of):
    sizes = np.arange(1, 1201)
    (proxy,) = make_proxies(facts_of(sizes=sizes, epsilon=sizes / 100), ["prior:0"])
    kept = proxy.problem
    assert kept.n_clients == MOST_CLIENTS
    assert (kept.sizes.min(), kept.sizes.max()) == (1, 1200)
    assert kept.sizes.mean() == pytest.approx(600, rel=0.01)
    np.testing.assert_allclose(kept.budget.epsilon, kept.sizes / 100)
    assert proxy.noise_factor == pytest.approx(np.sqrt(MOST_CLIENTS / 1200))


@pytest.mark.full
@pytest.mark.parametrize(("stated", "tried"), [(750, 417), (400, 222), (None, None)])
def test_a_stated_cohort_of_more_clients_than_are_tried_is_as_large_a_share_of_them(facts_of, stated, tried):
    """Else a study of 900 clients could not ask more than 500; so large a share has the noise of the mean."""
    bench, space = Bench(facts_of(sizes=(30,) * 900), ["iris"]), Space("fedsgd-dpc", clients_per_round=stated)
    (first, *_) = bench.possible(space, [Candidate(Setting(2.0, 1.0, 0.5, 1.0))])
    made = bench.plan(space, first)
    assert made is not None
    assert made.clients_per_round == (tried or MOST_CLIENTS)
    assert len(landscape(bench, space, first, [0])) > 3


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_stated_counts_have_the_noise_of_the_whole_federation_in_a_trial(facts_of, family):
    """T = 40 rounds of 100 of 1,000 clients: 4 uploads each, in a trial of 500, too, not 8."""
    space = Space("fedsgd-dpc", rounds=40, clients_per_round=100)
    _check_alike(facts_of(family, sizes=(30,) * 1000), space, Setting(4.0, 0.1, 0.5, 1.0), 4)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_the_smallest_share_of_many_clients_is_one_of_those_of_a_trial(facts_of, family):
    """Ten of 5,000, and not one, whose noise a trial of 500, with one in a round, would have a third of."""
    setting = Setting(1.0, 0.0, 0.5, 1.0, steering=0.0)
    _check_alike(facts_of(family, sizes=(30,) * 5000), Space("fedsgd-dpc"), setting, 1)


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
def test_a_stated_cohort_of_a_small_share_is_one_of_as_many_as_it_takes(facts_of, family):
    facts = facts_of(family, sizes=(30,) * 4000, asked=2)
    _check_alike(facts, Space("fedsgd-dpc", clients_per_round=2), Setting(0.1, 1.0, 0.5, 1.0), 1)


def _check_alike(facts, space, setting, uploads):
    """Rounds, uploads of a client and the noise of a mean are those of the federation in its trial."""
    bench = Bench(facts, ["iris"])
    (proxy,) = bench.proxies()
    tried = bench.plan(space, Candidate(setting), proxy)
    whole = space.plan(facts.problem, proxy.task, bench.scale(None, proxy.task), setting)
    assert tried is not None

    def variance(plan, factor):
        return np.square(factor * plan.noise[0]) / plan.clients_per_round

    assert (tried.rounds, tried.uploads.max(), whole.uploads.max()) == (whole.rounds, uploads, uploads)
    assert variance(tried, proxy.noise_factor) == pytest.approx(variance(whole, 1.0), rel=1e-3)


def test_images_are_resized_to_the_shape_of_the_study(facts_of):
    (proxy,) = make_proxies(facts_of(record_shape=(6, 5)), ["digits"])
    assert proxy.task.dimension == 6 * 5 * 10


@pytest.mark.full
def test_what_is_drawn_for_images_is_images_and_large_ones_are_drawn_small_and_enlarged(facts_of):
    small, large, colour = (
        public_records(facts_of(record_shape=shape), "prior:0") for shape in ((32, 32), (64, 64), (64, 64, 3))
    )
    np.testing.assert_array_equal(small.x, prior_images((32, 32), 3, 0).x)
    assert (large.record_shape, colour.record_shape) == ((64, 64), (64, 64, 3))
    np.testing.assert_allclose(large.x.mean(axis=(1, 2)), small.x.mean(axis=(1, 2)), atol=0.02)
    np.testing.assert_array_equal(large.y, small.y)


def test_images_of_very_many_classes_are_drawn_too(facts_of):
    drawn = public_records(facts_of(record_shape=(4, 4), classes=300), "prior:0")
    assert len(np.unique(drawn.y)) == 300


@pytest.mark.parametrize(("shape", "classes"), [((12,), 3), ((6, 5), None)])
def test_what_is_drawn_for_rows_and_for_numbers_to_predict_is_a_table(facts_of, shape, classes):
    drawn = public_records(facts_of(record_shape=shape, classes=classes), "prior:1")
    assert (drawn.record_shape, drawn.classes, len(drawn)) == (shape, classes, 3000)


def test_the_skew_of_labels_is_kept_as_a_share_of_the_classes(facts_of):
    """One of three classes for each client becomes three of ten."""
    facts = facts_of(partition="label-shards", settings={"labels_per_client": 1})
    (proxy,) = make_proxies(facts, ["digits"])
    labels, mask = np.asarray(proxy.deal().shards.train.y), np.asarray(proxy.deal().shards.train.mask) > 0
    assert {len(np.unique(y[m])) for y, m in zip(labels, mask, strict=True)} == {3}


def test_classes_are_merged_to_two_where_the_study_has_two(facts_of):
    (proxy,) = make_proxies(facts_of(classes=2), ["wine"])
    assert set(np.unique(proxy.deal().shards.test_y)) == {0, 1}


def test_numbers_become_two_classes_at_their_median(facts_of):
    (proxy,) = make_proxies(facts_of(classes=2), ["diabetes-progression"])
    real = np.asarray(proxy.deal().shards.train.mask) > 0
    assert set(np.unique(proxy.deal().shards.test_y)) == {0, 1}
    assert np.asarray(proxy.deal().shards.train.y)[real].mean() == pytest.approx(0.5, abs=0.1)


def test_a_treatment_reaches_the_records(facts_of):
    (proxy,) = make_proxies(facts_of(), ["wine"], Treatment(projection=3))
    assert proxy.task.dimension == 9


@pytest.mark.parametrize("scale", [0.5, 14.0])
def test_a_regression_meets_numbers_of_the_size_that_the_study_states(facts_of, scale):
    facts = facts_of(model="linear", classes=None, label_scale=scale)
    (proxy,) = make_proxies(facts, ["diabetes-progression"])
    real = np.asarray(proxy.deal().shards.train.mask) > 0
    assert np.sqrt(np.mean(np.asarray(proxy.deal().shards.train.y)[real] ** 2)) == pytest.approx(
        scale, rel=0.1
    )


@pytest.mark.parametrize(("source", "fills"), [("sunspots", False), ("prior:0", True)])
def test_numbers_lie_in_the_range_of_the_study_as_far_from_its_ends_as_from_their_own(
    facts_of, source, fills
):
    facts = facts_of(model="linear", classes=None, label_scale=10.0, label_range=(100.0, 300.0))
    (proxy,) = make_proxies(facts, [source])
    if fills:
        assert (proxy.records.y.min(), proxy.records.y.max()) == (100.0, 300.0)
    else:
        expected = 200 + 100 * load_records(source).y
        np.testing.assert_allclose(proxy.records.y, expected, rtol=1e-6)


@pytest.mark.parametrize("source", ["sunspots", "elnino", "randhie-visits"])
def test_rows_have_the_norm_that_the_columns_suggest_as_far_as_real_ones_have(facts_of, source):
    facts = facts_of(model="linear", classes=None, record_shape=(20,), record_size=2.0)
    (proxy,) = make_proxies(facts, [source])
    own = load_records(source).x
    norms = [np.linalg.norm(rows, axis=1).mean() for rows in (proxy.records.x, own)]
    assert norms[0] / 2.0 == pytest.approx(norms[1] / size_of(own), rel=1e-5)


@pytest.mark.parametrize(
    ("model", "classes", "source", "says"),
    [
        ("linear", None, "wine", "predicts numbers, but the public data wine hold classes"),
        ("softmax", 3, "diabetes-progression", "predicts 3 classes, but .* hold numbers"),
    ],
)
def test_numbers_and_classes_do_not_stand_in_for_each_other(facts_of, model, classes, source, says):
    with pytest.raises(InvalidInput, match=says):
        make_proxies(facts_of(model=model, classes=classes), [source])


def test_resources_are_those_of_the_kept_clients(facts_of):
    facts = facts_of(sizes=np.arange(1, 601))
    resources = Resources.of(1.0, 2.0, np.arange(11.0, 611.0).tolist(), 600)
    facts = replace(facts, problem=replace(facts.problem, resources=resources))
    thinned = facts.thinned().problem
    np.testing.assert_array_equal(thinned.resources.budget, thinned.sizes + 10)


@pytest.mark.parametrize(("classes", "model"), [(3, "softmax"), (None, "linear")])
def test_a_table_of_the_prior_has_the_shape_and_the_columns_of_the_study(facts_of, classes, model):
    columns = (Block("category", 3), Block("yes-no"), Block("number", indicated=True))
    facts = facts_of(record_shape=(6,), classes=classes, model=model, label_scale=3.0, columns=columns)
    one, other = make_proxies(facts, ["prior:0", "prior:1"])
    for proxy in (one, other):
        assert proxy.records.x.shape == (3000, 6)
        assert proxy.records.classes == classes
        assert set(np.unique(proxy.records.x[:, :3])) == {0, 1}
        assert set(np.unique(proxy.records.x[:, 3])) == {-1, 1}
        if classes is None:
            assert np.sqrt(np.mean(proxy.records.y**2)) == pytest.approx(3.0, rel=1e-3)
    assert not np.array_equal(one.records.x, other.records.x)


@pytest.mark.parametrize("source", ["prior:", "prior:-1", "prior:1.5", "prior:x", "prior:1234567890"])
def test_a_table_of_the_prior_is_named_by_a_whole_number(facts_of, source):
    with pytest.raises(InvalidInput, match="prior:K takes a whole number of at most 9 digits"):
        make_proxies(facts_of(), [source])


def test_a_public_file_that_changes_is_read_anew_by_the_same_process(facts_of, tmp_path):
    """Else a notebook planned by what it had held, and kept that race under the name of what it holds."""
    file = tmp_path / "public.npz"
    for time, row in enumerate(np.eye(4, dtype=np.float32)):
        np.savez(file, x=np.tile(row, (30, 1)), label=np.arange(30) % 3)
        os.utime(file, ns=(0, time))
        np.testing.assert_array_equal(public_records(facts_of(), str(file)).x[0], row)
        np.testing.assert_allclose(reference_of([str(file)], "own", (4,)).mean, row)


def test_units_of_columns_that_nobody_described_are_those_of_a_file_wherever_it_lies(facts_of, tmp_path):
    """A study that was planned from another working directory had another plan."""
    facts = facts_of(columns=tuple(Block("number", described=False) for _ in range(4)))
    rng, found = np.random.default_rng(0), []
    rows = rng.normal(size=(60, 4)).astype(np.float32)
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        np.savez(file := tmp_path / folder / "public.npz", x=rows, label=np.arange(60) % 3)
        found.append(public_records(facts, str(file)).x)
    np.testing.assert_array_equal(*found)
    assert found[0].std() != pytest.approx(rows.std(), rel=0.01)
