"""`[privacy] unit = "person"`: all records of a person are one unit, in plans, words and prices."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w

from noiseworthy.cli.checking import check
from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.demands import Demand
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.gateway.price import price_of
from noiseworthy.deploy.owners import owner_tables, write_owner_files
from noiseworthy.errors import ConfigError, DataError, UnsoundClaim
from noiseworthy.methods.fedsgd_dpc.wire import WIRE
from noiseworthy.privacy.durable.statement import statement
from noiseworthy.privacy.quantised import clipped_sum
from noiseworthy.reports.claim_card import claim_card
from noiseworthy.reports.privacy_statement import privacy_statement
from noiseworthy.studies.audit import audit_study
from noiseworthy.studies.checking import Terms, check_own, check_study
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.plan_codec import encoded
from noiseworthy.studies.plan_file import load_plan, planned
from noiseworthy.studies.planner import Decision
from noiseworthy.studies.prepare import prepare
from noiseworthy.studies.privacy_table import PrivacyTable
from noiseworthy.studies.read_off import read_off
from noiseworthy.studies.run_folder import opened_ledger
from noiseworthy.studies.studies import plan, train_in
from noiseworthy.studies.tables import Study
from noiseworthy.sweeps.advisor import entrants
from noiseworthy.tasks.persons import Persons

COLUMNS: dict[str, Any] = {
    "hospital": {"role": "client"},
    "patient": {"role": "person", "at_most": 3},
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "age": {"kind": "number", "range": [20, 80]},
}
KEYS: dict[str, Any] = {
    "federation": {"data": "wards.csv"},
    "task": {"model": "logistic", "bias": 0.5},
    "privacy": {"mechanism": "gaussian", "epsilon": 4.0, "delta": 1e-5, "clip_norm": 1.0, "unit": "person"},
    "algorithm": {"rounds": 6, "clients_per_round": 2, "step_size": 2.0, "momentum": 0.0, "averaging": 0.0,
                  "weighting": 0.0},
    "training": {"seeds": [0]},
}  # fmt: skip
PEOPLE = 50


def frame() -> pd.DataFrame:
    """Two hospitals of 50 patients with one to three records each; ten patients were in both."""
    rng = np.random.default_rng(0)
    who = [(f"P{i}", "north" if i < PEOPLE else "south") for i in range(2 * PEOPLE) for _ in range(1 + i % 3)]
    who = [(name if int(name[1:]) < 90 else f"P{int(name[1:]) - 90}", ward) for name, ward in who]
    order = rng.permutation(len(who))
    patient, hospital = zip(*(who[i] for i in order), strict=True)
    ill = rng.random(len(who)) < 0.5
    age = 20 + 60 * np.argsort(np.argsort(2 * ill + rng.normal(size=len(who)))) / len(who)  # no two alike
    return pd.DataFrame(
        {"ill": np.where(ill, "yes", "no"), "hospital": hospital, "patient": patient, "age": age}
    )


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame().to_csv(tmp_path / "wards.csv", index=False)
    return tmp_path


def study(columns=COLUMNS, **tables):
    merged = {name: {**KEYS.get(name, {}), **tables.get(name, {})} for name in {**KEYS, **tables}}
    return parse_study({**merged, "columns": columns})


# Rows and test records --------------------------------------------------------------------------------


def people_of(rows) -> set[tuple[float, ...]]:
    """Ages of every person; the table's ages are all different."""
    return {tuple(np.sort(row[row[:, -1] > 0, 0]).round(4).tolist()) for row in rows}


def test_sizes_count_persons_and_each_is_one_row_with_all_its_records(folder):
    federation, task = prepare(study()).trained()
    assert isinstance(task, Persons)
    assert (federation.sizes.tolist(), federation.x.shape, federation.record_shape) == (
        [40, 40],
        (2, 40, 3, 2),
        (1,),
    )
    table = frame()
    for ward, rows in zip(federation.clients, federation.x, strict=True):
        own = table[table.hospital == ward]
        encoded = {name: (of_one.age.to_numpy() - 50) / 30 for name, of_one in own.groupby("patient")}
        there = {tuple(np.sort(np.float32(ages)).round(4).tolist()) for ages in encoded.values()}
        assert people_of(rows) <= there
        np.testing.assert_allclose(rows[..., -1].sum(axis=1), 1.0, rtol=1e-6)


Key = tuple[str, float]
"""A record: its hospital and age."""


def sides(relation: str) -> tuple[set[Key], set[Key]]:
    """Records of the table that train, and that test."""
    federation = prepare(study(privacy={"relation": relation})).trained()[0]
    assert federation.test_origin == "persons"
    trained = {
        key(ward, age)
        for ward, rows in zip(federation.clients, federation.x, strict=True)
        for age, share in rows.reshape(-1, 2).tolist()
        if share
    }
    owners = np.array(federation.clients)[federation.test_owners]
    return trained, {key(ward, age) for ward, age in zip(owners, federation.test_x[:, 0], strict=True)}


def key(ward: str, encoded: float) -> Key:
    """Of a record by its age as it is trained on."""
    return str(ward), round(50 + 30 * float(encoded), 2)


def persons() -> dict[Key, str]:
    """Whose every record of the table is."""
    table = frame()
    return dict(zip(zip(table.hospital, table.age.round(2), strict=True), table.patient, strict=True))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_nobody_trains_and_tests_at_one_hospital(folder, relation):
    whose = persons()
    trained, tested = ({(one[0], whose[one]) for one in side} for side in sides(relation))
    assert len(tested) > 10
    assert not trained & tested
    everywhere = {who for _, who in trained} & {who for _, who in tested}
    assert relation == "replace-one" or not everywhere  # whose bound is the same at all hospitals


@pytest.mark.parametrize(
    ("one", "records", "at"), [("P0", 1, 0), ("P20", 2, 20), ("P47", 3, 10**6), ("P2", 1, 10**6)]
)
def test_an_exchange_of_one_person_exchanges_at_most_one_who_trains(folder, one, records, at):
    """However many records either has, wherever they stand, whatever the newcomer is called."""
    before, whose = sides("replace-one"), persons()
    table = frame()
    rest = table[(table.patient != one) | (table.hospital != "north")]
    newcomer = {"ill": "no", "hospital": "north", "patient": f"newcomer for {one} of {records}"}
    rows = pd.DataFrame([{**newcomer, "age": 20.01 + k / 100} for k in range(records)])
    pd.concat([rest[:at], rows, rest[at:]]).to_csv(folder / "wards.csv", index=False)
    after = sides("replace-one")
    for old, new in zip(before, after, strict=True):
        gone, come = ({whose.get(key, "newcomer") for key in side} for side in (old - new, new - old))
        assert len(gone) == len(come) <= 1


def test_who_tests_does_not_depend_on_the_order_of_records(folder):
    before = sides("replace-one")
    frame()[::-1].to_csv(folder / "wards.csv", index=False)
    assert sides("replace-one") == before


def test_persons_of_a_table_that_is_dealt_out_are_a_simulation(folder):
    columns = {name: stated for name, stated in COLUMNS.items() if name != "hospital"}
    frame().drop(columns="hospital").to_csv(folder / "wards.csv", index=False)
    for relation, moved in (
        ("replace-one", "an exchange of one person"),
        ("add-remove", "one person more or"),
    ):
        dealt = {"federation": {"clients": 2}, "privacy": {"relation": relation, "persons_have_at_most": 6}}
        made = prepare(study({**columns, "patient": {"role": "person", "at_most": 6}}, **dealt))
        (said,) = read_off(made.study, made.federation)
        assert f"dealt out by places in it, so that {moved}" in said


def test_persons_at_hospitals_that_the_table_names_are_no_simulation(folder):
    named = prepare(study())
    assert read_off(named.study, named.federation) == ()


def test_who_trains_at_a_hospital_changes_no_test_record_of_another(folder):
    """One of either hospital's training persons is called like somebody of the other's."""
    table = frame()
    before = sides("replace-one")[1]
    both = [name for name, of_one in table.groupby("patient") if of_one.hospital.nunique() == 2]
    assert len(both) == 10
    for name in both:
        renamed = table.copy()
        renamed.loc[(table.patient == name) & (table.hospital == "north"), "patient"] = f"{name} elsewhere"
        renamed.to_csv(folder / "wards.csv", index=False)
        assert {one for one in sides("replace-one")[1] if one[0] == "south"} == {
            one for one in before if one[0] == "south"
        }


def test_marks_must_be_alike_for_all_records_of_a_person(folder):
    marked = {**COLUMNS, "part": {"role": "split"}}
    table = frame().sort_values("patient").assign(part="train")
    table.loc[table.patient.isin(["P1", "P20"]), "part"] = "test"
    table.to_csv(folder / "wards.csv", index=False)
    federation = prepare(study(marked)).trained()[0]
    assert federation.test_origin == "marked"
    assert len(federation.test_x) == int((table.part == "test").sum())
    table.iloc[[*table.patient].index("P20"), table.columns.get_loc("part")] = "train"
    table.to_csv(folder / "wards.csv", index=False)
    with pytest.raises(DataError, match="1 person has records marked 'train' and others marked 'test'"):
        prepare(study(marked))


def test_a_name_that_two_hospitals_give_may_test_at_one_and_train_at_the_other(folder):
    table = frame().assign(part="train")
    table.loc[table.patient.isin([f"P{i}" for i in range(10)]) & (table.hospital == "north"), "part"] = "test"
    table.loc[table.patient == "P90", "part"] = "test"
    table.to_csv(folder / "wards.csv", index=False)
    federation = prepare(study({**COLUMNS, "part": {"role": "split"}})).trained()[0]
    assert federation.sizes.tolist() == [40, 50]


def test_somebody_with_more_records_than_stated_is_refused(folder):
    with pytest.raises(DataError, match="more than 2 records at a client, up to 3; drop records beyond 2"):
        prepare(study({**COLUMNS, "patient": {"role": "person", "at_most": 2}}))


def test_a_check_counts_persons(folder):
    said = [one.says for one in check_study(study()).findings]
    assert "training persons of 2 clients: north 40, south 40" in said


def test_the_check_of_an_owners_file_counts_persons(deployment, folder, capsys):
    path = write_owner_files(deployment, folder / "owners")["north"]
    check(path)
    assert "training persons of 2 clients: north 40, south 40" in capsys.readouterr().out


# The column by which they are named --------------------------------------------------------------------

NAMED = {name: column for name, column in COLUMNS.items() if name != "patient"}
UNSAID = {key: value for key, value in KEYS["privacy"].items() if key != "unit"}


def named_study(columns, federation=None, **privacy: Any):
    federation = {**KEYS["federation"], "person_column": "patient", **(federation or {})}
    stated = {**KEYS, "federation": federation, "privacy": {**UNSAID, **privacy}}
    return parse_study(stated | ({} if columns is None else {"columns": columns}))


def test_a_column_of_persons_makes_them_the_unit():
    """It is short for the role and the unit: the study is the same, and so is everything that reads it."""
    assert named_study(COLUMNS) == study()
    by_bound = named_study(NAMED, persons_have_at_most=3)
    assert by_bound.counted_columns.tables()["patient"] == COLUMNS["patient"]
    assert (by_bound.privacy.unit, by_bound.federation.person_column) == ("person", None)
    counted = named_study(COLUMNS, unit="record")
    assert (counted.privacy.unit, counted.counted_columns.person.whole) == ("record", False)


def test_a_study_that_was_checked_before_names_its_persons_too():
    table = FederationTable(data="wards.csv", person_column="patient")
    merged = {**KEYS, "federation": table, "privacy": PrivacyTable(**UNSAID), "columns": COLUMNS}
    assert Study.model_validate(merged) == study()


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (None, r"person_column = 'patient' needs \[columns\], which say what columns are"),
        ({**COLUMNS, "patient": {"kind": "left-out"}}, 'patient has kind = "left-out"; leave one of them'),
        ({**NAMED, "patient": {"kind": "yes-no"}}, 'patient has role = "feature"; leave one of them out'),
        ({**NAMED, "who": {"role": "person", "at_most": 3}}, 'who has role = "person"; leave one of them'),
        (NAMED, "needs .* a public bound on the records of one"),
    ],
)
def test_what_contradicts_a_column_of_persons_is_refused(columns, message):
    with pytest.raises(ConfigError, match=message):
        named_study(columns)


def test_an_owner_names_the_column_too(deployment, folder):
    owner = owner_of(deployment, folder)
    tables = owner.model_dump(exclude={"columns"}, exclude_unset=True)
    tables["federation"]["person_column"] = "patient"
    del tables["budget"]["unit"]
    assert Owner.model_validate({**tables, "columns": owner.columns}) == owner


# Plan, ledger and words -------------------------------------------------------------------------------


def test_noise_and_claim_are_for_persons_and_old_plans_stay_as_they_are(folder):
    (folder / "study.toml").write_text(tomli_w.dumps({**KEYS, "columns": COLUMNS}))
    made = plan(load_study(folder / "study.toml"))
    assert made.plan.release is not None
    assert (made.plan.budget.unit, made.plan.release.sensitivity.unit) == ("person", "person")
    assert made.plan.as_dict()["privacy"]["unit"] == "person"
    alone = replace(made.plan.problem, row="record", budget=replace(made.plan.budget, unit="record"))
    np.testing.assert_array_equal(made.plan.noise, alone.release(made.plan.releases).mechanism.size)
    record = train_in(made, folder / "run", name="wards")
    assert load_plan(folder / "run" / "plan.json").plan.problem.row == "person"
    with opened_ledger(folder / "run") as books:
        assert {line.account.unit for line in statement(books)} == {"person"}
    assert record["training"]["accuracy"][0][-1] > 0.6
    plain = planned(prepare(study(privacy={"unit": "record"})))
    assert "row" not in encoded(plain.plan)["problem"]
    assert "unit" not in plain.prepared.study.privacy.model_dump()
    said = {clause.title: clause for clause in privacy_statement(record)}
    assert "one person with all its records at one client" in said["What is protected"].text
    assert "at several clients is hidden at each" in said["What is protected"].text
    assert any("clipped together" in point for point in said["By what means"].points)
    card = {one["question"]: one["answer"] for one in claim_card(record)["questions"]}
    assert "up to 3, are one unit" in card["And a person with several records?"]
    assert claim_card(record)["persons"] == {"records": 3, "epsilon": pytest.approx([4.0, 4.0])}


def test_poisson_batches_are_of_persons(folder):
    made = planned(prepare(study(privacy={"sampling_rate": 0.5, "relation": "add-remove"}))).plan
    assert (made.problem.sampling_rate, made.budget.unit) == (0.5, "person")
    assert made.release is not None
    np.testing.assert_allclose(made.release.sensitivity.value, 1.0 / (0.5 * made.problem.sizes))


def test_methods_that_clip_whole_updates_claim_their_own_unit(folder):
    local = {"name": "dp-scaffnew", "iterations": 10, "communication_probability": 0.5, "step_size": 1.0}
    keys = {**KEYS, "algorithm": local, "columns": COLUMNS}
    prepared = prepare(parse_study(keys))
    made = planned(prepared).plan
    assert made.budget.unit == "client"
    with pytest.raises(UnsoundClaim, match=r"leave out \[privacy\] unit"):
        Deployment.of(prepared, made)


@pytest.mark.parametrize("mode", ["B", "E"])
def test_a_clip_of_persons_is_no_gradient_of_a_convex_loss(folder, mode):
    """Modes that rest on one are refused, and never chosen."""
    law = {"mechanism": "laplace", "delta": 0.0} if mode == "E" else {}
    steps = {"name": "dp-fedavg", "total_iterations": 8, "local_steps": 2, "step_size": 0.1}
    keys = {**KEYS, "task": {"model": "logistic", "feature_norm": 1.0}, "columns": COLUMNS}
    keys = {**keys, "privacy": {**KEYS["privacy"], **law}}
    made = planned(prepare(parse_study({**keys, "algorithm": steps}))).plan
    assert (made.problem.clipping, made.budget.unit) == ("C", "client")
    with pytest.raises(UnsoundClaim, match="of persons with several records are not; use mode A, C or D"):
        planned(prepare(parse_study({**keys, "algorithm": {**steps, "clipping_mode": mode}})))


@pytest.mark.parametrize(
    ("columns", "tables", "message"),
    [
        ({"patient": {"role": "person"}}, {}, "needs .* a public bound on the records of one"),
        ({"patient": {"kind": "left-out"}}, {}, 'such as patient = { role = "person", at_most = 3 }'),
        ({"share": {"role": "weight", "range": [0, 2]}}, {}, "every person once, and .columns. share weighs"),
        ({"age": {"kind": "number", "range": {"buy": [0, 100]}}}, {}, "record by record, .columns. age"),
        ({}, {"deliver": {"to": "owners"}}, "models that owners make at home count records"),
        ({}, {"privacy": {"unit": "household"}}, "unit must be 'record' or 'person', got 'household'"),
    ],
)  # fmt: skip
def test_what_does_not_count_persons_is_refused_by_name(columns, tables, message):
    with pytest.raises(ConfigError, match=message):
        study({**COLUMNS, **columns}, **tables)


def test_second_moments_are_left_out_of_an_advice_and_refused_by_name(folder):
    entering, left_out = entrants(prepare(study()))
    assert [one.name for one in left_out if "bounds no person" in one.reason] == ["moments", "privatefl"]
    assert "fedsgd-dpc" in [one.algorithm.name for one in entering]
    once = {"name": "moments", "shrinkage": 0.1, "step_size": 1.0}
    keys = {**KEYS, "algorithm": once, "task": {"feature_norm": 1.0}, "columns": COLUMNS}
    with pytest.raises(UnsoundClaim, match="clipped record by record, which bounds no person"):
        planned(prepare(parse_study(keys)))


# Audit --------------------------------------------------------------------------------------------------


def test_the_audit_finds_all_that_is_claimed_of_a_person_and_no_more(folder):
    prepared = prepare(study())
    found = audit_study(prepared, Decision(planned(prepared).plan, None), name="wards", trials=4_000)
    assert (found["unit"], found["passed"]) == ("person", True)
    assert 0.8 * 4.0 < found["trainings"][0]["proven_epsilon"] <= 4.0


# Owners -------------------------------------------------------------------------------------------------


@pytest.fixture
def deployment(folder) -> Deployment:
    prepared = prepare(study())
    return Deployment.of(prepared, planned(prepared).plan)


def owner_of(deployment: Deployment, folder: Path, **budget: Any) -> Owner:
    files = {key: str(folder / key) for key in ("socket", "ledger")}
    tables = owner_tables(deployment, "north") | {"files": files}
    tables = tomllib.loads(tomli_w.dumps(tables))
    return Owner.model_validate({**tables, "budget": {**tables["budget"], **budget}})


def test_an_owner_counts_and_is_paid_for_persons(deployment, folder):
    owner = owner_of(deployment, folder)
    assert (owner.budget.unit, owner.columns.person.at_most) == ("person", 3)
    with Gateway.open(owner) as gateway:
        about = gateway.about
        assert (about.records, about.record_shape, about.unit) == (40, (1,), "person")
        np.testing.assert_array_equal(gateway.holding.x, deployment.federation.x[0, :40])
    deployment._check_records(about, 40)
    assert deployment.demand_of("north").misfit(about) == ""
    counts_records = about.model_copy(update={"unit": "record"})
    assert "unit record, the plan hides one person" in deployment.demand_of("north").misfit(counts_records)
    asked: Demand = replace(deployment.demand_of("north"), unit="record")
    assert "unit person, the plan hides one record" in asked.misfit(about)


def test_an_owners_own_table_is_rows_of_persons(deployment, folder):
    own = frame().query("hospital == 'north'").drop(columns="hospital")
    own.to_csv(folder / "north.csv", index=False)
    owner = owner_of(deployment, folder)
    columns = {name: one for name, one in owner.columns.tables().items() if name != "hospital"}
    owner = Owner.model_validate(
        {**owner.model_dump(exclude={"columns", "federation"}), "columns": columns,
         "federation": {"data": str(folder / "north.csv"), "clients": 1}}
    )  # fmt: skip
    holding = Holding.load(owner.federation, "north", owner.rows)
    assert (holding.size, holding.x.shape[1:], holding.record_shape) == (own.patient.nunique(), (3, 2), (1,))
    found = check_own(owner.federation, owner.rows, Terms("gaussian", 0.05, 1e-5))
    said = [one.says for one in found.findings]
    many = own.patient.nunique()
    told = (
        f"{many} persons with {len(own)} training records, up to 3 of one; all of a person, 3 at most, are "
    )
    assert told + "clipped together, count once, and are what the budget protects" in said
    assert any("too few persons" in one and f"this owner ({many} persons)" in one for one in said)
    records = check_own(owner.federation, owner.columns, Terms("gaussian", 0.05, 1e-5))
    assert any(f"this owner ({len(own)} records)" in one.says for one in records.findings)
    sums = [len(of_one) for _, of_one in own.groupby("patient", sort=False)]
    np.testing.assert_array_equal((holding.x[..., -1] > 0).sum(axis=1), sums)


def test_an_exchange_of_one_person_moves_an_owners_upload_by_two_clips_and_no_more(deployment, folder):
    """However many records either has, wherever they stand in the owner's own table."""
    owner, rng, totals = owner_of(deployment, folder), np.random.default_rng(0), []
    own = frame().query("hospital == 'north'")
    rest = own[own.patient != "P20"].to_dict("records")
    for name, records, ill in (("P20", 3, "yes"), ("Q", 1, "no"), ("Q", 2, "no"), ("Q", 3, "no")):
        table = [*rest]
        for place in rng.integers(0, len(rest), records):
            table.insert(place, {"ill": ill, "hospital": "north", "patient": name, "age": 80.0})
        pd.DataFrame(table).to_csv(folder / "north.csv", index=False)
        held = FederationTable(data=str(folder / "north.csv"), clients=1)
        holding = Holding.load(held, "north", owner.rows)
        task = holding.task(deployment.prepared.study.task)
        theta = np.zeros(task.dimension, np.float32)
        request: Any = SimpleNamespace(theta=theta, mechanism="gaussian", clip_norm=0.1, noise=1e-3)
        job = WIRE.job(request, WIRE.table(), task, holding.size)
        rows = job.rows(holding.batch(task))
        totals.append(clipped_sum(rows, 0.1, "l2", job.total.mechanism.grid))
        assert holding.size == own.patient.nunique()
    apart = [np.linalg.norm(totals[0] - one) * job.total.mechanism.grid.spacing for one in totals[1:]]
    assert all(0.1999 < one <= 0.2 for one in apart)


def test_a_budget_for_persons_pays_for_no_clip_of_records(deployment, folder):
    from noiseworthy.deploy.gateway.work import job_of
    from noiseworthy.privacy.deployed_noise import DeployedNoise

    pytest.importorskip("opendp")
    DeployedNoise("gaussian", 1.0)
    with Gateway.open(owner_of(deployment, folder)) as gateway:
        from noiseworthy.deploy.asking import Asking
        from noiseworthy.studies.delivery import task_table

        plan = deployment.plan
        asking = Asking("run", plan, task_table(deployment.prepared), deployment.task,
                        np.zeros((1, 2), np.int32), np.zeros(2, np.int64))  # fmt: skip
        request = asking.request(0, 0, np.zeros(2, np.float32), deadline=2e9, head=None, received=0)
        job = job_of(request, gateway.holding.task(request.task), gateway.holding.size)
        assert price_of(job.sums, gateway.account, "person") > 0
        with pytest.raises(
            UnsoundClaim, match="for all records of a person, and the noise asked hides one record"
        ):
            price_of(job.sums, gateway.account)


def test_an_owners_budget_for_persons_needs_their_column(deployment, folder):
    owner = owner_of(deployment, folder)
    raw = owner.model_dump(exclude={"columns", "federation"}) | {"federation": {"data": "wards.csv"}}
    with pytest.raises(ValueError, match='unit = "person" needs'):
        Owner.model_validate({**raw, "columns": {**COLUMNS, "patient": {"kind": "left-out"}}})
