"""Whatever the user gets wrong ends in exit code 2, one line on stderr and no traceback."""

from __future__ import annotations

import gzip
import json
import struct
import time

import numpy as np
import pytest

SIZES_ONLY = {
    "federation": {"sizes": [600] * 10},
    "task": {"dimension": 50},
    "privacy": {"mechanism": "laplace", "epsilon": 5.0, "clip_norm": 3.0},
    "algorithm": {},
    "constants": {
        "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 1.0, "initial_distance_sq": 900.0,
        "heterogeneity": 0.5,
    },
}  # fmt: skip
OWN = {
    "federation": {"data": "own.csv"},
    "privacy": {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "clip_norm": 1.0},
    "algorithm": {"rounds": 2, "clients_per_round": 1, "step_size": 0.1},
    "constants": SIZES_ONLY["constants"],
}


def refused(answer, *says):
    """Exit 2, exactly one line on stderr that holds each of `says`, nothing on stdout."""
    assert answer.code == 2, answer
    assert answer.out == ""
    lines = answer.err.splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("error: ")
    assert "Traceback" not in lines[0]
    for part in says:
        assert part in lines[0]
    return lines[0]


NUMBERS = {
    "epsilon 0": ({"privacy": {"epsilon": 0.0}}, "epsilon must be finite and above 0, got 0"),
    "epsilon negative": ({"privacy": {"epsilon": -1.0}}, "epsilon must be finite and above 0, got -1"),
    "epsilon nan": ({"privacy": {"epsilon": float("nan")}}, "epsilon must be a number, got NaN"),
    "epsilon text": ({"privacy": {"epsilon": "1.0"}}, "[privacy] epsilon must be a number, a list, { csv ="),
    "epsilon too short": ({"privacy": {"epsilon": [1.0, 2.0]}}, "epsilon must be one number or a list of 10"),
    "delta 1": ({"privacy": {"delta": 1.0}}, "delta must lie in [0, 1), got 1"),
    "delta negative": ({"privacy": {"delta": -1e-5}}, "delta must lie in [0, 1), got -1e-05"),
    "pure with delta": ({"privacy": {"delta": 1e-5, "accountant": "pure"}}, "set delta = 0.0, or leave"),
    "gaussian without delta": ({"privacy": {"mechanism": "gaussian"}}, "use Laplace noise for pure epsilon"),
    "clip 0": ({"privacy": {"clip_norm": 0.0}}, "clip_norm must be finite and above 0, got 0"),
    "mechanism": ({"privacy": {"mechanism": "cauchy"}}, "'laplace', 'gaussian' or 'none', got 'cauchy'"),
    "b above N": ({"algorithm": {"clients_per_round": 11}}, "must be between 1 and 10, got 11; the"),
    "T 0": ({"algorithm": {"rounds": 0}}, "[algorithm] rounds must be at least 1 or 'auto', got 0"),
    "T text": ({"algorithm": {"rounds": "5"}}, "[algorithm] rounds must be a valid integer or 'auto'"),
    "no records": ({"federation": {"sizes": [5, 0, 5]}}, "[federation] sizes must be at least 1, got 0"),
    "mu above L": ({"constants": {"strong_convexity": 2.0}}, "at most smoothness = 1, got 2"),
    "no constants": ({"constants": None}, "[constants] are missing", "give data to plan by trial"),
    "one constant": ({"constants": {"smoothness": None}}, "needs the constants smoothness; state them"),
    "budget too small": (
        {"resources": {"cost_per_round": 3.0, "budget": 2.0}},
        "must pay for one round of 1 local steps, which costs 3 units, got 2 for client 0",
    ),
    "budget missing": ({"resources": {"cost_per_round": 3.0}}, "[resources] budget is missing; add it"),
    "nothing scarce": ({"resources": {"budget": 2.0}}, "cost_per_round and cost_per_step must not both be 0"),
    "T beyond the budget": (
        {"resources": {"cost_per_round": 3.0, "budget": 30.0}, "algorithm": {"rounds": 101}},
        "[resources] budget pays for 10 uploads of every client", "use rounds of at most 100",
    ),
    "range upside down": (
        {"privacy": {"epsilon": {"uniform": [3.0, 0.1]}}},
        "[privacy] epsilon uniform must be two numbers, the least and the greatest, got [3.0, 0.1]",
    ),
    "range from zero": ({"privacy": {"epsilon": {"loguniform": [0, 3]}}}, "must begin above 0, got 0"),
    "range of three": ({"privacy": {"delta": {"uniform": [0, 0.1, 0.2]}}}, "[privacy] delta uniform must be"),
    "unknown law": ({"privacy": {"epsilon": {"normal": [1, 2]}}}, "{ uniform = [least, greatest] } or"),
    "a list for one": (
        {"constants": {"heterogeneity": [0.1] * 10}},
        "heterogeneity must be one number for fedsgd-dpc, got a list of 10; only dpfl-bcs plans with one",
    ),
    "two stages without a cap": (
        {
            "algorithm": {"name": "dpfl-bcs", "clients_per_round": 2, "estimation_rounds": 10},
            "privacy": {"clip_norm": 1.0},
            "constants": None,
        },
        "[algorithm] loss_cap is missing: reported losses are clipped at it, and only a classifier on data",
    ),
    "two stages of a known thing": (
        {
            "algorithm": {"name": "dpfl-bcs", "clients_per_round": 2, "estimation_rounds": 10},
            "constants": {"heterogeneity": 0.1},
            "privacy": {"clip_norm": 1.0},
        },
        "[constants] heterogeneity is stated, and [algorithm] estimation_rounds = 10 would estimate it",
    ),
    "nobody to ask": ({"algorithm": {"name": "dpfl-bcs"}}, "[algorithm] clients_per_round is missing; add"),
    "K above N": ({"algorithm": {"name": "dpfl-bcs", "clients_per_round": 11}}, "between 1 and 10, got 11"),
    "noise of a rival": (
        {
            "algorithm": {"name": "dpsgd", "clients_per_round": 2, "step_size": 0.1},
            "privacy": {"clip_norm": 1.0},
        },
        'dpsgd needs mechanism = "gaussian", got "laplace"; set it, or take one that has "laplace": dmldp,',
    ),
    "step of a rival": (
        {"algorithm": {"name": "weiavg", "clients_per_round": 2}},
        '[algorithm] step_size = "auto" is chosen for weiavg by trial only',
    ),
    "a list as algorithm": ({"algorithm": {"name": ["x"]}}, "[algorithm] name must be one of", "got ['x']"),
    "a seed below 0": ({"federation": {"seed": -1}}, "[federation] seed must be at least 0, got -1"),
    "a seed twice": (
        {"compare": {"seeds": [7, 8, 7]}},
        "[compare] seeds must be all different, for one that repeats trains the same again, got [7, 8, 7]",
    ),
    "no value of a grid": (
        {"compare": {"clients_per_round": []}},
        "[compare] clients_per_round must be a list of at least 1 item or 'auto', got []",
    ),
    "no seed": ({"training": {"seeds": []}}, "[training] seeds must be a list of at least 1 item, got []"),
    "no purpose": ({"claim": {"purpose": ""}}, "[claim] purpose must be a string of at least 1 character"),
    "unknown key": ({"privacy": {"eps": 1.0}}, "[privacy] eps is not a key of this table; allowed"),
    "unknown table": ({"planing": {"seeds": 1}}, "[planing] is not a key", "allowed: federation, task"),
    "unknown model": ({"task": {"model": "tree"}}, "'lstm' or 'unet3d', got 'tree'"),
    "unknown partition": ({"federation": {"partition": "foo"}}, "[federation] partition must be 'iid'"),
    "no federation": ({"federation": None}, "[federation] is missing; add it to the study file"),
}  # fmt: skip


@pytest.mark.parametrize("case", NUMBERS)
def test_numbers_and_names(case, run, write):
    changes, *says = NUMBERS[case]
    refused(run("plan", write(SIZES_ONLY, **changes), "--json"), *says)


# Files --------------------------------------------------------------------------------------------------


def test_study_files(run, tmp_path):
    refused(run("plan", "none.toml"), "study file none.toml does not exist; give the path of a TOML file")
    (tmp_path / "bad.toml").write_text("x = = 3")
    refused(run("train", "bad.toml"), "study file bad.toml cannot be read as TOML")
    for deep in (f"x = {'9' * 5000}", f"x = {'[' * 5000}"):
        (tmp_path / "bad.toml").write_text(deep)
        refused(run("plan", "bad.toml"), "study file bad.toml cannot be read as TOML")
    refused(run("compare", tmp_path), "cannot be read as TOML")


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16"])
def test_a_study_file_that_is_no_utf_8_is_to_be_saved_as_such(run, tmp_path, encoding):
    (tmp_path / "bad.toml").write_text('[federation]\ndata = "häuser.csv"\n', encoding=encoding)
    refused(
        run("plan", "bad.toml"),
        "study file bad.toml cannot be read as TOML, which is text in UTF-8: 'utf-8' codec",
    )


def test_a_name_with_a_null_character_is_the_name_of_no_file(run, write):
    answer = run("plan", write(SIZES_ONLY), "--set", 'columns="\\u0000"')
    refused(answer, "file of columns", "which is text in UTF-8: embedded null")


def test_a_value_as_long_as_a_book_is_told_by_its_beginning(run, write):
    for value in ("x" * 100_000, list(range(2_000))):
        line = refused(run("plan", write(SIZES_ONLY, privacy={"mechanism": value})), "or 'none', got ")
        assert len(line) < 400


def test_a_folder_of_data_is_a_path(run, write):
    answer = run("plan", write(SIZES_ONLY, federation={"sizes": None, "data": "digits", "data_dir": 1}))
    refused(answer, "[federation] data_dir must be a path, got 1")


def test_a_csv_of_many_budgets_is_read_at_once(run, write, tmp_path):
    """To look for names that come twice took a minute for 50,000 of them."""
    rows = "".join(f"{i},1\n" for i in [*range(50_000), 7])
    (tmp_path / "b.csv").write_text(f"client,epsilon\n{rows}")
    began = time.process_time()
    answer = run("plan", write(SIZES_ONLY, privacy={"epsilon": {"csv": "b.csv", "column": "epsilon"}}))
    refused(answer, "b.csv names '7' twice")
    assert time.process_time() - began < 10


@pytest.mark.parametrize("command", [["audit", "study.toml"], ["gateway", "owner.toml", "--self-audit"]])
def test_an_audit_without_a_number_of_seconds(command, run, write):
    write(SIZES_ONLY)
    refused(run(*command, "--budget-seconds", "nan"), "--budget-seconds must be a number, got NaN")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers(value, run, write, site_records):
    site_records("csv", b=np.r_[np.zeros(89), value])
    refused(run("plan", write(OWN)), "own: column 'b' has 1 NaN or infinite values; impute or drop those")


OWN_DATA = {
    "missing file": ({"federation": {"data": "none.csv"}}, "no data at none.csv", "NOISEWORTHY_DATA"),
    "unknown source": ({"federation": {"data": "cifar"}}, "source must be one of digits", "got 'cifar'"),
    "no label": ({"federation": {"label_column": "y"}}, "own has no column 'y'; it has 'a', 'b', 'c'"),
    "no client column": ({"federation": {"client_column": "who"}}, "own has no column 'who'"),
    "no such feature": ({"federation": {"feature_columns": ["q"]}}, "own has no column 'q'"),
    "number as class": ({"federation": {"label_column": "a"}}, "column 'a' must hold whole numbers or text"),
    "regression by trial": (
        {"federation": {"label_column": "a", "regression": True, "feature_columns": ["b"]},
         "algorithm": {"step_size": "auto"}, "constants": None},
        "planning a regression by trial needs [planning] label_scale",
    ),
    "b above N": ({"algorithm": {"clients_per_round": 4}}, "between 1 and 3, got 4; the federation has 3"),
    "T negative by trial": (
        {"algorithm": {"rounds": -2}, "constants": None}, "rounds must be at least 1 or 'auto', got -2",
    ),
    "clip 0 by trial": (
        {"privacy": {"clip_norm": 0.0}, "algorithm": {"step_size": "auto"}, "constants": None},
        "clip_norm must be finite and above 0, got 0",
    ),
    "budgets by position": (
        {"privacy": {"epsilon": [0.1, 5.0, 1.0]}},
        "[privacy] epsilon goes by position, but the clients have names ('north', 'south', 'west')",
    ),
    "budget of nobody": (
        {"privacy": {"epsilon": {"north": 0.1, "south": 5.0, "wets": 1.0}}},
        "[privacy] epsilon has no number for 'west'; the clients are 'north', 'south', 'west'",
    ),
    "own data as public": (
        {"planning": {"public": ["own.csv"]}, "algorithm": {"step_size": "auto"}, "constants": None},
        "own.csv is the private data of this study",
    ),
    "dimension": ({"task": {"dimension": 9}}, "[task] dimension = 9, but the model on own has 4 parameters"),
    "no data folder": ({"federation": {"data": "mnist", "data_dir": "gone"}}, "folder gone does not exist"),
    "analytic without norm": ({"constants": {"source": "analytic"}}, "[task] feature_norm"),
}  # fmt: skip


@pytest.mark.parametrize("case", OWN_DATA)
def test_own_data(case, run, write, site_records):
    site_records("csv")
    changes, *says = OWN_DATA[case]
    refused(run("plan", write(OWN, **changes), "--json"), *says)


@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
@pytest.mark.parametrize("keep", [0, 7, 300])
def test_truncated_tables(suffix, keep, run, write, site_records):
    path = site_records(suffix)
    path.write_bytes(path.read_bytes()[:keep])
    refused(run("plan", write(OWN, federation={"data": path.name})), "own")


def idx(array, cut=0):
    head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    whole = head + array.astype(np.uint8).tobytes()
    return gzip.compress(whole[: len(whole) - cut])


def test_a_truncated_idx_file(run, write, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for part, count in (("train", 60), ("t10k", 20)):
        images, labels = np.zeros((count, 28, 28)), np.arange(count) % 10
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(idx(images, cut=100 if part == "train" else 0))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    federation = {"data": "mnist", "clients": 2, "partition": "iid"}
    answer = run("plan", write({**OWN, "federation": federation}), "--data", folder)
    refused(answer, "train-images-idx3-ubyte")


def test_budgets_of_a_file_are_told_by_name(run, write, site_records, tmp_path):
    """The rows of the file are in no order; by their places north had 5 and west 0.1."""
    site_records("csv")
    (tmp_path / "budgets.csv").write_text("client,epsilon\nwest,5\nnorth,0.1\nsouth,1\n")
    study = write(OWN, privacy={"epsilon": {"csv": "budgets.csv", "column": "epsilon"}})
    said = json.loads(run("plan", study, "--json").out)
    told = dict(zip(said["clients"], said["privacy"]["clients"], strict=True))
    assert {name: row["epsilon"] for name, row in told.items()} == {"north": 0.1, "south": 1.0, "west": 5.0}
    assert "north: 0.1, south: 1, west: 5" in run("plan", study).out
    assert [line.split(":")[0] for line in run("account", study).out.splitlines()] == [*told]


def test_budgets_of_a_file_that_lacks_names(run, write, site_records, tmp_path):
    site_records("csv")
    (tmp_path / "budgets.csv").write_text("epsilon,client\n1\n2\n3,west\n3,west\n")
    answer = run("plan", write(OWN, privacy={"epsilon": {"csv": "budgets.csv", "column": "epsilon"}}))
    refused(answer, "budgets.csv names '', 'west' twice")


def test_a_simulation_is_not_deployed(run, write, site_records):
    site_records("csv")
    answer = run("deploy", "up", write(OWN))
    refused(answer, "nothing is deployed", 'state classes = ["no", "yes"] in [federation]')


# Folders ------------------------------------------------------------------------------------------------


def test_report_on_what_is_no_run(run, tmp_path):
    (tmp_path / "empty").mkdir()
    refused(run("report", "empty"), "record.json does not exist; give a folder that train")
    refused(run("report", "nowhere"), "record.json does not exist")
    (tmp_path / "file").write_text("x")
    refused(run("report", "file"), "record.json does not exist")
    for content, says in (("{", "is damaged"), ("{}", "is no record of a run"), ("[1]", "is no record")):
        (tmp_path / "empty" / "record.json").write_text(content)
        refused(run("report", "empty"), says)


def test_training_from_sizes_alone(run, write):
    for command in ("train", "compare"):
        refused(run(command, write(SIZES_ONLY)), "[federation] has sizes but no data; set data")


def test_a_run_folder_that_is_a_file(run, write, site_records, tmp_path):
    site_records("csv")
    (tmp_path / "taken").write_text("mine")
    answer = run("train", write(OWN), "--out", "taken")
    refused(answer, "run folder taken cannot be written", "choose another with --out")


def test_a_grid_outside_the_federation_is_refused_before_the_plan_is_trained(
    run, write, site_records, monkeypatch
):
    monkeypatch.setattr("noiseworthy.studies.studies.train_in", None)
    site_records("csv")
    study = write(OWN, compare={"clients_per_round": [99]})
    refused(run("compare", study), "clients_per_round must be between 1 and 3, got 99")


@pytest.mark.parametrize("command", ["plan", "train", "advise", "audit", "compare", "sweep"])
@pytest.mark.parametrize("place", ["own.csv/here", "loop", "loop/here"])
def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_planned(
    command, place, run, write, site_records, tmp_path, monkeypatch
):
    """Minutes of trials were made before advice had no place."""
    monkeypatch.setattr("noiseworthy.studies.plan_file.plan_study", None)
    monkeypatch.setattr("noiseworthy.sweeps.advisor.advise", None)
    site_records("csv")
    (tmp_path / "loop").symlink_to("loop")
    over = ("--over", "privacy.epsilon=1,2") if command == "sweep" else ()
    refused(run(command, write(OWN), *over, "--out", place), place, "cannot be written", "choose another")


LONG = "n" * 300
PLACES = {
    "run folder": ("train", "study.toml", "--out", LONG),
    "plan's folder": ("plan", "study.toml", "--out", LONG),
    "data folder": ("train", "study.toml", "--data", LONG),
    "ledger": ("ledger", "show", LONG),
    "model": ("predict", LONG, "own.csv", "-o", "out.csv"),
    "report": ("report", LONG),
    "draft": ("init", "own.csv", "--out", "own.csv/study.toml"),
}


@pytest.mark.parametrize("case", PLACES)
def test_places_that_the_system_refuses(case, run, write, site_records):
    """A name that is too long stands for all that no user may open: both are errors of the system."""
    site_records("csv")
    write(OWN)
    refused(run(*PLACES[case]), "cannot be used", "name another place")


# Command line -------------------------------------------------------------------------------------------


ACCOUNT = {
    "--mechanism": "laplace", "--noise": "0.1", "--clip-norm": "300", "--sizes": "60,60", "--releases": "3"
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"--mechanism": "cauchy"}, "mechanism must be one of 'laplace', 'gaussian', got 'cauchy'"),
        ({"--noise": "0"}, "noise must be finite and above 0, got 0"),
        ({"--noise": "nan"}, "noise must be a number, got NaN"),
        ({"--noise": "loud"}, "--noise must be numbers separated by commas, got 'loud'"),
        ({"--noise": "1,2,3"}, "noise must be one number or a list of 2"),
        ({"--clip-norm": "wide"}, "'--clip-norm'"),
        ({"--clip-norm": "0"}, "clip_norm must be finite and above 0, got 0"),
        ({"--sizes": "0,5"}, "sizes must be whole numbers of at least 1, got 0 for client 0"),
        ({"--sizes": "5.5"}, "sizes must be whole numbers of at least 1, got 5.5"),
        ({"--releases": "-1"}, "releases must be whole numbers of at least 0, got -1"),
        ({"--releases": None}, "rounds must be a whole number, got None; state the uploads, or rounds and"),
        ({"--delta": "1"}, "delta must lie in [0, 1), got 1"),
        ({"--mechanism": "gaussian"}, "delta must lie in (0, 1), got 0"),
        ({"--relation": "friends"}, "relation must be one of 'replace-one', 'add-remove', got 'friends'"),
        ({"--sampling-rate": "0"}, "sampling_rate must be finite and above 0, got 0"),
        ({"--releases": None, "--rounds": "0", "--clients-per-round": "1"}, "at least 1, got 0"),
        ({"--releases": None, "--rounds": "4", "--clients-per-round": "3"}, "between 1 and 2, got 3"),
        ({"--mechanism": None}, "--mechanism"),
        ({"--releases": "1e300"}, "releases must be below 2^63, got 1e+300"),
        (
            {"--releases": None, "--rounds": f"1{'0' * 30}", "--clients-per-round": "1"},
            "rounds times clients_per_round must be below 2^63, got 1e+30",
        ),
    ],
)  # fmt: skip
def test_account(change, says, run):
    arguments = [part for pair in {**ACCOUNT, **change}.items() if pair[1] is not None for part in pair]
    refused(run("account", *arguments), says)


def test_account_of_a_study_and_of_a_schedule_at_once(run, write):
    answer = run("account", write(SIZES_ONLY), "--noise", "1")
    refused(answer, "account takes a study file or the options of a schedule, and not both")
    for option in (("--delta", "1e-3"), ("--unit", "client"), ("--sampling-rate", "0.5")):
        answer = run("account", write(SIZES_ONLY), *option)
        refused(answer, "account takes a study file or the options of a schedule, and not both")
    arguments = [part for pair in ACCOUNT.items() for part in pair]
    answer = run("account", *arguments, "--rounds", "4", "--clients-per-round", "1")
    refused(answer, "state releases, or rounds and clients_per_round, and not both")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["prepare"], "see noiseworthy --help"),
        (["plan"], "Missing argument"),
        (["plan", "x.toml", "--quickly"], "--quickly"),
        (["reproduce", "nobody"], "nobody"),
        (["measure", "none.toml"], "study file none.toml does not exist"),
        (["measure", "none.toml", "--bandwidth", "0"], "--bandwidth must be finite and above 0, got 0"),
        (["measure", "none.toml", "--watts", "3"], "--watts needs --bandwidth"),
        (["reproduce", "zhou", "table-9"], "table-9"),
    ],
)
def test_commands_and_options(arguments, says, run):
    refused(run(*arguments), says)
