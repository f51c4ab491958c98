"""The algorithms that DPFL-BCS is held against, on the same exact counts and the same accounting.

None of them decides whom to ask: all clients are asked alike, or as often as DPFL-BCS would ask them. Rounds,
clients per round and the step are stated (docs/theory/baselines.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.dpfl_bcs import planner as participation
from noiseworthy.methods.dpfl_bcs.search import uniform_counts
from noiseworthy.methods.rivals.table import RivalName
from noiseworthy.methods.selection import cohort
from noiseworthy.plans.plan import Plan, StepSize
from noiseworthy.plans.problem import Problem
from noiseworthy.privacy.mechanisms import Family, names

PERSONAL_STEP = 0.1
"""Step size of the transforms in the public code of PrivateFL."""


@dataclass(frozen=True)
class Rival:
    """Where an algorithm is from, and the one kind of noise that it has; None if it has all."""

    citation: str
    only: Family | None = None

    @property
    def mechanisms(self) -> tuple[Family, ...]:
        """The kinds of noise that it has."""
        return names() if self.only is None else (self.only,)


_LIU = "Liu et al., projected federated averaging with heterogeneous differential privacy, PVLDB 15(4), 2021"
RIVALS: dict[RivalName, Rival] = {
    "fedsgd": Rival("McMahan et al., communication-efficient learning of deep networks, 2017", "none"),
    "dpsgd": Rival("Abadi et al., deep learning with differential privacy, 2016; federated", "gaussian"),
    "dmldp": Rival(
        "Wu et al., the value of collaboration in convex machine learning with differential privacy, 2020",
        "laplace",
    ),
    "weiavg": Rival(f"{_LIU} (WeiAvg)"),
    "pfa": Rival(f"{_LIU} (PFA)"),
    "privatefl": Rival(
        "Yang et al., PrivateFL: personalized data transformation, 2023; its transform is inside the clip"
    ),
}
"""By their name in a study file."""


def plan(
    name: RivalName, problem: Problem, *, rounds: int, clients_per_round: int, step: StepSize,
    counts: ArrayLike | None = None, momentum: float = 0.0, personal_step: float = PERSONAL_STEP,
    notes: tuple[str, ...] = (),
) -> Plan:  # fmt: skip
    """Plan a rival: its noise pays for T_n replies of client n, K of N clients in each of T rounds.

    Args:
        name: one of `RIVALS`.
        problem: public facts and budget, with clipping A and full batches.
        rounds: T.
        clients_per_round: K.
        step: step sizes; no theory gives one.
        counts: T_n of a plan of DPFL-BCS, shape (N,); None asks all clients alike, K T / N times, up to one.
        momentum: of the server, in [0, 1).
        personal_step: step size of the clients' transforms, at least 0; of `privatefl` only.
        notes: warnings to carry.

    Returns:
        A `Plan` without prediction, whose `releases` are the T_n.

    Raises:
        InvalidInput: an unknown name, noise that the algorithm does not have, Poisson batches, another
            clipping mode than A, T, K or a momentum out of range, counts that no schedule has or that the
            resources do not pay for.

    Guarantee: `sum(releases) == K T`, `spent() <= epsilon` and `cost <= budget` for every client.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> problem = Problem(np.full(4, 600), 11, PrivacyBudget.of(1.0, 1e-5, 4), "gaussian", 1.0)
        >>> made = plan("weiavg", problem, rounds=10, clients_per_round=2, step=StepSize(0.1))
        >>> made.releases
        array([5, 5, 5, 5])
        >>> made.outcome
        'Train 10 rounds asking 2 of 4 clients in each; clients are asked 5 times, all alike.'

    Source: docs/theory/baselines.md.
    """
    check_fits(name, problem)
    asked = _counts(problem, rounds, clients_per_round) if counts is None else counts
    made = participation.stated(problem, asked, clients_per_round, rounds, step)
    how = "all alike" if counts is None else "as DPFL-BCS would ask them"
    personal = check.non_negative("personal_step", personal_step).item() if name == "privatefl" else 0.0
    return replace(
        made,
        algorithm=name,
        citation=RIVALS[name].citation,
        outcome=f"{participation.training(problem, made.releases, rounds, clients_per_round)}, {how}.",
        momentum=check.in_unit_interval("momentum", momentum, closed_left=True).item(),
        personal_step=personal,
        notes=notes,
    )


def check_fits(name: RivalName, problem: Problem) -> None:
    """Refuse an unknown rival, noise that a rival does not have, Poisson batches, persons it cannot clip.

    Raises:
        InvalidInput: any of them.

    Example:
        >>> from noiseworthy.privacy.budget import PrivacyBudget
        >>> check_fits("dmldp", Problem(np.full(4, 600), 11, PrivacyBudget.of(1.0, 0.0, 4), "laplace", 1.0))
    """
    check.one_of("algorithm", name, RIVALS.keys())
    has = RIVALS[name].mechanisms
    if problem.family not in has:
        others = ", ".join(other for other, rival in RIVALS.items() if problem.family in rival.mechanisms)
        raise InvalidInput(
            f'{name} needs mechanism = "{has[0]}", got "{problem.family}"; set it, or take one that has '
            f'"{problem.family}": {others}'
        )
    if name == "privatefl" and problem.row == "person":
        raise InvalidInput(
            f"{name} clips the transform that a client keeps with single records, which bounds no person; "
            'take another [algorithm], or [privacy] unit = "record"'
        )
    if problem.sampling_rate < 1:
        raise InvalidInput(
            f"{name} takes full batches, got sampling_rate = {problem.sampling_rate:g}; set sampling_rate = 1"
        )


def _counts(problem: Problem, rounds: int, clients_per_round: int) -> NDArray[np.int64]:
    t = check.count("rounds", rounds)
    k = cohort(clients_per_round, problem.n_clients)
    return uniform_counts(k, t, problem.n_clients)
