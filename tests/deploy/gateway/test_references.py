"""Records seen against numbers that a server sends: by no name, each record alone, one release of one set."""

from __future__ import annotations

import builtins

import jax
import numpy as np
import pytest

from noiseworthy.data import datasets, files
from noiseworthy.deploy.asking import seen_of
from noiseworthy.deploy.gateway import dealt
from noiseworthy.deploy.gateway import holding as holdings
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Request, Seen, Uploaded, read_message
from noiseworthy.methods.rivals.wire import PrivateFLWork
from noiseworthy.methods.rows import gradient_rows
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.tasks import LinearModel, make_task
from noiseworthy.tasks.table import TaskTable
from noiseworthy.trials.reference import reference_of

from .conftest import KEPT, P, against, asked, numbers, request, spent

C = 0.1


def by_hand(holding, seen, theta) -> np.ndarray:
    """The mean clipped gradient in plain NumPy: x/|x| - mean, along the directions, of norm 1."""
    x, y = holding.x.astype(np.float64), 2.0 * holding.y - 1
    x = x / np.linalg.norm(x, axis=1, keepdims=True) - seen.mean
    x = x @ seen.directions.T.astype(np.float64) if len(seen.directions) else x
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    slopes = (-y / (1 + np.exp(y * (x @ theta))))[:, None] * x
    return (slopes * np.minimum(1, C / np.linalg.norm(slopes, axis=1, keepdims=True))).mean(axis=0)


@pytest.mark.parametrize("kept", [KEPT, 0])
def test_records_are_seen_against_the_numbers_that_were_sent(gateway, holding, silent, kept):
    seen = numbers(directions=numbers().directions[:kept])
    task = {"model": "logistic", "normalise": True, "projection": kept or None, "reference": ["public.npz"]}
    theta = np.linspace(-1, 1, kept or P, dtype=np.float32)
    upload = asked(gateway, request(task=task, seen=seen, theta=theta)).upload
    wanted = by_hand(holding, seen, theta)
    assert np.abs(upload.values - wanted).max() < 1e-5 * np.abs(wanted).max() + upload.grid.spacing


def test_a_later_request_with_other_numbers_is_answered_by_those(gateway, holding, silent):
    """What was prepared for one reference is not used for another of the same name."""
    theta = against()["theta"]
    first, second = (asked(gateway, request(k, **against(seen=numbers(k)))).upload.values for k in (1, 2))
    assert np.allclose(first, by_hand(holding, numbers(1), theta), atol=1e-6)
    assert np.allclose(second, by_hand(holding, numbers(2), theta), atol=1e-6)


@pytest.mark.parametrize("name", ["breast-cancer", "digits", "own.npz"])
def test_no_file_is_opened_by_a_name_that_was_sent(gateway, holding, silent, monkeypatch, tmp_path, name):
    """Neither public data nor the owner's own, which the name may be of."""
    path = tmp_path / "own.npz"
    np.savez(path, x=holding.x, label=holding.y)
    task = against()["task"] | {"reference": [str(path) if name == path.name else name]}

    kept, look = str(jax.config.jax_compilation_cache_dir), builtins.open

    def opened(*args, **more):
        if str(args[0]).startswith(kept):  # a program that was compiled
            return look(*args, **more)
        raise RuntimeError(f"opened {args}")

    places = [(holdings, ("opened", "read_parts")), (files, ("locate", "existing"))]
    places += [(datasets, ("load_records", "load_federation")), (dealt, ("load_federation",))]
    places += [(np, ("load",)), (builtins, ("open",))]
    for place, functions in places:
        for function in functions:
            monkeypatch.setattr(place, function, opened)
    values = asked(gateway, request(**against(task=task))).upload.values
    assert np.allclose(values, by_hand(holding, numbers(), against()["theta"]), atol=1e-6)


@pytest.mark.parametrize("part", ["mean", "directions"])
def test_a_release_asked_again_with_other_numbers_is_a_conflict(gateway, silent, part):
    first = gateway.answer(packed(request(**against())))
    changed = getattr(numbers(), part).copy()
    changed.flat[-1] += np.float32(1e-3)
    other = numbers(**{part: changed})
    assert asked(gateway, request(**against(seen=other))).reason == "conflict"
    assert gateway.answer(packed(request(**against()))) == first
    assert (len(silent), spent(gateway)[0]) == (1, 1)


def full(mean: float, direction: float):
    """Numbers that are all alike."""
    return numbers(mean=np.full(P, mean, np.float32), directions=np.full((KEPT, P), direction, np.float32))


CHOSEN = {
    "ordinary": numbers(),
    "so large that records overflow": full(3e38, 3e38),
    "large, with signs that cancel": full(-3e38, 1.0),
    "so small that norms vanish": full(0.0, 1e-45),
    "nothing": full(0.0, 0.0),
}


@pytest.mark.parametrize("seen", CHOSEN.values(), ids=list(CHOSEN))
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("other", [0.0, -3.0, 1e30, np.nan])
def test_one_record_changes_its_own_row_alone_whatever_the_numbers_are(
    gateway, holding, seen, normalise, other
):
    """Bit by bit, so that the clip bounds by 2C what a neighbour changes."""
    task = against()["task"] | {"normalise": normalise}
    job, place = gateway.accepted(request(**against(seen=seen, task=task))).job, 45
    x = holding.x.copy()
    x[place] = other
    held = [Holding(one, holding.y, holding.classes) for one in (holding.x, x)]
    before, after = (
        np.concatenate(list(gradient_rows(job.task, job.theta, one.batch(job.task), job.sums[0])))
        for one in held
    )
    same = np.arange(len(before)) != place
    assert np.array_equal(before[same], after[same])
    grid = job.sums[0].mechanism.grid
    totals = [clipped_sum(rows, C, "l2", grid).astype(float) for rows in (before, after)]
    assert np.linalg.norm(totals[0] - totals[1]) * grid.spacing <= 2 * C


@pytest.mark.parametrize("seen", CHOSEN.values(), ids=list(CHOSEN))
def test_numbers_that_overflow_are_no_oracle(gateway, silent, seen):
    assert isinstance(asked(gateway, request(**against(seen=seen))), Uploaded)
    work = PrivateFLWork(personal_step=0.5)
    assert isinstance(asked(gateway, request(2, **against(seen=seen, algorithm=work))), Uploaded)


WORDS = {
    "a gateway opens no public data by name; send a reference with its numbers in seen, or neither": (
        against(seen=None),
        {"seen": numbers()},
    ),
    "the projection keeps 6 directions, got 7; send those that it keeps": (
        against(seen=numbers(directions=np.zeros((7, P), np.float32))),
    ),
    "reference must hold records of 30 numbers, got 31; take public records of the same kind": (
        against(seen=numbers(mean=np.zeros(31, np.float32), directions=np.zeros((6, 31), np.float32))),
    ),
}


@pytest.mark.parametrize("words", WORDS)
def test_numbers_that_do_not_fit_are_refused_in_words(gateway, words):
    for changed in WORDS[words]:
        assert asked(gateway, request(**changed)).message == words


@pytest.mark.parametrize("part", ["mean", "directions"])
def test_a_server_cannot_make_a_reference_that_is_not_finite(part):
    with pytest.raises(ValueError, match="numbers must be finite float32"):
        numbers(**{part: getattr(numbers(), part) * np.float32(np.nan)})


def test_the_owners_limits_hold_for_projected_records(gateway_of, silent):
    gateway = gateway_of(allowed={"most_parameters": KEPT - 1})
    message = asked(gateway, request(**against())).message
    assert message == "the owner does not allow parameters 6; nothing was spent"
    assert (silent, spent(gateway)) == ([], (0, 0))


# Public features --------------------------------------------------------------------------------------

IMAGES = np.random.default_rng(5).random((9, 8, 8), np.float32)
SCATTERED = TaskTable(
    model="softmax", features="scattering", projection=5, reference=["scenes"], normalise=True, bias=0.0
)


def of_scenes() -> tuple[Seen, LinearModel]:
    """What a server sends of public images, and its own model."""
    reference = reference_of(["scenes"], "own", (8, 8), features="scattering")
    own = make_task(
        "softmax", (8, 8), 3, features="scattering", projection=5, reference=reference, feature_norm=1.0,
        normalise=True,
    )  # fmt: skip
    seen = seen_of(own)
    assert isinstance(own, LinearModel)
    assert seen is not None
    return seen, own


def test_an_owner_computes_features_itself_and_has_numbers_of_public_ones_alone():
    seen, own = of_scenes()
    sent = read_message(packed(request(task=SCATTERED, seen=seen, theta=np.zeros(15, np.float32))))
    assert isinstance(sent, Request)
    assert sent.seen is not None
    held = Holding(IMAGES, np.arange(9) % 3, 3)
    task = held.task(sent.task, sent.seen)
    assert task.dimension == own.dimension == 15
    np.testing.assert_allclose(held.batch(task).x, own.prepare(IMAGES), atol=1e-6)


@pytest.mark.parametrize(
    "changed",
    [{"spread": None}, {"spread": np.zeros(324, np.float32)}, {"center": np.zeros(3, np.float32)}],
    ids=["no spread", "a spread of zero", "another size"],
)
def test_scales_that_fit_nothing_are_refused(changed):
    seen, _ = of_scenes()
    with pytest.raises(ValueError, match="center and spread, where there are any"):
        Seen.model_validate(dict(seen) | changed)


def test_features_of_rows_and_features_to_be_chosen_are_refused(gateway, silent):
    for features in ("scattering", "auto"):
        answer = asked(gateway, request(task={"model": "logistic", "features": features}))
        assert answer.reason == "not-allowed"
        assert "features" in answer.message or "scattering" in answer.message
    assert silent == []


def test_a_request_without_features_has_the_digest_that_it_always_had():
    assert set(numbers().model_dump()) == {"mean", "directions"}
    assert "features" not in TaskTable(model="logistic").model_dump()
