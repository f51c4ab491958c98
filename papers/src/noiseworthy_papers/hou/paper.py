"""The figures of Hou et al. as data: what is trained, and what the paper says of it.

Hou et al., "Balancing privacy and performance for private federated learning algorithms" (2023), section
"Experimental evaluation" and appendix C. Benches are in `benches`, claims in `claims`, the noise that
the budgets need in `noise`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from noiseworthy_papers.hou import claims as says
from noiseworthy_papers.hou.benches import (
    CIFAR10,
    EPSILONS,
    FEMNIST,
    IXI,
    MESSIDOR,
    REDDIT,
    SMALL,
    Experiment,
    Setup,
    divisors,
)
from noiseworthy_papers.hou.noise import DELTA, QUIET, noise
from noiseworthy_papers.judge import Claim
from noiseworthy_papers.points import NO_NOISE, Role
from noiseworthy_papers.settings import FedAvg, ScaffNew
from noiseworthy_papers.spec import Arm, Bench, Figure, Layout, LossUnit, Paper, Series

REPEATS = 3
MORE_SEEDS = 10
"""Of figures that take minutes: three seeds tell little apart."""
SHARES = (1 / 6, 1 / 2, 1.0, 4.0)
"""Shares of the iterations of figure 4 at which figure 3 trains."""
Kind = type[FedAvg] | type[ScaffNew]
KINDS: dict[str, Kind] = {"FedAvg": FedAvg, "ScaffNew": ScaffNew}
BEST_ROUNDS: dict[str, dict[float, int]] = {
    "FedAvg": {NO_NOISE: 60, 3.3: 60, 2.0: 60, 1.0: 20, 0.5: 20},
    "ScaffNew": {NO_NOISE: 60, 3.3: 60, 2.0: 60, 1.0: 60, 0.5: 20},
}
"""Uploads of least error in figure 4 at C = 10 and a small scale; figure 3 trains at these local steps."""

BY_STEPS = Layout("local_steps", ("error",), panels=("algorithm", "clip_norm"), log="x")
BY_ITERATIONS = Layout("iterations", ("error",), panels=("algorithm",), log="x")
QUIETLY = (
    "Noise is *quiet* (v = 1e-8, a ten-thousandth of the printed σ), hence **not private**: shapes only."
)


# Arms -------------------------------------------------------------------------------------------------


def _steps(setup: Setup, clip: float, local_steps: Sequence[int], role: Role) -> tuple[Series, ...]:
    """Both algorithms at every number of local steps."""
    t, n = setup.iterations, setup.clients
    return tuple(
        Series(f"{name}, C={clip:g}, steps {e}{_mark(role)}", role, lambda _e, _f, k=kind, e=e: k(t, e, n))
        for name, kind in KINDS.items()
        for e in local_steps
    )


def _mark(role: Role) -> str:
    return ", as printed" if role == "as printed" else ""


def _arm(
    setup: Setup, clip: float, epsilons: tuple[float, ...], series: tuple[Series, ...], constant: float = 1.0
) -> Arm:
    return Arm("gaussian", epsilons, DELTA, clip, setup.step, series, clipping="D", constant=constant)


def _free(setup: Setup) -> Arm:
    """Without noise, at the first clip."""
    clip = setup.clips[0]
    return _arm(setup, clip, (NO_NOISE,), _steps(setup, clip, setup.local_steps, "fixed"))


def _quiet(setup: Setup, clip: float) -> Arm:
    series = _steps(setup, clip, setup.local_steps, "as printed")
    return _arm(setup, clip, setup.epsilons, series, QUIET)


def _ends(setup: Setup) -> tuple[float, float]:
    """The largest and the least budget."""
    return max(setup.epsilons), min(setup.epsilons)


# Figures ----------------------------------------------------------------------------------------------


def _figure(
    title: str, layout: Layout | None, setup: Setup, arms: tuple[Arm, ...], claims: tuple[Claim, ...]
) -> Figure:
    return Figure(
        title, layout, setup.bench, arms, claims,
        note=QUIETLY, repeats=REPEATS, least_seeds=REPEATS, evaluations=1,
    )  # fmt: skip


def budgets(scale: float) -> Figure:
    """Figure 2 under the noise that the paper's budgets need, and under its own with v = 1."""
    setup = FEMNIST.at(scale)
    clip, small = setup.clips[0], scale < SMALL
    tried = divisors(setup.iterations, 3) if small else setup.local_steps
    epsilons = _ends(setup) if small else setup.epsilons
    roles: tuple[Role, Role] = ("paper", "as printed")
    noisy = (_arm(setup, clip, epsilons, _steps(setup, clip, tried, role)) for role in roles)
    title = "error against local steps, FEMNIST, under the paper's budgets"
    note = (
        "Sound noise, and noise as printed with v = 1. Clips of 50 and 100 multiply it by 5 and 10: left out."
    )
    figure = _figure(title, BY_STEPS, setup, (_free(setup), *noisy), says.UNLEARNT)
    return replace(figure, note=note)


def by_steps(experiment: Experiment, title: str, scale: float) -> Figure:
    """Error against local steps for every clip under quiet noise: figures 2, 6 and 7, or 8, or 9."""
    setup = experiment.at(scale)
    arms = (_free(setup), *(_quiet(setup, clip) for clip in setup.clips))
    claims = (*says.STEPS, *(says.CLIPPING if len(setup.clips) > 1 else ()))
    figure = _figure(title, BY_STEPS, setup, arms, claims)
    return replace(figure, note=" ".join([QUIETLY, *_left_out(experiment, setup)]))


def _left_out(experiment: Experiment, setup: Setup) -> list[str]:
    clips = [f"C = {c:g}" for c in experiment.clips if c not in setup.clips]
    epsilons = [f"ε = {e:g}" for e in EPSILONS if e not in setup.epsilons]
    return [f"Left out at this scale: {', '.join(clips + epsilons)}."] if clips + epsilons else []


def dice(scale: float) -> Figure:
    """Figure 8, whose error is 1 - Dice."""
    figure = by_steps(IXI, "error (1 - Dice) against local steps, Fed-IXI", scale)
    return replace(figure, bench=replace(figure.bench, loss=LossUnit("Dice loss", 1.0)))


def messidor(scale: float) -> Figure:
    """Figure 9; VGG-11 only where the scale leaves it the iterations that it needs."""
    figure = by_steps(MESSIDOR, "error against local steps, Messidor", scale)
    figure = replace(figure, least_seeds=MORE_SEEDS)
    return figure if scale >= SMALL else replace(figure, bench=_small_network(figure.bench))


def _small_network(bench: Bench) -> Bench:
    said = "VGG-11, with 9.2 million parameters, takes too long; the two-layer CNN stands in for it."
    return replace(bench, model="two-layer-cnn", caveat=f"{bench.caveat} {said}")


def by_iterations(scale: float) -> Figure:
    """Figure 3: error against iterations at the local steps that were best for each epsilon."""
    setup = FEMNIST.at(scale)
    arms = (
        _arm(setup, setup.clips[0], (NO_NOISE,), _lengths(setup, "fixed")),
        _arm(setup, setup.clips[0], setup.epsilons, _lengths(setup, "as printed"), QUIET),
    )
    figure = _figure("error against iterations, FEMNIST", BY_ITERATIONS, setup, arms, says.ITERATIONS)
    return replace(figure, note=f"{QUIETLY} Local steps per upload are the best of figure 4 for each ε.")


def _lengths(setup: Setup, role: Role) -> tuple[Series, ...]:
    """Both algorithms for shares of the iterations, rounded to whole rounds."""
    return tuple(
        Series(f"{name}, {share:.2g} of T{_mark(role)}", role, partial(_length, setup, name, share))
        for name in KINDS
        for share in SHARES
    )


def _length(setup: Setup, name: str, share: float, epsilon: float, fraction: float) -> FedAvg | ScaffNew:
    steps = max(1, setup.iterations // BEST_ROUNDS[name][epsilon])
    iterations = max(1, int(share * setup.iterations / steps)) * steps
    return KINDS[name](iterations, steps, setup.clients)


def fits(scale: float) -> Figure:
    """Figure 5: the optimal local steps against the clip."""
    figure = by_steps(FEMNIST, "optimal local steps against the clip, FEMNIST alone", scale)
    return replace(figure, layout=None, claims=says.FITS, tables=says.fits_table)


def coins(scale: float) -> Figure:
    """Algorithm 2 beside what the experiments ran."""
    setup = FEMNIST.at(scale)
    clip, t, n = setup.clips[0], setup.iterations, setup.clients
    ways = {"regular": True, "coins": False}
    series = tuple(
        Series(f"ScaffNew, steps {e}, {way}", "as printed", lambda _e, _f, e=e, r=r: ScaffNew(t, e, n, r))
        for e in setup.local_steps[1:3]
        for way, r in ways.items()
    )
    arms = (_arm(setup, clip, _ends(setup), series, QUIET),)
    figure = _figure("coins against regular communication, FEMNIST", None, setup, arms, says.COINS)
    return replace(figure, least_seeds=MORE_SEEDS)


# The paper --------------------------------------------------------------------------------------------

COMMON = """\
- Both algorithms protect a whole client (replace-one, δ = 1e-5) and clip the update (mode D). All clients
  take part in every round.
- *Sound* noise is what the stated ε needs: σ = 2C √R s(ε, δ) per upload, for the R uploads that are made.
- *As printed* is σ² = v C² R ln(1/δ)/ε². The paper does not say what v is. It is **not private**: at v = 1
  the budgets 3.3, 2, 1 and 0.5 spend 9.7, 5.3, 2.4 and 1.1.
- So few clients cannot train so many parameters under either (item *noise*, figure 2): the paper's figures
  cannot have had such noise. Their shapes are looked for under *quiet* noise, v = 1e-8. The figures do not
  determine v; with this one optima can lie inside the range at our few iterations. It protects nobody.
- As in the paper's experiments, DP-ScaffNew communicates after every τ-th iteration with p = 1/τ. Algorithm
  2 throws coins instead; the item *coins* compares the two. Either way the schedule is public.
- Below a scale of 0.1 there are fewer iterations, smaller batches, larger steps, fewer local steps tried and
  test records scored, and fewer budgets and clips; every item names its own.
- ε = ∞, the dark line, trains without noise, clipped at the first C and drawn there only.
- Seeds change start, batches and noise; the partition of the records is one and the same. ± is the standard
  deviation over seeds. The test error is 1 - accuracy, for Fed-IXI 1 - Dice.
- Figures 2, 6 and 7 are one item per data set, with the clips side by side; for FEMNIST that is figure 4.
  Figure 10 repeats figure 3 on other data and is left out.
"""
ITEMS = {
    "noise": noise,
    "figure-2": budgets,
    "figure-2-cifar10": partial(by_steps, CIFAR10, "error against local steps, CIFAR-10"),
    "figure-2-reddit": partial(by_steps, REDDIT, "error against local steps, Reddit"),
    "figure-3": by_iterations,
    "figure-4": partial(by_steps, FEMNIST, "error against local steps for three clips, FEMNIST"),
    "figure-5": fits,
    "figure-8": dice,
    "figure-9": messidor,
    "coins": coins,
}
PAPER = Paper(
    "hou",
    "Hou et al.",
    ITEMS,
    COMMON,
    ours=("noise", "coins"),
    missing=(
        ("figure-2-cifar10", "a CNN of 94,666 parameters under 10,000 iterations is too slow on a CPU"),
        ("figure-2-reddit", "a recurrent network of 1.1 million parameters is too slow on a CPU"),
        ("figure-3", "it needs the best local steps of figure 4, and up to four times its iterations"),
    ),
)
