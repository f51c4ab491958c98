"""A server without test records hears from its owners, with noise, how good the model is."""

from __future__ import annotations

import re
from html import unescape
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import pytest
from direct import Direct
from rich.console import Console

from noiseworthy.calls.folder import load_run
from noiseworthy.data.schema import read_schema
from noiseworthy.deploy import correspondence
from noiseworthy.deploy.deployed import train, with_network
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.scoring import asking_of, check_held_out, reach_of, release_of, scorers
from noiseworthy.errors import ConfigError, DataError, GatewayError
from noiseworthy.privacy.durable.accounts import WHOLE
from noiseworthy.reports.html import write_report
from noiseworthy.reports.network import score_caption, score_figure
from noiseworthy.reports.tables import training_panel
from noiseworthy.studies.checking import check_study
from noiseworthy.studies.delivery import deliver
from noiseworthy.studies.flags import flags, sentences
from noiseworthy.studies.planner import plan_study
from noiseworthy.studies.record import new_record, save_record
from noiseworthy.studies.typed_owners import FoundClass, OwnersScore, ScorePart
from noiseworthy.tasks.batch import Score

from .test_without_records import SITES, STUDY, World, opened, planned, tables  # noqa: F401

TOLD = STUDY.replace('test = "test.csv"', 'test = "owners"').replace("per_round = 2", "per_round = 3")
BOTH: dict[str, Any] = {"algorithms": ["fedsgd-dpc", "score"]}


@pytest.fixture(autouse=True)
def _patient_for_a_moment(monkeypatch):
    monkeypatch.setattr(correspondence, "_PAUSE", 0.0)


@pytest.fixture
def world(tmp_path, tables) -> Any:  # noqa: F811
    with opened(tmp_path, tables, **BOTH) as world:
        yield world


def of_each(world: World, deployment: Deployment, theta: np.ndarray) -> dict[str, tuple[int, float]]:
    """Held-out records of every owner, and how many the model is right on, which nobody else knows."""
    found = {}
    for name, gateway in world.gateways.items():
        assert gateway.scoring is not None
        held = gateway.scoring.holding
        batch = held.batch(deployment.task)
        found[name] = held.size, float(deployment.task.score(theta, batch.x, batch.y).accuracy)
    return found


def record_of(world: World, deployment: Deployment, done: Any, decision: Any, folder: Any) -> dict[str, Any]:
    prepared = deployment.prepared
    record = new_record(prepared.study, decision, deployment.federation, prepared.dimension, name="wards")
    record = with_network(record, done, [gateway.about for gateway in world.gateways.values()], 1.0)
    record = deliver(prepared, done.trained.theta[0], record, [deployment.seed], folder)
    save_record(record, folder)
    return record


@pytest.mark.usefixtures("silent")
def test_owners_tell_what_the_delivered_model_reaches_and_everything_says_so(world, tmp_path):
    """Without noise: what each of them tells is what its held-out records say, to a rounding."""
    prepared, decision = plan_study(world.study(TOLD))
    deployment, folder = Deployment.of(prepared, decision.plan), tmp_path / "run"
    check_held_out(deployment, [gateway.about for gateway in world.gateways.values()], resume=False)
    heard: list[Any] = []
    done = train(deployment, world.exchange(), folder, on_round=lambda _, came: heard.append(came))
    assert heard[-1].answers == dict.fromkeys(SITES, "")
    record = record_of(world, deployment, done, decision, folder)
    told = load_run(folder).record.network.score
    true = of_each(world, deployment, done.trained.theta[0])
    assert {one.client: one.records for one in told.owners} == {"north": 12, "south": 30, "west": 40}
    for one in told.owners:
        assert one.score == pytest.approx(true[one.client][1], abs=1e-4)
    assert [one.label for one in told.classes] == ["malignant", "benign"]
    assert sum(one.share for one in told.classes) == pytest.approx(1)

    (said, *_) = sentences(told)
    page, panel = unescape(write_report(record, folder).read_text()), Console(width=400, file=StringIO())
    panel.print(training_panel(load_run(folder).record))
    assert said in page
    assert "as its owners told</h1>" in page
    assert "of records held out" not in said
    assert "its whole epsilon pays for" in page
    assert "".join(said.split()) in re.sub(r"[\s│]", "", panel.file.getvalue())
    assert said in (folder / "model" / "README.md").read_text()
    assert not any("Not scored" in one for one in record["training"]["flags"])


def test_training_keeps_its_budget_and_held_out_records_have_their_own(world, tmp_path):
    """The plan is that of a server which asks for no score; what each part spends is within its budget."""
    deployment = planned(world.study(TOLD))
    unscored = planned(world.study(TOLD.replace('test = "owners"\n', "")))
    assert deployment.plan.as_dict() == unscored.plan.as_dict()
    done = train(deployment, world.exchange(), tmp_path / "run")
    assert done.told.score["owners"]
    for gateway in world.gateways.values():
        assert 1 - 1e-6 < gateway.about.scored <= 1
        assert gateway.scoring is not None
        assert max(gateway.runs.spent, gateway.scoring.runs.spent) <= WHOLE * (1 + 1e-12)
        assert not gateway.ledger.query("SELECT 1 FROM grants WHERE NOT acknowledged")


def test_owners_draw_the_noise_of_scores_where_a_server_draws_all_other(tmp_path, tables):  # noqa: F811
    """Nobody adds any to one that is seen alone."""
    study = TOLD.replace('mechanism = "gaussian"', 'mechanism = "gaussian"\ntrust = "central"')
    with opened(tmp_path, tables, **BOTH, server_adds_noise=True) as world:
        deployment = planned(world.study(study))
        how = release_of(deployment, scorers(deployment))
        asking = asking_of(deployment, how, [0, 1, 2], "run")
        wanted = asking.request(0, 0, np.zeros(62, np.float32), deadline=1.0, head=None, received=0)
        assert wanted.into is None
        done = train(deployment, world.exchange(), tmp_path / "run")
    assert len(done.told.score["owners"]) == 3


def test_a_run_that_breaks_off_while_owners_tell_hears_the_same_and_pays_nothing_twice(world, tmp_path):
    deployment, exchange = planned(world.study(TOLD)), world.exchange()
    answers = dict(exchange.owners)

    def dies(data: bytes) -> bytes:
        reply = answers["west"](data)
        if b"score" in data and b"release" in data:
            raise KeyboardInterrupt
        return reply

    with pytest.raises(KeyboardInterrupt):
        train(deployment, Direct({**answers, "west": dies}), tmp_path / "run")
    scored = {name: gateway.about.scored for name, gateway in world.gateways.items()}
    assert scored["west"] > 0
    done = train(deployment, exchange, tmp_path / "run", resume=True)
    assert len(done.told.score["owners"]) == 3
    assert all(gateway.about.scored <= 1 for gateway in world.gateways.values())
    assert world.gateways["west"].about.scored == scored["west"]


def test_owners_who_do_not_answer_are_left_out_and_end_nothing(world, tmp_path):
    deployment, answers = planned(world.study(TOLD)), world.exchange().owners

    def mute(name: str) -> Any:
        return lambda data: b"" if b"score" in data and b"theta" in data else answers[name](data)

    heard: list[Any] = []
    some = Direct({**answers, "west": mute("west")})
    done = train(
        deployment, some, tmp_path / "some", on_round=lambda _, came: heard.append(came), patience=1.0
    )
    assert [one["client"] for one in done.told.score["owners"]] == ["north", "south"]
    assert heard[-1].answers["west"]
    with opened(tmp_path / "others", tables_of(tmp_path), **BOTH) as others:
        answers = others.exchange().owners
        nobody = Direct({name: mute(name) for name in SITES})
        none = train(planned(others.study(TOLD)), nobody, tmp_path / "none", patience=1.0)
        assert none.told.score == {}


def tables_of(folder: Any) -> dict[str, pd.DataFrame]:
    (folder / "others").mkdir()
    return {
        name: pd.read_csv(folder / name / ("test.csv" if name == "server" else "records.csv"))
        for name in (*SITES, "server")
    } | {"test": pd.read_csv(folder / "server" / "test.csv")}


# What is refused ----------------------------------------------------------------------------------------


def test_a_study_asks_in_vain_where_nobody_holds_records_out(tmp_path, tables):  # noqa: F811
    says = r"nobody in .*owners\.json holds records out; have them add \"score\""
    with opened(tmp_path, tables) as world, pytest.raises(DataError, match=says):
        world.study(TOLD)


def test_some_owners_may_hold_records_out_and_others_not(tmp_path, tables):  # noqa: F811
    """The others train with all they have, and are not asked."""
    with opened(tmp_path, tables, **BOTH) as world:
        deployment = planned(world.study(TOLD))
    known = scorers(deployment)
    del known[1]
    how = release_of(deployment, known)
    asking = asking_of(deployment, how, [*known], "run")
    assert asking.cohorts.tolist() == [[0, 2]]
    work = asking.work(0, 0).model_dump()
    assert work == {"name": "score", "two_classes": True, "reach": 0.0}


def test_held_out_records_that_changed_or_are_spent_are_told_before_training(world):
    deployment = planned(world.study(TOLD))
    abouts = [gateway.about for gateway in world.gateways.values()]
    fewer = [abouts[0].model_copy(update={"held_out": 3}), *abouts[1:]]
    with pytest.raises(GatewayError, match="north holds out 3 records, and told 12 before; ask again"):
        check_held_out(deployment, fewer, resume=False)
    spent = [abouts[0].model_copy(update={"scored": 0.5}), *abouts[1:]]
    with pytest.raises(GatewayError, match=r"for held-out records north has 50\.0% left"):
        check_held_out(deployment, spent, resume=False)
    check_held_out(deployment, spent, resume=True)


def test_a_loss_of_ones_own_says_of_no_output_whether_it_is_right(world, tmp_path, monkeypatch):
    deployment = planned(world.study(TOLD))
    kind = type(deployment.task)
    monkeypatch.setattr(kind, "score", lambda *_: Score(np.float32(1), np.float32("nan")))
    with pytest.raises(ConfigError, match="nobody knows of a loss of your own when its outputs are"):
        train(deployment, world.exchange(), tmp_path / "run")
    assert all(gateway.about.spent == 0 for gateway in world.gateways.values())


def test_errors_of_numbers_need_a_public_range():
    class Numbers:
        class federation:
            classes = None

        class prepared:
            class study:
                columns: Any = None

    known: Any = Numbers
    with pytest.raises(ConfigError, match=r"label's range must be public; state it under \[columns\]"):
        reach_of(known)
    label, x = {"role": "label", "range": [-5, 35]}, {"range": [0, 1]}
    stated = {"x": x | {"kind": "number"}, "y": label | {"kind": "number"}}
    Numbers.prepared.study.columns = read_schema(stated)
    assert reach_of(known) == 40.0


def test_there_is_nothing_to_check_where_owners_hold_the_tests(world):
    with pytest.raises(ConfigError, match=r"names no test records, so there is nothing .* check owner\.toml"):
        check_study(world.study(TOLD).study)


# What is said -------------------------------------------------------------------------------------------


def part(score=0.8, deviation=0.02, classes=(), reach=0.0, owners=2) -> ScorePart:
    at = {"score": score, "deviation": 2 * deviation}
    each = [OwnersScore(client=f"site {i}", records=100 + i, **at) for i in range(owners)]
    return ScorePart(score=score, deviation=deviation, reach=reach, owners=each, classes=list(classes))


def found(label: str, share: float, finds: float) -> FoundClass:
    return FoundClass(label=label, share=share, found=finds, deviation=0.1)


def test_a_model_that_is_no_better_than_a_constant_is_flagged():
    classes = [found("ill", 0.15, 0.1), found("well", 0.85, 0.95)]
    said = sentences(part(0.83, classes=classes))
    plain = [one.replace("\N{NO-BREAK SPACE}", " ") for one in said]
    assert plain[0].endswith("It finds 10 % ± 20 of ill and 95 % ± 20 of well.")
    assert plain[1:] == ["No better than a constant, as far as noise tells: 85 % of these records are well."]
    assert len(sentences(part(0.87, classes=classes))) == 1
    record = {"federation": {"test_records": 0, "classes": 2}}
    scored = {**record, "network": {"score": part(0.83, classes=classes).model_dump()}}
    assert flags(scored, {}) == said[1:]
    assert flags(record, {})[0].startswith("Not scored: the server has no test records")
    (untold,) = flags({**record, "study": {"federation": {"test": "owners"}}}, {})
    assert untold.endswith("none told. deploy run --resume asks again.")


def test_where_a_rare_class_weighs_more_the_accuracy_that_it_costs_is_not_flagged():
    """As where the server has test records."""
    told = part(0.83, classes=[found("ill", 0.15, 0.9), found("well", 0.85, 0.82)])
    record = {"federation": {"test_records": 0, "classes": 2}, "network": {"score": told.model_dump()}}
    assert len(flags(record, {})) == 1
    assert flags(record | {"study": {"task": {"class_weights": [6.0, 1.0]}}}, {}) == []
    assert sentences(told, weighted=True) == sentences(told)[:1]


def test_where_persons_are_held_out_persons_are_counted():
    told = part(0.83, classes=[found("ill", 0.15, 0.1), found("well", 0.85, 0.95)])
    said = " ".join(sentences(told.model_copy(update={"row": "person"})))
    assert "of 201 persons that no release trained on" in said
    assert said.endswith("of these persons are well.")
    assert "record" not in said


def test_errors_are_told_in_the_unit_of_the_label():
    (said,) = sentences(part(2.5, 0.125, reach=40.0))
    assert said.startswith("Off by 2.50 ± 0.250 on average, as 2 owners told")


MANY = part(owners=30, classes=[found("a" * 60, 0.5, 1.0)])


@pytest.mark.parametrize("told", [MANY, part(2.5, 0.1, reach=40.0)], ids=["classes", "numbers"])
def test_the_figure_shows_all_and_the_owners_with_the_most_records(told):
    class Record:
        class network:
            score = told

    record: Any = Record
    figure = score_figure(record)
    assert figure is not None
    (axes,) = figure.axes
    labels = [one.get_text() for one in axes.get_yticklabels()]
    assert labels[0] == "all records"
    assert len(labels) == 1 + len(told.classes) + min(20, len(told.owners))
    assert ("site 29" in labels) == (len(told.owners) == 30)
    assert ("10 owners with fewer records" in score_caption(record)) == (len(told.owners) == 30)
