"""The model of a deployed run, here and at its owners: object, command and graph predict the same."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import numpy as np
import onnxruntime
import pandas as pd
import pytest

from noiseworthy.cli import main
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.correspondence import delivered as sent
from noiseworthy.deploy.deployed import final_model, train, with_network
from noiseworthy.deploy.gateway.models import Models
from noiseworthy.model.export import export_onnx
from noiseworthy.model.folder import load_folder
from noiseworthy.model.model import load_model
from noiseworthy.studies.delivery import deliver
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.record import new_record
from noiseworthy.studies.typed_record import view

from .test_deployed import Owners, deployment_of


@pytest.fixture(scope="module")
def deployed(tmp_path_factory) -> Any:
    """A deployed run whose model was sent to its owners: the folder, the record, where owners keep theirs."""
    folder, deployment = tmp_path_factory.mktemp("deployed"), deployment_of()
    with pytest.MonkeyPatch.context() as patch, Owners(deployment, folder) as owners:
        patch.setattr(correspondence, "_PAUSE", 0.0)
        done = train(deployment, owners.exchange(), folder / "run")
        prepared, decision = plan_study(deployment.prepared)
        record = new_record(prepared.study, decision, deployment.federation, prepared.dimension, name="two")
        abouts = [gateway.about for gateway in owners.opened.values()]
        record = with_network(record, done, abouts, 1.0)
        record = deliver(prepared, done.trained.theta[0], record, [deployment.seed], folder / "run")
        offer = final_model(done.told.run, load_folder(folder / "run"))
        assert sent(owners.exchange(), deployment.federation.clients, offer, 5.0) == {}
        kept = [Models.beside(one.ledger.path).kept()[0] for one in owners.opened.values()]
    return folder / "run", record, kept, deployment.federation


def test_owners_keep_the_very_model_that_the_server_keeps(deployed):
    folder, _, kept, _ = deployed
    for place in kept:
        for file in (folder / "model").iterdir():
            assert (place / file.name).read_bytes() == file.read_bytes(), file.name


def test_object_command_graph_and_owner_predict_the_same(deployed, tmp_path, monkeypatch, capsys):
    folder, _, kept, federation = deployed
    x, model = federation.test_x, load_model(folder)
    shares = model.predict_proba(x)
    np.testing.assert_allclose(load_model(kept[0]).predict_proba(x), shares, atol=1e-5)

    graph = onnxruntime.InferenceSession(export_onnx(load_model(kept[-1]), tmp_path / "model.onnx"))
    np.testing.assert_allclose(graph.run(None, {"records": x})[0], shares, atol=1e-5)

    np.save(tmp_path / "x.npy", x)
    for place in (folder, kept[0]):
        told = tmp_path / "told.csv"
        monkeypatch.setattr(
            sys, "argv", ["noiseworthy", "predict", *map(str, (place, tmp_path / "x.npy", "-o", told))]
        )
        with pytest.raises(SystemExit) as ended:
            main()
        assert not ended.value.code
        found = pd.read_csv(told)[["probability 0", "probability 1"]].to_numpy()
        np.testing.assert_allclose(found, shares, atol=1e-5)
    assert np.ptp(shares[:, 1]) > 0.3


def test_its_noise_was_drawn_without_a_seed_and_its_card_lets_it_go(deployed):
    model = load_model(deployed[0])
    assert model.description.privacy.assurance == "grid-csprng"
    assert model.description.privacy.warning == ""
    assert "Not for release" not in model.card
    assert "Epsilon 4 at delta 1e-05 for each record, over all uploads" in model.card


def test_its_scores_are_those_of_the_last_round(deployed):
    _, record, _, federation = deployed
    training = view(record).training
    assert training is not None
    assert training.metrics is not None
    assert training.metrics.accuracy == pytest.approx(training.accuracy[0][-1])
    assert training.metrics.log_loss == pytest.approx(training.loss[0][-1], rel=1e-4)
    assert training.metrics.records == len(federation.test_y)


def test_a_model_that_may_be_released_says_whose_records_its_scores_read(deployed):
    """Scores on records that owners held out are exact: the model's claim does not cover them."""
    model, federation = load_model(deployed[0]), deployed[3]
    assert model.description.test_origin == federation.test_origin == "rows"
    said = "held out of the private records: a fifth, drawn in public by their places in the data. Scores"
    assert f"{said} on them are exact, and no epsilon covers them." in model.card
    known = model.description.model_copy(update={"test_origin": None})
    assert "test_origin" not in known.plain
    assert "no epsilon covers" not in replace(model, kept=model.kept._replace(description=known)).card
