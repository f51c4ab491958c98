"""The advisor: who enters and why not, what it recommends, and that it sees public facts alone."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.methods.registry import METHODS
from noiseworthy.methods.space import Grid
from noiseworthy.reports.html import toml
from noiseworthy.studies.by_trial import open_bench, space_of, treatments_of
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.prepare import prepare
from noiseworthy.sweeps import advisor
from noiseworthy.sweeps.advice_words import assumptions, recommendation, remarks, warnings
from noiseworthy.sweeps.advisor import advice_record, advise, entrants, with_algorithm
from noiseworthy.sweeps.typed_advice import (
    AdviceRecord,
    AdviceValues,
    AdvisedPart,
    BandsPart,
    CostPart,
    FlipPart,
    OutlookPart,
    PromisedPart,
)
from noiseworthy.trials import landscape, race, spaces

WINE = {
    "federation": {"data": "wine", "clients": 4, "partition": "iid"},
    "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 20.0, "delta": 1e-4},
    "planning": {"public": ["iris"], "seeds": 1},
}


def study_of(**tables):
    return parse_study({**WINE, **{name: {**WINE.get(name, {}), **table} for name, table in tables.items()}})


def make_small(monkeypatch, names=("fedsgd-dpc", "dp-fedavg", "weiavg")):
    """A few settings of a few algorithms."""
    few = Grid((5.0,), (2,), (0.5,), (3, 30))
    one = replace(few, work=(1,))
    monkeypatch.setattr(spaces.Space, "grid", property(lambda space: one if space.one_gradient else few))
    monkeypatch.setattr(race, "RUNGS", ())
    monkeypatch.setattr(landscape, "PASSES", (1.0,))
    monkeypatch.setattr(landscape, "WORK", (1.0,))
    monkeypatch.setattr(advisor, "NAMES", names)


@pytest.fixture
def small(monkeypatch):
    make_small(monkeypatch)


@pytest.fixture(scope="module")
def advice():
    with pytest.MonkeyPatch.context() as patch:
        make_small(patch)
        return advise(prepare(study_of()))


# Who enters ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mechanism", "delta", "without"),
    [("gaussian", 1e-5, {"fedsgd", "dmldp"}), ("laplace", 0.0, {"fedsgd", "dpsgd"})],
)
def test_all_algorithms_enter_that_have_the_noise_and_the_others_say_why_not(mechanism, delta, without):
    study = study_of(privacy={"mechanism": mechanism, "delta": delta}, deliver={"to": "owners"})
    studies, left_out = entrants(prepare(study))
    assert {one.algorithm.name for one in studies} == METHODS.keys() - without
    reasons = {one.name: one.reason for one in left_out}
    assert reasons.keys() == without
    assert reasons["fedsgd"] == "it adds no noise, so it protects nobody"
    (other,) = without - {"fedsgd"}
    assert reasons[other].endswith(f"noise only, and the study has {mechanism}")


def test_own_models_enter_where_owners_use_them_or_the_study_says_so():
    _, left_out = entrants(prepare(study_of()))
    (reason,) = [one.reason for one in left_out if one.name == "mr-mtl"]
    assert reason == 'its clients train models of their own, which is for [deliver] to = "owners"'
    studies, _ = entrants(prepare(study_of(algorithm={"name": "mr-mtl", "pull": 0.5})))
    assert studies[0].algorithm.pull == 0.5


def test_the_studys_own_algorithm_is_first_and_keeps_what_it_states():
    own = {"name": "dp-pasgd", "total_iterations": 30, "local_steps": 3}
    study = study_of(algorithm=own, privacy={"clip_norm": 0.7})
    prepared = prepare(study)
    studies, _ = entrants(prepared)
    first, *others = [space_of(replace(prepared, study=one)) for one in studies]
    assert (first.algorithm, first.rounds, first.work, first.clip_norm) == ("dp-pasgd", 30, 3, 0.7)
    for space in others:
        assert (space.rounds, space.work, space.clip_norm, space.step_size) == (None, None, None, None)


@pytest.mark.parametrize(
    ("own", "asked"),
    [({"name": "fedsgd-dpc"}, 4), ({"name": "fedsgd-dpc", "clients_per_round": 2}, 2),
     ({"name": "dpfl-bcs", "clients_per_round": 3}, 3)],
)  # fmt: skip
def test_who_must_be_told_how_many_to_ask_asks_all_or_as_many_as_stated(own, asked):
    study = with_algorithm(study_of(algorithm=own), "pfa", 4)
    assert space_of(prepare(study)).clients_per_round == asked
    assert with_algorithm(study, "dp-fedavg", 4).algorithm.clients_per_round == "auto"


def test_constants_that_no_trial_uses_do_not_reach_the_plans():
    study = study_of(constants={"smoothness": 1.0})
    assert with_algorithm(study, study.algorithm.name, 4).constants.smoothness is None


def test_records_are_not_tried_against_a_mean_that_clients_tell(monkeypatch):
    """Few algorithms can, its price in records adds up with none in clients, and no study may state it."""
    prepared, tried = prepare(parse_study({**WINE, "task": {"model": "softmax"}})), []

    def watch(bench, spaces, kinds, **options):
        tried.extend(kinds)
        raise InvalidInput("enough was seen")

    monkeypatch.setattr(advisor, "side_by_side", watch)
    assert any(one.centred for one in treatments_of(prepared, open_bench(prepared)))
    with pytest.raises(InvalidInput, match="enough was seen"):
        advise(prepared)
    assert tried
    assert not any(one.centred for one in tried)


def test_a_study_whose_name_is_no_utf_8_is_advised():
    named = advice_record(SimpleNamespace(as_dict=dict), "adv\udce9")
    assert named["name"] == r"adv\udce9"


def test_what_is_recommended_asks_nothing_of_trials():
    """`train recommended.toml` has none: a metric to choose by, and counts to plan by, are refused there."""
    study = study_of(planning={"metric": "auc", "label_scale": "bought"})
    one = SimpleNamespace(entry=SimpleNamespace(name="dp-fedavg"), study=study)
    made = advisor.Advice.study.fget(SimpleNamespace(advised=[one], recommended="dp-fedavg"))
    assert made.planning == study_of(planning={"label_scale": "range"}).planning


def test_what_is_recommended_finds_its_data_from_the_folder_of_the_advice(tmp_path, monkeypatch):
    """Paths start where the study's file lies, and `recommended.toml` lies elsewhere."""
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "own.csv").write_text("site,a,y\nnorth,1,0\nsouth,2,1\n")
    (tmp_path / "study" / "files").mkdir()
    tables = {"data": "own.csv", "data_dir": "files", "client_column": "site"}
    stated = {"federation": tables, "privacy": WINE["privacy"], "planning": {"public": ["own.csv", "iris"]}}
    (tmp_path / "study" / "study.toml").write_text(toml(stated))
    (tmp_path / "advice").mkdir()
    monkeypatch.chdir(tmp_path)
    made = advisor._anywhere(load_study("study/study.toml")).model_dump(mode="json", exclude_none=True)
    (tmp_path / "advice" / "recommended.toml").write_text(toml(made))
    found, own = load_study("advice/recommended.toml"), str(tmp_path / "study" / "own.csv")
    assert found.federation.data == own
    assert found.federation.data_dir == tmp_path / "study" / "files"
    assert found.planning.public == [own, "iris"]


# What it says -------------------------------------------------------------------------------------------


@pytest.mark.full
def test_the_ranking_is_by_mean_loss_and_the_first_is_recommended(advice):
    values = advice.as_dict()
    rows = values["algorithms"]
    assert {row["name"] for row in rows} == {"fedsgd-dpc", "dp-fedavg", "weiavg"}
    assert [row["place"] for row in rows] == sorted(row["place"] for row in rows)
    first = [row["loss"]["mean"] for row in rows if row["place"] == 1]
    rest = [row["loss"]["mean"] for row in rows if row["place"] > 1]
    assert not rest or min(first) < min(rest)
    assert values["recommended"] in {row["name"] for row in rows if row["place"] == 1}
    assert values["recommendation"].startswith(f"Train with {values['recommended']}: ")


@pytest.mark.full
def test_advice_for_owners_ranks_by_what_they_make_of_models_and_says_whether_to_share(small):
    """Scores are those of tuned models; own models are 1 in what ranks."""
    study = study_of(deliver={"to": "owners"})
    advice = advise(prepare(study))
    values = advice.as_dict()
    assert (values["ranked_by"], advice.owners[:8]) == ("loss of tuned models", "Owners: ")
    assert advice.owners in values["remarks"]
    assert "of models tuned at home in trials" in values["recommendation"]
    for one in advice.advised:
        assert one.entry.missed is not None
        assert one.entry.found.for_owners
        np.testing.assert_allclose(one.entry.per_seed, np.minimum(one.entry.missed, 2.0).mean(axis=0))
    plain = advise(prepare(study_of()))
    shared = {one.entry.name: one.entry.score.mean() for one in plain.advised}
    tuned = {one.entry.name: one.entry.score.mean() for one in advice.advised}
    assert all(tuned[name] != shared[name] for name in tuned)
    assert plain.owners == ""


@pytest.mark.full
def test_every_row_has_bands_privacy_costs_and_assumptions(advice):
    for one, row in zip(advice.advised, advice.as_dict()["algorithms"], strict=True):
        accuracy, plan = row["accuracy"], one.plan
        assert accuracy["least"] <= accuracy["seeds_least"] <= accuracy["mean"]
        assert accuracy["mean"] <= accuracy["seeds_most"] <= accuracy["most"]
        assert np.mean(accuracy["of_each_public"]) == pytest.approx(accuracy["mean"])
        assert row["loss"]["standard_error"] >= 0
        assert row["privacy"]["spent_epsilon"] == plan.spent().max() <= 20.0
        assert row["cost"]["uploads"] == [plan.uploads.min(), plan.uploads.max()]
        assert row["cost"]["bytes"] == 4 * plan.uploads.max() * 42
        assert row["assumes"]
    units = {row["name"]: row["privacy"]["unit"] for row in advice.as_dict()["algorithms"]}
    assert units == {"fedsgd-dpc": "record", "weiavg": "record", "dp-fedavg": "client"}


@pytest.mark.full
def test_the_record_is_json_and_its_study_is_a_study_that_states_everything(advice):
    record = advice_record(advice, "wine")
    json.dumps(record, allow_nan=False)
    assert AdviceRecord.view(record).name == record["name"] == "wine"
    assert {row["name"] for row in record["left_out"]} == set()
    study = parse_study(record["study"])
    assert study.algorithm.name == record["recommended"]
    space = space_of(prepare(study))
    best = next(row for row in record["algorithms"] if row["name"] == record["recommended"])["plan"]
    assert space.clip_norm == best["clip_norm"]
    assert space.step_size == best["step_size"]
    assert space.clients_per_round == best["clients_per_round"]
    assert None not in (space.rounds, space.momentum if space.one_gradient else 0.0, space.averaging)


@pytest.mark.full
def test_resources_are_paid_for_and_shown(small, monkeypatch):
    monkeypatch.setattr(advisor, "NAMES", ("fedsgd-dpc", "dp-fedavg"))
    resources = {"cost_per_round": 2.0, "cost_per_step": 1.0, "budget": 30.0, "unit": "joules"}
    for row in advise(prepare(study_of(resources=resources))).as_dict()["algorithms"]:
        cost = row["cost"]
        assert cost["resources"] == 2 * cost["uploads"][1] + cost["local_steps"] <= 30
        assert cost["unit"] == "joules"


@pytest.mark.full
def test_nobody_should_train_at_an_absurd_budget_and_no_number_of_clients_helps(small):
    advice = advise(prepare(study_of(privacy={"epsilon": 1e-5})))
    assert (advice.recommended, advice.clients_that_work, advice.study) == (None, None, None)
    values = advice.as_dict()
    assert values["recommendation"].startswith("Do not train: ")
    assert "Not even 64 times as many clients like these would do" in values["recommendation"]
    assert values["remarks"] == []
    assert not any(row["train"] for row in values["algorithms"])
    assert {row["loss"]["mean"] for row in values["algorithms"] if not row["cost"]["all_uploads"]} <= {1.0}


@pytest.mark.full
def test_more_clients_are_an_answer(small, monkeypatch):
    monkeypatch.setattr(advisor, "NAMES", ("fedsgd-dpc",))
    advice = advise(prepare(study_of(privacy={"epsilon": 0.1})))
    assert advice.recommended is None
    assert advice.clients_that_work is not None
    assert advice.clients_that_work > 4
    assert f"with N = {advice.clients_that_work:,} like these" in advice.as_dict()["recommendation"]


# Privacy ------------------------------------------------------------------------------------------------


def test_private_records_do_not_matter(small, tmp_path, monkeypatch):
    """Two federations of one shape, sizes and classes, everything else of one exchanged."""
    monkeypatch.setattr(advisor, "NAMES", ("fedsgd-dpc", "dp-fedavg"))
    said = []
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(rng.normal(scale=1 + 9 * seed, size=(90, 3)), columns=["a", "b", "c"])
        frame["label"] = rng.permutation(np.repeat(["yes", "no"], [30 + 20 * seed, 60 - 20 * seed]))
        frame["client"] = np.repeat(["north", "south", "west"], [20, 30, 40])
        (tmp_path / str(seed)).mkdir()
        frame.to_csv(tmp_path / str(seed) / "own.csv", index=False)
        federation = {"data": "own.csv", "data_dir": str(tmp_path / str(seed))}
        study = parse_study({**WINE, "federation": federation, "task": {"feature_norm": 1.0}})
        values = advise(prepare(study)).as_dict()
        del values["study"]
        said.append(values)
    assert said[0] == said[1]


# What cannot be advised on ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tables", "error", "says"),
    [
        ({"privacy": {"mechanism": "none", "delta": 0.0}}, ConfigError, "nothing to advise on without noise"),
        ({"planning": {"public": ["wine"]}}, InvalidInput, "is the private data of this study"),
        ({"planning": {"public": []}}, InvalidInput, "at least one public data set"),
        ({"privacy": {"mechanism": "gaussian", "delta": 0.0}}, ConfigError, "needs a delta above 0"),
    ],
    ids=["no noise", "own data", "nothing public", "no delta"],
)
def test_what_cannot_be_advised_on_says_so(tables, error, says, small):
    with pytest.raises(error, match=says):
        advise(prepare(study_of(**tables)))


def test_sizes_alone_are_not_enough():
    raw = {"federation": {"sizes": [40] * 4}, "task": {"dimension": 5}, "privacy": WINE["privacy"]}
    with pytest.raises(ConfigError, match="sizes but no data"):
        advise(prepare(parse_study(raw)))


# Words --------------------------------------------------------------------------------------------------


def row(name, place=1, unit="record", uploads=9, **changes):
    return AdvisedPart.model_construct(
        name=name, place=place, train=True, outcome="Train 9 rounds, chosen by trial.",
        accuracy=BandsPart.model_construct(mean=0.8, least=0.6, most=0.9),
        privacy=PromisedPart.model_construct(unit=unit), cost=CostPart.model_construct(all_uploads=uploads),
        **({"same_as": None, "spread": 0.0, "unfinished": False} | changes),
    )  # fmt: skip


def said(*rows, outlook=None):
    return AdviceValues.model_construct(
        recommended=rows[0].name, score="accuracy", clients_that_work=None, outlook=outlook,
        algorithms=list(rows),
    )  # fmt: skip


def test_the_recommendation_has_plan_score_and_band():
    assert recommendation(said(row("weiavg"))) == (
        "Train with weiavg: 9 rounds; 80.0 % accuracy in trials on public data, 60.0 to 90.0 % over data "
        "sets and seeds."
    )


def test_ties_and_the_stronger_claim_are_said():
    texts = remarks(said(row("weiavg"), row("pfa"), row("dp-scaffnew", 3, "client")))
    assert texts[0].startswith("pfa ties with it")
    assert "dp-scaffnew covers a whole client, a stronger claim" in texts[1]
    (own,) = remarks(said(row("dp-scaffnew", unit="client"), row("pfa", 2)))
    assert "covers a whole client: stronger than one for records" in own


def test_who_does_the_same_is_no_tie_but_said_to_be_the_same():
    rows = row("fedsgd-dpc"), row("weiavg", same_as="fedsgd-dpc"), row("pfa")
    same, ties, *_ = remarks(said(*rows))
    assert same == "weiavg does the same as fedsgd-dpc here."
    assert ties.startswith("pfa ties with it")


def test_disagreement_and_lack_of_time_are_warnings_nobody_misses():
    texts = warnings(said(row("weiavg", spread=0.31), row("pfa", unfinished=True)))
    assert "loses 31 % of the attainable gain" in texts[0]
    assert "The time ran out before the races of pfa were over" in texts[1]
    assert warnings(said(row("weiavg", spread=0.09))) == []


def test_flips_are_said_with_their_range_and_a_poor_fit():
    flips = [
        FlipPart(axis="epsilon", below=None, above=7.93, low=1.0, high=16.0),
        FlipPart(axis="clients", below=None, above=None, low=5, high=40),
    ]
    fits = ["fits: 1% off", "fits poorly: 14% off"]
    outlook = OutlookPart(other="pfa", flips=flips, ours=[], theirs=[], fits=fits)
    (text,) = remarks(said(row("weiavg", unit="record"), outlook=outlook))
    assert "that of pfa fits poorly: 14% off" in text
    assert "pfa does better at epsilon above 7.9" in text
    assert "weiavg stays ahead of pfa at clients 5 to 40" in text


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("A", "as each person's gradient is clipped"), ("B", "a convex loss"), ("E", "a convex loss"),
        ("D", "as a client counts as a whole"), ("M", "as each record's second moments are clipped"),
    ],
)  # fmt: skip
def test_assumptions_follow_the_clipping_mode(mode, says):
    problem = SimpleNamespace(clipping=mode, n_clients=4, row="person" if mode == "A" else "record")
    plan = SimpleNamespace(algorithm="dp-fedavg", problem=problem, clients_per_round=4, local=None)
    proof, online = assumptions(plan)  # pyright: ignore[reportArgumentType]
    assert says in proof
    assert online == "all clients online in every round"
