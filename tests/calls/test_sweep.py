"""A sweep trains every choice once, goes on after a kill, and says what it found in a table and a figure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import noiseworthy as nw
from noiseworthy.calls import sweep as sweeps
from noiseworthy.errors import ConfigError, InvalidInput, ResumeError
from noiseworthy.studies.checkpoints import FILE as CHECKPOINT
from noiseworthy.studies.occupied import held
from noiseworthy.sweeps.variants import over_of, variants

OVER = {"privacy.epsilon": [2, 8], "algorithm.rounds": [4, 6]}


@pytest.fixture
def trained(monkeypatch):
    """Folders that were trained in, with whether they went on."""
    seen, run = [], sweeps.run

    def watched(study, place, **options):
        seen.append((place.name, options["resume"]))
        return run(study, place, **options)

    monkeypatch.setattr(sweeps, "run", watched)
    return seen


def killed(study, at, **options):
    """A sweep that ends when so much of it is done."""

    def stop(done, what):
        if done >= at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nw.sweep(study, OVER, **options, on_progress=stop)


def test_a_study_whose_name_is_no_utf_8_is_swept(study):
    made = nw.sweep(study.rename("st\udcfcdy.toml"), {"privacy.epsilon": [2]}, set={"algorithm.rounds": 4})
    assert made.table["study"].tolist() == [r"st\udcfcdy"]
    assert pd.read_csv(made.csv)["folder"].tolist() == [r"runs/st\udcfcdy-sweep/epsilon=2"]


@pytest.mark.full
@pytest.mark.usefixtures("drawn")
def test_every_choice_is_one_row_and_what_its_own_run_would_be(study, trained):
    made = nw.sweep(study, OVER, "swept", seeds=[5, 6], set={"task.feature_norm": 0.5})
    assert [name for name, _ in trained] == [
        "epsilon=2,rounds=4", "epsilon=2,rounds=6", "epsilon=8,rounds=4", "epsilon=8,rounds=6",
    ]  # fmt: skip
    assert made.keys == ("privacy.epsilon", "algorithm.rounds")
    assert made.table[["privacy.epsilon", "algorithm.rounds"]].values.tolist() == [
        [2, 4],
        [2, 6],
        [8, 4],
        [8, 6],
    ]
    assert made.table["rounds"].tolist() == [4, 6, 4, 6]
    changes = {"task.feature_norm": 0.5, "privacy.epsilon": 8, "algorithm.rounds": 4}
    alone = nw.run(study, "alone", seeds=[5, 6], set=changes)
    third = made.table.loc[2]
    assert third.accuracy == alone.accuracy
    assert nw.load_run(third.folder).record.study["task"]["feature_norm"] == 0.5
    kept, table = (frame.drop(columns="refused") for frame in (pd.read_csv(made.csv), made.table))
    pd.testing.assert_frame_equal(kept, table)
    assert made.figure.read_bytes().startswith(b"\x89PNG")
    assert sorted(nw.runs("swept").folder) == sorted(made.table.folder)


@pytest.mark.full
def test_after_a_kill_what_is_done_is_kept_and_what_was_begun_goes_on(study, trained, tmp_path):
    whole = nw.sweep(study, OVER, "whole").table
    del trained[:]
    killed(study, 0.4, out="swept")  # in the middle of the second variant
    assert [name for name, _ in trained] == ["epsilon=2,rounds=4", "epsilon=2,rounds=6"]
    assert (tmp_path / "swept" / "epsilon=2,rounds=6" / CHECKPOINT).exists()
    first = (tmp_path / "swept" / "epsilon=2,rounds=4" / "record.json").stat().st_mtime_ns
    del trained[:]
    made = nw.sweep(study, OVER, "swept")
    assert trained == [
        ("epsilon=2,rounds=6", True),
        ("epsilon=8,rounds=4", False),
        ("epsilon=8,rounds=6", False),
    ]
    assert (tmp_path / "swept" / "epsilon=2,rounds=4" / "record.json").stat().st_mtime_ns == first
    pd.testing.assert_frame_equal(made.table.drop(columns="folder"), whole.drop(columns="folder"))
    del trained[:]
    nw.sweep(study, OVER, "swept")
    assert trained == []


@pytest.mark.full
def test_a_variant_that_was_killed_before_its_first_checkpoint_begins_anew(study, trained, tmp_path):
    killed(study, 1e-9, out="swept")
    begun = tmp_path / "swept" / "epsilon=2,rounds=4"
    assert (begun / "variant.json").exists()
    (begun / CHECKPOINT).unlink(missing_ok=True)
    del trained[:]
    nw.sweep(study, OVER, "swept")
    assert trained[0] == ("epsilon=2,rounds=4", False)


def test_a_kill_as_a_variant_begins_stops_no_later_sweep(study, monkeypatch):
    """Its folder without what it says of the variant was taken for a run of another study."""

    def killed(content, folder, name):
        folder.mkdir(parents=True)
        raise KeyboardInterrupt

    def begun(*given, **options):
        raise ConfigError("a variant begins")

    with monkeypatch.context() as patched:
        patched.setattr(sweeps, "written", killed)
        with pytest.raises(KeyboardInterrupt):
            nw.sweep(study, {"privacy.epsilon": [8]}, "swept")
    monkeypatch.setattr(sweeps, "run", begun)
    for _ in range(2):
        with pytest.raises(ConfigError, match="a variant begins"):
            nw.sweep(study, {"privacy.epsilon": [8]}, "swept")


def test_values_are_added_to_a_sweep_and_another_study_is_refused(study, trained):
    nw.sweep(study, {"privacy.epsilon": [8]}, "swept")
    made = nw.sweep(study, {"privacy.epsilon": [2, 8]}, "swept")
    assert [name for name, _ in trained] == ["epsilon=8", "epsilon=2"]
    assert made.table["privacy.epsilon"].tolist() == [2, 8]
    for other in ({"seeds": 3}, {"set": {"task.feature_norm": 0.5}}):
        with pytest.raises(ResumeError, match="holds a run of another study or of other seeds"):
            nw.sweep(study, {"privacy.epsilon": [2]}, "swept", **other)


def test_a_sweep_is_alone_in_its_folder(study, trained, tmp_path):
    """A second one removed the variant that the first was training, with its ledger."""
    with held(tmp_path / "swept"), pytest.raises(ResumeError, match="another command is at work in swept"):
        nw.sweep(study, {"privacy.epsilon": [8]}, "swept")
    assert trained == []


def test_variants_of_records_that_were_changed_stand_in_no_table_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    arrays = {"x": rng.random((80, 3)), "label": np.tile([0, 1], 40), "client": np.repeat(["a", "b"], 40)}
    np.savez("wards.npz", **arrays)
    Path("wards.toml").write_text(
        '[federation]\ndata = "wards.npz"\nclasses = [0, 1]\n'
        '[privacy]\nmechanism = "gaussian"\nepsilon = 2.0\ndelta = 1e-5\nclip_norm = 1.0\n'
        "[algorithm]\nrounds = 3\nclients_per_round = 2\nstep_size = 1.0\n[task]\nnormalise = true\n"
    )
    table = nw.sweep("wards.toml", {"privacy.epsilon": [1]}, "swept").table
    assert len(nw.sweep("wards.toml", {"privacy.epsilon": [1]}, "swept").table) == len(table) == 1
    np.savez("wards.npz", **{name: array[:-10] for name, array in arrays.items()})
    with pytest.raises(ResumeError, match="was trained on other records"):
        nw.sweep("wards.toml", {"privacy.epsilon": [1, 4]}, "swept")


def test_a_table_of_other_keys_is_not_replaced(study, trained, tmp_path):
    (tmp_path / "swept").mkdir()
    kept = "algorithm.rounds,privacy.epsilon,study,algorithm\n4,2,study,fedsgd-dpc\n"
    (tmp_path / "swept" / "sweep.csv").write_text(kept)
    with pytest.raises(ResumeError, match=r"over algorithm\.rounds, privacy\.epsilon, not over privacy\.ep"):
        nw.sweep(study, {"privacy.epsilon": [2]}, "swept")
    assert trained == []
    assert (tmp_path / "swept" / "sweep.csv").read_text() == kept
    (tmp_path / "swept" / "sweep.csv").write_text("")
    assert nw.sweep(study, {"privacy.epsilon": [2]}, "swept").csv.read_text().startswith("privacy.epsilon,")


def test_a_variant_that_cannot_be_planned_is_a_row_with_the_reason(study):
    made = nw.sweep(study, {"algorithm.clients_per_round": [2, 9]}, "swept")
    assert made.table.refused[0] == ""
    assert "clients_per_round must be between 1 and 4" in made.table.refused[1]
    assert pd.isna(made.table.accuracy[1])
    with pytest.raises(InvalidInput, match="clients_per_round"):
        nw.sweep(study, {"algorithm.clients_per_round": [8, 9]}, "none")


@pytest.mark.parametrize(
    ("over", "options", "said"),
    [
        ({}, {}, "a sweep needs a key and its values"),
        ({"privacy.epsilon": []}, {}, "needs a list of values"),
        ({"algorithm.name": "dp-fedavg"}, {}, "needs a list of values"),
        ({"privacy.epsilon": 2}, {}, "needs a list of values to vary.*got 2"),
        ({"privacy.epsilom": [1]}, {}, r"did you mean privacy\.epsilon"),
        ({"privacy.epsilon": [1, "two"]}, {}, "got 'two'"),
        ({"privacy.epsilon": [1]}, {"set": {"privacy.epsilon": 2}}, "is varied, and set"),
        ({"training.seeds": [[1]]}, {"seeds": 2}, "is varied, and set"),
        ({"training.evaluations": range(1, 1002)}, {}, "may have 1000 variants"),
    ],
)
def test_a_mistake_is_told_before_anything_is_trained(study, trained, tmp_path, over, options, said):
    with pytest.raises(ConfigError, match=said):
        nw.sweep(study, over, **options)
    assert trained == []
    assert not (tmp_path / "runs").exists()


def test_values_are_toml_or_bare_words():
    stated = ["a.b=1,2", "a.c=x, y", "a.d=[0, 1], [2]", "a.e='p,q'"]
    assert over_of(stated) == {"a.b": [1, 2], "a.c": ["x", "y"], "a.d": [[0, 1], [2]], "a.e": ["p,q"]}
    with pytest.raises(ConfigError, match="twice"):
        over_of(["a.b=1", "a.b=2"])


def test_folders_tell_variants_apart():
    names = [one.name for one in variants({"a.x": ["p/q", "p?q", 1], "b.x": [1, 1, "1" * 90]})]
    assert len(set(names)) == len(names) == 6
    assert names[-2] == "a.x=1,b.x=1"
    assert not any(set("/?") & set(name) for name in names)
    assert max(map(len, names)) <= 87


def test_a_value_that_is_typed_twice_is_trained_once():
    """However it is written; a text is no number."""
    found = variants({"a.x": [1, 1.0, 10, "1", "1.0", True], "b.x": [0.5, 0.50]})
    assert [one.changes["a.x"] for one in found] == [1, 10, "1", "1.0", True]


@pytest.mark.full
def test_the_command_is_the_call(study, capsys, monkeypatch):
    from noiseworthy.cli import main

    words = ["--over", "privacy.epsilon=2,8", "--seeds", "1", "--out", "swept", "--progress", "json"]
    monkeypatch.setattr("sys.argv", ["noiseworthy", "sweep", str(study), *words, "--json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capsys.readouterr()
    rows = json.loads(said.out)
    made = nw.sweep(study, {"privacy.epsilon": [2, 8]}, "swept", seeds=1)
    assert [row["accuracy"] for row in rows] == made.table.accuracy.tolist()
    lines = [json.loads(line) for line in said.err.splitlines()]
    assert lines[0]["stage"] == "Sweeping"
    assert lines[-1]["done"] == lines[-1]["total"] == 2
