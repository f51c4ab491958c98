"""A third mechanism is one file: Student noise, written here, is planned, trained, accounted for and audited.

The density of Student's t with nu degrees has a slope of its logarithm of at most (nu + 1) / (2 sqrt nu), so
that noise of size s, t times s (nu + 1) / (2 sqrt nu), costs an epsilon of L1 sensitivity / s at most, as
Laplace noise does.
"""

from __future__ import annotations

import importlib.util
import json
import sys

import jax
import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from noiseworthy.cli import app
from noiseworthy.errors import ConfigError, InvalidInput
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.calibration import unit_noise
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import accounts_of
from noiseworthy.privacy.durable.statement import epsilon_of
from noiseworthy.privacy.mechanisms import registry
from noiseworthy.privacy.noise import simulated_noise
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity
from noiseworthy.studies.loading import parse_study
from noiseworthy.testing import AccountantConformance

FILE = '''
"""Student noise with 9 degrees of freedom: hides an L1 sensitivity, adds up in pure epsilon."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from noiseworthy.privacy.mechanisms.analysis import Analysis
from noiseworthy.privacy.mechanisms.base import Law, Mechanism
from noiseworthy.privacy.mechanisms.currencies import EPSILON

NU, STRETCH = 9, 5 / 3  # (nu + 1) / (2 sqrt nu)


class StudentAnalysis(Analysis):
    def spent(self, shift, used, delta, sampling_rate):
        return used * shift

    def unit_noise(self, budget, used, sampling_rate, settled):
        return used / budget.epsilon

    def closed_form(self, sampling_rate, delta):
        return True

    def growth(self, delta):
        return 2.0

    def accountant(self, sampling_rate, delta):
        return "pure epsilon of Student noise, basic composition"

    def accounting(self, sampling_rate, delta):
        return "the sum of the pure epsilons of Student noise"

    def looser(self, amount, delta):
        return None

    def power(self, ratios, sampling_rate):
        from noiseworthy.privacy.power import pure_power

        return pure_power(sum(k * ratio for ratio, k in ratios))

    def draws(self, key, shape):
        import jax

        return STRETCH * jax.random.t(key, NU, shape, "float32")

    def distribution(self):
        from scipy.stats import t

        return t(NU, scale=STRETCH)

    def log_density(self, values):
        return -(NU + 1) / 2 * np.log1p(np.square(values / STRETCH) / NU)

    def statistic(self, values):
        return -2 * (np.log(2) + self.distribution().logsf(np.abs(values)))

    def size_ratio(self, mean):
        return mean

    def loss_distribution(self, ratio, sampling_rate, grid):
        from dp_accounting.pld import common, privacy_loss_distribution

        pair = common.DifferentialPrivacyParameters(ratio, 0.0)
        return privacy_loss_distribution.from_privacy_parameters(pair, value_discretization_interval=grid)


ANALYSIS = StudentAnalysis()
LAW = Law(
    name="student", noisy=True, norm="l1", size_words=("slope", "inverse slope"),
    variance_factor=STRETCH**2 * NU / (NU - 2), square_spread=2 + 6 / (NU - 4), exponent=2,
    needs_delta=False, sampled=False, stable=False, currency=EPSILON, grid=None, freedom=2,
    noise=lambda size: Student(size), analysed_in=__name__,
)


@dataclass(frozen=True)
class Student(Mechanism):
    inverse_slope: np.ndarray
    law: ClassVar[Law] = LAW

    @property
    def size(self):
        return self.inverse_slope
'''

PRIVACY = '[privacy]\nmechanism = "student"\nepsilon = 3.0\nclip_norm = 1.0\n'
TRAINED = f"""
[federation]
data = "wine"
clients = 4
partition = "iid"
[task]
model = "softmax"
feature_norm = 1.0
normalise = true
{PRIVACY}
[algorithm]
name = "fedsgd-dpc"
rounds = 6
clients_per_round = 2
step_size = 0.5
[training]
seeds = [0, 1]
"""
BY_A_BOUND = f"""
[federation]
sizes = [600, 800, 1000]
[task]
dimension = 20
{PRIVACY}
[algorithm]
name = "fedsgd-dpc"
[constants]
smoothness = 0.5
strong_convexity = 0.05
gradient_bound = 1.0
heterogeneity = 0.1
initial_distance_sq = 10.0
"""


@pytest.fixture(scope="module")
def student(tmp_path_factory):
    """The law of the file, with one line in the registry."""
    path = tmp_path_factory.mktemp("mechanism") / "student.py"
    path.write_text(FILE)
    spec = importlib.util.spec_from_file_location("student_noise", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["student_noise"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(registry.LAWS, "student", module.LAW)
        yield module.LAW
    del sys.modules["student_noise"]


def answer(*argv: str) -> str:
    """Of the command line."""
    done = CliRunner().invoke(app, list(argv))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def folder(student, tmp_path_factory):
    """A run folder of the trained study."""
    path = tmp_path_factory.mktemp("run")
    (path / "study.toml").write_text(TRAINED)
    answer("train", str(path / "study.toml"), "--out", str(path / "out"))
    return path


def test_without_its_line_in_the_registry_it_is_refused():
    with pytest.raises(ConfigError, match="mechanism must be 'laplace', 'gaussian' or 'none', got 'student'"):
        parse_study({"federation": {"sizes": [5]}, "privacy": {"mechanism": "student"}})


def test_the_law_holds_for_what_it_says(student):
    """Size, variance and spread of squares, and a slope of the log-density that pays for the shift."""
    law = student.analysis.distribution()
    assert law.var() == pytest.approx(student.variance_factor)
    assert law.moment(4) / law.var() ** 2 - 1 == pytest.approx(student.square_spread)
    x = np.linspace(-30, 30, 20_001)
    for shift in (0.1, 1.0, 4.0):
        lost = student.analysis.log_density(x) - student.analysis.log_density(x + shift)
        assert 0.7 * shift < np.abs(lost).max() <= shift or shift > 2
        assert np.abs(lost).max() <= shift
    np.testing.assert_allclose(np.diff(law.logpdf(x) - student.analysis.log_density(x)), 0, atol=1e-12)
    drawn = simulated_noise(jax.random.key(3), "student", jax.numpy.ones(()), 40_000)
    uniform = stats.chi2(student.freedom).cdf(student.analysis.statistic(np.asarray(drawn, np.float64)))
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4


def test_a_stated_study_is_planned(student, tmp_path):
    """6 rounds of 2 among 4 are 3 uploads: scale 2 C / n times 3 / epsilon, in L1."""
    (tmp_path / "study.toml").write_text(TRAINED)
    plan = json.loads(answer("plan", str(tmp_path / "study.toml"), "--json"))
    assert plan["mechanism"] == "student"
    assert plan["releases"] == [3] * 4
    assert plan["privacy"]["accountant"] == "pure epsilon of Student noise, basic composition"
    assert [row["spent_epsilon"] for row in plan["privacy"]["clients"]] == pytest.approx([3.0] * 4)
    np.testing.assert_allclose(2 / np.array(plan["noise"]), [36, 36, 35, 35])
    assert "Student, slope 0.0556 to 0.0571 per coordinate" in answer("plan", str(tmp_path / "study.toml"))


def test_a_bound_plans_it_with_its_own_variance(student, tmp_path):
    """As Laplace noise of as much more variance, whose optimum asks for less."""
    (tmp_path / "study.toml").write_text(BY_A_BOUND)
    plan = json.loads(answer("plan", str(tmp_path / "study.toml"), "--json"))
    assert plan["train"]
    assert plan["rounds"] > 1
    budget = PrivacyBudget.of(3.0, 0.0, 3)
    one, other = (
        Problem(np.array([600, 800, 1000]), 20, budget, name, 1.0) for name in ("student", "laplace")
    )
    k = np.array([1, 5])
    ratio = one.weighted_noise(k) / other.weighted_noise(k)
    np.testing.assert_allclose(ratio, student.variance_factor / 2)


def test_it_trains_and_the_report_says_what_was_drawn(folder):
    record = json.loads((folder / "out" / "record.json").read_text())
    assert record["plan"]["mechanism"] == "student"
    page = (folder / "out" / "report.html").read_text()
    assert "Student noise of inverse slope" in page
    assert "the sum of the pure epsilons of Student noise" in page
    assert "Laplace" not in page
    assert "Gaussian" not in page


def test_its_ledger_adds_up_epsilon(student):
    """Shares of the lifetime budget, as for Laplace noise."""
    (account,) = accounts_of(PrivacyBudget.of(3.0, 0.0, 1), "student", "wards", "", ["north"])
    assert (account.currency, account.size, epsilon_of(account, account.share(1.5))) == ("epsilon", 3.0, 1.5)


def test_it_is_accounted_for_by_hand(student):
    out = answer(
        "account", "--mechanism", "student", "--noise", "0.1", "--clip-norm", "300", "--sizes", "6000",
        "--releases", "5", "--json",
    )  # fmt: skip
    assert json.loads(out)["privacy"]["clients"][0]["spent_epsilon"] == 5.0


@pytest.mark.usefixtures("student")
class TestStudentAccounting(AccountantConformance):
    """The suite that the page names, of a law that leaves out of its file what all laws have."""

    family, pure = "student", True

    def epsilon(self, shift, releases, delta):
        noise = registry.law_of("student").noise(np.array([1 / shift]))
        release = Release(noise, Sensitivity(np.ones(1), "l1", "replace-one"))
        return float(spent_epsilon(release, releases, delta)[0])

    def noise(self, epsilon, releases, delta):
        return float(unit_noise("student", PrivacyBudget.of(epsilon, delta, 1), releases)[0])


def test_an_attacker_proves_less_than_it_claims_and_more_than_nothing(folder):
    done = json.loads(answer("audit", str(folder / "study.toml"), "--trials", "3000", "--json"))
    (training,) = done["trainings"]
    assert done["passed"], training["checks"]
    assert 0.5 < training["proven_epsilon"] <= training["claimed_epsilon"] == 3.0


def test_it_is_not_deployed_without_a_sampler_on_a_grid(student):
    with pytest.raises(InvalidInput, match="family must be one of 'gaussian', 'laplace', got 'student'"):
        DeployedNoise("student", 2.0**32)
