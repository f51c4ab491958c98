"""A model predicts by names: columns in any order, classes by their names, refusals by name."""

from __future__ import annotations

from datetime import date, timedelta

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from noiseworthy.data.schema import Schema
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.home.scores import merits
from noiseworthy.model.card import card_of
from noiseworthy.model.coefficients import in_units
from noiseworthy.model.folder import Kept
from noiseworthy.model.model import Model, probed
from noiseworthy.tasks import Reference, model_task
from noiseworthy.tasks.models.lstm import lstm

from .conftest import described, model_of

COLUMNS = {
    "hospital": {"role": "client"},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [20, 80]},
    "sex": {"kind": "category", "values": ["female", "male"]},
    "dose": {"kind": "number", "center": 5.0, "step": 2.0, "missing": True},
    "weight": {"kind": "number", "range": [10, 1000], "transform": "log"},
    "notes": {"kind": "left-out"},
}
SCHEMA = Schema.model_validate(COLUMNS)
FRAME = pd.DataFrame(
    {
        "age": [30, 50, 79, 20],
        "sex": ["male", "female", "female", "male"],
        "dose": [5.0, np.nan, 9.0, 1.0],
        "weight": [100, 10, 1000, 50],
    }
)
SCALED = {"model": "logistic", "feature_norm": 1.0, "normalise": True, "bias": 0.3}


def of_table(task=SCALED, classes=2, schema=SCHEMA):
    names = None if classes is None else ["no", "yes"]
    return model_of(task, (schema.width,), classes, schema=schema, classes=names)


def test_a_frame_is_encoded_by_the_schema():
    model = of_table()
    shares = model.predict_proba(FRAME)
    np.testing.assert_array_equal(shares, model.probabilities(model.answers(SCHEMA.encode(FRAME))))
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert model.predict(FRAME).tolist() == [("no", "yes")[k] for k in shares.argmax(axis=1)]
    assert len(set(model.predict(FRAME).tolist())) == 2, "a model that names one class tests nothing"


def test_the_order_of_columns_says_nothing_and_neither_do_those_that_are_no_features():
    model, other = of_table(), FRAME[["weight", "dose", "sex", "age"]].assign(ill="no", notes="x", hospital=1)
    np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(FRAME))
    text = {name: FRAME[name].astype(str).to_numpy() for name in FRAME}
    np.testing.assert_array_equal(model.predict_proba(text), model.predict_proba(FRAME))


REFUSED = {
    "missing": (FRAME.drop(columns="age"), "no column 'age'"),
    "unknown": (FRAME.assign(agee=1), "knows no column 'agee'.*left-out"),
    "a strange value": (FRAME.assign(sex="other"), "sex.*other"),
    "a gap": (FRAME.assign(age=np.nan), "age"),
    "one record": (FRAME.iloc[0], r"'age' must hold one value per record, got shape \(\)"),
    "no names": (np.zeros((4, 6)), r"takes columns by name \(age, sex, dose, weight\); give a frame"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_by_name(case):
    records, says = REFUSED[case]
    with pytest.raises(DataError, match=says) as refused:
        of_table().predict(records)
    assert "\n" not in str(refused.value)


def test_no_records_have_no_predictions():
    assert of_table().predict(FRAME.head(0)).tolist() == []
    assert of_table().predict_proba(FRAME.head(0)).shape == (0, 2)


def test_coefficients_have_the_names_of_features_and_an_intercept():
    model = of_table()
    table = model.coefficients()
    assert table["feature"].tolist() == [*SCHEMA.feature_names, "(intercept)"]
    assert set(table["class"]) == {"yes"}
    encoded = SCHEMA.encode(FRAME)
    scaled = encoded / np.linalg.norm(encoded, axis=1, keepdims=True)
    z = scaled @ table["coefficient"].to_numpy()[:-1] + table["coefficient"].iloc[-1]
    np.testing.assert_allclose(model.answers(encoded)[:, 0], z, rtol=1e-4)
    assert table["per_unit"].isna().all(), "a record that is scaled as a whole is no linear map of columns"


def test_coefficients_of_records_that_are_seen_against_a_mean_have_names_too():
    seen = Reference(np.full(SCHEMA.width, 0.1, np.float32), np.zeros((0, SCHEMA.width), np.float32))
    task = {**SCALED, "reference": ["noised mean"]}
    table = model_of(task, (SCHEMA.width,), 2, seen, schema=SCHEMA, classes=["no", "yes"]).coefficients()
    assert table["feature"].tolist() == [*SCHEMA.feature_names, "(intercept)"]
    assert table["per_unit"].isna().all(), "what is seen against a mean is no multiple of the column"


def test_coefficients_per_unit_predict_from_raw_numbers():
    model = of_table({"model": "logistic", "bias": 0.3})
    table = model.coefficients().set_index("feature")
    per_unit, encoded = table["per_unit"], SCHEMA.encode(FRAME)
    raw = {"age": FRAME["age"], "dose": FRAME["dose"].fillna(5.0)}
    others = [name for name in SCHEMA.feature_names if name not in raw]
    z = per_unit["(intercept)"] + sum(per_unit[name] * raw[name].to_numpy() for name in raw)
    z = z + encoded[:, [SCHEMA.feature_names.index(name) for name in others]] @ table["coefficient"][others]
    np.testing.assert_allclose(model.answers(encoded)[:, 0], z, rtol=1e-4)
    assert np.isnan(per_unit["weight"]), "the logarithm is no multiple of the column"


def test_dates_orders_and_yes_or_no_are_told_per_unit_too():
    """Half of what yes is worth beside no, as -1 and 1 have it, would be read as all of it."""
    columns = {
        "ill": {"role": "label", "range": [0, 10]},
        "smokes": {"kind": "yes-no"},
        "stage": {"kind": "ordered", "values": ["I", "II", "III", "IV"]},
        "seen": {"kind": "date", "range": ["2020-01-01", "2020-12-31"]},
        "sex": {"kind": "category", "values": ["female", "male"]},
    }
    schema = Schema.model_validate(columns)
    model = of_table({"model": "linear", "bias": 0.3}, None, schema)
    days = [0, 1, 300]
    seen = [str(date(2020, 1, 1) + timedelta(days=day)) for day in days]
    frame = pd.DataFrame(
        {"smokes": ["no", "yes", "no"], "stage": ["I", "III", "IV"], "seen": seen, "sex": ["female"] * 3}
    )
    raw = np.column_stack([[0, 1, 0], [0, 2, 3], days])
    rows = model.coefficients().set_index("feature")
    per_unit = rows["per_unit"][["smokes", "stage", "seen"]]
    z = rows["per_unit"]["(intercept)"] + raw @ per_unit + rows["coefficient"]["sex = female"]
    np.testing.assert_allclose(model.predict(frame), z, rtol=1e-4)

    names, places, matrix = in_units(model.description, schema.width + 1)
    told = dict(zip(names, matrix @ np.asarray(model.kept.theta, float)[places], strict=True))
    assert list(told) == ["smokes", "stage", "seen", "sex = male", "(intercept)"]
    for name in (*per_unit.index, "(intercept)"):
        assert told[name] == pytest.approx(rows["per_unit"][name])


def test_softmax_has_a_coefficient_for_every_class():
    table = of_table({"model": "softmax", "feature_norm": 1.0}).coefficients()
    assert table.groupby("class").size().to_dict() == {"no": SCHEMA.width + 1, "yes": SCHEMA.width + 1}


def test_a_regression_gives_numbers_and_no_probabilities():
    schema = Schema.model_validate({**COLUMNS, "ill": {"role": "label", "range": [0, 10]}})
    model = of_table({"model": "linear", "feature_norm": 1.0}, None, schema)
    assert model.predict(FRAME).dtype == np.float32
    assert model.classes is None
    assert set(model.coefficients()["class"]) == {"ill"}
    with pytest.raises(InvalidInput, match="a regression gives no probabilities; use predict"):
        model.predict_proba(FRAME)


def test_an_svm_names_classes_and_gives_no_probabilities():
    model = of_table({"model": "svm", "feature_norm": 1.0})
    assert set(model.predict(FRAME)) <= {"no", "yes"}
    with pytest.raises(InvalidInput, match="the svm gives no probabilities; use predict"):
        model.predict_proba(FRAME)


def test_no_records_of_a_regression_have_no_numbers():
    model = model_of({"model": "linear"}, (3,), None)
    assert model.predict(np.zeros((0, 3), np.float32)).shape == (0,)


def test_a_network_of_ones_own_may_answer_with_a_bare_number():
    """It was trained, paid for, and then could be neither measured nor used."""
    x, theta = np.array([[1.0, 0.0], [-2.0, 0.0]], np.float32), np.array([1.0, 0.0], np.float32)
    for loss, told in (("logistic", ["class 1", "class 0"]), ("squared", [1.0, -2.0])):
        task = model_task(lambda w, x: x @ w["w"], {"w": jnp.zeros(2)}, loss)
        kept = described({"model": "own:make"}, (2,), 2 if loss == "logistic" else None)
        model = Model(Kept(kept, theta, None), task)
        assert model.predict(x).tolist() == told
        assert model.measured(x, np.array([1, 0])) is not None
    with pytest.raises(InvalidInput, match="a regression gives no probabilities"):
        model.predict_proba(x)


def test_a_network_has_no_coefficients():
    with pytest.raises(InvalidInput, match="cnn is no linear model"):
        model_of({"model": "cnn"}, (8, 8), 3).coefficients()


def test_images_on_white_paper_are_turned_where_those_of_the_training_were():
    """LEAF's are: as they come they were predicted as if their paper were ink."""
    ink = np.zeros((6, 28, 28), np.float32)
    ink[:, 4:24, 4:24] = np.random.default_rng(0).integers(0, 256, (6, 20, 20)) / np.float32(255)
    model = model_of({"model": "softmax"}, (28, 28), 3, turned=True)
    drawn = model.predict_proba(ink)
    np.testing.assert_allclose(model.predict_proba(1 - ink), drawn, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(np.uint8(np.round(255 * (1 - ink)))), drawn, atol=1e-5)
    as_it_comes = model_of({"model": "softmax"}, (28, 28), 3)
    assert "turned" not in as_it_comes.description.plain
    assert not np.allclose(as_it_comes.predict_proba(1 - ink), drawn, atol=0.1)


def test_bytes_of_images_are_what_their_readers_make_of_them():
    model = model_of({"model": "softmax"}, (4, 4), 3)
    pixels = np.random.default_rng(0).integers(0, 256, (6, 4, 4), np.uint8)
    np.testing.assert_array_equal(model.predict_proba(pixels), model.predict_proba(pixels / np.float32(255)))


SHAPES = {
    "one record": (np.zeros((4, 4)), r"numbers of shape \(n, 4, 4\), got float64 of shape \(4, 4\)"),
    "text": (np.full((2, 4, 4), "a"), "got <U1"),
    "gaps": (np.full((2, 4, 4), np.nan), "2 records with NaN or infinite numbers; impute or drop"),
    "a frame": (FRAME, r"has no named columns; give an array of shape \(n, 4, 4\)"),
}  # fmt: skip


@pytest.mark.parametrize("case", SHAPES)
def test_arrays_that_do_not_fit_are_refused(case):
    records, says = SHAPES[case]
    with pytest.raises(DataError, match=says):
        model_of({"model": "softmax"}, (4, 4), 3).predict(records)


@pytest.mark.parametrize(
    ("token", "said"),
    [(np.nan, "nan"), (np.inf, "inf"), (0.5, "0.5"), (2.0**40, "1"), (5, "5.0; give 0 to 4"), (-1, "-1.0")],
)
def test_tokens_that_the_model_does_not_know_are_refused(token, said):
    task = lstm(5, length=4, embedding=2, hidden=3)
    theta = np.asarray(task.initial(jax.random.key(0)))
    model = Model(Kept(described({"model": "lstm"}, (4,), 5, label_shape=[4]), theta), task)
    assert model.predict(np.array([[0.0, 1, 2, 3]])).tolist() == model.predict([[0, 1, 2, 3]]).tolist()
    with pytest.raises(DataError, match=f"tokens must be whole numbers, got {said}"):
        model.predict([[0.0, 1, token, 3]])


def test_a_network_of_ones_own_may_answer_with_several_arrays():
    """A loss of the user's takes them, and a run that trained such a network leaves its model."""
    task = model_task(lambda w, x: (x @ w, x.sum()), np.ones((2, 3)), lambda z, y: z[0][y] + z[1])
    theta = np.arange(6, dtype=np.float32)
    model = Model(Kept(described({"model": "own:make"}, (2,), 3), theta, None), task)
    many, one = model.answers(np.ones((3, 2), np.float32))
    assert many.tolist() == [[3, 5, 7]] * 3
    assert one.tolist() == [2, 2, 2]
    assert probed(task, theta, [2]) is not None
    assert np.isnan(merits(task, theta, np.ones((3, 2), np.float32), np.zeros(3, int), 1.0)).all()
    with pytest.raises(InvalidInput, match="gives no probabilities; use encoded and answers"):
        model.predict_proba(np.ones((3, 2)))


def test_a_model_of_ones_own_may_know_more_tokens_than_classes():
    """A tagger, which trained on them and could predict nothing."""
    table = np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)
    task = model_task(lambda theta, x: theta[x], table, loss="tokens")
    model = Model(Kept(described({"model": "own:tagger"}, (3,), 2, label_shape=[3]), table.reshape(-1)), task)
    wanted = [f"class {one}" for one in table[[8, 0, 5]].argmax(axis=1)]
    assert model.predict([[8, 0, 5]]).tolist() == [wanted]
    with pytest.raises(DataError, match=r"tokens must be whole numbers, got -1"):
        model.predict([[8, 0, -1]])


def test_many_records_are_predicted_in_parts(monkeypatch):
    model, x = model_of({"model": "softmax"}, (5,), 3), np.random.default_rng(0).normal(size=(10, 5))
    whole = model.predict_proba(x)
    monkeypatch.setattr("noiseworthy.model.model.CHUNK", 4)
    np.testing.assert_allclose(model.predict_proba(x), whole, rtol=1e-6)
    assert model.predict(x[:0]).shape == (0,)


def test_the_card_names_no_command_that_is_refused():
    said = described({"model": "lstm"}, (4,), 5, label_shape=[4])
    assert "for every token or voxel" in (card := card_of(said))
    assert "noiseworthy predict" not in card


def test_the_card_says_what_the_columns_are_and_what_is_promised():
    card = of_table().card
    assert "| age | number; range 20, 80 |" in card
    assert "| sex | category; values female, male |" in card
    assert "| ill | label; classes no, yes |" in card
    assert "Epsilon 2 at delta 1e-05 for each record." in card
    assert "Not for release" not in card
    assert "cost no more epsilon" in card


def test_names_in_a_card_are_data(logistic):
    loud = logistic.description.model_copy(update={"name": "# <b>a</b>\n|x|"})
    assert (
        "# Model of \\# \\<b\\>a\\</b\\>\\\\n\\|x\\|"
        in type(logistic)(logistic.kept._replace(description=loud), logistic.task).card
    )


def test_the_name_of_a_weight_in_a_card_is_data():
    weight = {"role": "weight", "range": [0.0, 4.0], "step": 2.0}
    schema = Schema.model_validate({**COLUMNS, "<b>*own*": weight})
    assert "a record counts by '\\<b\\>\\*own\\*', 1 for 2" in of_table(schema=schema).card


def test_outputs_that_are_no_numbers_name_no_class(logistic):
    """They were told as the first class."""
    z = logistic.answers(np.zeros((3, *logistic.description.record_shape), np.float32))
    z[1] = np.nan
    with pytest.raises(DataError, match="answers 1 of 3 records with NaN, which names no class"):
        logistic.named(z)
    assert len(logistic.named(z[[0, 2]])) == 2
