"""What Ma et al. say of their estimates, what we say of ours, and the numbers beside each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.judge import NEAR, SLACK, Claim
from noiseworthy_papers.kinds import Ahead, Facts, Level
from noiseworthy_papers.ma.benches import TABLE_3
from noiseworthy_papers.ma.constants import STARTS
from noiseworthy_papers.ma.stages import Measured, distance, likeness, rank_correlation
from noiseworthy_papers.points import Statistic
from noiseworthy_papers.selecting import Where
from noiseworthy_papers.spec import Table

Constants = Mapping[tuple[str, Family], dict[str, Any]]
_TELLS = 0.5
"""Rank correlation from which on one quantity is taken to follow another."""
_EXACT = 1e-6
"""Residual, over the loss, that counts as none."""
_PLAUSIBLE = 10.0
"""Factor within which a constant is what is known in public, which is known no better."""
OURS, RAW, PAPERS, ALIKE, DECISION = "ours", "a client's own reports", "the paper's", "clients alike", "T_n*"
"""Series of statistics: whose estimates, none, and the decision."""
_KINDS = {"estimate": OURS, "raw": RAW, "as_printed": PAPERS}
_NOISE = (
    "one step does not show how far a client's least loss is, and the least of absolute noisy differences "
    "is mostly noise"
)
_EARLY = (
    "stage 1 pays for its losses with half a per cent of the budget, and they are those of models hardly "
    "trained, at which clients differ otherwise than at the optimum"
)
_UNLIKE = (
    "where noise is low and clients differ much, estimates tell some of it; what stage 1 costs the gradients "
    "is not counted here"
)

# Estimates and decisions --------------------------------------------------------------------------------


def statistics(found: Measured) -> list[Statistic]:
    """What claims on one data set under one kind of noise are judged on, by seed.

    `likeness` is a rank correlation with the true Gamma_n, of T_n* with epsilon_n; `distance` the error of
    deviations; `excess` how much J of stage 2 lies above its least, as a share.
    """
    told, excess = found["told"], found["excess"]
    biased = [
        rank_correlation(np.add(one["first"], one["releases"]).tolist(), one["epsilon"]) for one in told
    ]
    estimates = [
        Statistic(whose, {
            "likeness": [likeness(one, name) for one in told],
            "distance": [distance(one, name) for one in told],
            **({"excess": [one[name] for one in excess]} if name in excess[0] else {}),
        })
        for name, whose in _KINDS.items()
    ]  # fmt: skip
    alike = Statistic(ALIKE, {"excess": [one["alike"] for one in excess]})
    return [Statistic(DECISION, {"likeness": biased}), *estimates, alike]


_OURS, _PAPERS, _ALIKE = (Where(series=(name,)) for name in (OURS, PAPERS, ALIKE))
CLAIMS = (
    Claim(
        "The decision is biased: clients of large budgets are asked more often (judged: rank correlation of "
        f"T_n* and ε_n {_TELLS:g} or more).",
        (Level("likeness", Where(series=(DECISION,)), least=_TELLS),),
    ),
    Claim(
        f"Γ̂_n by eq. (8) is a reliable estimate of Γ_n (judged: rank correlation {_TELLS:g} or more).",
        (Level("likeness", _PAPERS, least=_TELLS),),
        _NOISE,
    ),
    Claim(
        "The paper's estimates bring P1 a better decision than taking clients as alike.",
        (Ahead(_PAPERS, _ALIKE, "excess"),),
        _NOISE,
    ),
    Claim(
        "Our estimates are nearer to the true Γ_n than the paper's.",
        (Ahead(_OURS, _PAPERS, "distance"),),
        _EARLY,
        ours=True,
    ),
    Claim(
        "Taking clients as alike, as one stage does, decides at least as well as any of these estimates "
        f"(judged: J of stage 2 at the true Γ_n, {SLACK:.0%} of its least is a tie).",
        (Ahead(_ALIKE, Where(series=(OURS, PAPERS)), "excess", by=-SLACK),),
        _UNLIKE,
        ours=True,
    ),
)
"""On one data set under one kind of noise."""


def quality(found: Measured) -> Table:
    """How near estimates come to the truth, and what decisions by them cost."""
    told, excess = found["told"], found["excess"]
    rows = [
        [
            whose,
            _mean([likeness(one, name) for one in told]),
            _mean([distance(one, name) for one in told]),
            _percent([one[name] for one in excess]) if name in excess[0] else "",
        ]
        for name, whose in _KINDS.items()
    ]
    alike = ["none, clients alike", "", _mean([float(np.std(one["true"])) for one in told])]
    header = ["estimate", "rank correlation with Γ_n", "error of deviations", "J above its least"]
    return Table(
        header, [*rows, [*alike, _percent([one["alike"] for one in excess])]], "How good estimates are"
    )


def note(found: Measured) -> str:
    """How the truth was found, and how far a loss at the optimum alone would tell it."""
    told = found["told"]
    common = rank_correlation(found["common"], told[0]["true"])
    noise = np.median([value for one in told for value in one["noise"] if value is not None])
    return (
        "Drawn is the first seed, with the true Γ_n = F_n(w*) − min F_n (dotted), which was found from all "
        "records without noise and is **not private**. The rank correlation of F_n(w*) alone with it is "
        f"{common:.2f}. The noise of a client's mean report is {_short(noise)} (median), true Γ_n deviate by "
        f"{np.std(told[0]['true']):.2g}."
    )


# Table III ----------------------------------------------------------------------------------------------

CONSTANTS_NOTE = (
    "P2 starts at γ = L = 0.1, 10 and 1000, μ = L/2, ‖w⁰ − w*‖² = 1 and σ² = 0, on the losses of the first "
    "seed. P2′ fits all ten rounds, with γ = 8L/μ and a prior of one unit of ln L and ln μ around public "
    "values: half the number of pixels plus the ridge, and the ridge."
)


def constants_claims(constants: Constants) -> tuple[Claim, ...]:
    """Claims on rho_min, gamma, L and mu: facts, with the numbers they rest on."""
    return (_identified(constants), _tied(), _below_one(constants), _stays(constants))


def _identified(constants: Constants) -> Claim:
    held, ends = [], []
    for one in constants.values():
        exact = [fit for fit in one["p2"] if fit["residual"] <= _EXACT * abs(one["loss"])]
        ends += [fit["smoothness"] for fit in exact]
        held.append(len(exact) == 1)
    evidence = (
        f"from {len(STARTS)} starts {len(ends)} of {len(STARTS) * len(held)} searches end with F̃ = F̂ "
        f"exactly, with L from {min(ends, default=0):.3g} to {max(ends, default=0):.3g}"
    )
    words = "γ, L and μ can be estimated by solving P2."
    return Claim(words, (Facts(tuple(held), evidence),), "P2 has five unknowns and one equation")


def _tied() -> Claim:
    ratios = [gamma / (8 * smooth / mu) for _, gamma, smooth, mu in TABLE_3.values()]
    evidence = f"printed γ̂ over 8 L̂/μ̂: {min(ratios):.2g} to {max(ratios):.2g}"
    words = f"Printed values agree with Theorem 5, which has γ = 8L/μ (judged: within a factor of {NEAR:g})."
    return Claim(
        words, (Facts(tuple(1 / NEAR <= one <= NEAR for one in ratios), evidence),), "P2 leaves γ free"
    )


def _below_one(constants: Constants) -> Claim:
    printed = [row[0] <= 1 for row in TABLE_3.values()]
    ours = [one["rho_min"] <= 1 for one in constants.values()]
    counts = f"{sum(printed)} of {len(printed)} printed rows", f"{sum(ours)} of {len(ours)} of ours"
    evidence = f"at most 1 in {' and '.join(counts)}"
    words = "ρ̂_min of eq. (9) respects its definition, by which ρ_min ≤ 1."
    reason = "eq. (9) compares two noisy means; P1 does not need the number"
    return Claim(words, (Facts((*printed, *ours), evidence),), reason)


def _stays(constants: Constants) -> Claim:
    names = ("smoothness", "strong_convexity")
    factors = [one["regularised"][name] / one["public"][name] for one in constants.values() for name in names]
    held = tuple(1 / _PLAUSIBLE <= factor <= _PLAUSIBLE for factor in factors)
    alike = sum(np.isclose(*(one["regularised"][name] for name in names)) for one in constants.values())
    evidence = (
        f"L and μ are {min(factors):.2g} to {max(factors):.2g} times their public values, and equal in "
        f"{alike} of {len(constants)} cases"
    )
    reason = (
        "the bound lies far above any loss that is measured, and the fit moves both until the bound touches "
        "it: no data set of ten rounds is a measurement of L and μ; public values are the default"
    )
    words = "P2′ gives L and μ that a planner could use, within a factor of ten of what is known in public."
    return Claim(words, (Facts(held, evidence),), reason, ours=True)


def constants_beside(constants: Constants) -> Table:
    """The paper's rows beside P2 from every start, P2' and public values."""
    header = ["data", "noise", "by", "ρ_min", "γ", "L", "μ", "8L/μ", "|F̂ − F̃|"]
    rows = [row for which, one in constants.items() for row in _rows(which, one)]
    return Table(header, rows, "Entry by entry")


def _rows(which: tuple[str, Family], one: dict[str, Any]) -> list[list[str]]:
    rho, gamma, smooth, mu = TABLE_3[which]
    name = [which[0], which[1]]
    rows = [[*name, "paper", f"{rho:.3f}", *_shown(gamma, smooth, mu), ""]]
    for start, fit in zip(STARTS, one["p2"], strict=True):
        found = _shown(fit["gamma"], fit["smoothness"], fit["strong_convexity"])
        rows.append([*name, f"P2 from {start:g}", f"{one['rho_min']:.3f}", *found, f"{fit['residual']:.1g}"])
    for kind, label in (("regularised", "P2′"), ("public", "public")):
        values = one[kind]
        rows.append(
            [*name, label, "", *_shown(values["gamma"], values["smoothness"], values["strong_convexity"]), ""]
        )
    return rows


def _shown(gamma: float, smoothness: float, strong_convexity: float) -> list[str]:
    values = (gamma, smoothness, strong_convexity, 8 * smoothness / strong_convexity)
    return [f"{value:.4g}" for value in values]


# Words --------------------------------------------------------------------------------------------------


def _mean(values: Sequence[float]) -> str:
    """Mean ± deviation over seeds."""
    return f"{_short(np.mean(values))} ± {_short(np.std(values, ddof=1))}"


def _percent(values: Sequence[float]) -> str:
    return f"{_mean((100 * np.array(values)).tolist())} %"


def _short(value: Any) -> str:
    """Two digits, and all of whole hundreds."""
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"
