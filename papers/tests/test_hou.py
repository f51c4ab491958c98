"""Hou et al. as data: what is trained is what the paper states; its observations can be judged both ways."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from noiseworthy.methods.dp_scaffnew.algorithm import DPScaffNew
from noiseworthy.methods.registry import make
from noiseworthy.privacy.gaussian_epsilon import gaussian_epsilon
from noiseworthy_papers.figures import draw
from noiseworthy_papers.hou import claims as says
from noiseworthy_papers.hou import paper as hou
from noiseworthy_papers.hou.benches import EXPERIMENTS, FEMNIST, IXI, SMALL, Experiment, divisors, shortened
from noiseworthy_papers.hou.noise import QUIET, noise, noise_to_clip
from noiseworthy_papers.hou.paper import ITEMS, PAPER
from noiseworthy_papers.judge import verdict
from noiseworthy_papers.keeping import Store
from noiseworthy_papers.laboratory import Laboratory, Training
from noiseworthy_papers.noise_shares import spent_as_printed
from noiseworthy_papers.pages import reproductions_page
from noiseworthy_papers.points import Point
from noiseworthy_papers.reproduction import PAPERS, reproduce_figure
from noiseworthy_papers.settings import FedAvg, ScaffNew
from noiseworthy_papers.spec import Bench, Figure, Series

FIGURES = {name: item for name, item in ITEMS.items() if name != "noise"}
PRINTED = {  # Table 1, verbatim: clients, batch, iterations, clips
    "CIFAR-10": (5, 64, 10_000, (10, 50, 100)),
    "FEMNIST": (6, 16, 10_000, (10, 50, 100)),
    "Reddit": (3, 64, 10_000, (10, 50, 100)),
    "Fed-IXI": (3, 1, 400, (10, 20, 50)),
    "Messidor": (3, 4, 500, (10, 20, 50)),
}
TINY = Bench("digits", "softmax", "iid", clients=3, batch_size=4, horizon=24)


def figure_at(name: str, scale: float) -> Figure:
    figure = FIGURES[name](scale)
    assert isinstance(figure, Figure)
    return figure


def setting_of(series: Series, epsilon: float) -> FedAvg | ScaffNew:
    setting = series.setting(epsilon, 1.0) if series.setting else None
    assert isinstance(setting, FedAvg | ScaffNew)
    return setting


def point(
    error: float,
    steps: float = 1,
    epsilon: float = 1.0,
    clip: float = 10.0,
    algorithm: str = "dp-fedavg",
    series: str = "s",
    iterations: int = 60,
) -> Point:
    setting = {"rounds": 1, "iterations": iterations, "local_steps": steps, "clients_per_round": 6}
    curves = [[0.1, 1 - error * (1 + i * 1e-5)] for i in (-1, 0, 1)]
    return Point(
        "gaussian", epsilon, 1.0, series, "as printed", algorithm, setting, clip, 0.1, [0, 1],
        [[2.3, error]] * 3, curves, 0.0,
    )  # fmt: skip


def row(errors: list[float], **fixed) -> list[Point]:
    """Errors at 1, 2, 4, ... local steps."""
    return [point(error, steps=2**i, **fixed) for i, error in enumerate(errors)]


VALLEY, FALLING = [0.5, 0.1, 0.4], [0.5, 0.4, 0.1]


# Specifications ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_at_full_scale_an_experiment_is_the_row_of_table_one(name):
    setup = EXPERIMENTS[name].at(1.0)
    printed = (setup.bench.clients, setup.bench.batch_size, setup.iterations, setup.clips)
    assert printed == PRINTED[name]
    assert setup.epsilons == (3.3, 2.0, 1.0, 0.5)
    assert setup.step.initial == (0.05 if name == "Reddit" else 0.01)
    assert setup.local_steps == tuple(d for d in range(1, setup.iterations + 1) if setup.iterations % d == 0)


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=EXPERIMENTS)
def test_what_a_small_scale_changes_is_said(experiment: Experiment):
    setup = experiment.at(0.005)
    for value in (setup.iterations, setup.bench.batch_size, setup.step_size):
        assert f" {value:g}" in setup.bench.caveat.split("Scaled:")[1]
    assert {setup.local_steps[0], setup.local_steps[-1]} == {1, setup.iterations}
    assert set(setup.clips) <= set(experiment.clips)


def test_small_iterations_have_many_divisors_and_never_exceed_the_published():
    for scale in (0.001, 0.005, SMALL, 0.3, 0.99):
        t = shortened(10_000, scale, 60)
        assert max(60, scale * 10_000) >= t
        assert len(divisors(t, 10**6)) >= 9


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("scale", [0.005, 1.0])
def test_every_figure_trains_everybody_in_whole_rounds_at_client_level(name, scale):
    figure = figure_at(name, scale)
    for arm in figure.arms:
        assert (arm.mechanism, arm.delta, arm.clipping) == ("gaussian", 1e-5, "D")
        for series in arm.series:
            for epsilon in arm.epsilons:
                setting = setting_of(series, epsilon)
                assert setting.clients_per_round == figure.bench.clients
                assert setting.iterations % setting.local_steps == 0
                assert setting.iterations <= figure.bench.horizon


@pytest.mark.parametrize("name", FIGURES)
def test_labels_tell_settings_apart(name):
    labels = [s.label for arm in figure_at(name, 0.005).arms for s in arm.series]
    if name == "figure-3":  # the same shares of T with and without noise; roles tell them apart
        labels = [label for label in labels if label.endswith("printed")]
    free = [label for label in labels if labels.count(label) > 1]
    assert all("C=10" in label for label in free)


def test_noise_that_is_not_sound_is_never_called_the_papers_own_optimum():
    for name in FIGURES:
        for arm in figure_at(name, 0.005).arms:
            quiet = arm.constant != 1
            assert all(series.role == "as printed" for series in arm.series) or not quiet


def test_the_paper_is_registered():
    assert PAPERS["hou"] is PAPER
    assert set(ITEMS) >= {"noise", *(f"figure-{i}" for i in (2, 3, 4, 5, 8, 9))}


# Noise ------------------------------------------------------------------------------------------------


def test_the_noise_to_clip_ratio_is_that_of_simulated_uploads():
    """False alarm: the norm of 90,000 normals is within 2 % of its mean but once in 10^15."""
    rng, d, n, clip = np.random.default_rng(0), 90_000, 6, 7.0
    sigma = clip * np.sqrt(np.log(1e5)) / 2.0
    mean = rng.normal(scale=sigma, size=(n, d)).mean(axis=0)
    assert np.linalg.norm(mean) / clip == pytest.approx(noise_to_clip(d, n, 2.0, 1.0), rel=0.02)


def test_the_table_of_noise_has_every_experiment_and_grows_with_the_square_root_of_the_dimension():
    result = noise(1.0)
    ratios, spent = (table.rows for table in result.tables)
    assert [row[0] for row in ratios[::2]] == list(EXPERIMENTS)
    d, n, sound = (float(ratios[0][i].replace(",", "")) for i in (1, 2, 4))
    assert noise_to_clip(int(4 * d), int(n), 3.3) == pytest.approx(2 * sound, rel=0.01)
    assert all(float(row[1]) > float(row[0]) for row in spent)


def test_quiet_noise_spends_what_its_standard_deviation_says():
    """sigma / sensitivity = sqrt(v ln(1/delta)) / (2 epsilon), whose inverse is the mu of one upload."""
    mu = 2 * 0.5 / np.sqrt(QUIET * np.log(1e5))
    assert spent_as_printed("gaussian", 0.5, 1e-5, QUIET) == pytest.approx(gaussian_epsilon(mu, 1e-5))
    assert spent_as_printed("gaussian", 0.5, 1e-5, QUIET) > 1e6


def test_the_constant_scales_the_trained_noise_by_its_root():
    setup = FEMNIST.at(0.005)
    quiet = figure_at("figure-4", 0.005).arms[1]
    loud = replace(quiet, constant=1.0)
    laboratory = Laboratory(replace(TINY, clients=6), None, 0.1)
    sizes = []
    for one in (quiet, loud):
        training = Training(one, ScaffNew(6, 3, 6), 10.0, setup.step, printed=True)
        plan = laboratory.plan(training, 1.0)
        adapted = laboratory._adapted(make(plan, laboratory.task, 0), training, 1.0, plan)
        assert isinstance(adapted, DPScaffNew)
        sizes.append(np.asarray(adapted.noise))
    assert np.allclose(sizes[0] / sizes[1], QUIET**0.5)


# Fits and claims ------------------------------------------------------------------------------------


def optima(steps: dict[float, float]) -> list[Point]:
    """For each clip one row whose least error is at the given local steps."""
    return [
        point(0.1 if s == best else 0.5, steps=s, clip=clip, algorithm="dp-scaffnew")
        for clip, best in steps.items()
        for s in (best, 10 * best)
    ]


@pytest.mark.parametrize(("form", "other"), [("linear", "square root"), ("square root", "linear")])
def test_the_fit_finds_the_form_that_made_the_optima(form, other):
    """With an independent R^2, the squared correlation."""
    clips = np.array([4.0, 25.0, 100.0])
    x = says.FORMS[form](clips)
    points = optima(dict(zip(clips.tolist(), (3 * x + 1).tolist(), strict=True)))
    fits = {fit.form: fit for fit in says.fitted(points, "dp-scaffnew")}
    assert (fits[form].slope, fits[form].intercept) == pytest.approx((3.0, 1.0))
    assert fits[form].r_squared == pytest.approx(1.0)
    crossed = np.corrcoef(says.FORMS[other](clips), 3 * x + 1)[0, 1] ** 2
    assert fits[other].r_squared == pytest.approx(crossed)


def test_an_optimum_that_stays_has_no_fit():
    points = optima({10.0: 3.0, 50.0: 3.0, 100.0: 3.0})
    assert [fit.r_squared for fit in says.fitted(points, "dp-scaffnew")] == [0.0, 0.0]


@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_is_judged_on_its_figure_and_can_fail(name):
    """Random errors: nothing raises, evidence is given, and no claim always holds."""
    figure, rng = figure_at(name, 0.005), np.random.default_rng(0)
    seen: dict[str, set[str]] = {claim.words: set() for claim in figure.claims}
    for _ in range(30):
        points = random_points(figure, rng)
        for claim in figure.claims:
            found = verdict(claim, points)
            assert found.evidence
            seen[claim.words].add(found.word)
    fits = {claim.words for claim in says.FITS}
    assert all(seen[words] == {"not testable here"} for words in fits & seen.keys())
    assert all(words & {"partly", "disagrees"} for claim, words in seen.items() if claim not in fits)


def random_points(figure: Figure, rng: np.random.Generator) -> list[Point]:
    points = []
    for arm in figure.arms:
        for series in arm.series:
            for epsilon in arm.epsilons:
                setting = setting_of(series, epsilon)
                made = point(
                    rng.uniform(), setting.local_steps, epsilon, arm.clip_norm, series=series.label,
                    iterations=setting.iterations,
                    algorithm="dp-scaffnew" if isinstance(setting, ScaffNew) else "dp-fedavg",
                )  # fmt: skip
                points.append(replace(made, role=series.role))
    return points


# End to end -------------------------------------------------------------------------------------------


def test_a_tiny_figure_is_measured_judged_drawn_and_written():
    """Two algorithms, one clip, on digits of 8x8."""
    setup = replace(FEMNIST.at(0.005), bench=TINY, iterations=6, local_steps=(1, 3, 6), clips=(10.0,))
    arms = (
        replace(hou._free(setup), series=hou._free(setup).series[::3]),
        replace(hou._quiet(setup, 10.0), epsilons=(0.5,)),
    )
    figure = hou._figure("tiny", hou.BY_STEPS, setup, arms, says.UNLEARNT)
    result = reproduce_figure("hou", "figure-2", figure, Store.open(None), scale=0.1)
    assert {p.algorithm for p in result.points} == {"dp-fedavg", "dp-scaffnew"}
    assert all(0 <= p.error <= 1 for p in result.points)
    assert len(draw(result).axes) == 2
    page = reproductions_page(PAPER, [result])
    assert "not private" in page
    assert "as printed" in page


def test_the_stand_in_for_brain_scans_is_named_synthetic_and_has_three_owners():
    laboratory = Laboratory(IXI.at(0.005).bench, None, 0.005)
    assert laboratory.source == "synthetic volumes"
    assert laboratory.federation.sizes.tolist() == [20, 20, 20]
    assert laboratory.federation.label_shape == laboratory.federation.record_shape == (8, 12, 8)
    assert "synthetic" in IXI.at(0.005).bench.caveat


def test_a_folder_of_scans_takes_the_place_of_the_stand_in(tmp_path):
    (tmp_path / "ixi").mkdir()
    assert Laboratory(IXI.at(0.005).bench, tmp_path, 0.005).source == "ixi:ixi"


@pytest.mark.slow
@pytest.mark.data
def test_under_the_papers_budgets_nothing_is_learnt_even_with_one_upload(data_dir):
    figure = figure_at("figure-2", 0.005)
    ends = [replace(arm, series=(arm.series[2],), epsilons=(arm.epsilons[0],)) for arm in figure.arms[1:]]
    assert all(setting_of(arm.series[0], 3.3).rounds == 1 for arm in ends)
    small = replace(figure, arms=tuple(ends), claims=says.UNLEARNT[1:])
    result = reproduce_figure("hou", "figure-2", small, Store.open(None), data_dir=data_dir, scale=0.005)
    assert min(p.error for p in result.points) >= 0.75
    assert result.verdicts[0].word != "disagrees", result.verdicts[0].evidence
