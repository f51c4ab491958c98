"""The audit of an installation passes a sound one, touches nothing of the owner, and catches broken ones."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from noiseworthy.cli import app
from noiseworthy.deploy.attacks import BATCH
from noiseworthy.deploy.gateway import gateway, price
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.holding import Holding
from noiseworthy.deploy.gateway.messages import Request, read_message
from noiseworthy.deploy.gateway.owner import Owner
from noiseworthy.deploy.rehearsal import RECORDS, World, made_up, questions
from noiseworthy.deploy.self_audit import _attack_checks, self_audit
from noiseworthy.errors import GatewayError, InvalidInput, UserError
from noiseworthy.methods import rows
from noiseworthy.methods.wire import WIRES
from noiseworthy.privacy import grid_mechanism, sums
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.tasks.batch import Batch

FILE = """
[owner]
client = "north"
data_set = "hearts"
[federation]
data = "nowhere.csv"
clients = 1
classes = ["no", "yes"]
[budget]
mechanism = "gaussian"
epsilon = 5.0
delta = 1e-5
noise_floor = 1.0
[allowed]
algorithms = ["fedsgd-dpc"]
models = ["logistic"]
most_releases = 100
[files]
socket = "gateway.sock"
ledger = "ledger.sqlite"
"""


def owner_of(folder: Path, **tables: dict[str, Any]) -> Owner:
    """An owner's file as a value; neither its records nor its folder exist."""
    raw: dict[str, Any] = {
        "owner": {"client": "north", "data_set": "hearts"},
        "federation": {"data": "nowhere.csv", "clients": 1, "classes": ["no", "yes"]},
        "budget": {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "noise_floor": 1.0},
        "allowed": {"algorithms": ["fedsgd-dpc"], "models": ["logistic"], "most_releases": 100},
        "files": {"socket": str(folder / "none" / "g.sock"), "ledger": str(folder / "none" / "l.sqlite")},
    }
    return Owner.model_validate({name: table | tables.get(name, {}) for name, table in raw.items()})


LAPLACE = {"mechanism": "laplace", "delta": 0.0}


@pytest.fixture
def seeded(monkeypatch):
    """Noise of OpenDP's law from a seed, so that a test finds the same in every run."""
    draw = np.random.default_rng(20)

    def added(self: DeployedNoise, total: np.ndarray) -> np.ndarray:
        law = draw.normal if self.family == "gaussian" else draw.laplace
        return total + np.rint(law(0.0, self.scale, len(total))).astype(np.int64)

    monkeypatch.setattr(DeployedNoise, "added_to", added)


def failed(made) -> set[str]:
    return {check.name for check in made.checks if not check.passed}


# Sound installations ------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [{}, LAPLACE], ids=["gaussian", "laplace"])
def test_a_sound_installation_passes_and_much_of_what_it_charges_is_proven(tmp_path, seeded, budget):
    made = self_audit(owner_of(tmp_path, budget=budget), trials=600, seconds=np.inf)
    assert made.passed, made.verdict
    (one,) = made.attacks
    assert one.trials.count == 600
    assert one.charged == pytest.approx((5.0 if not budget else 2.0), rel=0.02)
    assert 0.5 * one.charged < one.proven < one.charged
    assert {check.name for check in made.checks} == {"bound", "noise", "price", "replay", "floor", "budget"}


def test_more_than_was_charged_that_accuses_nobody_is_said_to_be_chance(tmp_path, seeded):
    """Its verdict was that of 3.06 that was charged an attack proves 3.1, and nothing speaks against it."""
    owner = owner_of(tmp_path)
    made = self_audit(owner, trials=60, seconds=np.inf)
    (one,) = made.attacks
    assert not one.lucky
    assert "--trials" not in made.verdict + made.checks[0].says
    dear = replace(made, attacks=(replace(one, charged=30.04),))
    assert "of epsilon 30.1 that was charged for a release" in dear.verdict
    lucky = replace(made, attacks=(replace(one, charged=0.99 * one.proven),))
    assert lucky.passed
    said = (
        "fedsgd-dpc shows more than was charged with 95 % confidence, as one attack in 20 on a sound one may"
    )
    assert f"{said}; try more --trials" in lucky.verdict
    check = _attack_checks([*lucky.attacks], owner)[0]
    assert check.passed
    assert said in check.says


def test_every_algorithm_that_is_allowed_is_attacked(tmp_path, seeded):
    owner = owner_of(tmp_path, allowed={"algorithms": list(WIRES)})
    made = self_audit(owner, trials=660, seconds=np.inf)
    assert made.passed, made.verdict
    assert [one.question.algorithm for one in made.attacks] == [
        "fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "privatefl", "dpfl-bcs", "mr-mtl",
        "moments", "mean", "label-mean", "score",
    ]  # fmt: skip
    assert all(one.trials.errors < 0.45 * one.trials.count for one in made.attacks)
    assert json.loads(json.dumps(made.as_dict(), allow_nan=False))["trials"] == 660


@pytest.mark.parametrize("model", ["softmax", "svm", "linear"])
def test_every_linear_model_has_a_worst_pair_that_moves_an_upload_as_far_as_it_can(tmp_path, silent, model):
    """By twice the clip, moments by sqrt 2 of it, means by their classes; worlds are where they are taken."""
    worlds = []
    for present in (False, True):
        folder = tmp_path / str(present)
        folder.mkdir()
        asked = list(WIRES) if model == "softmax" else ["fedsgd-dpc"]
        owner = owner_of(tmp_path, allowed={"models": [model], "algorithms": asked})
        worlds.append(World.open(made_up(owner, folder, present, noise_floor=1e-6)))
    for question in questions(owner):
        uploads = [
            world.accounts([question.algorithm])[0].upload(
                world.request(question, question.algorithm, 0.5), len(world.mean(question))
            )
            for world in worlds
        ]
        for world, upload in zip(worlds, uploads, strict=True):
            np.testing.assert_allclose(upload, world.mean(question), atol=1e-5)
        moved = np.linalg.norm(uploads[1] - uploads[0]) * question.divisor
        assert moved == pytest.approx(question.probe.apart(0.25, "l2"), rel=1e-4)
    for world in worlds:
        world.gateway.close()


def test_accounts_on_the_same_records_rehearse_a_program_once(tmp_path, silent, monkeypatch):
    """An audit asks with a fresh account in each trial, and would compute each upload twice."""
    rehearsed, rehearsal = [], Holding.rehearsal
    monkeypatch.setattr(Holding, "rehearsal", lambda *asked: rehearsed.append(asked) or rehearsal(*asked))
    owner = owner_of(tmp_path)
    world, (question,) = World.open(made_up(owner, tmp_path, False, noise_floor=1e-6)), questions(owner)
    for one in world.accounts(["first", "second", "third"]):
        one.upload(world.request(question, one.gateway.account.client, 0.5))
    assert len(rehearsed) == 1
    world.gateway.close()


def test_a_budget_for_everything_an_owner_holds_is_attacked_by_whole_updates_alone(tmp_path):
    asked = [name for name in WIRES if name != "score"]  # of which no part has a budget of its own
    owner = owner_of(tmp_path, budget={"unit": "client"}, allowed={"algorithms": asked})
    assert [one.algorithm for one in questions(owner)] == ["dp-fedavg", "dp-scaffnew"]
    laplace = owner_of(tmp_path, budget=LAPLACE, allowed={"algorithms": ["dp-pasgd"]})
    with pytest.raises(InvalidInput, match="nothing can be audited"):
        questions(laplace)


PERSONS = {
    "ill": {"role": "label", "classes": ["no", "yes"]},
    "patient": {"role": "person", "at_most": 9},
    "age": {"kind": "number", "range": [0, 100]},
}


def owner_of_persons(folder: Path, **tables: dict[str, Any]) -> Owner:
    """An owner whose budget is for persons."""
    plain = owner_of(folder, **tables).model_dump(exclude={"columns", "federation", "budget"})
    budget = {"mechanism": "gaussian", "epsilon": 5.0, "delta": 1e-5, "noise_floor": 1.0, "unit": "person"}
    federation = {"data": "nowhere.csv", "clients": 1}
    return Owner.model_validate({**plain, "budget": budget, "federation": federation, "columns": PERSONS})


def test_a_budget_for_persons_is_attacked_by_all_records_of_one(tmp_path, seeded):
    works = ["fedsgd-dpc", "dp-fedavg", "dp-scaffnew", "dp-pasgd", "dpfl-bcs"]
    made = self_audit(owner_of_persons(tmp_path, allowed={"algorithms": works}), trials=500, seconds=np.inf)
    assert made.passed, made.verdict
    assert [one.question.algorithm for one in made.attacks] == works
    for clips_records in ("moments", "privatefl"):
        refused = owner_of_persons(tmp_path, allowed={"algorithms": [clips_records]})
        with pytest.raises(
            UserError, match=r"moments are uploaded for linear models|clipped with single records"
        ):
            self_audit(refused, trials=20)


def test_a_gateway_that_clips_records_and_is_paid_for_persons_is_caught(tmp_path, seeded, monkeypatch):
    @eqx.filter_jit
    def each_clipped(task, theta, batch, clip_norm, norm):
        def of_one(x, y):
            records = Batch(x[:, :-1], y, x[:, -1] > 0)
            return task.task.clipped_gradient_sum(theta, records, clip_norm, norm)

        return jax.vmap(of_one)(batch.x, batch.y)

    monkeypatch.setattr(rows, "_gradients", each_clipped)
    bare = lambda held, c, n, grid: np.trunc(held / grid.spacing).astype(np.int64).sum(0)  # noqa: E731
    monkeypatch.setattr(sums, "clipped_sum", bare)  # which clips every row again
    made = self_audit(owner_of_persons(tmp_path), trials=600, seconds=np.inf)
    assert "bound" in {check.name for check in made.checks if not check.passed}


def test_no_file_of_the_owner_is_opened_or_made(tmp_path, seeded):
    """The data do not exist: a gateway of this file could not even start."""
    (tmp_path / "owner.toml").write_text(FILE)
    command = ["gateway", str(tmp_path / "owner.toml"), "--self-audit", "--trials", "60", "--json"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)
    assert made["passed"]
    assert (made["client"], made["trials"], made["delta"]) == ("north", 60, 1e-5)
    assert {path.name for path in tmp_path.iterdir()} == {"owner.toml"}
    assert CliRunner().invoke(app, ["gateway", str(tmp_path / "owner.toml")]).exit_code != 0


def test_the_time_ends_an_attack_and_what_it_gathered_counts(tmp_path, seeded):
    made = self_audit(owner_of(tmp_path), trials=100_000, seconds=0.0)
    assert made.attacks[0].trials.count == BATCH
    assert made.passed


@pytest.mark.parametrize("epsilon", [0.2, 20.0])
def test_small_and_large_budgets_are_attacked_at_an_epsilon_that_trials_can_tell(tmp_path, seeded, epsilon):
    made = self_audit(owner_of(tmp_path, budget={"epsilon": epsilon}), trials=60, seconds=np.inf)
    assert made.passed, made.verdict
    assert 2.9 < made.attacks[0].charged <= 5.0


def test_a_file_that_refuses_what_it_allows_is_named(tmp_path):
    owner = owner_of(tmp_path, allowed={"models": ["softmax"], "most_parameters": 1})
    with pytest.raises(GatewayError, match="in rehearsal fedsgd-dpc was refused"):
        self_audit(owner, trials=20)


def test_options_of_a_self_audit_belong_to_it(tmp_path):
    (tmp_path / "owner.toml").write_text(FILE)
    done = CliRunner().invoke(app, ["gateway", str(tmp_path / "owner.toml"), "--json"])
    assert done.exit_code != 0
    assert "belong to --self-audit" in str(done.exception) + done.output


@pytest.mark.slow
@pytest.mark.parametrize("budget", [{}, LAPLACE], ids=["gaussian", "laplace"])
def test_a_sound_installation_with_the_noise_of_opendp_passes(tmp_path, budget):
    """Accused once in a thousand runs."""
    owner = owner_of(tmp_path, budget=budget, allowed={"algorithms": list(WIRES)})
    assert self_audit(owner, trials=1_200, seconds=np.inf).passed


@pytest.mark.slow
@pytest.mark.parametrize("model", ["cnn", "lenet5"])
def test_networks_are_attacked_through_their_last_bias(tmp_path, seeded, model):
    made = self_audit(owner_of(tmp_path, allowed={"models": [model]}), trials=60, seconds=np.inf)
    assert made.passed, made.verdict
    assert made.attacks[0].trials.errors < 27


# Broken installations -----------------------------------------------------------------------------------


def noise_halved(monkeypatch):
    halved = lambda family, scale: DeployedNoise(family, scale / 2)  # noqa: E731
    monkeypatch.setattr(grid_mechanism, "DeployedNoise", halved)


def noise_of_one_draw(monkeypatch):
    """Each upload looks right by itself, and their differences are free of noise."""
    draw = np.random.default_rng(3).normal(size=8)
    fixed = lambda self, total: total + np.rint(self.scale * draw).astype(np.int64)  # noqa: E731
    monkeypatch.setattr(DeployedNoise, "added_to", fixed)


def factor_dropped(monkeypatch):
    """The owner believes that an exchanged record changes C / n."""
    sound = rows.of_mean_gradient
    monkeypatch.setattr(rows, "of_mean_gradient", lambda *a: replace(sound(*a), value=sound(*a).value / 2))
    monkeypatch.setattr(grid_mechanism, "_check_covers", lambda *_: None)


def clip_not_applied(monkeypatch):
    sound = rows._gradients
    monkeypatch.setattr(rows, "_gradients", lambda t, x, b, clip, norm: sound(t, x, b, 1e6 * clip, norm))
    monkeypatch.setattr(
        sums, "clipped_sum", lambda held, c, n, grid: np.trunc(held / grid.spacing).astype(np.int64).sum(0)
    )


def half_the_price(monkeypatch):
    sound = price.share_of
    monkeypatch.setattr(price, "share_of", lambda *a: sound(*a) // 2)


def no_floor(monkeypatch):
    monkeypatch.setattr(gateway, "check_floor", lambda budget, job: None)


def every_release_anew(monkeypatch):
    """Asked again, a release is another one."""
    sound, numbers = gateway.Gateway.answer, count()

    def answer(self, data):
        message = read_message(data)
        if not isinstance(message, Request):
            return sound(self, data)
        renamed = message.model_copy(update={"run": f"{message.run} {next(numbers)}"})
        return sound(self, packed(renamed))

    monkeypatch.setattr(gateway.Gateway, "answer", answer)


@pytest.mark.parametrize(
    ("broken", "trials", "caught_by"),
    [
        (noise_halved, 400, {"bound", "noise"}),
        (noise_of_one_draw, 60, {"noise"}),
        (factor_dropped, 1_000, {"bound", "price", "budget"}),
        (clip_not_applied, 200, {"bound", "noise"}),
        (half_the_price, 60, {"price", "budget"}),
        (no_floor, 60, {"floor"}),
        (every_release_anew, 60, {"replay"}),
    ],
)
def test_a_broken_installation_is_caught(tmp_path, seeded, monkeypatch, broken, trials, caught_by):
    broken(monkeypatch)
    made = self_audit(owner_of(tmp_path), trials=trials, seconds=np.inf)
    assert failed(made) >= caught_by, made.checks
    assert "Let it answer no request" in made.verdict


@pytest.mark.slow
@pytest.mark.parametrize("broken", [noise_halved, factor_dropped, clip_not_applied])
@pytest.mark.parametrize("budget", [{}, LAPLACE], ids=["gaussian", "laplace"])
def test_a_broken_installation_with_the_noise_of_opendp_is_caught_by_its_attack(
    tmp_path, monkeypatch, broken, budget
):
    broken(monkeypatch)
    made = self_audit(owner_of(tmp_path, budget=budget), trials=1_000, seconds=np.inf)
    assert "bound" in failed(made), made.checks


def test_a_refuted_installation_ends_in_exit_code_one_and_says_so(tmp_path, seeded, monkeypatch):
    no_floor(monkeypatch)
    (tmp_path / "owner.toml").write_text(FILE)
    done = CliRunner().invoke(
        app, ["gateway", str(tmp_path / "owner.toml"), "--self-audit", "--trials", "40"]
    )
    assert done.exit_code == 1
    assert "does not keep what it charges for: floor" in " ".join(done.output.split())
    assert "FAILED" in done.output
    assert RECORDS % 2 == 1
