"""`[task] features` of a file: stated with its licence, known by its digest, at owners their own copy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct import Direct

import noiseworthy as nw
from noiseworthy.data.scenes import SCENES
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.asking import Asking
from noiseworthy.deploy.deployed import train
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Refused, Uploaded, read_reply
from noiseworthy.deploy.gateway.models import Models
from noiseworthy.deploy.gateway.owner import load_owner
from noiseworthy.deploy.owners import write_owner_files
from noiseworthy.errors import ConfigError, DataError
from noiseworthy.model.export import export_onnx
from noiseworthy.studies.by_trial import open_bench, treatments_of
from noiseworthy.studies.delivery import task_table
from noiseworthy.studies.loading import load_study
from noiseworthy.studies.models import proxy_task
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.typed_owners import OwnerPart
from noiseworthy.tasks import LinearModel
from noiseworthy.trials.treatment import Treatment, encoded

from .test_deployed import simulated

TASK = """
[task]
features = "photos.onnx"
encoder_licence = "CC0"
encoder_source = "principal patches of two photographs"
"""
STUDY = f"""
[federation]
data = "digits"
clients = 2
records_per_client = 150
{TASK}
normalise = true
[privacy]
mechanism = "gaussian"
epsilon = 8.0
delta = 1e-5
clip_norm = 1.0
[algorithm]
name = "fedsgd-dpc"
rounds = 12
clients_per_round = 2
step_size = 2.0
step_decay = "none"
momentum = 0.0
averaging = 0.0
weighting = 0.5
steering = 0.0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, photos) -> Path:
    """A study with its encoder beside it, in a folder other than the one that tests work in."""
    folder = tmp_path_factory.mktemp("study")
    (folder / "photos.onnx").write_bytes(photos)
    (folder / "study.toml").write_text(STUDY)
    return folder


@pytest.fixture(scope="module")
def run(folder) -> nw.RunFolder:
    return nw.run(folder / "study.toml", seeds=1, set={"training.evaluations": 2}, out=folder / "run")


@pytest.mark.full
def test_it_trains_and_predicts_with_the_encoder_in_the_folder_of_the_model(run, folder, tmp_path):
    assert run.accuracy > 0.3  # of ten classes, with 300 records
    plan = json.loads((run.folder / "plan.json").read_text())
    model = nw.load_model(run.folder)
    images = np.asarray(prepare(load_study(folder / "study.toml")).trained()[0].test_x)
    assert plan["task"]["encoder_digest"] == model.description.task.encoder_digest
    np.testing.assert_array_equal(
        nw.load_model(model.save(tmp_path / "kept")).predict(images), model.predict(images)
    )
    (tmp_path / "kept" / "encoder.onnx").write_bytes(b"another")
    with pytest.raises(DataError, match=r"encoder.onnx is not the encoder of this model"):
        nw.load_model(tmp_path / "kept")


@pytest.mark.full
def test_the_claim_card_the_report_and_the_models_card_name_it(run):
    card = json.loads((run.folder / "claim_card.json").read_text())["features"]
    digest = json.loads((run.folder / "plan.json").read_text())["task"]["encoder_digest"]
    assert (card["licence"], card["digest"]) == ("CC0", f"sha256:{digest}")
    page = (run.folder / "claim_card.html").read_text()
    assert "principal patches of two photographs. Licence: CC0." in page
    assert "as long as it was trained on other records than these" in page
    assert f"what the encoder photos.onnx gives (sha256 {digest[:12]})" in run.report.read_text()
    assert f"sha256 {digest}. Source: principal patches" in (run.folder / "model" / "README.md").read_text()


MISTAKES = {
    "needs encoder_licence and encoder_source": STUDY.replace('encoder_licence = "CC0"', ""),
    'encoder_source tell of an encoder, which features = "FILE.onnx" names': STUDY.replace(
        "photos.onnx", "scattering"
    ),
    "/e.onnx. must be a file beside the study": STUDY.replace("photos.onnx", "/e.onnx"),
    r"\.\./e.onnx. must be a file beside the study": STUDY.replace("photos.onnx", "../e.onnx"),
    "features must be 'scattering', 'auto' or 'fourier', got 'e.eqx'": STUDY.replace("photos.onnx", "e.eqx"),
    "other.onnx cannot be read": STUDY.replace("photos.onnx", "other.onnx"),
    "the file has digest": STUDY.replace("normalise", f'encoder_digest = "{"0" * 64}"\nnormalise'),
    "features belongs to linear models": STUDY.replace("normalise = true", 'model = "cnn"'),
}  # fmt: skip


@pytest.mark.parametrize("words", MISTAKES)
def test_what_does_not_tell_of_an_encoder_is_refused(folder, words):
    path = folder / "mistaken.toml"
    path.write_text(MISTAKES[words])
    with pytest.raises((ConfigError, nw.errors.InvalidInput), match=words):
        prepare(load_study(path))


def test_a_plan_refuses_an_encoder_that_was_changed(run, folder, tmp_path):
    for name in ("study.toml", "photos.onnx"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    study, path = tmp_path / "study.toml", run.folder / "plan.json"
    (tmp_path / "photos.onnx").write_bytes((folder / "photos.onnx").read_bytes() + b"\x00")
    with pytest.raises(nw.errors.UserError, match="task"):
        nw.run(study, seeds=1, plan=path, out=tmp_path / "run")


def test_trials_see_public_images_through_it_and_rows_and_other_images_without(folder):
    free = folder / "free.toml"
    text = STUDY.replace("normalise = true", "").replace("clip_norm = 1.0", "")
    free.write_text(text.replace(text[text.index("rounds =") :], ""))
    prepared = prepare(load_study(free))
    tried = treatments_of(prepared, open_bench(prepared))
    assert tried == encoded("photos.onnx", 256, [SCENES])
    for shape, numbers in (((8, 8), 256), ((9, 9), 81), ((30,), 30)):
        proxy = proxy_task(prepared.study, shape, 2, Treatment(features="photos.onnx"), "prior:0")
        assert isinstance(proxy, LinearModel)
        assert (proxy.features, proxy.preparation.features is not None) == (numbers, shape == (8, 8))
    seen = proxy_task(prepared.study, (8, 8), 2, tried[-1], "prior:0")
    assert isinstance(seen, LinearModel)
    assert seen.features == tried[-1].projection == 40


# At owners --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def deployment(folder) -> Deployment:
    planned = nw.plan(load_study(folder / "study.toml"))
    return Deployment.of(planned.prepared, planned.plan)


@pytest.fixture
def files(deployment, tmp_path) -> dict[str, Path]:
    return write_owner_files(deployment, tmp_path / "owners")


@pytest.fixture
def gateways(files) -> Iterator[dict[str, Gateway]]:
    opened = {name: Gateway.open(load_owner(path)) for name, path in files.items()}
    yield opened
    for gateway in opened.values():
        gateway.close()


def request(deployment: Deployment, **task: Any) -> bytes:
    """A request for the first owner's gradient."""
    table = task_table(deployment.prepared).model_copy(update=task)
    zeros = np.zeros(2, np.int64)
    asking = Asking("run", deployment.plan, table, deployment.task, np.array([[0, 1]], np.int32), zeros)
    theta = np.zeros(deployment.task.dimension, np.float32)
    return packed(asking.request(0, 0, theta, deadline=2e9, head=None, received=0))


@pytest.mark.full
def test_owners_run_their_own_copy_keep_the_model_and_the_training_is_the_simulated_one(
    deployment, gateways, tmp_path, silent, monkeypatch, photos
):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)
    exchange = Direct({name: gateway.answer for name, gateway in gateways.items()})
    done = train(deployment, exchange, tmp_path / "run")
    twin = simulated(deployment)
    assert np.abs(done.trained.theta - twin.theta).max() < 1e-5 * np.abs(twin.theta).max()
    assert photos[:200] not in request(deployment), "the server sends nothing but the digest"


def test_files_approve_it_by_digest_and_lie_beside_a_copy(deployment, files, gateways, photos):
    digest = task_table(deployment.prepared).encoder_digest
    for path in files.values():
        assert load_owner(path).allowed.encoders == {"photos.onnx": f"sha256:{digest}"}
        assert (path.parent / "photos.onnx").read_bytes() == photos
    demand, about = deployment.demand_of("client 0"), gateways["client 0"].about
    assert about.encoders == [demand.encoder] == [f"photos.onnx@sha256:{digest}"]
    assert demand.misfit(about) == ""
    assert OwnerPart.model_validate(about.model_dump(mode="json")).encoders == about.encoders
    without = about.model_copy(update={"encoders": []})
    assert demand.misfit(without) == f"does not allow encoders photos.onnx@sha256:{digest}"


@pytest.mark.parametrize("wrong", ["changed", "gone", "other digest", "not approved"])
def test_any_other_encoder_is_refused_and_costs_nothing(deployment, files, wrong):
    path, asked = files["client 0"], {}
    mine = "the owner's copy of photos.onnx is not there, or not the one that it approved"
    if wrong == "changed":
        (path.parent / "photos.onnx").write_bytes(b"another")
    elif wrong == "gone":
        (path.parent / "photos.onnx").unlink()
    elif wrong == "other digest":
        asked, mine = {"encoder_digest": "0" * 64}, f"allow encoder photos.onnx@sha256:{'0' * 64}; nothing"
    else:
        path.write_text(path.read_text().replace('"photos.onnx"', '"others.onnx"'))
        mine = "the owner does not allow encoder photos.onnx@sha256:"
    with Gateway.open(load_owner(path)) as gateway:
        reply = read_reply(gateway.answer(request(deployment, **asked)))
        assert isinstance(reply, Refused)
        assert mine in reply.message
        assert gateway.about.spent == 0


def test_an_allowed_one_is_answered_and_its_model_is_kept_with_the_owners_copy(
    deployment, gateways, run, silent, photos
):
    gateway = gateways["client 0"]
    assert isinstance(read_reply(gateway.answer(request(deployment))), Uploaded)
    kept = nw.load_model(run.folder).kept
    from noiseworthy.deploy.gateway.models import ModelOffer

    offer = ModelOffer(run="run", description=kept.description.plain, theta=kept.theta)
    offer.answered(gateway)
    (place,) = Models.beside(gateway.ledger.path).kept()
    assert nw.load_model(place).kept.encoder == kept.encoder
    assert (place / "encoder.onnx").read_bytes() == photos


TREATED = {
    "as they are": "normalise = true",
    "seen against public images": 'reference = ["scenes"]\nprojection = 40\nnormalise = true',
}


@pytest.mark.full
@pytest.mark.parametrize("how", TREATED)
def test_the_exported_graph_holds_the_encoder_and_answers_as_the_model_does(folder, tmp_path, how):
    import onnxruntime

    (folder / "few.toml").write_text(STUDY.replace("normalise = true", TREATED[how]))
    run = nw.run(folder / "few.toml", seeds=1, set={"training.evaluations": 2}, out=tmp_path / "run")
    model = nw.load_model(run.folder)
    session = onnxruntime.InferenceSession(
        export_onnx(model, tmp_path / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"]
    )
    images = np.random.default_rng(0).random((5, 8, 8), np.float32)
    found = session.run(None, {"records": images})[0]
    np.testing.assert_allclose(found, model.predict_proba(images), atol=1e-5)
