"""Races kept by content: the same race is read, another is run, damage is no harm."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.data import load_records
from noiseworthy.methods.space import Setting
from noiseworthy.privacy.trust import Trust
from noiseworthy.tasks import make_task
from noiseworthy.tasks.reference import Reference
from noiseworthy.trials import cache, public, race, search
from noiseworthy.trials.bench import Bench, Candidate, Scores
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.search import plan_by_trial
from noiseworthy.trials.treatment import Treatment


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(race, "RUNGS", ())
    return tmp_path / "races"


@pytest.fixture
def races(monkeypatch):
    """How often a race was run."""
    run, original = [], search.race

    def watched(*arguments):
        run.append(arguments)
        return original(*arguments)

    monkeypatch.setattr(search, "race", watched)
    return run


@pytest.fixture(scope="module")
def named(facts_of):
    """Makes benches whose studies name their model, as those of a file do."""

    def made(sources=("wine",), model="softmax", **changes):
        return Bench(replace(facts_of(**changes), model=model), sources)

    return made


def test_the_same_plan_comes_from_the_cache_without_a_race(named, space_of, folder, races):
    first, again = (plan_by_trial(named(), space_of("fedsgd-dpc"), seeds=2) for _ in range(2))
    assert len(races) == 1
    assert len(list(folder.iterdir())) == 1
    assert again.plan.as_dict() == first.plan.as_dict()
    np.testing.assert_array_equal(again.result.scores.loss, first.result.scores.loss)
    assert again.result.winner == first.result.winner
    assert again.result.trainings == first.result.trainings


def test_all_that_determines_a_race_tells_it_apart(named, space_of, folder, monkeypatch):
    """Nothing is trained: only the names of files are compared."""
    space = space_of("fedsgd-dpc")

    def place(bench=None, space=space, treatments=(None,), seeds=2):
        return cache.place_of(bench or named(), space, treatments, seeds)

    others = [
        place(named(epsilon=20.1)), place(named(family="laplace")), place(named(sizes=(30, 30, 30, 31))),
        place(named(partition="sorted")), place(named(settings={"alpha": 1.0})), place(named(classes=2)),
        place(named(record_shape=(5,))), place(named(source="other")), place(named(model="svm")),
        place(named(sources=("prior:0",))), place(named(sources=("wine", "prior:0"))), place(seeds=3),
        place(space=space_of("dp-fedavg")), place(space=space_of("fedsgd-dpc", momentum=None)),
        place(treatments=(Treatment(),)), place(treatments=(None, Treatment(projection=2))),
    ]  # fmt: skip
    monkeypatch.setattr(cache, "_code", lambda: "changed")
    others.append(place())
    monkeypatch.undo()
    assert len({*others}) == len(others)


def test_a_race_under_one_trust_is_not_served_to_another(named):
    """Owners that share noise, and those who may be missing, change the noise, so also the winner."""
    bench = named()
    told = [
        {}, {"trust": Trust("central")}, {"trust": Trust("central", cohorts="secret")},
        {"trust": Trust("secure-sum")}, {"trust": Trust("secure-sum", colluders=1)},
        {"trust": Trust("secure-sum", dropouts=1)},
    ]  # fmt: skip
    keys = [
        json.dumps(cache._problem(replace(bench.facts.problem, **facts)), sort_keys=True) for facts in told
    ]
    assert len({*keys}) == len(keys)


def test_a_race_on_records_that_are_seen_against_other_public_data_is_another(named, space_of, folder):
    """The words of the model name files; two studies may call different ones the same."""

    def seen_against(mean):
        reference = Reference(np.full(4, mean, np.float32), np.zeros((0, 4), np.float32))
        made = named(make_task=lambda *_: make_task("softmax", (4,), 3, reference=reference))
        return cache.place_of(made, space_of("fedsgd-dpc"), [None], 2)

    assert seen_against(0.1) == seen_against(0.1) != seen_against(0.2)


def test_public_files_that_change_are_tried_again(named, space_of, folder, tmp_path):
    file, space = tmp_path / "public.npz", space_of("fedsgd-dpc")
    np.savez(file, x=np.ones((8, 2)), label=np.arange(8) % 2)
    before = cache.place_of(named(sources=(str(file),)), space, [None], 2)
    assert before == cache.place_of(named(sources=(str(file),)), space, [None], 2)
    os.utime(file, ns=(1, 1))
    assert before != cache.place_of(named(sources=(str(file),)), space, [None], 2)


@pytest.mark.parametrize(
    ("source", "file"),
    [("mnist", "mnist/a.gz"), ("mnist-writers", "mnist/b.npz"), ("cifar10-jpeg", "cifar10/c.npz"),
     ("lending-club-2018", "lending-club/d.csv.gz")],
)  # fmt: skip
def test_files_of_named_data_that_change_are_tried_again(
    named, space_of, folder, tmp_path, monkeypatch, source, file
):
    """Also of those that lie in the folder of another name, and whatever the working directory holds."""
    data, elsewhere, space = tmp_path / "data", tmp_path / "elsewhere", space_of("fedsgd-dpc")
    for place in (data / file, elsewhere / source):
        place.parent.mkdir(parents=True)
        place.write_text("records")
    monkeypatch.chdir(elsewhere)
    bench = Bench(named().facts, (source,), data)
    before = cache.place_of(bench, space, [None], 2)
    assert before == cache.place_of(bench, space, [None], 2)
    os.utime(data / file, ns=(1, 1))
    assert before != cache.place_of(bench, space, [None], 2)


def test_data_of_the_hub_that_change_under_their_name_are_tried_again(named, space_of, folder, monkeypatch):
    """Whatever lies on this machine under the same name."""
    wine, bench, space = load_records("wine"), named(sources=("hub:some/wine",)), space_of("fedsgd-dpc")
    held = [wine, wine, replace(wine, y=1 - wine.y), replace(wine, test_x=wine.test_x + 1)]
    places = []
    for records in held:
        monkeypatch.setattr(public, "_read", lambda source, data_dir, files, found=records: found)
        places.append(cache.place_of(bench, space, [None], 2))
    assert places[0] == places[1]
    assert len({*places}) == 3


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", "null", "cut", '{"setting": {"x": 1}}'])
def test_a_damaged_file_is_run_again_and_replaced(named, space_of, folder, races, damage):
    bench, space = named(), space_of("fedsgd-dpc")
    first = plan_by_trial(bench, space, seeds=2)
    (file,) = folder.iterdir()
    whole = file.read_text()
    file.write_text(whole[: len(whole) // 2] if damage == "cut" else damage)
    assert plan_by_trial(bench, space, seeds=2).plan.as_dict() == first.plan.as_dict()
    assert len(races) == 2
    assert json.loads(file.read_text()) == json.loads(whole)


def test_races_that_ran_out_of_time_are_not_kept(named, space_of, folder):
    plan_by_trial(named(), space_of("fedsgd-dpc"), seeds=2, deadline=Deadline(-1.0))
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_is_no_error(named, space_of, folder):
    folder.write_text("a file where the folder should be")
    assert plan_by_trial(named(), space_of("fedsgd-dpc"), seeds=2).plan is not None


def test_nothing_is_kept_where_no_cache_is_in_use_or_the_model_has_no_name(named, space_of, monkeypatch):
    space = space_of("fedsgd-dpc")
    monkeypatch.setattr(cache, "cache_folder", lambda: None)
    assert cache.place_of(named(), space, [None], 2) is None
    monkeypatch.setattr(cache, "cache_folder", lambda: cache.Path("x"))
    assert cache.place_of(named(model=""), space, [None], 2) is None


def test_no_record_of_the_private_data_is_in_the_key(named):
    """The facts that enter are those that `PublicFacts` declares, and it holds no record."""
    facts = cache._facts(named().facts)
    assert json.loads(json.dumps(facts)) == facts | {"record_shape": [4], "columns": [], "label_octaves": []}
    assert facts["problem"]["sizes"] == [30] * 4


def test_a_winner_that_sees_records_against_a_reference_is_kept_as_it_is():
    kind = Treatment(projection=16, reference=("mnist", "fashion-mnist"))
    winner = Candidate(Setting(1.0, 1.0, 0.3, 10.0), kind)
    scores = Scores(np.full((2, 1, 3), 0.5), np.full((2, 1, 3), 0.8))
    kept = race.Result(winner, 0.1, np.array([[0.1], [0.0]]), scores, 40, unfinished=False)
    assert cache._read(json.loads(json.dumps(cache._written(kept)))).winner == winner
