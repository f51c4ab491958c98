"""The figures of Ma et al. by name: DPFL-BCS and its rivals on five data sets under two kinds of noise.

Ma et al., "The power of bias: optimizing client selection in federated learning with heterogeneous
differential privacy" (2025), section V. Data and constants are in `benches`, claims in `claims`, tables
in `tables`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.judge import Claim
from noiseworthy_papers.ma import claims as says
from noiseworthy_papers.ma.benches import CASES, COHORT, MECHANISMS, MOMENTUM, ROUNDS, Case
from noiseworthy_papers.ma.estimates import ESTIMATES
from noiseworthy_papers.ma.tables import table_1_beside, tables_of
from noiseworthy_papers.ma.utility import (
    FREE,
    ONE_STAGE,
    PERSONAL_BIASED,
    PLAIN,
    PRINTED,
    TWO_STAGES,
    WITHOUT,
)
from noiseworthy_papers.points import Role
from noiseworthy_papers.selections import BIASED, AlgorithmName, Estimating, Selection
from noiseworthy_papers.series import fixed
from noiseworthy_papers.spec import Figure, Item, Layout, Paper, Series

REPEATS, MANY = 5, 20
EVALUATIONS = 16
ALPHAS = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0)


# Series -----------------------------------------------------------------------------------------------

Settings = dict[str, Selection]
"""By the label of their series."""
ROLES: dict[str, Role] = {TWO_STAGES: "paper", ONE_STAGE: "planned rounds", PRINTED: "as printed"}
"""Of all other labels: fixed."""


def setting(
    algorithm: AlgorithmName, *, biased: bool = False, estimating: Estimating | None = None
) -> Selection:
    """T = 200 rounds with K = 20 clients and the paper's momentum, on the server."""
    return Selection(algorithm, ROUNDS, COHORT, biased, MOMENTUM, estimating)


FREELY: Settings = {FREE: setting("fedsgd")}
PERSONAL: Settings = {"PrivateFL": setting("privatefl"), PERSONAL_BIASED: setting("privatefl", biased=True)}


def rivals(mechanism: Family) -> Settings:
    """The private algorithms that the paper compares with."""
    plain = {PLAIN[mechanism]: setting("dpsgd" if mechanism == "gaussian" else "dmldp")}
    return {**plain, "WeiAvg": setting("weiavg"), "PFA": setting("pfa"), "PrivateFL": setting("privatefl")}


def selections(case: Case, mechanism: Family) -> Settings:
    """DPFL-BCS in two stages, as the paper has it, and in one, as this product plans it."""
    return {TWO_STAGES: setting(BIASED, estimating=case.estimating(mechanism)), ONE_STAGE: setting(BIASED)}


def private(case: Case, mechanism: Family) -> Settings:
    """All private algorithms of a figure."""
    return rivals(mechanism) | selections(case, mechanism)


def printed(mechanism: Family) -> Settings:
    """DPFL-BCS under the noise of the paper's bound; Laplace noise is printed right."""
    return {PRINTED: setting(BIASED)} if mechanism == "gaussian" else {}


def _series(settings: Settings) -> tuple[Series, ...]:
    return tuple(fixed(label, ROLES.get(label, "fixed"), chosen) for label, chosen in settings.items())


# Figures ----------------------------------------------------------------------------------------------


def _figure(
    case: Case,
    what: str,
    layout: Layout | None,
    epsilons: tuple[float, ...],
    claims: tuple[Claim, ...],
    settings: Callable[[Family], Settings],
    **more: Any,
) -> Figure:
    arms = tuple(case.arm(mechanism, epsilons, _series(settings(mechanism))) for mechanism in MECHANISMS)
    options = {"repeats": REPEATS, "least_seeds": REPEATS, **more}
    return Figure(
        f"{case.name}, {what}", layout, case.bench, arms, claims, evaluations=EVALUATIONS,
        repeats_stated=False, **options,
    )  # fmt: skip


def figure_2(case: Case) -> Figure:
    """Utility while training, at one epsilon_max."""
    return _figure(
        case, f"utility while training, ε_max = {case.most:g}", _layout(case, "round"), (case.most,),
        says.training(regression=case.regression),
        lambda m: FREELY | private(case, m) | printed(m),
        tables=tables_of(case),
    )  # fmt: skip


def table_1(case: Case) -> Figure:
    """PrivateFL with clients asked alike, and as DPFL-BCS would."""
    return _figure(
        case, "PrivateFL with and without biased selection", None, (case.most,),
        says.combined(case.column, regression=case.regression), lambda m: PERSONAL,
        tables=table_1_beside(case),
    )  # fmt: skip


def figure_4(case: Case) -> Figure:
    """Final utility against epsilon_max."""
    return _figure(
        case, "final utility against ε_max", _layout(case, "epsilon"), case.uppers,
        says.privacy(regression=case.regression), lambda m: private(case, m),
        tables=tables_of(case),
    )  # fmt: skip


def figure_5(case: Case) -> Figure:
    """Final utility against the concentration of the Dirichlet partition."""
    return _figure(
        case, f"final utility against α, ε_max = {case.most:g}", _layout(case, "alpha", "x"), (case.most,),
        says.data(regression=case.regression), lambda m: FREELY | private(case, m),
        tables=tables_of(case), alphas=ALPHAS,
    )  # fmt: skip


def momentum(case: Case) -> Figure:
    """Private algorithms with the paper's momentum and without."""

    def both(mechanism: Family) -> Settings:
        paper = private(case, mechanism)
        return paper | {f"{label}{WITHOUT}": replace(one, momentum=0.0) for label, one in paper.items()}

    return _figure(
        case, "with momentum and without", None, (case.most,),
        says.momentum(regression=case.regression), both, tables=tables_of(case),
    )  # fmt: skip


def stages(case: Case) -> Figure:
    """One stage and two under many seeds, because stage 2 shares no noise with a training in one stage."""
    return _figure(
        case, f"one stage and two under {MANY} seeds", None, (case.most,),
        says.stages(regression=case.regression), lambda m: selections(case, m),
        tables=tables_of(case), repeats=MANY, least_seeds=MANY,
    )  # fmt: skip


def _layout(case: Case, along: str, log: str = "") -> Layout:
    score = "loss" if case.regression else "accuracy"
    return Layout(along, (score,), lines="series", zoomed=True, log=log + "y" * case.regression)


# The paper --------------------------------------------------------------------------------------------

_DIRICHLET = tuple(name for name, case in CASES.items() if case.bench.partition == "dirichlet")
_ONCE: Sequence[str] = ("cifar-10-exact",)
"""Data beside the paper's, for figure 2 alone."""
_LINEAR = ("lending", "mnist-linear")
"""Data for what the paper does not show."""
FIGURES: dict[str, Figure] = {
    **{f"figure-2-{name}": figure_2(case) for name, case in CASES.items()},
    **{f"table-1-{name}": table_1(case) for name, case in CASES.items() if name not in _ONCE},
    **{f"figure-4-{name}": figure_4(case) for name, case in CASES.items() if name not in _ONCE},
    **{f"figure-5-{name}": figure_5(CASES[name]) for name in _DIRICHLET if name not in _ONCE},
    **{f"stages-{name}": stages(CASES[name]) for name in _LINEAR},
    **{f"momentum-{name}": momentum(CASES[name]) for name in _LINEAR},
}
COMMON = """\
- N = 100 clients, K = 20 of them in each of T = 200 rounds, full batches, clips, steps and ε ranges of the
  paper. Every client draws ε_n ~ U[ε_min, ε_max] and, under Gaussian noise, δ_n ~ U[1e-5, 1e-4]. ε in tables
  and figures is ε_max. Each of the five seeds draws budgets, schedule and noise anew; all algorithms and all
  ε_max share these draws, so that a gap is a mean of paired differences ± their deviation over seeds.
  The partition of the records is one and the same.
- All algorithms spend exactly their clients' budgets, by the exact accountant, for the whole number of times
  that each client is asked: Gaussian noise (2B/D_n) √T_n s(ε_n, δ_n), Laplace 2B T_n/(D_n ε_n). FedSGD has no
  noise.
- *DPFL-BCS, two stages* is the paper's algorithm with its T₀ = 10 rounds of estimation, mended where it leaks
  (losses are reported at the noised model, T_n are whole numbers) and where its estimate is noise (ours
  shrinks; L and μ, which weigh heterogeneity, are those of the paper's Table III). *One stage*, in the plan's
  colour, is this product's default: who is asked how often follows from budgets and sizes alone.
- *As printed* takes one stage with the Gaussian noise of the paper's bound, c₂ = 1: (2B/D_n) √(T_n ln(1/δ_n))
  /ε_n. It is **not private**; a table says what it spends. For Laplace noise the formula is sound; what
  overspends there, and under Gaussian noise too, is T_n that are no whole numbers: asked ⌈T_n⌉ times at the
  noise for T_n, 84 % of the clients of the paper's own setting spend more than their budget, the worst 7.8
  times it. Nobody can train a fraction of a round, so there is no such line.
- Momentum 0.9 and weight decay 2e-4 act on the server, after the noise. In the clients, as the paper has
  them, momentum would release old gradients again, up to ten times.
- PFA projects on the first singular vector, PrivateFL clips and noises its personal transform together with
  the model. Networks with batch norm have group norm here.
- Networks are miniatures: clients train on a share of their records (`--scale`), with the noise of all of
  them. Softmax regression stands beside them; each item says what it trains on.
- A series is better than another if its final utility is, in the mean over seeds: accuracy, or for Lending
  Club the squared error, turned round. The paper does not say how often it repeats.
"""
_ORDER = (
    "figure-2", "table-1", "figure-3", "figure-4", "figure-5", "figure", "table-3", "stages", "momentum",
)  # fmt: skip


def _place(item: tuple[str, Item]) -> int:
    """Where an item comes, as in the paper."""
    return next(place for place, start in enumerate(_ORDER) if item[0].startswith(start))


ITEMS: dict[str, Item] = dict(sorted([*FIGURES.items(), *ESTIMATES.items()], key=_place))
_SOFTMAX = "softmax regression for the paper's network"
PAPER = Paper(
    "ma",
    "Ma et al.",
    ITEMS,
    COMMON,
    ours=("figure-2-cifar-10-exact", *(item for item in ITEMS if item.startswith(("stages", "momentum")))),
    simpler=(
        ("*-linear", _SOFTMAX),
        ("figure-3", _SOFTMAX),
        ("figure-[89]", _SOFTMAX),
        ("figure-1[0-4]", _SOFTMAX),
        ("table-3", f"{_SOFTMAX}, and no CIFAR-10"),
    ),
    missing=(
        ("*cifar-10*", "ResNet-20 is too slow on a CPU"),
        ("figure-1[34]", "stage 1 on the 50,000 images of CIFAR-10 is too slow on a CPU"),
        ("*-linear", "not run yet; softmax regression at full size takes a CPU some half an hour an item"),
        ("*femnist", "its network with group norm is too slow on a CPU"),
        ("*", "its network is too slow on a CPU"),
    ),
)
