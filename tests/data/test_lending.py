"""Loans: the preparation reads the public part alone, and the public part reads nobody else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from noiseworthy.data import load_federation, load_records
from noiseworthy.data.lending import FINISHED, QUARTER_2018, prepared
from noiseworthy.errors import DataError

FILES = {
    "lending-club": ("lending_club_120k.csv.gz", FINISHED),
    "lending-club-2018": ("lending_club_2018q1_10k.csv.gz", QUARTER_2018),
}
LEAKS = {
    "payment_inc_ratio", "grade", "status", "outcome", "int_rate_derived", "interest_rate", "installment",
    "sub_grade", "balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees", "loan_status",
}  # fmt: skip


def loans(columns, n=300, seed=0):
    """Made-up loans; the rate is the number of the row, so that every row can be told from the others."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({name: rng.lognormal(size=n) for name in columns.numbers})
    table["term"] = rng.choice([" 36 months", " 60 months"], n)
    for name in columns.categories:
        table[name] = rng.choice(["red", "green", "blue"], n)
    return table.assign(**{columns.rate: np.arange(float(n))})


def write(root, table, name="lending-club"):
    path = root / "lending-club" / FILES[name][0]
    path.parent.mkdir(exist_ok=True)
    table.to_csv(path, index=False)
    return root


def load(root, table, name="lending-club"):
    return load_records(name, data_dir=write(root, table, name))


def by_rate(records):
    """Features of each loan that is not public, by its rate."""
    x, y = np.concatenate([records.x, records.test_x]), np.concatenate([records.y, records.test_y])
    return dict(zip(y.tolist(), x, strict=True))


@pytest.mark.parametrize("name", FILES)
def test_a_tenth_is_public_and_a_fifth_of_the_rest_tests(tmp_path, name):
    records = load(tmp_path, loans(FILES[name][1]), name)
    assert (records.x.shape, records.test_x.shape, records.classes) == ((216, 10), (54, 10), None)
    assert (records.x.dtype, records.y.dtype) == (np.float32, np.float32)
    assert len(by_rate(records)) == 270
    assert records.schema is not None
    assert records.schema.feature_names == tuple(f"component_{i}" for i in range(1, 11))
    assert records.schema.label.name == FILES[name][1].rate


def test_no_public_loan_is_private_or_tested_on(tmp_path):
    table = loans(FINISHED)
    _, is_public = prepared(table.assign(term=36.0), FINISHED)
    known = by_rate(load(tmp_path, table))
    assert is_public.sum() == 30
    assert set(known) == set(table[FINISHED.rate][~is_public])
    fed = load_federation("lending-club", data_dir=tmp_path, clients=4, partition="sorted", seed=0)
    assert not set(fed.y.ravel()) & set(table[FINISHED.rate][is_public])


def test_a_private_loan_changes_nothing_but_itself(tmp_path):
    table = loans(FINISHED)
    before = by_rate(load(tmp_path, table))
    rate = next(iter(before))
    table.loc[table[FINISHED.rate] == rate, [*FINISHED.numbers[2:]]] = 1e6
    table.loc[table[FINISHED.rate] == rate, "purpose"] = "violet"
    after = by_rate(load(tmp_path, table))
    assert not np.allclose(before.pop(rate), after.pop(rate))
    for other in before:
        np.testing.assert_array_equal(before[other], after[other])


def test_a_public_loan_changes_the_others(tmp_path):
    table = loans(FINISHED)
    before = by_rate(load(tmp_path, table))
    public = next(iter(set(table[FINISHED.rate]) - set(before)))
    table.loc[table[FINISHED.rate] == public, "dti"] = 1e6
    after = by_rate(load(tmp_path, table))
    assert not np.allclose(np.stack([*before.values()]), np.stack([*after.values()]))


def test_the_components_are_those_of_plain_numpy():
    table = loans(FINISHED).assign(term=np.tile([36.0, 60.0], 150))
    table.loc[::7, "dti"] = np.nan
    z, is_public = prepared(table, FINISHED)
    numbers = table[[*FINISHED.numbers]].fillna(table[is_public][[*FINISHED.numbers]].median())
    public = numbers[is_public]
    columns = [((numbers - public.mean()) / public.std(ddof=0)).to_numpy()]
    columns += [
        (table[c] == value).to_numpy(float)[:, None]
        for c in FINISHED.categories
        for value in ("blue", "green", "red")
    ]
    features = np.concatenate(columns, axis=1)
    centred = features - features[is_public].mean(axis=0)
    _, directions = np.linalg.eigh(centred[is_public].T @ centred[is_public])
    expected = centred @ directions[:, ::-1][:, :10]
    np.testing.assert_allclose(np.abs(z), np.abs(expected), atol=1e-8)


def test_components_are_centred_uncorrelated_and_ordered_on_the_public_part():
    z, is_public = prepared(loans(QUARTER_2018).assign(term=36.0), QUARTER_2018)
    covariance = np.cov(z[is_public].T)
    np.testing.assert_allclose(z[is_public].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-10)
    assert np.all(np.diff(np.diag(covariance)) <= 0)


@pytest.mark.parametrize("columns", [FINISHED, QUARTER_2018])
def test_nothing_that_tells_the_rate_is_a_feature(columns):
    assert not LEAKS & {*columns.numbers, *columns.categories}


def test_a_loan_without_a_rate_is_left_out(tmp_path):
    table = loans(FINISHED, 301)
    table.loc[5, FINISHED.rate] = np.nan
    records = load(tmp_path, table)
    assert len(records) + len(records.test_y) == 270
    assert 5.0 not in by_rate(records)


def test_a_column_that_the_public_part_lacks_counts_as_zero(tmp_path):
    records = load(tmp_path, loans(FINISHED).assign(dti=np.nan))
    assert np.all(np.isfinite(records.x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="dti"), "has no column 'dti'"),
        (lambda t: t.drop(columns="term"), "has no column 'term'"),
        (lambda t: t.drop(columns="purpose"), "has no column 'purpose'"),
        (lambda t: t.drop(columns="int_rate_derived"), "has no column 'int_rate_derived'"),
        (lambda t: t.assign(dti="much"), "column 'dti' must hold finite numbers"),
        (lambda t: t.assign(dti=np.inf), "column 'dti' must hold finite numbers"),
        (lambda t: t.assign(term="long"), "cannot be read as a table: could not convert string to float"),
        (lambda t: t[:90], "at least 100 loans with a rate, got 90"),
        (lambda t: t[:0], "at least 100 loans with a rate, got 0|must hold finite numbers"),
    ],
)
def test_other_tables_are_refused(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        load(tmp_path, change(loans(FINISHED)))


def test_a_truncated_file_is_refused(tmp_path):
    path = write(tmp_path, loans(FINISHED)) / "lending-club" / FILES["lending-club"][0]
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(DataError, match="cannot be read as a table"):
        load_records("lending-club", data_dir=tmp_path)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "sizes", "rates", "r_squared"),
    [
        ("lending-club", (85_376, 21_344), (5.06, 26.06), 0.38),
        ("lending-club-2018", (7_200, 1_800), (5.31, 30.94), 0.25),
    ],
)
def test_the_real_loans_have_the_stated_counts_and_a_rate_that_can_be_learned(
    data_dir, name, sizes, rates, r_squared
):
    records = load_records(name, data_dir=data_dir)
    assert (len(records), len(records.test_x), records.record_shape) == (*sizes, (10,))
    y = np.concatenate([records.y, records.test_y])
    assert (y.min(), y.max()) == pytest.approx(rates, abs=0.02)
    design, test = (np.column_stack([x, np.ones(len(x))]) for x in (records.x, records.test_x))
    theta = np.linalg.lstsq(design, records.y)[0]
    explained = 1 - np.mean((test @ theta - records.test_y) ** 2) / np.var(records.test_y)
    assert explained == pytest.approx(r_squared, abs=0.04)  # least squares with 11 parameters


@pytest.mark.full
@pytest.mark.data
def test_sorted_groups_of_eighty_have_narrow_rates(data_dir):
    fed = load_federation("lending-club", data_dir=data_dir, clients=1067, partition="sorted", seed=0)
    assert set(fed.sizes.tolist()) == {80}
    assert np.all(np.diff(fed.y.min(axis=1)) >= 0)
    assert np.median(np.ptp(fed.y, axis=1)) < 0.1
    small = load_federation(
        "lending-club-2018", data_dir=data_dir, clients=87, records_per_client=80, partition="sorted", seed=0
    )
    assert small.sizes.tolist() == [80] * 87
