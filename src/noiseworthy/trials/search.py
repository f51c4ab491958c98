"""Planning by trial: a race of settings on public data, and the winner's plan for the private federation.

Nothing private enters: proxies are public, and the noise follows from public sizes and budgets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from noiseworthy.plans.plan import Plan
from noiseworthy.tasks.base import Task
from noiseworthy.trials.bench import Bench, Candidate
from noiseworthy.trials.cache import keep, place_of, recalled
from noiseworthy.trials.deadline import Deadline
from noiseworthy.trials.race import Result, race
from noiseworthy.trials.spaces import Space
from noiseworthy.trials.treatment import Treatment

SPREAD_WARNING = 0.1
"""Lost gain on one proxy above which a plan warns."""
_WORTH_A_WORD = 0.05
"""Lost gain up to which fewer uploads are told of."""
WORTHLESS = 0.995
"""What is voted on as a share of that of no training, above which training is not worth its noise."""


@dataclass(frozen=True)
class TrialPlan:
    """A plan by trial with the evidence it rests on.

    Attributes:
        plan: the decision, for the private federation.
        task: what it trains, records treated as the plan chose.
        treatment: that choice; None where the study fixed it.
        result: the race that it won.
        sources: names of the public data.
        for_owners: whether it was chosen by what owners make of it at home.
    """

    plan: Plan
    task: Task
    treatment: Treatment | None
    result: Result
    sources: tuple[str, ...]
    for_owners: bool = False

    @property
    def by_tuning(self) -> bool:
        """Whether the last settings were compared by what owners make of them; else there was no time."""
        return self.for_owners and self.result.scores.missed is not None

    @property
    def worthless(self) -> bool:
        """Whether nobody gains by training; of a study for its owners, neither shared nor tuned at home."""
        share = self.result.scores.voted.mean(axis=2)[:, 0].mean()
        return bool(share > WORTHLESS and (not self.by_tuning or self.loss.mean() > WORTHLESS))

    @property
    def loss(self) -> NDArray[np.float64]:
        """Loss over the untrained one on each proxy, mean over seeds."""
        return self.result.scores.loss.mean(axis=2)[:, 0]

    @property
    def worst(self) -> str:
        """The public data set on which the plan loses most of what can be gained."""
        return self.sources[int(np.argmax(self.result.lost))]

    @property
    def accuracy(self) -> NDArray[np.float64]:
        """Accuracy (R^2 of a regression) on each proxy under each seed, shape (proxies, seeds)."""
        return self.result.scores.accuracy[:, 0]


def plan_by_trial(
    bench: Bench, space: Space, treatments: Sequence[Treatment | None] = (None,), *, seeds: int = 5,
    deadline: Deadline | None = None, on_progress: Callable[[float], None] = lambda done: None,
) -> TrialPlan:  # fmt: skip
    """Plan everything that a space leaves free by simulated trainings on public data.

    Where compiled programs are kept, races are too: the same race again is read from the cache.

    Args:
        bench, space, seeds, deadline, on_progress: as `race`.
        treatments: of records, to choose from; None keeps what the study says.

    Returns:
        A `TrialPlan`, a function of public inputs alone.

    Raises:
        InvalidInput, UnsoundClaim: no setting is allowed by resources, schedules and proofs.
    """
    place = place_of(bench, space, treatments, seeds)
    if (result := recalled(place, len(bench.sources))) is None:
        result = race(bench, space, treatments, seeds, deadline or Deadline(), on_progress)
        keep(place, result)
    return planned(bench, space, result)


def planned(bench: Bench, space: Space, result: Result) -> TrialPlan:
    """The plan of a race's winner for the private federation, or not to train.

    Raises:
        InvalidInput, UnsoundClaim: a setting that the private federation does not allow.
    """
    setting, treatment = result.winner
    facts = bench.facts.paying(treatment)
    task = facts.make_task(facts.record_shape, facts.classes, treatment)
    problem = replace(facts.problem, dimension=task.dimension)
    plan = space.closed(space.plan(problem, task, bench.scale(treatment, task), setting))
    plan = replace(plan, ranges=bench.facts.told_before(treatment))
    found = TrialPlan(plan, task, treatment, result, bench.sources, facts.for_owners)
    notes = (*plan.notes, *_notes(found))
    if found.worthless and treatment is not None and treatment.centred:
        plain = Candidate(setting, replace(treatment, centred=False))  # what trains nothing is told nothing
        return planned(bench, space, replace(result, winner=plain))
    if found.worthless:
        return replace(found, plan=replace(_untrained(plan), notes=notes))
    return replace(found, plan=replace(plan, outcome=_outcome(found), notes=notes))


def _outcome(found: TrialPlan) -> str:
    """What is done, without the words for settings that the user stated, and whether it may do harm."""
    said = found.plan.outcome.replace(", as stated", ", chosen by trial")
    if found.result.spread < 1 or found.by_tuning:
        return said
    return f"{said.removesuffix('.')}; it may end worse than no training: on {found.worst} it did."


def _untrained(plan: Plan) -> Plan:
    """The plan that asks nobody for anything."""
    return replace(
        plan, rounds=0, releases=np.zeros_like(plan.releases), release=None, step=None, local=None,
        momentum=0.0, averaging=0.0, steering=None,
        outcome="Do not train: in trials on public data no setting beat the untrained model. Collect more "
        "clients or records, or allow a larger epsilon.",
    )  # fmt: skip


def _notes(found: TrialPlan) -> tuple[str, ...]:
    names = ", ".join(found.sources)
    tuned = "Settings were chosen by the loss of models that owners tune at home. " * found.by_tuning
    notes = [
        f"Planned by trial on public data ({names}): {found.result.trainings:,} short trainings with this "
        f"federation's noise; no private record was read. {tuned}On the one it suits least, the "
        f"plan {_loses(found)}."
    ]
    if cheaper := _cheaper(found):
        notes.append(cheaper)
    if found.result.unfinished:
        notes.append("Warning: the time for planning ran out; the plan is the best setting found until then.")
    if found.result.spread > SPREAD_WARNING:
        said = "the public data sets disagree; on one of them" if len(found.sources) > 1 else "on public data"
        notes.append(
            f"Warning: {said} this choice {_loses(found)}. Name public data closer to yours under "
            "[planning] public."
        )
    return tuple(notes)


def _cheaper(found: TrialPlan) -> str:
    """What the fewest uploads that still reach nearly as much would lose; empty where there are none."""
    planned = int(found.plan.uploads.sum())
    offers = [one for one in found.result.frontier if one.uploads <= planned / 2]
    least = min((one.lost for one in found.result.frontier), default=0.0)
    near = [one for one in offers if one.lost - least <= _WORTH_A_WORD]
    if not near:
        return ""
    offer = min(near)
    more = max(offer.lost - least, 0.0)
    return (
        f"With {offer.uploads:,} uploads in the place of {planned:,} it would lose {more:.1%} more of the "
        "gain on public data; state rounds to take them."
    )


def _loses(found: TrialPlan) -> str:
    spread = found.result.spread
    if found.by_tuning:
        share = f"loses {spread:.0%} of what sharing can gain" if spread < 1 else "gains owners nothing"
        return f"{share} over own models"
    return f"loses {spread:.0%} of the attainable gain" if spread < 1 else "ends worse than without training"
