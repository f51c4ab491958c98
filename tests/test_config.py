"""A study file: what it accepts, and one helpful line for everything else."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.data import PARTITIONS
from noiseworthy.errors import ConfigError
from noiseworthy.methods.fedsgd_dpc.table import FedSGDTable
from noiseworthy.methods.registry import METHODS
from noiseworthy.methods.rivals.planner import RIVALS
from noiseworthy.studies.loading import load_study, parse_study
from noiseworthy.studies.tables import ResourcesTable, Study

MINIMAL = {"federation": {"sizes": [5, 5]}, "privacy": {"mechanism": "laplace"}}


REQUIRED = {"resources": {"budget": 1.0}}
"""What a table that may be left out needs where it is given."""


def with_value(table, key, value):
    raw = {name: dict(keys) for name, keys in MINIMAL.items()}
    raw.setdefault(table, dict(REQUIRED.get(table, {})))[key] = value
    return raw


def complaint(raw) -> str:
    with pytest.raises(ConfigError) as caught:
        parse_study(raw)
    text = str(caught.value)
    assert "\n" not in text
    assert "pydantic" not in text
    return text


def test_defaults_are_those_of_the_contract():
    study = parse_study(MINIMAL)
    assert study.privacy.relation == "replace-one"
    assert study.algorithm.rounds == "auto"
    assert study.algorithm.clients_per_round == "auto"
    assert study.algorithm.max_rounds == 500
    assert study.privacy.delta == 0.0
    assert study.constants.assumed() == {}


def test_the_study_that_ships_is_a_study_with_one_result():
    """Its comparison trains the plan under the seeds of the training: no second number for the same plan."""
    study = parse_study(tomllib.loads((files("noiseworthy") / "quickstart.toml").read_text()))
    assert study.federation.data == "digits"
    assert study.compare.seeds == study.training.seeds


TABLES = sorted(Study.model_fields)
MODELS = {name: field.annotation for name, field in Study.model_fields.items()} | {
    "algorithm": FedSGDTable, "resources": ResourcesTable,
}  # fmt: skip


@pytest.mark.parametrize("table", sorted({*TABLES} - {"columns"}))  # whose keys are names of one's own
@given(key=st.from_regex(r"[a-z]{12,16}", fullmatch=True))
def test_an_unknown_key_is_refused_in_every_table_with_the_allowed_ones(table, key):
    text = complaint(with_value(table, key, 1))
    assert text.startswith(f"[{table}] {key} is not a key of this table; allowed: ")
    for allowed in MODELS[table].model_fields:
        assert allowed in text


@pytest.mark.parametrize("raw", [None, [], 3, "study.toml"])
def test_what_is_no_dictionary_is_no_study(raw):
    with pytest.raises(ConfigError, match="a study must be a dictionary of tables, got"):
        parse_study(raw)


def test_an_unknown_table_is_refused_with_the_allowed_ones():
    text = complaint({**MINIMAL, "privcy": {}})
    assert text.startswith("[privcy] is not a key")
    assert all(table in text for table in TABLES)


@pytest.mark.parametrize("table", ["federation", "privacy"])
def test_a_missing_table_is_named(table):
    assert complaint({k: v for k, v in MINIMAL.items() if k != table}) == (
        f"[{table}] is missing; add it to the study file"
    )


@pytest.mark.parametrize(
    ("table", "key", "value", "says"),
    [
        ("privacy", "epsilon", "e.csv", "[privacy] epsilon must be a number, a list, { csv = "),
        ("privacy", "delta", "1.0", "{ loguniform = [least, greatest] }, got '1.0'"),
        ("privacy", "epsilon", True, "[privacy] epsilon must be a valid number or a valid list, got True"),
        ("privacy", "epsilon", [1.0, "a"], "got 'a'"),
        ("privacy", "clip_norm", "big", "[privacy] clip_norm must be a valid number or 'auto', got 'big'"),
        ("privacy", "mechanism", "cauchy", "must be 'laplace', 'gaussian' or 'none', got 'cauchy'"),
        ("privacy", "relation", "friends", "'replace-one' or 'add-remove'"),
        ("algorithm", "rounds", "5", "[algorithm] rounds must be a valid integer or 'auto', got '5'"),
        ("algorithm", "rounds", 1.5, "[algorithm] rounds must be a valid integer or 'auto', got 1.5"),
        ("algorithm", "rounds", True, "[algorithm] rounds must be a valid integer or 'auto', got True"),
        ("algorithm", "max_rounds", "many", "[algorithm] max_rounds must be a valid integer, got 'many'"),
        ("algorithm", "step_size", 0.0, "above 0"),
        ("algorithm", "step_size", float("inf"), "a finite number"),
        ("algorithm", "step_decay", -1.0, "above 0"),
        ("algorithm", "name", "fedavg", "fedsgd, dpsgd, dmldp, weiavg, pfa, privatefl, got 'fedavg'"),
        ("federation", "sizes", "abc", "[federation] sizes must be a valid list, got 'abc'"),
        ("federation", "sizes", [1.5], "[federation] sizes must be a valid integer, got 1.5"),
        ("federation", "fraction", 0.0, "above 0, got 0.0"),
        ("federation", "fraction", 1.5, "at most 1, got 1.5"),
        ("federation", "partition", "foo", "'label-shards', 'quantity-skew' or 'natural', got 'foo'"),
        ("task", "model", "tree", "'group-cnn', 'resnet20', 'lstm' or 'unet3d', got 'tree'"),
        ("task", "ridge", -1.0, "[task] ridge must be at least 0, got -1.0"),
        ("task", "ridge", float("nan"), "[task] ridge must be"),
        ("task", "ridge", 1e300, "[task] ridge must be between 1e-15 and 1e+15 in size, got 1e+300"),
        ("task", "pooling", 0, "[task] pooling must be at least 1, got 0"),
        ("task", "projection", 2.5, "[task] projection must be a valid integer, got 2.5"),
        ("algorithm", "averaging", 1.0, "must be below 1 or 'auto', got 1.0"),
        ("algorithm", "momentum", -0.5, "must be at least 0 or 'auto', got -0.5"),
        ("constants", "curvature_spread", 0.5, "[constants] curvature_spread is withdrawn: losses of a"),
        ("task", "bias", -0.1, "[task] bias must be at least 0 or 'auto', got -0.1"),
        ("task", "bias", 1e300, "[task] bias must be at most 1000000 or 'auto', got 1e+300"),
        ("task", "bias", "yes", "[task] bias must be a valid number or 'auto', got 'yes'"),
        ("constants", "smoothness", "x", "[constants] smoothness must be a valid number, got 'x'"),
        ("constants", "heterogeneity", "x", "[constants] heterogeneity must be a number, a list, {"),
        ("constants", "heterogeneity", [0.1, "x"], "must be a valid number, got 'x'"),
        ("constants", "source", "oracle", "'fitted', 'analytic', 'bought' or 'rule', got 'oracle'"),
        ("constants", "share", 1.0, "[constants] share must be below 1, got 1.0"),
        ("planning", "seeds", 0, "[planning] seeds must be at least 1, got 0"),
        ("planning", "public", ["wine", "prior:x"], "prior:K takes a whole number of at most 9 digits"),
        ("resources", "budget", "much", "{ NAME = number, ... }, got 'much'"),
        ("resources", "unit", "euro", "'units', 'seconds', 'bytes' or 'joules', got 'euro'"),
        ("training", "seeds", [], "at least 1 item"),
        ("training", "seeds", [-1], "[training] seeds must be at least 0, got -1"),
        ("training", "seeds", [2**32], "[training] seeds must be below 4294967296"),
        ("compare", "seeds", [-1], "[compare] seeds must be at least 0, got -1"),
        ("compare", "rounds", [], "at least 1 item"),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_kind_is_refused_with_its_key_and_value(table, key, value, says):
    text = complaint(with_value(table, key, value))
    assert says in text
    assert text.startswith(f"[{table}] {key}")


MISTAKEN = {
    "federation": {"sizes": [5, 5], "fraction": 0.0, "client": 3},
    "privacy": {"mechansim": "laplace", "clip": 1.0, "relation": "replace_one"},
    "algorithm": {"name": "dp-fedavg", "local_step": 3, "max_iterations": "many", "epsilon": 1.0},
    "trainig": {"seeds": [1]},
}


def test_all_mistakes_are_told_at_once_each_with_what_was_meant():
    with pytest.raises(ConfigError) as caught:
        parse_study(MISTAKEN)
    told = caught.value.mistakes
    assert str(caught.value) == "\n".join(told)
    starts = (
        "[federation] fraction must be above 0, got 0.0",
        "[federation] client is not a key of this table; allowed: sizes, data,",
        "[privacy] mechansim is not a key of this table; allowed: mechanism,",
        "[privacy] clip is not a key of this table; allowed: mechanism,",
        "[privacy] relation must be 'replace-one' or 'add-remove', got 'replace_one'",
        "[algorithm] local_step is not a key of this table; allowed: name, clipping_mode,",
        "[algorithm] max_iterations must be a valid integer, got 'many'",
        "[algorithm] epsilon is not a key of this table; allowed: name,",
        "[trainig] is not a key of this file; allowed: federation, task,",
    )
    assert [next((one for one in told if one.startswith(start)), start) for start in starts] == [
        one for start in starts for one in told if one.startswith(start)
    ]
    assert len(told) == len(starts)  # and none says that mechanism is missing, which was misspelt
    for meant in (
        "client is not a key of this table", "(did you mean clients?)", "(did you mean mechanism?)",
        "(did you mean 'replace-one'?)", "(did you mean local_steps?)", "(epsilon is a key of [privacy]",
        "(did you mean training?)",
    ):  # fmt: skip
        assert any(meant in one for one in told), meant


def test_a_method_that_is_misspelt_hides_no_other_mistake():
    raw = {**MINIMAL, "algorithm": {"name": "dp-fedvag"}, "training": {"seeds": []}}
    with pytest.raises(ConfigError) as caught:
        parse_study(raw)
    method, seeds = sorted(caught.value.mistakes)
    assert method.endswith("got 'dp-fedvag' (did you mean dp-fedavg?)")
    assert seeds.startswith("[training] seeds must")


def test_whole_numbers_serve_as_numbers():
    assert parse_study(with_value("privacy", "epsilon", 2)).privacy.epsilon == 2.0


def test_a_table_must_be_a_table():
    assert complaint({**MINIMAL, "task": 5}) == "[task] must be a table, got 5"


def test_resources_need_a_budget():
    text = complaint({**MINIMAL, "resources": {"cost_per_round": 1.0}})
    assert text == "[resources] budget is missing; add it to the study file"


@pytest.mark.parametrize("federation", [{}, {"sizes": [5], "data": "digits"}])
def test_sizes_or_data_and_not_both(federation):
    text = complaint({**MINIMAL, "federation": federation})
    assert text == "[federation] needs either sizes or data, and not both"


@pytest.mark.parametrize(
    ("mechanism", "delta"), [("laplace", 1e-5), ("laplace", [0.0, 1e-5]), ("gaussian", 1e-5)]
)
def test_laplace_with_a_delta_is_refused_where_pure_is_asked(mechanism, delta):
    raw = {**MINIMAL, "privacy": {"mechanism": mechanism, "delta": delta, "accountant": "pure"}}
    text = complaint(raw)
    assert mechanism in text
    assert str(delta) in text
    assert "set delta = 0.0, or leave accountant out" in text


def test_pure_laplace_is_accepted():
    assert parse_study(with_value("privacy", "accountant", "pure")).privacy.accountant == "pure"


# Ranges of budgets ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", ["uniform", "loguniform"])
def test_a_range_of_budgets_is_kept_as_it_is_written(law):
    written = {"epsilon": {law: [0.1, 3]}, "delta": {law: [1e-5, 1e-4]}}
    privacy = parse_study({**MINIMAL, "privacy": {"mechanism": "gaussian", **written}}).privacy
    assert privacy.epsilon.ends == [0.1, 3.0]
    kept = privacy.model_dump(mode="json", exclude_none=True)
    assert {key: kept[key] for key in written} == written


@pytest.mark.parametrize(
    ("key", "source", "says"),
    [
        ("epsilon", {"uniform": [3, 1]}, "uniform must be two numbers, the least and the greatest, got [3"),
        ("epsilon", {"uniform": [1, 2, 3]}, "uniform must be two numbers"),
        ("epsilon", {"uniform": [1]}, "uniform must be two numbers"),
        ("epsilon", {"loguniform": "3.0"}, "loguniform must be two numbers"),
        ("epsilon", {"uniform": ["a", "b"]}, "uniform must be two numbers"),
        ("epsilon", {"uniform": [True, 2]}, "uniform must be two numbers"),
        ("epsilon", {"uniform": [float("nan"), 2]}, "uniform must be two numbers"),
        ("epsilon", {"uniform": [1, float("inf")]}, "uniform must be two numbers"),
        ("epsilon", {"uniform": [0, 3]}, "uniform must begin above 0, got 0"),
        ("epsilon", {"loguniform": [-1, 3]}, "loguniform must begin above 0, got -1"),
        ("delta", {"loguniform": [0, 1e-3]}, "loguniform must begin above 0, got 0"),
        ("delta", {"uniform": [-1e-5, 1e-3]}, "uniform must lie in [0, 1), got [-1e-05, 0.001]"),
        ("delta", {"uniform": [0, 1]}, "uniform must lie in [0, 1), got [0, 1]"),
        ("epsilon", {"normal": [0, 1]}, "must be a number, a list, { csv = "),
        ("epsilon", {"uniform": [1, 2], "loguniform": [1, 2]}, "{ loguniform = [least, greatest] }, got {"),
        ("delta", {}, "must be a number, a list"),
    ],
)
def test_a_range_that_cannot_be_drawn_from_is_refused(key, source, says):
    text = complaint(with_value("privacy", key, source))
    assert text.startswith(f"[privacy] {key} ")
    assert says in text


@pytest.mark.parametrize(("ends", "pure"), [([0.0, 0.0], True), ([0.0, 1e-5], False)])
def test_pure_laplace_may_draw_nothing_but_zeros(ends, pure):
    raw = {**MINIMAL, "privacy": {"mechanism": "laplace", "delta": {"uniform": ends}, "accountant": "pure"}}
    if pure:
        assert parse_study(raw).privacy.delta.ends == ends
    else:
        assert "with delta [0.0, 1e-05]" in complaint(raw)


# Clients with different budgets --------------------------------------------------------------------------

SELECTION = {"name": "dpfl-bcs", "clients_per_round": 1}


def test_selection_needs_clients_per_round_and_has_the_rounds_of_the_paper():
    assert complaint({**MINIMAL, "algorithm": {"name": "dpfl-bcs"}}) == (
        "[algorithm] clients_per_round is missing; add it to the study file"
    )
    table = parse_study({**MINIMAL, "algorithm": SELECTION}).algorithm
    assert (table.rounds, table.clients_per_round, table.estimation_rounds) == (200, 1, "auto")
    assert (table.step_size, table.step_decay) == ("auto", "none")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("estimation_rounds", -1, "must be at least 0 or 'auto', got -1"),
        ("loss_cap", 0.0, "must be above 0 or 'auto', got 0.0"),
        ("rounds", "auto", "must be a valid integer, got 'auto'"),
        ("rounds", 0, "must be at least 1, got 0"),
        ("clients_per_round", 0, "must be at least 1, got 0"),
        ("max_rounds", 5, "is not a key of this table; allowed: name, rounds, clients_per_round"),
    ],
)
def test_a_selection_that_cannot_be_is_refused_by_name(key, value, says):
    text = complaint({**MINIMAL, "algorithm": {**SELECTION, key: value}})
    assert text.startswith(f"[algorithm] {key} {says}")


@pytest.mark.parametrize("name", ["fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd"])
def test_only_selection_takes_a_heterogeneity_per_client(name):
    tables = {**MINIMAL, "constants": {"smoothness": 1.0, "heterogeneity": [0.0, 0.5]}}
    assert complaint({**tables, "algorithm": {"name": name}}) == (
        f"[constants] heterogeneity must be one number for {name}, got a list of 2; only dpfl-bcs plans with "
        'one per client, and its rivals with selection = "biased"'
    )
    constants = parse_study({**tables, "algorithm": SELECTION}).constants
    assert constants.heterogeneity == [0.0, 0.5]
    assert constants.assumed() == {"smoothness": 1.0}


# Rivals --------------------------------------------------------------------------------------------------

RIVAL = {"name": "weiavg", "clients_per_round": 1, "step_size": 0.1}


@pytest.mark.parametrize("name", RIVALS)
def test_a_rival_needs_clients_per_round_and_leaves_the_rest_to_the_planner(name):
    bare = {"name": name, "clients_per_round": 1}
    table = parse_study({**MINIMAL, "algorithm": bare}).algorithm
    assert (table.name, table.rounds, table.selection) == (name, 200, "uniform")
    assert (table.step_size, table.momentum) == ("auto", "auto")
    says = "[algorithm] clients_per_round is missing; add it to the study file"
    assert complaint({**MINIMAL, "algorithm": {"name": name}}) == says


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("selection", "random", "must be 'uniform' or 'biased', got 'random'"),
        ("momentum", 1.0, "must be below 1 or 'auto', got 1.0"),
        ("momentum", -0.1, "must be at least 0 or 'auto', got -0.1"),
        ("step_size", "large", "must be a valid number or 'auto', got 'large'"),
        ("personal_step_size", 0.2, "is a key of privatefl, whose clients keep a transform, got 0.2 for wei"),
        ("estimation_rounds", 0, "is not a key of this table; allowed: name, rounds, clients_per_round, st"),
    ],
)
def test_a_rival_that_cannot_be_is_refused_by_name(key, value, says):
    text = complaint({**MINIMAL, "algorithm": {**RIVAL, key: value}})
    assert text.startswith(f"[algorithm] {key} {says}")


def test_privatefl_may_state_the_step_of_its_transforms():
    own = {**RIVAL, "name": "privatefl", "personal_step_size": 0.2}
    assert parse_study({**MINIMAL, "algorithm": own}).algorithm.personal_step_size == 0.2


def test_a_rival_that_selects_takes_a_heterogeneity_per_client():
    tables = {**MINIMAL, "constants": {"heterogeneity": [0.0, 0.5]}}
    assert "must be one number for weiavg" in complaint({**tables, "algorithm": RIVAL})
    biased = parse_study({**tables, "algorithm": {**RIVAL, "selection": "biased"}})
    assert biased.constants.heterogeneity == [0.0, 0.5]


@pytest.mark.parametrize("name", [name for name in METHODS if name != "moments"])
def test_every_algorithm_with_rounds_may_state_its_averaging(name):
    own = {"clients_per_round": 1} if name in RIVALS or name == "dpfl-bcs" else {}
    own |= {"step_size": 0.1} if name in RIVALS else {}
    table = {"name": name, **own}
    assert parse_study({**MINIMAL, "algorithm": table}).algorithm.averaging == "auto"
    assert parse_study({**MINIMAL, "algorithm": {**table, "averaging": 0.5}}).algorithm.averaging == 0.5


@pytest.mark.parametrize("table", [SELECTION, RIVAL, {"name": "fedsgd-dpc"}])
def test_momentum_is_stated_alike(table):
    assert parse_study({**MINIMAL, "algorithm": {**table, "momentum": 0.9}}).algorithm.momentum == 0.9


# Files --------------------------------------------------------------------------------------------------


def written(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


PRIVACY = '[federation]\nsizes = [5, 5]\n[privacy]\nmechanism = "laplace"\n'


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml does not exist; give the path of a TOML file"):
        load_study(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("content", [b"x = = 3", b"\xff\xfe\x00", b"[a\n"])
def test_what_is_not_toml_is_said_to_be_so(tmp_path, content):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"bad\.toml cannot be read as TOML"):
        load_study(path)


def test_a_folder_is_no_study(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read as TOML"):
        load_study(tmp_path)


def test_budgets_may_come_from_a_column_beside_the_study(tmp_path):
    (tmp_path / "budgets.csv").write_text("who,eps,del\na,1.5,0\nb,2.5,0.001\n")
    text = PRIVACY + (
        'epsilon = { csv = "budgets.csv", column = "eps" }\ndelta = { csv = "budgets.csv", column = "del" }'
    )
    privacy = load_study(written(tmp_path, text)).privacy
    assert privacy.epsilon == [1.5, 2.5]
    assert privacy.delta == [0.0, 0.001]


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('{ csv = "none.csv", column = "eps" }', r"\[privacy\] epsilon: .*none\.csv does not exist"),
        ('{ csv = "budgets.csv", column = "zzz" }', r"no numeric column 'zzz' in .*budgets\.csv"),
        (
            '{ csv = "budgets.csv", column = "who" }',
            r"'who' of .*budgets\.csv has 2 cells without a number, the first 'a' i",
        ),
        (
            '{ csv = "gaps.csv", column = "eps" }',
            "2 cells without a number, the first '' in record 1 of a; write",
        ),
        ('{ csv = "budgets.csv" }', r'must be a number, a list, \{ csv = "...", column = "..." \}'),
        ('{ csv = 3, column = "eps" }', r"\[privacy\] epsilon: .*3 does not exist"),
        ('{ csv = ".", column = "eps" }', r"no numeric column 'eps'"),
        ('{ csv = "empty.csv", column = "eps" }', r"no numeric column 'eps'"),
    ],
)
def test_a_budget_column_that_cannot_be_read_is_named(tmp_path, source, says):
    (tmp_path / "budgets.csv").write_text("who,eps\na,1.5\nb,2.5\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "gaps.csv").write_text("client,eps\na,\nb,much\nc,1\n")
    with pytest.raises(ConfigError, match=says):
        load_study(written(tmp_path, f"{PRIVACY}epsilon = {source}"))


def test_a_column_of_budgets_is_read_as_spreadsheets_save_it_and_never_one_of_two_of_a_name(tmp_path):
    (tmp_path / "b.csv").write_text("client;eps\nnorth;1,5\nsouth;2\n", "utf-8-sig")
    (tmp_path / "twice.csv").write_text("client,eps,eps\nnorth,1,100\n")
    text = PRIVACY + 'epsilon = { csv = "b.csv", column = "eps" }'
    assert load_study(written(tmp_path, text)).privacy.epsilon == {"north": 1.5, "south": 2.0}
    with pytest.raises(ConfigError, match="two columns are called 'eps'"):
        load_study(written(tmp_path, text.replace("b.csv", "twice.csv")))


def test_clients_of_a_column_of_budgets_are_called_as_those_of_records_are(tmp_path):
    """1, "1" and 1.0 are one value there, and spaces around text are none."""
    (tmp_path / "b.csv").write_text("client,eps\n1.0,1.5\n north ,2\n")
    text = PRIVACY + 'epsilon = { csv = "b.csv", column = "eps" }'
    assert load_study(written(tmp_path, text)).privacy.epsilon == {"1": 1.5, "north": 2.0}


CLIENTS = "client,ward,eps\nzeta,z,0.1\nalpha,a,0.5\nmid,m,0.25\n"
NUMBERS = {"zeta": 0.1, "alpha": 0.5, "mid": 0.25}
PER_CLIENT = """
[federation]
sizes = [5, 5, 5]
[privacy]
mechanism = "gaussian"
epsilon = SOURCE
delta = SOURCE
[resources]
cost_per_round = SOURCE
cost_per_step = SOURCE
budget = SOURCE
[constants]
heterogeneity = SOURCE
[algorithm]
name = "dpfl-bcs"
clients_per_round = 1
"""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('{ csv = "b.csv", column = "eps" }', ["zeta", "alpha", "mid"]),
        ('{ csv = "b.csv", column = "eps", client_column = "client" }', ["zeta", "alpha", "mid"]),
        ('{ csv = "b.csv", column = "eps", client_column = "ward" }', ["z", "a", "m"]),
        ("{ zeta = 0.1, alpha = 0.5, mid = 0.25 }", ["zeta", "alpha", "mid"]),
    ],
)
def test_whatever_differs_between_clients_is_kept_by_name(tmp_path, source, names):
    (tmp_path / "b.csv").write_text(CLIENTS)
    study = load_study(written(tmp_path, PER_CLIENT.replace("SOURCE", source)))
    named = dict(zip(names, NUMBERS.values(), strict=True))
    assert study.privacy.epsilon == study.privacy.delta == named
    table = study.resources
    assert table is not None
    assert table.cost_per_round == table.cost_per_step == table.budget == named
    assert study.constants.heterogeneity == named
    assert study.constants.assumed() == {}
    assert parse_study(study.model_dump(mode="json", exclude_none=True)) == study


@pytest.mark.parametrize("names", [["csv"], ["uniform", "loguniform"], ["csv", "column"]])
def test_clients_may_be_called_as_forms_are(tmp_path, names):
    """A table of numbers alone is one of names; the forms have text or lists as values."""
    table = "{ " + ", ".join(f"{name} = 0.5" for name in names) + " }"
    privacy = load_study(written(tmp_path, f"{PRIVACY}epsilon = {table}")).privacy
    assert privacy.epsilon == dict.fromkeys(names, 0.5)


def test_names_of_a_csv_are_text_as_it_is_written(tmp_path):
    """ "NA" is North America and no missing value, and 007 no 7."""
    (tmp_path / "b.csv").write_text("client,eps\nNA,1\n007,2\n")
    source = '{ csv = "b.csv", column = "eps" }'
    assert load_study(written(tmp_path, f"{PRIVACY}epsilon = {source}")).privacy.epsilon == {
        "NA": 1.0,
        "007": 2.0,
    }


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("client_column = 'who'", "[privacy] epsilon: no column 'who' of clients in"),
        ("client_column = ['twice']", "[privacy] epsilon: no column ['twice'] of clients in"),
        ("client_column = 'twice'", "names 'a' twice; leave one row for every client"),
        ("clients = 'who'", "must be a number, a list, { csv = "),
    ],
)
def test_a_column_of_clients_that_cannot_be_is_named(tmp_path, source, says):
    (tmp_path / "b.csv").write_text("client,twice,eps\nx,a,1\ny,a,2\n")
    with pytest.raises(ConfigError) as refusal:
        load_study(written(tmp_path, f"{PRIVACY}epsilon = {{ csv = 'b.csv', column = 'eps', {source} }}"))
    assert says in str(refusal.value)


@pytest.mark.parametrize(
    ("table", "key"),
    [("resources", "budget"), ("resources", "cost_per_step"), ("constants", "heterogeneity")],
)
@pytest.mark.parametrize("value", [{}, {"north": "0.1"}, {"uniform": [0.1, 3.0]}, {"a": {"b": 1.0}}])
def test_a_table_of_no_names_and_numbers_is_refused(table, key, value):
    raw = {**MINIMAL, table: {"budget": 1.0, "cost_per_round": 1.0} if table == "resources" else {}}
    raw[table] = {**raw[table], key: value}
    text = complaint(raw)
    assert text.startswith(f"[{table}] {key} must be a number, a list, {{ csv = ")
    assert "{ NAME = number, ... }, got {" in text.replace("} or {", "}, {")


def test_a_data_folder_is_a_path(tmp_path):
    text = '[federation]\ndata = "mnist"\ndata_dir = "some/where"\n[privacy]\nmechanism = "laplace"\n'
    assert str(load_study(written(tmp_path, text)).federation.data_dir) == "some/where"


@pytest.mark.parametrize("partition", PARTITIONS)
def test_every_partition_can_be_named(partition):
    raw = {**MINIMAL, "federation": {"data": "digits", "partition": partition}}
    assert parse_study(raw).federation.partition == partition
