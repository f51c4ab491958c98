"""A run that goes on without all of its owners: rounds need half of those asked, or all but the dropouts."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, replace

import pytest
from direct import Direct

from noiseworthy.cli.deploying import _trained
from noiseworthy.deploy.deployment import Deployment
from noiseworthy.deploy.gateway.client import pack_about
from noiseworthy.errors import GatewayError, ResumeError, TooFewReplies
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import prepare

from .test_deployed import STUDY, Owners, deployment_of, patient_for_a_moment, spoiled  # noqa: F401
from .test_deployed_sums import summing

AWAY = "client 0"
ABOUTS, COHORT = 4, 4


class Deployed:
    """A deployment whose server is killed after some answers, and gone on with."""

    def __init__(self, folder, owners, made):
        self.place, self.runs, self.owners, self.made = folder / "ward", folder / "runs", owners, made
        self.place.mkdir()

    def run(self, exchange, resume=True):
        return _trained(
            self.made, self.owners.deployment, exchange, self.place, self.runs, name="ward", resume=resume,
            patience=1.0,
        )  # fmt: skip

    def broken_off(self, rounds: int) -> None:
        """A run whose owners are silent after so many rounds."""
        last = ABOUTS + rounds * COHORT
        with pytest.raises(TooFewReplies):
            self.run(spoiled(self.owners, lambda _, before, data: [data if before < last else None]), False)

    def those(self, *away: str) -> dict:
        return {name: one.answer for name, one in self.owners.opened.items() if name not in away}


@pytest.fixture(scope="module")
def made():
    return planned(prepare(parse_study(tomllib.loads(STUDY))))


@pytest.fixture
def deployed(made, tmp_path):
    with Owners(Deployment.of(made.prepared, made.plan), tmp_path) as owners:
        yield Deployed(tmp_path, owners, made)


def test_a_run_goes_on_without_an_owner_and_warns_once(deployed, capsys):
    """It refused although half of the owners are enough for a round."""
    deployed.broken_off(2)
    capsys.readouterr()
    tables = tomllib.loads(STUDY) | {"training": {"seeds": [*range(7, 10)]}}
    study = parse_study(tables)
    deployed.made = deployed.made._replace(prepared=replace(deployed.made.prepared, study=study))
    record = deployed.run(Direct(deployed.those(AWAY)))
    said = capsys.readouterr().err
    assert "Over a network one training is made, by the first of 3 seeds, 7." in said
    assert said.count(f"{AWAY} does not answer: no gateway answers; start it") == 1
    assert "The training goes on without them." in said
    missing = [[name for name, why in one["answers"].items() if why] for one in record["network"]["rounds"]]
    assert missing == [[], [], [AWAY], [AWAY], [AWAY]]
    assert [one["client"] for one in record["network"]["owners"]] == ["client 1", "client 2", "client 3"]


@pytest.mark.parametrize(
    ("rounds", "away", "said"),
    [(2, (AWAY, "client 1", "client 2"), "at least 2 owners"), (0, (AWAY,), "client 0 does not answer")],
)
def test_too_few_owners_are_refused_and_before_the_first_round_one_is_too_few(deployed, rounds, away, said):
    """All of them hold the price of the run before anything is asked."""
    deployed.broken_off(rounds)
    with pytest.raises(GatewayError, match=said) as raised:
        deployed.run(Direct(deployed.those(*away)))
    assert ("must be there" in str(raised.value)) == bool(rounds)


def test_a_folder_without_a_run_is_not_gone_on_with(deployed):
    with pytest.raises(ResumeError, match="without --resume"):
        deployed.run(Direct(deployed.those()))


@dataclass
class Late(Direct):
    """An owner who is there once the others were asked for more than their terms."""

    away: bool = True

    @property
    def clients(self):
        return tuple(name for name in self.owners if not (self.away and name == AWAY))

    def send(self, client, message, deadline):
        self.away = self.away and message == pack_about()
        super().send(client, message, deadline)


def test_an_owner_who_comes_back_meanwhile_takes_part_and_its_ledger_is_known(deployed, capsys):
    deployed.broken_off(2)
    record = deployed.run(Late(deployed.those()))
    assert record["network"]["rounds"][-1]["answers"][AWAY] == ""
    known = json.loads((deployed.place / "ledgers.json").read_text())[AWAY]
    (kept,) = known.values()
    assert kept["spent"] > 0.99
    assert kept["head"].partition(":")[0] > "1"


def test_an_owner_whose_terms_do_not_fit_is_refused_whoever_is_missing(deployed):
    abouts = [gateway.about for gateway in deployed.owners.opened.values()][1:]
    deployed.owners.deployment.check_owners(abouts, resume=True, fewest=2)
    abouts[0] = abouts[0].model_copy(update={"records": 9})
    with pytest.raises(GatewayError, match="client 1 holds 9 records"):
        deployed.owners.deployment.check_owners(abouts, resume=True, fewest=2)


def test_how_many_owners_a_round_needs():
    assert deployment_of().fewest == 2
    assert deployment_of(STUDY.replace("clients_per_round = 4", "clients_per_round = 3")).fewest == 2
    assert deployment_of(summing(STUDY)).fewest == 3
