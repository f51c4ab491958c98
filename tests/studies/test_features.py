"""`[task] features`: what a study asks for, what a race chooses from, what studies without it keep."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from noiseworthy.data.scenes import SCENES, fits, scenes
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.reports.findings import preparation
from noiseworthy.studies import by_trial
from noiseworthy.studies.by_trial import open_bench, treatments_of
from noiseworthy.studies.models import open_task, proxy_task
from noiseworthy.studies.planner import decide
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.tables import Study
from noiseworthy.tasks import LinearModel
from noiseworthy.trials.reference import alike, reference_of
from noiseworthy.trials.treatment import Treatment, featured, treatments

FIXED = {"name": "fedsgd-dpc", "rounds": 2, "clients_per_round": 3, "step_size": 1.0, "step_decay": "none",
         "momentum": 0.0, "averaging": 0.0, "weighting": 0.5, "steering": 0.0}  # fmt: skip


def study(algorithm=None, clip="auto", **task):
    tables = {
        "federation": {"data": "digits", "clients": 3},
        "privacy": {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-5, "clip_norm": clip},
        "task": task,
    }
    return Study.model_validate(tables if algorithm is None else {**tables, "algorithm": algorithm})


def choices(**task):
    prepared = prepare(study(**task))
    return treatments_of(prepared, open_bench(prepared))


def test_a_study_without_the_key_chooses_from_what_it_always_did():
    assert choices() == [*treatments((8, 8)), Treatment(centred=True)]
    assert "features" not in study().task.model_dump()


def test_stated_they_are_taken_and_the_race_chooses_their_directions():
    """On the digits themselves, which may not be their own reference, the photographs are one."""
    seen = featured([SCENES])
    assert choices(features="scattering") == seen
    assert choices(features="scattering", projection=7) == [None]


@pytest.mark.parametrize(
    ("shape", "real", "tried"),
    [
        ((28, 28), ["digits"], featured(["digits", SCENES])),
        ((8, 8), [], treatments((8, 8))),
        (
            (28, 28),
            ["digits", "a"],
            [*treatments((28, 28), ["digits", "a"]), *featured(["digits", "a", SCENES])],
        ),
        ((30,), [], treatments((30,))),
    ],
    ids=["large images", "small images", "two real sets", "rows"],
)
def test_left_to_choose_real_images_decide_and_without_two_sets_of_them_size_does(
    monkeypatch, shape, real, tried
):
    """Nobody took what is drawn, and digits of 8 x 8 pixels have no detail that wavelets could see."""
    prepared = prepare(study(features="auto"))
    bench = open_bench(prepared)
    monkeypatch.setattr(by_trial, "alike", lambda *_: real)
    federation = SimpleNamespace(feature_shape=shape)
    asking = SimpleNamespace(
        study=prepared.study, task=prepared.task, trained=lambda: (federation, prepared.task)
    )
    assert treatments_of(asking, bench) == tried  # pyright: ignore[reportArgumentType]


@pytest.mark.usefixtures("whole_races")
def test_views_stand_in_for_scenes_where_features_are_seen_which_make_out_little_in_those():
    assert open_bench(prepare(study())).sources == ("prior:0", "prior:1", "prior:2")
    for features in ("auto", "scattering"):
        assert open_bench(prepare(study(features=features))).sources == ("prior:0", "prior:1", "prior:5")


def test_what_is_stated_of_records_beside_a_choice_to_be_made_is_refused():
    with pytest.raises(
        ValueError, match=r'features = "auto" chooses how records are treated; leave out pool'
    ):
        study(features="auto", pooling=2)


def test_features_to_be_chosen_need_trials():
    with pytest.raises(ConfigError, match=r'features = "auto" is chosen by trial, and this study has none'):
        decide(prepare(study(FIXED, 1.0, features="auto")))


@pytest.mark.parametrize("features", ["auto", "scattering"])
def test_features_belong_to_linear_models(features):
    with pytest.raises(InvalidInput, match="features belongs to linear models"):
        open_task(study(model="cnn", features=features), (28, 28), 10)


def test_a_proxy_is_seen_by_the_same_features_where_it_holds_images():
    stated, chosen = (
        study(features="auto"),
        Treatment(features="scattering", projection=40, reference=("scenes",)),
    )
    images = proxy_task(stated, (8, 8), 10, chosen, "prior:0")
    assert isinstance(images, LinearModel)
    assert (images.preparation.features, images.features) == ("scattering", 40)
    rows = proxy_task(stated, (30,), 2, chosen, "breast-cancer")
    assert isinstance(rows, LinearModel)
    assert (rows.preparation.features, rows.features) == (None, 30)


def test_patches_of_photographs_are_public_images_of_any_kind_but_none_of_rows():
    assert np.array_equal(scenes((8, 8)), scenes((8, 8)))
    assert 0 <= scenes((8, 8, 3)).min() < 0.1 < 0.9 < scenes((8, 8, 3)).max() <= 1
    np.testing.assert_allclose(scenes((8, 8, 3)).mean(axis=3), scenes((8, 8)), atol=1e-6)
    assert alike([SCENES], (28, 28)) == [SCENES]
    assert alike([SCENES], (30,)) == []
    assert not fits((101, 8))
    with pytest.raises(InvalidInput, match=r"scenes under .* does not hold records like those"):
        reference_of([SCENES], "own", (30,))


def test_a_report_says_which_map_it_is_and_what_it_is_scaled_by():
    said = preparation({"features": "scattering", "reference": ["scenes"], "projection": 40})
    assert (
        "wavelet scattering (2 scales, 8 orientations: a formula without training, data or licence)" in said
    )
    assert "channels standardised by public images (scenes)" in said
