"""A model's folder: written whole, read without pickle, refused where it is not what was written."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load, save

from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.model import model as module
from noiseworthy.model.description import digest_of
from noiseworthy.model.export import export_onnx
from noiseworthy.model.folder import ARRAYS, CARD, FILE, load_folder, save_folder
from noiseworthy.model.model import load_model
from noiseworthy.tasks import Reference
from noiseworthy.tasks.scattering import scattering

from .conftest import model_of

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


@pytest.fixture
def folder(logistic, tmp_path):
    return save_folder(logistic.kept, tmp_path / "run" / "model")


def rewritten(folder, **changed):
    """The file of a model with other content, and a digest that fits it."""
    content = json.loads((folder / FILE).read_text()) | changed
    (folder / FILE).write_text(json.dumps(content | {"digest": digest_of(content)}))


def packed(folder, arrays):
    """Other arrays, and a file that says so."""
    stored(folder, save(arrays))


def stored(folder, data):
    """Other bytes in the place of the arrays, and a file that says so."""
    import hashlib

    (folder / ARRAYS).write_bytes(data)
    content = json.loads((folder / FILE).read_text())
    rewritten(folder, parameters={**content["parameters"], "sha256": hashlib.sha256(data).hexdigest()})


def typed(folder, name):
    """Two bytes each for four numbers of a type, in a file that says so."""
    header = json.dumps({"theta": {"dtype": name, "shape": [4], "data_offsets": [0, 8]}}).encode()
    stored(folder, len(header).to_bytes(8, "little") + header + bytes(8))


def test_a_model_comes_back_from_its_own_folder_and_from_its_runs(logistic, folder):
    for path in (folder, folder.parent, str(folder)):
        model = load_model(path)
        np.testing.assert_array_equal(model.predict_proba(X), logistic.predict_proba(X))
        assert model.description == logistic.description
    assert {path.name for path in folder.iterdir()} == {FILE, ARRAYS, CARD, "coefficients.csv"}


def test_a_model_is_shown_in_two_lines(logistic):
    head = "model study: logistic, 2 classes (class 0, class 1) from records of shape [3]"
    assert repr(logistic) == f"{head}\nEpsilon 2 at delta 1e-05 for each record."
    numbers = repr(model_of({"model": "linear", "feature_norm": 1.0}, (3,), None))
    assert numbers.startswith("model study: linear, numbers from records of shape [3]\n")


def test_a_reference_comes_with_it(tmp_path):
    seen = Reference.of([np.random.default_rng(2).random((30, 4, 4))])
    task = {"model": "softmax", "projection": 3, "reference": ["public.npz"]}
    model = model_of(task, (4, 4), 3, seen)
    images = np.random.default_rng(0).random((6, 4, 4)).astype(np.float32)
    loaded = load_model(save_folder(model.kept, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(images), model.predict_proba(images))


def test_public_features_come_with_it_and_go_with_its_predictions(tmp_path):
    public = np.random.default_rng(2).random((30, 8, 8)).astype(np.float32)
    seen = Reference.of([np.asarray(scattering(jnp.asarray(public)))], channels=True)
    task = {"model": "softmax", "projection": 3, "reference": ["scenes"], "features": "scattering"}
    model = model_of(task, (8, 8), 3, seen)
    loaded = load_model(save_folder(model.kept, tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict_proba(public[:6]), model.predict_proba(public[:6]))
    with pytest.raises(InvalidInput, match='features = "scattering" cannot be exported to ONNX'):
        export_onnx(model, tmp_path / "model.onnx")


def test_one_that_is_there_is_replaced_whole_and_nothing_else_is_left(logistic, folder):
    (folder / "of another").write_text("")
    save_folder(logistic.kept._replace(theta=2 * logistic.kept.theta), folder)
    assert not (folder / "of another").exists()
    np.testing.assert_array_equal(load_folder(folder).theta, 2 * logistic.kept.theta)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_what_holds_something_else_is_left_as_it_is(logistic, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    for place in (tmp_path / "ledger.sqlite", tmp_path / "model" / "thesis.txt"):
        place.write_text("of the user")
    for place in (tmp_path, ".", "ledger.sqlite", "model"):
        with pytest.raises(DataError, match="is there and holds no model; it is left as it is"):
            logistic.save(place)
    assert (tmp_path / "ledger.sqlite").read_text() == "of the user"
    assert [path.name for path in (tmp_path / "model").iterdir()] == ["thesis.txt"]


def test_drafts_of_a_process_that_was_killed_are_gone_a_day_later(logistic, folder):
    names = (".model.0123abcd", ".model.0123abcd.old", ".model.0123abcf", ".model.notes")
    for name in names:
        (folder.parent / name).mkdir()
        os.utime(folder.parent / name, None if name == ".model.0123abcf" else (0, 0))
    save_folder(logistic.kept, folder)
    assert {path.name for path in folder.parent.iterdir()} == {"model", *names[2:]}


def test_a_folder_that_cannot_be_written_leaves_the_model_that_is_there(logistic, folder, monkeypatch):
    def full(*_):
        raise OSError("No space left on device")

    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    monkeypatch.setattr("noiseworthy.model.folder.card_of", full)
    with pytest.raises(
        DataError, match=r"cannot be written to .*No space left.*free disk space, or choose another place"
    ):
        save_folder(logistic.kept, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


@pytest.mark.parametrize("error", [OSError("Device or resource busy"), KeyboardInterrupt()])
def test_one_that_cannot_be_put_in_its_place_leaves_the_model_that_is_there(
    logistic, folder, monkeypatch, error
):
    def once(source, target):
        if target == folder and source.suffix != ".old":
            raise error
        renamed(source, target)

    renamed = os.rename
    monkeypatch.setattr("noiseworthy.model.folder.os.rename", once)
    with pytest.raises((DataError, KeyboardInterrupt)):
        save_folder(logistic.kept._replace(theta=2 * logistic.kept.theta), folder)
    np.testing.assert_array_equal(load_folder(folder).theta, logistic.kept.theta)
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_nothing_is_unpickled(logistic, folder, monkeypatch):
    def never(*_, **__):
        pytest.fail("a model was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(f"pickle.{name}", never)
    assert load_folder(folder).theta.shape == (4,)


DAMAGED = {
    "no folder": (lambda f: shutil.rmtree(f), "holds no model; give the folder of a run that was trained"),
    "an old run": (
        lambda f: [shutil.rmtree(f), (f.parent / "model.npz").write_bytes(b"")],
        "written by an earlier version, whose model.npz names no columns.*train the study again",
    ),
    "cut file": (lambda f: (f / FILE).write_text((f / FILE).read_text()[:99]), "cannot be read"),
    "no description": (lambda f: (f / FILE).write_text("[]"), "describes no model"),
    "other classes": (
        lambda f: (f / FILE).write_text((f / FILE).read_text().replace('"class 1"', '"healthy"')),
        "was changed after it was written; take the whole folder",
    ),
    "other sizes": (
        lambda f: (f / FILE).write_text((f / FILE).read_text().replace('"theta": [', '"theta": [1,')),
        "was changed after it was written",
    ),
    "a number that is none": (
        lambda f: (f / FILE).write_text((f / FILE).read_text().replace('"theta": [', '"theta": [NaN,')),
        "was changed after it was written",
    ),
    "half a character": (
        lambda f: (f / FILE).write_text((f / FILE).read_text().replace('"theta": [', '"\\ud800": [')),
        "was changed after it was written",
    ),
    "numbers of a strange type": (lambda f: typed(f, "BF16"), "holds no arrays"),
    "another format": (lambda f: rewritten(f, format=3), "is of format 3, this program reads 1 and 2; use"),
    "a strange key": (lambda f: rewritten(f, colour="red"), "describes no model: colour: Extra inputs"),
    "no arrays": (lambda f: (f / ARRAYS).unlink(), "parameters.safetensors cannot be read"),
    "a flipped bit": (
        lambda f: (f / ARRAYS).write_bytes((f / ARRAYS).read_bytes()[:-1] + b"\x7f"),
        "parameters.safetensors is damaged or of another model",
    ),
    "no theta": (lambda f: packed(f, {"mean": np.zeros(3, np.float32)}), "lacks the array theta"),
    "other theta": (
        lambda f: packed(f, {"theta": np.ones(4, np.float32)}),
        "does not answer as it did when it was written",
    ),
    "a short probe": (lambda f: rewritten(f, probe=[1.0, 2.0]), "does not answer as it did"),
    "short theta": (lambda f: packed(f, {"theta": np.ones(3, np.float32)}), "holds 3 parameters .* has 4"),
    "no numbers": (lambda f: rewritten(f, probe=None), "diverged.*smaller step size"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_what_is_not_as_it_was_written_is_refused_in_a_sentence(folder, case):
    damage, says = DAMAGED[case]
    damage(folder)
    with pytest.raises(DataError, match=says) as refused:
        load_model(folder.parent)
    assert "\n" not in str(refused.value)


def test_a_program_that_computes_otherwise_is_noticed(folder, monkeypatch):
    """Say, a release of jax that draws other projections."""
    from noiseworthy.tasks import LinearModel

    answers = LinearModel.answers
    monkeypatch.setattr(LinearModel, "answers", lambda self, theta, x: 1.1 * answers(self, theta, x))
    module.answering.cache_clear()  # as in another process
    with pytest.raises(DataError, match=r"load it with noiseworthy 0\.1\.0 and the jax of that time"):
        load_model(folder)
    module.answering.cache_clear()


def test_a_run_whose_latest_training_was_cut_off_has_no_model_of_its_own(logistic, folder):
    """The model of the plan before lay beside the new plan, and predicted as if it were of that one."""
    (folder.parent / "record.json").write_text(json.dumps({"training": None, "plan_digest": "of another"}))
    with pytest.raises(DataError, match=r"model of an earlier plan, .*; train it, or give"):
        load_model(folder.parent)
    assert load_model(folder).description == logistic.description
    (folder.parent / "record.json").write_text(json.dumps({"training": {}, "plan_digest": "of another"}))
    assert load_model(folder.parent).description == logistic.description


def test_a_network_of_ones_own_is_given_to_what_loads_it(tmp_path):
    import jax.numpy as jnp

    from noiseworthy.model.model import Model, probed
    from noiseworthy.tasks import model_task

    task = model_task(lambda w, x: x @ w["w"], {"w": jnp.ones((3, 2)).at[0, 0].set(2.0)})
    theta = np.asarray(task.initial(None))
    kept = model_of({"model": "softmax"}, (3,), 2).kept
    said = kept.description.model_copy(
        update={
            "task": kept.description.task.model_copy(update={"model": None}),
            "probe": probed(task, theta, [3]),
        }
    )
    folder = save_folder(kept._replace(description=said, theta=theta), tmp_path / "model")
    with pytest.raises(DataError, match=r"a network of your own.*nw\.load_model\(path, task="):
        load_model(folder)
    model = load_model(folder, task)
    assert isinstance(model, Model)
    assert model.predict(X).shape == (5,)
    assert 'nw.load_model("this/folder", task=task)' in model.card
    assert "noiseworthy predict" not in model.card


def test_a_network_of_ones_own_may_be_given_bare(tmp_path):
    import equinox as eqx
    import jax

    from noiseworthy.model.model import probed
    from noiseworthy.tasks.adapters import as_task

    network = eqx.nn.Linear(3, 2, key=jax.random.key(0))
    task = as_task("nets:make", network, (3,), 2, 0.0)
    theta, kept = np.asarray(task.initial(None)), model_of({"model": "softmax"}, (3,), 2).kept
    table = kept.description.task.model_copy(update={"model": "nets:make"})
    said = kept.description.model_copy(update={"task": table, "probe": probed(task, theta, [3])})
    folder = save_folder(kept._replace(description=said, theta=theta), tmp_path / "model")
    assert load_model(folder, network).predict(X).tolist() == load_model(folder, task).predict(X).tolist()
    with pytest.raises(InvalidInput, match=r"nets:make.*must return an equinox module.*got builtins\.dict"):
        load_model(folder, task={"weights": 1})


def test_models_of_one_task_share_their_program(logistic):
    module.answering.cache_clear()
    run, theta = module.answering(logistic.task), np.asarray(logistic.kept.theta)
    assert module.answering(replace(logistic.task)) is run
    assert not np.allclose(run(theta, X), run(2 * theta, X))
    assert run._cache_size() == 1


def test_the_arrays_are_plain_safetensors(logistic, folder):
    arrays = load((folder / ARRAYS).read_bytes())
    np.testing.assert_array_equal(arrays["theta"], logistic.kept.theta)
