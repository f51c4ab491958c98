"""From a run's folder to predictions and a graph: the command, the object and ONNX say the same."""

from __future__ import annotations

import json

import numpy as np
import onnxruntime
import pandas as pd
import pyarrow as pa
import pytest

import noiseworthy as nw

STUDY = {
    "task": {"model": "logistic", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"rounds": 20, "clients_per_round": 3, "step_size": 5.0},
    "training": {"seeds": [3, 1], "evaluations": 2},
}
PLAIN = {"kind": "number", "range": [-5, 5]}


@pytest.fixture
def trained(run, write, site_records, tmp_path):
    """A run on three sites, whose folder is `here`, and new records of nobody."""
    table = {"data": str(site_records()), "classes": ["no", "yes"]}
    assert run("train", write({"federation": table, **STUDY}), "--out", "here").code == 0
    new = pd.DataFrame(np.random.default_rng(1).normal(size=(12, 3)), columns=["c", "a", "b"])
    new.insert(0, "client", [f"00{i}" for i in range(12)])
    new.to_csv(tmp_path / "new.csv", index=False)
    return new


def test_command_object_and_graph_agree(run, trained, tmp_path):
    assert run("predict", "here", "new.csv", "-o", "out.csv").code == 0
    assert run("export", "here", "--onnx", "model.onnx").code == 0
    told = pd.read_csv(tmp_path / "out.csv", dtype={"client": str})
    model = nw.load_model(tmp_path / "here")
    shares = model.predict_proba(trained)
    found = told[["probability no", "probability yes"]].to_numpy()
    np.testing.assert_allclose(found, shares, atol=1e-5)
    assert told["prediction"].tolist() == model.predict(trained).tolist()
    assert set(told["prediction"]) == {"no", "yes"}
    (graph,) = onnxruntime.InferenceSession(tmp_path / "model.onnx").run(
        None, {"records": model.encoded(trained)}
    )
    np.testing.assert_allclose(graph, shares, atol=1e-5)
    assert (trained["a"] > 0).eq(told["prediction"] == "yes").mean() > 0.7, "it learned nothing"


@pytest.mark.parametrize(
    ("cell", "said"),
    [("9.392", "'a' has 1 number whose points may part thousands, such as '9.392' in record 2"),
     ("1e400", "'a' has 1 value other than numbers, such as '1e400'")],
)  # fmt: skip
def test_numbers_that_are_none_are_not_predicted_from(cell, said, run, trained, tmp_path):
    (tmp_path / "new.csv").write_text(f"a;b;c\n0,5;1;1\n{cell};1;1\n")
    answer = run("predict", "here", "new.csv", "-o", "out.csv")
    assert answer.code == 2
    assert said in answer.err
    assert not (tmp_path / "out.csv").exists()


def test_columns_of_the_table_stay_as_they_were_written(run, trained, tmp_path):
    run("predict", "here", "new.csv", "-o", "out.csv")
    before, after = ((tmp_path / name).read_text().splitlines() for name in ("new.csv", "out.csv"))
    assert [line.startswith(old) for old, line in zip(before, after, strict=True)] == [True] * 13


def test_truth_values_of_a_table_of_numbers_are_checked_trained_on_and_predicted(run, write, tmp_path):
    """pandas reads a column of True and False as truth values, `check` and `predict` its cells as text."""
    rows = [f"{i % 2},{i % 2 == 0},{i % 7}.5\n" for i in range(60)]
    (tmp_path / "t.csv").write_text("label,smoker,dose\n" + "".join(rows))
    federation = {"data": str(tmp_path / "t.csv"), "clients": 3, "classes": [0, 1]}
    study = write({"federation": federation, **STUDY})
    assert run("check", study).code == run("train", study, "--out", "here").code == 0
    assert run("predict", "here", "t.csv", "-o", "out.csv").code == 0
    told = pd.read_csv(tmp_path / "out.csv")
    assert (
        told["prediction"].tolist()
        == nw.load_model("here").predict(told[["smoker", "dose"]]).astype(int).tolist()
    )


def test_spaces_behind_commas_belong_to_no_cell_in_training_and_prediction(run, write, tmp_path):
    """In quotes behind a space a category was another, one of no value, and numbers were none."""
    words = {"kind": "category", "values": ["u, v", "w"], "other": True}
    stated = {"label": {"role": "label", "classes": ["no", "yes"]}, "a": PLAIN, "b": words}
    rows = [f'{["no", "yes"][i % 2]}, "{i % 7}.5", "{["u, v", "w", "z"][i % 3]}"\n' for i in range(60)]
    (tmp_path / "t.csv").write_text("label, a, b\n" + "".join(rows))
    (tmp_path / "new.csv").write_text("label,a,b\n" + "".join(rows).replace(', "', ',"'))
    federation = {"data": str(tmp_path / "t.csv"), "clients": 3}
    assert (
        run("train", write({"federation": federation, "columns": stated, **STUDY}), "--out", "here").code == 0
    )
    for name in ("t", "new"):
        assert run("predict", "here", f"{name}.csv", "-o", f"{name}.out.csv").code == 0
    assert (tmp_path / "t.out.csv").read_text() == (tmp_path / "new.out.csv").read_text()


def test_a_table_of_arrow_is_predicted_as_a_frame(trained, tmp_path):
    model = nw.load_model(tmp_path / "here")
    np.testing.assert_array_equal(model.encoded(pa.Table.from_pandas(trained)), model.encoded(trained))


def test_a_parquet_table_gives_one(run, trained, tmp_path):
    trained.to_parquet(tmp_path / "new.parquet")
    assert run("predict", "here", "new.parquet", "-o", "out.parquet").code == 0
    told = pd.read_parquet(tmp_path / "out.parquet")
    expected = nw.load_model(tmp_path / "here").predict_proba(trained)[:, 1]
    np.testing.assert_allclose(told["probability yes"], expected, atol=1e-6)


@pytest.mark.parametrize("suffix", [".feather", ".xlsx"])
def test_tables_of_other_formats_are_predicted(suffix, run, trained, tmp_path):
    path = tmp_path / f"new{suffix}"
    if suffix == ".xlsx":
        trained.to_excel(path, index=False)
    else:
        trained.to_feather(path)
    assert run("predict", "here", path.name, "-o", "out.csv").code == 0
    told = pd.read_csv(tmp_path / "out.csv")
    expected = nw.load_model(tmp_path / "here").predict_proba(trained)[:, 1]
    np.testing.assert_allclose(told["probability yes"], expected, atol=1e-6)


def test_a_column_of_several_types_is_told_to_be_written_as_text(run, trained, tmp_path):
    mixed = trained.astype(object)
    mixed.loc[3, "client"] = 7
    mixed.to_excel(tmp_path / "new.xlsx", index=False)
    answer = run("predict", "here", "new.xlsx", "-o", "out.parquet")
    assert (answer.code, "has numbers and words in one column; name a .csv with -o" in answer.err) == (
        2,
        True,
    )
    assert not (tmp_path / "out.parquet").exists()
    assert run("predict", "here", "new.xlsx", "-o", "out.csv").code == 0


def test_values_beyond_a_range_are_told(run, write, site_records, tmp_path):
    """A column in another unit would else be predicted from without a word."""
    numbers = dict.fromkeys("abc", PLAIN)
    stated = {"client": {"role": "client"}, "label": {"role": "label", "classes": ["no", "yes"]}, **numbers}
    study = {"federation": {"data": str(site_records())}, "columns": stated, **STUDY}
    assert run("train", write(study), "--out", "here").code == 0
    (tmp_path / "new.csv").write_text("a,b,c\n1,5.1,2\n1,2,3\n")
    (tmp_path / "one.csv").write_text("a,b,c\n1,2,-5\n")
    said = run("predict", "here", "new.csv", "-o", "out.csv").out
    assert said.endswith("Outside of its range, and read as its end: 'b' in 1 record of 2.\n")
    assert run("predict", "here", "one.csv", "-o", "o.csv").out == "Wrote o.csv: 1 record predicted.\n"


def test_the_model_is_that_of_the_first_seed_and_says_so(trained, tmp_path):
    model = nw.load_model(tmp_path / "here")
    assert (model.description.seed, model.description.seeds) == (3, [3, 1])
    assert "it is that of seed 3" in model.card
    assert "**Not for release.**" in (tmp_path / "here" / "model" / "README.md").read_text()


def test_scores_of_the_model_are_in_its_record(trained, tmp_path):
    training = json.loads((tmp_path / "here" / "record.json").read_text())["training"]
    model = nw.load_model(tmp_path / "here")
    assert training["metrics"] == model.description.metrics.model_dump()
    assert training["metrics"]["log_loss"] == pytest.approx(training["loss"][0][-1], rel=1e-4)
    assert training["metrics"]["accuracy"] == pytest.approx(training["accuracy"][0][-1])
    assert training["metrics"]["prior_accuracy"] == training["prior"]
    assert training["metrics"]["auc"] > 0.7


def test_a_kill_while_predictions_are_written_leaves_those_of_before(run, trained, monkeypatch, tmp_path):
    assert run("predict", "here", "new.csv", "-o", "out.csv").code == 0
    before, names = (tmp_path / "out.csv").read_bytes(), {path.name for path in tmp_path.iterdir()}
    whole = pd.DataFrame.to_csv

    def killed(table, place, **options):
        whole(table.head(3), place, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(pd.DataFrame, "to_csv", killed)
    for name in ("out.csv", "other.csv"):
        assert run("predict", "here", "new.csv", "-o", name).code == 130
    assert (tmp_path / "out.csv").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == names


WRONG = {
    "no such run": (("predict", "none", "new.csv", "-o", "out.csv"), "none holds no model"),
    "no such file": (("predict", "here", "gone.csv", "-o", "out.csv"), "no file gone.csv"),
    "its own input": (
        ("predict", "here", "new.csv", "-o", "new.csv"),
        "-o new.csv is the file of the records",
    ),
    "another kind": (("predict", "here", "new.csv", "-o", "out.txt"), "-o must end in one of .csv"),
    "records of another kind": (
        ("predict", "here", "new.doc", "-o", "out.csv"),
        "new.doc must end in one of",
    ),
    "no place": (
        ("predict", "here", "new.csv", "-o", "no/out.csv"),
        "no/out.csv cannot be written ([Errno 2] there is no such folder: '",
    ),
    "a place for no graph": (("export", "here", "--onnx", "no/m.onnx"), "no/m.onnx cannot be written"),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_end_in_a_sentence(run, trained, case):
    arguments, says = WRONG[case]
    answer = run(*arguments)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert says in answer.err
    assert "/." not in answer.err, "a temporary folder"


def test_a_column_that_is_missing_or_taken_is_named(run, trained, tmp_path):
    trained.drop(columns="b").to_csv(tmp_path / "few.csv", index=False)
    trained.assign(prediction=1).to_csv(tmp_path / "many.csv", index=False)
    assert "few.csv: it has no column 'b'" in run("predict", "here", "few.csv", "-o", "out.csv").err
    said = run("predict", "here", "many.csv", "-o", "out.csv").err
    assert "many.csv: the model knows no column 'prediction'" in said


BROKEN = {
    "2,,m": "'dose' has 1 missing value; the model takes none",
    "2,much,m": "'dose' has 1 value other than numbers, such as 'much'; the model takes no others",
    "2,3,x": "'sex' has 1 value other than one of 'f', 'm', such as 'x'; the model takes no others",
}


@pytest.mark.parametrize("row", BROKEN)
def test_what_a_trained_model_does_not_take_is_named_by_file_and_record(
    run, write, site_records, tmp_path, row
):
    """Its columns are fixed: to state them otherwise helps nobody who predicts."""
    number = {"kind": "number", "range": [-5, 5]}
    stated = {"client": {"role": "client"}, "label": {"role": "label", "classes": ["no", "yes"]}}
    stated |= {"a": number, "dose": number, "sex": {"kind": "category", "values": ["f", "m"]}}
    left = {name: {"kind": "left-out"} for name in "bc"}
    data = str(site_records(dose=np.linspace(-1, 1, 90), sex=["f", "m"] * 45))
    study = {"federation": {"data": data}, "columns": {**stated, **left}, **STUDY}
    assert run("train", write(study), "--out", "here").code == 0
    (tmp_path / "new.csv").write_text(f"a,dose,sex\n1,2,f\n1,2,m\n{row}\n")
    answer = run("predict", "here", "new.csv", "-o", "out.csv")
    mend = "mend or leave out such records, from record 3 on"
    assert (answer.code, answer.err) == (2, f"error: new.csv: column {BROKEN[row]}: {mend}\n")


def test_arrays_that_do_not_fit_are_named_by_their_file(run, write, tmp_path):
    digits = {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30}
    stated = {**STUDY, "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True}}
    assert run("train", write({"federation": digits, **stated}), "--out", "here").code == 0
    holed = np.zeros((3, 8, 8), np.float32)
    holed[1, 0, 0] = np.nan
    np.save(tmp_path / "holed.npy", holed)
    np.save(tmp_path / "small.npy", holed[:, :4])
    said = run("predict", "here", "holed.npy", "-o", "out.csv").err
    assert "holed.npy: 1 record with NaN or infinite numbers" in said
    assert "beginning with record 2" in said
    assert (
        "small.npy must be numbers of shape (n, 8, 8)"
        in run("predict", "here", "small.npy", "-o", "o.csv").err
    )


def test_what_holds_no_records_is_named(run, trained, tmp_path):
    (tmp_path / "none.csv").write_text("client,c,a,b\n")
    assert "none.csv holds no records" in run("predict", "here", "none.csv", "-o", "out.csv").err
    np.savez(tmp_path / "zip.npz", x=np.zeros((2, 3)))
    (tmp_path / "zip.npz").rename(tmp_path / "zip.npy")
    answer = run("predict", "here", "zip.npy", "-o", "out.csv")
    assert (answer.code, "zip.npy is no .npy file of plain numbers" in answer.err) == (2, True)


def test_images_are_predicted_from_arrays(run, write, tmp_path):
    digits = {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30}
    task = {"model": "softmax", "feature_norm": 1.0, "normalise": True}
    assert run("train", write({"federation": digits, **STUDY, "task": task}), "--out", "here").code == 0
    x = np.random.default_rng(0).random((5, 8, 8)).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "x.npz", x=x)
    for name in ("x.npy", "x.npz"):
        assert run("predict", "here", name, "-o", "out.csv").code == 0
        told = pd.read_csv(tmp_path / "out.csv", dtype={"prediction": str})
        assert told["prediction"].tolist() == nw.load_model(tmp_path / "here").predict(x).tolist()
        assert len(told.columns) == 11
