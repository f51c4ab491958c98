"""What records have in common with public ones: means and directions by hand, norms, equality."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.tasks import Preparation, Reference, make_task
from noiseworthy.tasks.reference import principal

ROUNDING = 1e-5
SEEDS = st.integers(0, 2**32 - 1)


def public(seed, shape=(5,), n=40):
    """Records around a common centre, as images are."""
    rng = np.random.default_rng(seed)
    return 2.0 + rng.normal(size=(n, *shape)) * np.geomspace(1, 0.1, int(np.prod(shape))).reshape(shape)


def by_hand(x):
    """Records of norm 1 as rows, in loops."""
    return np.array([np.ravel(row) / np.sqrt(np.sum(np.square(row))) for row in np.asarray(x, float)])


@given(seed=SEEDS)
@settings(max_examples=20)
def test_the_mean_and_directions_are_those_of_unit_records_each_source_alike(seed):
    few, many = public(seed, n=7), 3 * public(seed + 1, n=90)
    one, other = by_hand(few), by_hand(many)
    found = Reference.of([few, many])
    np.testing.assert_allclose(found.mean, (one.mean(0) + other.mean(0)) / 2, atol=ROUNDING)
    spread = sum((rows - rows.mean(0)).T @ (rows - rows.mean(0)) / len(rows) for rows in (one, other)) / 2
    along = found.directions @ spread @ found.directions.T
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(5), atol=ROUNDING)
    np.testing.assert_allclose(along, np.diag(np.diag(along)), atol=1e-6)
    assert np.all(np.diff(np.diag(along)) <= 1e-7), "most spread first"


@given(seed=SEEDS)
@settings(max_examples=20)
def test_a_direction_has_one_sign_whoever_computes_it(seed):
    """Owners who compute a reference from the same public records must see private ones alike."""
    rows = Reference.of([public(seed)]).directions
    assert np.all(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)] > 0)
    again = Reference.of([public(seed)[::-1]]).directions
    np.testing.assert_allclose(rows, again, atol=1e-4)


@given(seed=SEEDS, kept=st.sampled_from([None, 1, 3]))
@settings(max_examples=20)
def test_records_are_seen_as_unit_records_less_the_mean_along_the_directions(seed, kept):
    reference, x = Reference.of([public(seed)]), public(seed + 2, n=6).astype(np.float32)
    seen = by_hand(x) - reference.mean
    expected = seen if kept is None else seen @ reference.directions[:kept].T
    ours = Preparation(projection=kept, reference=reference)(jnp.asarray(x))
    np.testing.assert_allclose(ours, expected, atol=ROUNDING)


@given(seed=SEEDS, kept=st.sampled_from([None, 2]))
@settings(max_examples=20)
def test_no_record_is_seen_longer_than_two_nor_by_others(seed, kept):
    rng = np.random.default_rng(seed)
    x = (rng.normal(size=(6, 5)) * 10.0 ** rng.integers(-20, 18, (6, 1))).astype(np.float32)
    x[0] = 0
    prepared = Preparation(projection=kept, reference=Reference.of([public(seed)]))
    seen = np.asarray(prepared(jnp.asarray(x)))
    assert np.all(np.linalg.norm(seen, axis=1) <= 2 + ROUNDING)
    alone = np.concatenate([prepared(jnp.asarray(row[None])) for row in x])
    np.testing.assert_allclose(seen, alone, atol=ROUNDING)


def test_images_are_pooled_before_they_are_seen():
    images = public(0, (4, 4)).astype(np.float32)
    pooled = np.asarray(Preparation(2)(images))
    reference = Reference.of([pooled])
    ours = Preparation(2, 3, reference=reference)(images[:2])
    expected = Preparation(projection=3, reference=reference)(pooled[:2])
    assert ours.shape == (2, 3)
    np.testing.assert_allclose(ours, expected, atol=ROUNDING)


def test_a_linear_model_scales_what_is_seen_and_leaves_nothing_of_broken_records():
    task = make_task(
        "softmax", (5,), 3, normalise=True, feature_norm=2.0, reference=Reference.of([public(0)])
    )
    x = public(1, n=4).astype(np.float32)
    x[2, 1], x[3, 0] = np.nan, np.inf
    rows = np.asarray(jax.jit(task.prepare)(x))
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [2, 2, 0, 0], atol=ROUNDING)


def test_equal_references_make_equal_tasks_and_others_do_not():
    one, again, other = (Reference.of([public(seed)]) for seed in (0, 0, 1))
    tasks = [make_task("softmax", (5,), 3, reference=reference) for reference in (one, again, other)]
    assert tasks[0] == tasks[1]
    assert hash(tasks[0]) == hash(tasks[1])
    assert tasks[0] != tasks[2]
    assert one != "a reference"


@pytest.mark.parametrize(
    ("build", "error", "says"),
    [
        (lambda: Reference.of([]), DataError, "a reference needs public records that are not all zero"),
        (
            lambda: Reference.of([np.zeros((3, 5))]),
            DataError,
            "a reference needs public records that are not",
        ),
        (
            lambda: make_task("softmax", (6,), 3, reference=Reference.of([public(0)])),
            InvalidInput,
            "reference must hold records of 6 numbers, got 5; take public records of the same kind",
        ),
        (
            lambda: make_task("softmax", (5,), 3, projection=6, reference=Reference.of([public(0)])),
            InvalidInput,
            "projection must be between 1 and 5, got 6; the reference has 5 directions",
        ),
        (
            lambda: make_task("cnn", (8, 8), 3, reference=Reference.of([public(0, (8, 8))])),
            InvalidInput,
            "reference belongs to linear models and must be left out for cnn",
        ),
    ],
)
def test_what_cannot_be_is_refused(build, error, says):
    with pytest.raises(error, match=says):
        build()


def test_eigenvectors_are_computed_on_one_thread_and_others_have_theirs_back(monkeypatch):
    """Threads of BLAS that wait for busy cores take a hundred times as long."""

    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    seen, eigh = [], scipy.linalg.eigh

    def watched(*given, **named):
        seen.append(threads())
        return eigh(*given, **named)

    monkeypatch.setattr(scipy.linalg, "eigh", watched)
    with threadpool_limits(2, "blas"):
        principal(np.random.default_rng(0).standard_normal((5, 9)))
        assert set(threads()) == {2}
    assert [set(few) for few in seen] == [{1}]
