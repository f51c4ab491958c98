"""One stage or two: whether to estimate heterogeneity first, and the reason in a sentence."""

from typing import NamedTuple

from noiseworthy.methods.dpfl_bcs.bound import Curvature
from noiseworthy.methods.dpfl_bcs.worth_estimating import Estimation, break_even, worth
from noiseworthy.plans.problem import Constant, Problem

_PART = 20
"""Stage 1 takes a twentieth of the rounds, as in the experiments of Ma et al. (10 of 200)."""
_MOST_CLIENTS = 5000
"""Beyond, asking what estimation is worth would take longer than planning."""


class Advice(NamedTuple):
    """Rounds of stage 1, 0 for one stage, and why."""

    estimation_rounds: int
    reason: str


def advise(
    problem: Problem, constants: dict[str, Constant], *, rounds: int, clients_per_round: int,
    loss_cap: float | None, spread: float | None,
) -> Advice:  # fmt: skip
    """Whether the losses of a first stage are expected to bring more than they cost.

    Args:
        problem: public facts and whole budgets.
        constants: `smoothness` and `strong_convexity`, if known.
        rounds: T.
        clients_per_round: K.
        loss_cap: Theta, if known.
        spread: standard deviation of Gamma_n between clients, if somebody vouches for one; without it the
            answer is one stage, with the spread from which two would pay.

    Returns:
        `Advice`; reads public values only.

    Raises:
        InvalidInput: a spread that values in [0, Theta] cannot have.

    Example:
        >>> import numpy as np
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(40, 600), 50, PrivacyBudget.of(1.0, 1e-5, 40), "gaussian", 1.0)
        >>> values = dict(smoothness=1.0, strong_convexity=0.1)
        >>> known = {name: Constant(value, "assumed") for name, value in values.items()}
        >>> shape = dict(rounds=100, clients_per_round=8, loss_cap=2.3)
        >>> advise(problem, known, **shape, spread=0.3).estimation_rounds
        5
        >>> advise(problem, {}, **shape, spread=None).reason
        'One stage: without smoothness and strong_convexity heterogeneity cannot be weighed against noise.'

    Source: docs/theory/ma.md#stages, docs/theory/ma.md#estimation; the paper always estimates.
    """
    if (obstacle := _obstacle(problem, constants, rounds, loss_cap)) or loss_cap is None:
        return Advice(0, f"One stage: {obstacle}.")
    first = max(1, round(rounds / _PART))
    asked = problem, constants, Estimation.usual(rounds, first, loss_cap)
    shape = {"rounds": rounds, "clients_per_round": clients_per_round}
    if spread is None:
        return Advice(0, _unvouched(break_even(*asked, **shape)))
    found = worth(*asked, **shape, spread=spread)
    share = abs(found.gain) / found.one_stage
    if not found.pays:
        return Advice(0, f"One stage: estimating heterogeneity first is expected to cost {share:.1%} more.")
    return Advice(first, f"Two stages: estimating heterogeneity first is expected to save {share:.1%}.")


def _obstacle(
    problem: Problem, constants: dict[str, Constant], rounds: int, loss_cap: float | None
) -> str | None:
    """Why heterogeneity cannot be estimated, or need not be."""
    n = problem.n_clients
    reasons = {
        "without noise there is no budget to split": not problem.law.noisy,
        "without smoothness and strong_convexity heterogeneity cannot be weighed against noise": (
            Curvature.among(constants) is None
        ),
        "without a loss_cap no loss can be released": loss_cap is None,
        "a single round cannot be split": rounds < 2,
        "two stages cannot be planned with [resources] yet": problem.resources is not None,
        f"what estimating is worth is not asked for {n:,} clients, over {_MOST_CLIENTS:,}": n > _MOST_CLIENTS,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _unvouched(least: float | None) -> str:
    """Why one stage where nobody vouches for a spread."""
    if least is None:
        return "One stage: however much clients differ, estimating it would cost more than it brings."
    return (
        f"One stage: estimating heterogeneity pays only where it spreads by more than {least:.2g} between "
        "clients; state [constants] heterogeneity_spread if it does."
    )
