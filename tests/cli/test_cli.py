"""Commands end to end: what they print, what they write, and that a resume goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from noiseworthy.cli import planning, steps
from noiseworthy.model.folder import load_folder
from noiseworthy.studies.checkpoints import FILE
from noiseworthy.trials.reference import reference_of

CONSTANTS = {
    "smoothness": 1.0, "strong_convexity": 0.1, "gradient_bound": 10.0, "initial_distance_sq": 9000.0,
    "heterogeneity": 0.5,
}  # fmt: skip
SIZES_ONLY = {
    "federation": {"sizes": [6000] * 10},
    "task": {"dimension": 7840},
    "privacy": {"mechanism": "laplace", "epsilon": 5.0, "delta": 0.0, "clip_norm": 300.0},
    "algorithm": {"name": "fedsgd-dpc", "rounds": "auto", "clients_per_round": "auto", "max_rounds": 500},
    "constants": CONSTANTS,
}
TRAINED = {
    "federation": {"data": "digits", "clients": 4, "partition": "iid", "records_per_client": 30},
    "task": {"model": "softmax", "feature_norm": 1.0, "normalise": True},
    "privacy": {"mechanism": "gaussian", "epsilon": 8.0, "delta": 1e-5, "clip_norm": 0.5},
    "algorithm": {"rounds": 6, "clients_per_round": 2, "step_size": 5.0},
    "constants": CONSTANTS,
    "training": {"seeds": [0, 1], "evaluations": 3},
    "compare": {"rounds": [2, 4], "clients_per_round": [4], "seeds": [100, 101]},
}
CONTRACT = {
    "algorithm", "mechanism", "train", "rounds", "clients_per_round", "releases", "noise", "predicted",
    "constants", "privacy", "outcome", "as_printed",
}  # fmt: skip


def strictly(text):
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


# Plan ---------------------------------------------------------------------------------------------------


def test_plan_prints_one_json_object_and_nothing_else(run, write):
    answer = run("plan", write(SIZES_ONLY), "--json")
    assert answer.code == 0
    plan = strictly(answer.out)
    assert set(plan) >= CONTRACT
    k = -(-plan["rounds"] * plan["clients_per_round"] // 10)
    assert plan["releases"] == [k] * 10
    np.testing.assert_allclose(plan["noise"], 2 * 300 * k / (6000 * 5.0), rtol=1e-9)
    assert [client["epsilon"] for client in plan["privacy"]["clients"]] == [5.0] * 10
    assert all(client["spent_epsilon"] <= 5.0 for client in plan["privacy"]["clients"])


@pytest.mark.parametrize(
    "privacy", [{"epsilon": 1e-4}, {"mechanism": "none"}, {"mechanism": "gaussian", "delta": 1e-5}]
)
def test_every_kind_of_plan_is_strict_json(privacy, run, write):
    answer = run("plan", write(SIZES_ONLY, privacy=privacy), "--json")
    assert answer.code == 0
    plan = strictly(answer.out)
    assert set(plan) >= CONTRACT
    assert plan["train"] is (plan["rounds"] > 0)


def test_a_plan_without_json_reads_as_a_page(run, write):
    answer = run("plan", write(SIZES_ONLY), "--out", "kept")
    assert answer.code == 0
    plan = json.loads(run("plan", write(SIZES_ONLY), "--json").out)
    assert f"Train {plan['rounds']} rounds" in " ".join(answer.out.split())


@pytest.mark.full
def test_a_plan_by_trial_keeps_stdout_for_json(run, write):
    free = {"max_rounds": 6, "rounds": "auto"}
    study = write(TRAINED, constants=None, algorithm=free, planning={"public": ["prior:0"], "seeds": 1})
    answer = run("plan", study, "--json", "--out", "kept")
    assert answer.code == 0
    assert strictly(answer.out)["constants"]["floor"]["provenance"] == "fitted to trials on prior:0"
    record = strictly((study.parent / "kept" / "record.json").read_text())
    rests_on = {"foretold": record["foretold"], "task": record["study"]["task"]}
    assert {**record["plan"], "clients": record["federation"]["clients"], **rests_on} == strictly(answer.out)
    assert record["training"] is None


# Train --------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.usefixtures("drawn")
def test_train_writes_record_model_and_report(run, write, tmp_path):
    answer = run("train", write(TRAINED), "--out", "here")
    assert answer.code == 0, answer.err
    folder = tmp_path / "here"
    assert {"record.json", "model", "report.html", FILE} <= {path.name for path in folder.iterdir()}
    record = strictly((folder / "record.json").read_text())
    training = record["training"]
    assert training["seeds"] == [0, 1]
    assert training["rounds"][0] == 0
    assert training["rounds"][-1] == 6
    assert np.sum(training["uploads"]) == 2 * 2 * 6
    assert np.all(np.array(training["uploads"]) <= record["plan"]["releases"])
    assert np.all(np.array(training["spent_epsilon"]) <= 8.0)
    assert training["loss"][0][0] == pytest.approx(np.log(10), rel=1e-5)
    kept = load_folder(folder)
    assert kept.theta.shape == (640,)
    assert (kept.description.seed, kept.description.seeds) == (0, [0, 1])
    assert record["training"]["metrics"] == kept.description.metrics.model_dump()
    assert "report.html" in answer.out.replace("\n", "")
    assert "<html" in (folder / "report.html").read_text()


@pytest.mark.full
def test_the_model_comes_with_what_its_records_are_seen_against(run, write, tmp_path):
    """Public files may be gone when the model is used."""
    public = np.random.default_rng(0).random((40, 8, 8)).astype(np.float32)
    np.savez(tmp_path / "public.npz", x=public, label=np.arange(40) % 2)
    seen = {**TRAINED["task"], "reference": [str(tmp_path / "public.npz")], "projection": 5}
    assert run("train", write({**TRAINED, "task": seen}), "--out", "here").code == 0
    reference = reference_of(seen["reference"], "digits", (8, 8))
    kept = load_folder(tmp_path / "here")
    assert kept.theta.shape == (50,)
    np.testing.assert_array_equal(kept.reference.mean, reference.mean)
    np.testing.assert_array_equal(kept.reference.directions, reference.directions[:5])


def test_the_folder_of_a_run_is_named_after_its_study(run, write, tmp_path):
    assert run("train", write(TRAINED, name="mine")).code == 0
    assert (tmp_path / "runs" / "mine" / "record.json").exists()


def test_train_with_json_prints_the_record_alone(run, write, tmp_path):
    answer = run("train", write(TRAINED), "--out", "here", "--json")
    assert strictly(answer.out) == strictly((tmp_path / "here" / "record.json").read_text())


class Killed(KeyboardInterrupt):
    """Stands for Ctrl-C."""


def test_an_interrupted_training_resumes_to_the_same_end(run, write, tmp_path, monkeypatch):
    from noiseworthy.studies import run_folder

    study = write(TRAINED)
    whole = strictly(run("train", study, "--out", "whole", "--json").out)
    save, kept = run_folder.save_checkpoint, []

    def killed(folder, checkpoint, *rest):
        save(folder, checkpoint, *rest)
        kept.append(checkpoint.round)
        if len(kept) == 2:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(run_folder, "save_checkpoint", killed)
        answer = run("train", study, "--out", "parts")
    assert answer.code == 130
    assert answer.err.strip().splitlines()[-2:] == [
        "The same command with --resume goes on from the last checkpoint.", "interrupted",
    ]  # fmt: skip
    assert "Traceback" not in answer.err
    rest = strictly(run("train", study, "--out", "parts", "--resume", "--json").out)
    for name in ("rounds", "loss", "accuracy", "uploads", "spent_epsilon"):
        assert rest["training"][name] == whole["training"][name], name
    ours, theirs = (load_folder(tmp_path / folder).theta for folder in ("parts", "whole"))
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "change",
    [
        {"federation": {"seed": 1}},
        {"federation": {"data": "mixture.npz"}},
        {"task": {"normalise": False}},
        {"privacy": {"epsilon": 7.0}},
        {"algorithm": {"step_size": 4.0}},
        {"training": {"seeds": [0, 2]}},
    ],
    ids=lambda change: str(next(iter(next(iter(change.values()))))),
)
def test_a_resume_from_a_folder_of_another_study_is_refused_and_leaves_it_alone(
    change, run, write, tmp_path, trained_folder
):
    if change.get("federation", {}).get("data"):
        rng = np.random.default_rng(0)
        np.savez(tmp_path / "mixture.npz", x=rng.normal(size=(200, 8, 8)), label=np.arange(200) % 10)
    before = {path.name: path.read_bytes() for path in trained_folder.rglob("*") if path.is_file()}
    answer = run("train", write(TRAINED, **change), "--out", trained_folder, "--resume")
    assert answer.code == 2
    assert "belongs to another study" in answer.err
    assert "; choose another folder with --out" in answer.err
    assert answer.err.count("\n") == 1
    assert {path.name: path.read_bytes() for path in trained_folder.rglob("*") if path.is_file()} == before


@pytest.fixture(scope="module")
def trained_folder(tmp_path_factory):
    """A folder of a finished run of TRAINED."""
    from noiseworthy.studies.loading import parse_study
    from noiseworthy.studies.prepare import prepare

    folder = tmp_path_factory.mktemp("another") / "run"
    prepared = prepare(parse_study(TRAINED))
    steps.train_plan(steps.decide_plan(prepared), folder, name="study")
    return folder


def test_a_resume_without_a_checkpoint_is_refused(run, write):
    answer = run("train", write(TRAINED), "--out", "fresh", "--resume")
    assert answer.code == 2
    assert "holds no checkpoint.npz; train without --resume to start anew" in answer.err


def test_a_plan_that_does_not_train_ends_in_a_report_too(run, write, tmp_path):
    study = write(TRAINED, algorithm={"rounds": "auto"}, privacy={"epsilon": 1e-4})
    answer = run("train", study, "--out", "idle", "--json")
    assert answer.code == 0
    record = strictly(answer.out)
    assert record["plan"]["train"] is False
    assert record["training"] is None
    assert strictly((tmp_path / "idle" / "record.json").read_text()) == record
    assert (tmp_path / "idle" / "report.html").exists()
    assert not (tmp_path / "idle" / "model").exists()


# Compare and report -------------------------------------------------------------------------------------


@pytest.mark.full
def test_compare_writes_the_lost_gain_and_report_writes_the_page_again(run, write, tmp_path):
    answer = run("compare", write(TRAINED), "--out", "here")
    assert answer.code == 0, answer.err
    compared = strictly((tmp_path / "here" / "record.json").read_text())["compare"]
    means = {(c["rounds"], c["clients_per_round"]): np.mean(c["loss"]) for c in compared["cells"]}
    assert set(means) == {(6, 2), (2, 4), (4, 4)}
    best = min(means[2, 4], means[4, 4])
    attainable = compared["untrained_loss"] - best
    assert attainable > 0
    assert compared["lost_gain"] == pytest.approx((means[6, 2] - best) / attainable)
    (tmp_path / "here" / "report.html").unlink()
    again = run("report", "here")
    assert again.code == 0
    assert (tmp_path / "here" / "report.html").exists()


@pytest.mark.full
def test_a_diverged_run_is_recorded_and_reported(run, write, tmp_path):
    beyond_float32 = {"mechanism": "laplace", "delta": 0.0, "clip_norm": 1e15, "epsilon": 1e-12}
    study = write(
        TRAINED, privacy=beyond_float32, algorithm={"step_size": 1e15},
        compare={"step_size": 5.0, "clip_norm": 0.5},
    )  # fmt: skip
    answer = run("compare", study, "--out", "wild")
    assert answer.code == 0, answer.err
    record = strictly((tmp_path / "wild" / "record.json").read_text())
    assert record["training"]["loss"][0][-1] is None
    assert record["compare"]["lost_gain"] is None
    assert run("report", "wild").code == 0


# Own data -----------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("suffix", ["csv", "npz", "parquet"])
def test_a_table_of_the_users_own_is_planned_and_trained(suffix, run, write, site_records, tmp_path):
    path = site_records(suffix)
    study = write(TRAINED, federation={
        "data": path.name, "clients": None, "partition": "natural", "records_per_client": None
    })  # fmt: skip
    answer = run("train", study, "--out", "own", "--json")
    assert answer.code == 0, answer.err
    record = strictly(answer.out)
    assert record["federation"]["clients"] == ["north", "south", "west"]
    assert record["federation"]["sizes"] == [16, 24, 32]
    assert record["federation"]["dimension"] == 4 * 2
    noise, uploads = np.array(record["plan"]["noise"]), np.array(record["training"]["uploads"])
    np.testing.assert_allclose(noise[0] / noise, np.array([16, 24, 32]) / 16, rtol=1e-9)
    assert uploads.sum(axis=1).tolist() == [12, 12]


def test_a_data_folder_given_by_option_is_searched(run, write, site_records, tmp_path):
    path = site_records("csv")
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    path.rename(folder / "moved.csv")
    study = write(TRAINED, federation={
        "data": "moved.csv", "clients": None, "partition": "natural", "records_per_client": None
    })  # fmt: skip
    assert run("plan", study, "--json").code == 2
    assert run("plan", study, "--json", "--data", folder).code == 0


# Account ------------------------------------------------------------------------------------------------


def test_account_answers_in_words_and_in_json(run):
    arguments = ["account", "--mechanism", "laplace", "--noise", "0.1", "--clip-norm", "300",
                 "--sizes", "6000,3000", "--rounds", "7", "--clients-per-round", "1"]  # fmt: skip
    answer = run(*arguments, "--json")
    assert answer.code == 0
    spent = [client["spent_epsilon"] for client in strictly(answer.out)["privacy"]["clients"]]
    assert spent == pytest.approx([4.0, 8.0])
    words = run(*arguments).out
    assert "client 0: epsilon 4 at delta 0 after 4 uploads" in words
    assert "client 1: epsilon 8 at delta 0 after 4 uploads" in words
    assert "client 1: epsilon 2 at delta 0 after 1 upload\n" in run(*arguments[:-4], "--releases", "1").out


def test_account_prices_the_plan_of_a_study(run, write):
    study = write(SIZES_ONLY)
    plan = strictly(run("plan", study, "--json").out)
    answer = strictly(run("account", study, "--json").out)
    assert {key: plan[key] for key in answer} == answer
    assert set(answer) == {"mechanism", "releases", "noise", "privacy"}


def test_without_noise_the_price_is_infinite(run, write):
    study = write(SIZES_ONLY, privacy={"mechanism": "none"})
    assert "client 9: epsilon inf at delta 0 after 500 uploads" in run("account", study).out
    clients = strictly(run("account", study, "--json").out)["privacy"]["clients"]
    assert clients[0]["spent_epsilon"] is None


# Help ---------------------------------------------------------------------------------------------------


COMMANDS = ("quickstart", "plan", "train", "compare", "account", "reproduce", "report")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_is_given_for_every_command(command, run):
    answer = run(*([command] if command else []), "--help")
    assert answer.code == 0
    assert "Usage" in answer.out
    if not command:
        assert all(name in answer.out for name in COMMANDS)


def test_help_and_accounting_never_load_jax():
    code = (
        "import sys; from noiseworthy.cli import app\n"
        "for args in (['--help'], ['plan', '--help'], ['account', '--mechanism', 'laplace', '--noise', '1',\n"
        "             '--clip-norm', '1', '--sizes', '5', '--releases', '1']):\n"
        "    app(args, standalone_mode=False)\n"
        "assert 'jax' not in sys.modules, 'jax was loaded'"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_module_exits_as_main_does_and_the_program_is_main(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "noiseworthy", "plan", "missing.toml"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == "error: study file missing.toml does not exist; give the path of a TOML file\n"
    program = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["scripts"]
    assert program == {"noiseworthy": "noiseworthy.__main__:main"}


def test_a_full_disk_is_told_in_a_line():
    """What the system says of it names no file, and it ended in a traceback."""
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "noiseworthy", "schema"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: what is written to cannot be used: No space left on device; name")
    assert "free space" in done.stderr
    assert "Traceback" not in done.stderr


LOADING = """
import os, signal, sys
class Stopped:
    def find_spec(self, name, path=None, target=None):
        if name == "noiseworthy.cli.training":
            os.kill(os.getpid(), signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background start with it ignored
sys.meta_path.insert(0, Stopped())
sys.argv = ["noiseworthy", "plan", "missing.toml"]
from noiseworthy.__main__ import main
main()
"""


def test_an_interrupt_while_it_is_loaded_is_told_in_a_line():
    """Its first sixth of a second, in which commands are loaded, ended in a traceback."""
    done = subprocess.run([sys.executable, "-c", LOADING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_a_fault_of_ours_is_not_blamed_on_the_user(run, write, monkeypatch):
    def broken(*_):
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(planning, "prepare_study", broken)
    with pytest.raises(ZeroDivisionError, match="ours"):
        run("plan", write(SIZES_ONLY))


# Algorithms with local work -----------------------------------------------------------------------------

LOCAL = {
    "dp-fedavg": (
        {"name": "dp-fedavg", "local_steps": 3, "total_iterations": 12, "clients_per_round": 4,
         "step_size": 1.0, "clipping_mode": "C"},
        {"local_steps": 3, "total_iterations": 12, "rounds": 4},
        ["local_steps", "iterations"],
    ),
    "dp-scaffnew": (
        {"name": "dp-scaffnew", "iterations": 20, "communication_probability": 0.4, "step_size": 1.0},
        {"iterations": 20, "communication_probability": 0.4, "expected_rounds": 8.0, "step_size": 1.0},
        ["communication_probability", "iterations"],
    ),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("name", list(LOCAL))
def test_local_algorithms_plan_compare_and_report_from_one_file(run, write, tmp_path, name):
    algorithm, keys, axes = LOCAL[name]
    study = {key: table for key, table in TRAINED.items() if key != "constants"}
    study = {**study, "algorithm": algorithm, "privacy": {**TRAINED["privacy"], "epsilon": 100.0},
             "compare": {"iterations": [4], "seeds": [100]}}  # fmt: skip
    path = write(study)
    plan = strictly(run("plan", path, "--json").out)
    assert {key: plan[key] for key in keys} == keys
    assert plan["privacy"]["unit"] == "client"
    assert plan["releases"] == [plan["rounds"]] * 4
    answer = run("compare", path, "--out", tmp_path / "run", "--json")
    assert answer.code == 0, answer.err
    record = strictly(answer.out)
    assert record["compare"]["axes"] == axes
    assert all(spent <= 100.0 for seed in record["training"]["spent_epsilon"] for spent in seed)
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.full
def test_noised_steps_plan_compare_and_account_from_one_file(run, write, tmp_path):
    """Twelve steps in four rounds: an upload is no release here, and a step is."""
    study = {key: table for key, table in TRAINED.items() if key != "constants"}
    path = write({
        **study,
        "algorithm": {"name": "dp-pasgd", "total_iterations": 12, "local_steps": 3, "step_size": 1.0},
        "resources": {"cost_per_round": 10.0, "cost_per_step": 1.0, "budget": 60.0, "unit": "joules"},
        "compare": {"local_steps": [1, 3], "rounds": [2, 4, 8], "seeds": [100]},
    })  # fmt: skip
    plan = strictly(run("plan", path, "--json").out)
    assert (plan["rounds"], plan["local_steps"], plan["releases"], plan["cost"]) == (4, 3, [12] * 4, 52.0)
    assert "after 12 noised steps" in run("account", path).out
    answer = run("compare", path, "--out", tmp_path / "run", "--json")
    assert answer.code == 0, answer.err
    record = strictly(answer.out)
    assert record["training"]["uploads"] == [[4] * 4] * 2
    assert np.max(record["training"]["spent_epsilon"]) <= 8.0
    affordable = {(cell["local_steps"], cell["rounds"]) for cell in record["compare"]["cells"]}
    assert affordable == {(1, 2), (3, 2), (1, 4), (3, 4)}
    assert record["compare"]["search_epsilon"] > 8.0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "τ = 1 is DP-SGD" in page
    assert "52 of 60 joules" in " ".join(run("train", path, "--out", tmp_path / "again").out.split())


SELECTION = {
    "federation": {"sizes": [600, 600, 300]},
    "task": {"dimension": 4266},
    "privacy": {"mechanism": "gaussian", "epsilon": [0.1, 1.0, 3.0], "delta": 1e-5, "clip_norm": 20.0},
    "algorithm": {"name": "dpfl-bcs", "rounds": 200, "clients_per_round": 1, "estimation_rounds": 0},
    "constants": {"smoothness": 1.0, "strong_convexity": 0.1, "heterogeneity": [0.0, 0.1, 0.0]},
}


def test_clients_of_different_budgets_are_planned_from_sizes_alone(run, write):
    answer = run("plan", write(SELECTION), "--json")
    assert answer.code == 0, answer.err
    plan = strictly(answer.out)
    assert set(plan) >= CONTRACT
    assert sum(plan["releases"]) == 200
    assert plan["releases"] == sorted(plan["releases"])
    assert len(plan["noise"]) == 3
    read = " ".join(run("plan", write(SELECTION)).out.split())
    assert f"{plan['releases'][0]} to {plan['releases'][2]} per client, paid for by its noise" in read
    words = run("account", write(SELECTION)).out
    assert f"client 2: epsilon 3 at delta 1e-05 after {plan['releases'][2]} uploads" in words


@pytest.mark.full
def test_drawn_budgets_train_and_report_from_one_file(run, write, tmp_path):
    study = write({
        "federation": {"data": "digits", "clients": 5, "partition": "iid"},
        "privacy": {"mechanism": "laplace", "epsilon": {"uniform": [0.1, 90.0]}, "clip_norm": 1.0},
        "algorithm": {"name": "dpfl-bcs", "rounds": 8, "clients_per_round": 2, "step_size": 0.5},
    })  # fmt: skip
    answer = run("train", study, "--out", "here", "--json")
    assert answer.code == 0, answer.err
    record = strictly(answer.out)
    assert record["training"]["uploads"] == [record["plan"]["releases"]]
    assert record["study"]["privacy"]["epsilon"] == {"uniform": [0.1, 90.0]}
    assert (tmp_path / "here" / "participation.png").exists()
    page = (tmp_path / "here" / "report.html").read_text()
    assert "epsilon = { uniform = [0.1, 90.0] }" in page.replace("&#34;", '"')
    assert "Whom to ask" in page


@pytest.mark.full
def test_a_rival_plans_trains_and_reports_from_one_file(run, write, tmp_path):
    study = write({
        "federation": {"data": "iris", "clients": 5, "partition": "iid"},
        "privacy": {"mechanism": "laplace", "epsilon": {"uniform": [0.1, 90.0]}, "clip_norm": 1.0},
        "algorithm": {"name": "privatefl", "rounds": 8, "clients_per_round": 2, "step_size": 0.5,
                      "selection": "biased", "momentum": 0.9},
    })  # fmt: skip
    answer = run("train", study, "--out", "here", "--json")
    assert answer.code == 0, answer.err
    record = strictly(answer.out)
    plan = record["plan"]
    assert set(plan) >= CONTRACT
    assert (plan["algorithm"], plan["momentum"], plan["personal_step_size"]) == ("privatefl", 0.9, 0.1)
    assert record["training"]["uploads"] == [plan["releases"]]
    assert sum(plan["releases"]) == 16
    assert (tmp_path / "here" / "participation.png").exists()
    page = " ".join((tmp_path / "here" / "report.html").read_text().split())
    assert "as DPFL-BCS would ask them" in page
    assert "Yang et al., PrivateFL" in page


def test_account_prices_whole_clients(run):
    """Two uploads of sensitivity 2C at a Laplace scale of 1: epsilon 2 * 2 * 0.5."""
    stated = [
        "--mechanism",
        "laplace",
        "--noise",
        "1",
        "--clip-norm",
        "0.5",
        "--sizes",
        "10,20",
        "--releases",
        "2",
    ]
    answer = run("account", *stated, "--unit", "client", "--json")
    assert [row["spent_epsilon"] for row in strictly(answer.out)["privacy"]["clients"]] == [2.0, 2.0]


# Resources ----------------------------------------------------------------------------------------------


def test_measured_costs_are_one_json_object_that_a_study_takes(run, write):
    answer = run("measure", write(TRAINED), "--bandwidth", "1e6", "--watts", "5", "--json")
    assert answer.code == 0, answer.err
    costs = strictly(answer.out)
    assert costs["bytes_down"] == costs["bytes_up"] == 4 * 640
    assert len(costs["seconds_per_step"]) == 4
    assert all(seconds > 0 for seconds in costs["seconds_per_step"])
    assert set(costs["resources"]) == {"bytes", "seconds", "joules"}
    assert costs["resources"]["seconds"]["cost_per_round"] == pytest.approx(8 * 640 / 1e6)
    planned = run("plan", write(TRAINED, resources=costs["resources"]["seconds"]), "--json")
    plan = strictly(planned.out)
    assert plan["cost"] <= costs["resources"]["seconds"]["budget"]
    assert plan["resources"]["unit"] == "seconds"


def test_measured_costs_read_as_tables_to_paste(run, write):
    answer = run("measure", write(TRAINED))
    assert answer.code == 0, answer.err
    assert "2,560 bytes down, 2,560 up (640 parameters, float32)" in answer.out
    assert "records of zeros; no private record was read" in answer.out
    assert "State --bandwidth for seconds" in answer.out
    assert "[resources]\ncost_per_round = 5120.0\ncost_per_step = 0.0\n" in answer.out


def test_without_data_only_bytes_are_counted(run, write):
    answer = run("measure", write(SIZES_ONLY))
    assert answer.code == 0, answer.err
    assert "31,360 bytes down" in answer.out
    assert "Steps are not timed: that takes data and a model" in answer.out


@pytest.mark.parametrize("algorithm", [{}, {"rounds": 90}])
def test_a_plan_states_what_it_costs(algorithm, run, write):
    resources = {"cost_per_round": 100.0, "cost_per_step": [1.0] * 9 + [11.0], "budget": 1000.0}
    answer = run("plan", write(SIZES_ONLY, algorithm=algorithm, resources=resources), "--json")
    plan = strictly(answer.out)
    k = plan["releases"][0]
    assert 0 < k <= 9
    assert plan["cost"] == k * 111.0 <= 1000.0
    assert plan["resources"]["cost"] == [k * 101.0] * 9 + [k * 111.0]
    assert plan["resources"]["budget"] == [1000.0] * 10
