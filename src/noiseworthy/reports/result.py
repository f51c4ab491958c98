"""What a run came to: one number, its privacy and a verdict, and what every other number beside it is."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from noiseworthy._wording import count, finite, level, number, rounded_up, span
from noiseworthy.methods.words import Key
from noiseworthy.reports import at_home, findings, rivals_words
from noiseworthy.reports.findings import Outcome, score_name
from noiseworthy.reports.privacy_statement import bought_before
from noiseworthy.reports.schedules import headline
from noiseworthy.studies.flags import reached_by
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.studies.typed_record import RunRecord
from noiseworthy.studies.typed_sweeps import ComparePart, OutcomePart, UsualPart


class Result(NamedTuple):
    """What a plan's training ended with: the one number of a run.

    Attributes:
        quantity: score where there is one, else loss.
        outcome: over seeds.
        seeds: of the trainings.
    """

    quantity: Quantity
    outcome: Outcome
    seeds: list[int]


def result_of(record: RunRecord) -> Result | None:
    """The result of a run: that of its training, or of the comparison where that alone trained the plan."""
    quantities: tuple[Quantity, ...] = ("accuracy", "loss")
    for what in quantities:
        if record.training and (outcome := findings.final(record, what)):
            return Result(what, outcome, record.training.seeds)
    planned = findings.planned_cell(record.compare) if record.compare and record.plan.train else None
    for what in quantities:
        if record.compare and planned and (outcome := Outcome.of(what, planned.over_seeds(what))):
            return Result(what, outcome, record.compare.seeds)
    return None


def written(record: RunRecord, quantity: Quantity, value: float) -> str:
    """A loss or a score as it is written everywhere."""
    return level(value) if quantity == "loss" else findings.score(record, value)


def title(record: RunRecord) -> str:
    """The result with its privacy; the decision where nothing was trained.

    A loss that is not finite is one that diverged.
    """
    if (found := result_of(record)) is None:
        told = record.network and record.network.score
        scored = f"{reached_by(told, told.reach)} {budget(record)}, as its owners told" if told else ""
        return scored or (f"Trained {budget(record)}, not scored" if record.training else headline(record))
    mean = written(record, found.quantity, found.outcome.mean)
    if mean == "diverged":
        return "Training diverged"
    reached = {"loss": f"Test loss {mean}", "accuracy": f"{mean} accuracy"}[found.quantity]
    if found.quantity == "accuracy" and score_name(record) == "R²":
        reached = f"R² {mean}"
    return f"{reached} {budget(record)}"


def budget(record: RunRecord) -> str:
    """At which privacy, in a few words."""
    privacy = record.plan.privacy
    if not privacy.private:
        return "without privacy"
    return f"at epsilon {span((row.epsilon for row in privacy.clients), lambda e: rounded_up(e, 6))}"


def verdict(record: RunRecord) -> str | None:
    """What the result is worth, in a sentence without its full stop; None where nothing was measured."""
    return (
        at_home.finding(record)
        or usual_verdict(record)
        or findings.finding(record)
        or (rivals_words.finding(record.rivals) if record.rivals else None)
        or _against_prior(record)
    )


def _against_prior(record: RunRecord) -> str | None:
    found, prior = result_of(record), record.training and record.training.prior
    if found is None or prior is None or found.quantity == "loss" or found.outcome.mean <= prior:
        return None
    return f"Always answering the most frequent class would reach {findings.score(record, prior)}"


# Beside what people take -------------------------------------------------------------------------------


def compared_by(compare: ComparePart) -> Quantity:
    """What a comparison is judged by: scores where there are any."""
    return "accuracy" if findings.is_scored(compare) else "loss"


def best_usual(compare: ComparePart) -> UsualPart | None:
    """The best of what people take, by its mean."""
    what = compared_by(compare)
    return max(compare.usual, key=lambda one: _merit(one, what).mean(), default=None)


def _merit(one: OutcomePart, what: Quantity) -> np.ndarray:
    """The greater the better; what diverged is the worst."""
    values = finite(one.over_seeds(what), math.inf if what == "loss" else -math.inf)
    return -values if what == "loss" else values


def usual_verdict(record: RunRecord) -> str | None:
    """Whether the plan is better than what people take without planning; None where that was not tried."""
    compare = record.compare
    if compare is None or not (best := best_usual(compare)) or not record.plan.train:
        return None
    planned, what = findings.planned_cell(compare), compared_by(compare)
    if planned is None or not np.isfinite(_merit(planned, what)).all():
        return None
    outcome = Outcome.of(what, best.over_seeds(what))
    if outcome is None or not np.isfinite(_merit(best, what)).all():
        return "Every usual setting diverged"
    gap = _merit(planned, what) - _merit(best, what)
    chance = findings.chance(gap.std(), len(gap))
    mean = written(record, what, outcome.mean)
    if gap.mean() > chance:
        return f"Better than every usual setting; the best of them reaches {mean}"
    if gap.mean() < -chance:
        return f"A usual setting does better: {setting_words(best)}, reaches {mean}"
    return f"Not told apart from the best usual setting, which reaches {mean}"


def beside_usual(record: RunRecord, compare: ComparePart) -> list[tuple[str, Outcome | None, bool]]:
    """Name and outcome of the plan, and below it of the usual settings, the best first."""
    what, plan = compared_by(compare), record.plan
    others = sorted(compare.usual, key=lambda one: _merit(one, what).mean(), reverse=True)
    step = "" if plan.step_size is None else f", step {number(plan.step_size)}"
    own = f"plan: {count(plan.rounds, 'round')}, clip {number(plan.clip_norm)}{step}"
    planned = findings.planned_cell(compare)
    first = [] if planned is None else [(own, Outcome.of(what, planned.over_seeds(what)), True)]
    return [*first, *((setting_words(one), Outcome.of(what, one.over_seeds(what)), False) for one in others)]


def setting_words(it: UsualPart) -> str:
    """Who takes it, and what it is."""
    return f"{it.name}, {count(it.rounds, 'round')}, clip {number(it.clip_norm)}, step {number(it.step_size)}"


# Every number, and what it is ---------------------------------------------------------------------------


def key_numbers(record: RunRecord) -> list[Key]:
    """The numbers at the top of the page: the result, its privacy, and what to hold it against."""
    keys, found = [], result_of(record)
    if found is not None:
        write = partial(written, record, found.quantity)
        name = "test loss" if found.quantity == "loss" else f"test {score_name(record)}"
        keys.append(Key(name, write(found.outcome.mean), found.outcome.ends(write)))
    privacy = record.plan.privacy
    if privacy.private:
        budgets = [r.epsilon for r in privacy.clients], [r.delta for r in privacy.clients]
        epsilon, delta = (span(values, lambda v: rounded_up(v, 6)) for values in budgets)
        keys.append(Key("epsilon at most", epsilon, f"delta {delta} per {privacy.unit}"))
    else:
        keys.append(Key("epsilon", "unbounded", "no noise, not private"))
    if record.compare and (best := best_usual(record.compare)):
        what = compared_by(record.compare)
        if outcome := Outcome.of(what, best.over_seeds(what)):
            keys.append(Key("best usual setting", written(record, what, outcome.mean), best.name))
    if record.training and (prior := record.training.prior) is not None:
        keys.append(Key("most frequent class", findings.score(record, prior), "always answered"))
    if record.training and (loss := findings.final(record, "loss")) and found and found.quantity != "loss":
        keys.append(Key("test loss", level(loss.mean), findings.baseline(record.training)))
    if record.training and (metrics := record.training.metrics) and metrics.auc is not None:
        keys.append(Key("AUC", level(metrics.auc), f"of seed {record.training.seeds[0]}"))
    return keys


def explained(record: RunRecord) -> list[tuple[str, str]]:
    """Every number that may be taken for the result, and what it is."""
    found, said = result_of(record), []
    if found is not None:
        mean = written(record, found.quantity, found.outcome.mean)
        said.append((mean, f"The result: the mean of {_trainings(record, found.seeds)}."))
    if record.training and (metrics := record.training.metrics) and (scores := findings.scores_of(metrics)):
        seed = f"seed {record.training.seeds[0]}"
        said.append((seed, f"The model in this folder is of this seed: {scores}."))
    said += _foretold(record)
    if chosen := findings.chosen_by(record):
        said.append(("chosen by", f"The plan was chosen by its {chosen}."))
    said += _trained_again(record, found)
    if record.training and (prior := record.training.prior) is not None:
        share = findings.score(record, prior)
        said.append((share, "What always answering the most frequent class of the test records would reach."))
    return said


def _trainings(record: RunRecord, seeds: list[int]) -> str:
    kind = "training over a network" if record.network else "simulated training"
    return f"{count(len(seeds), kind)} of this plan, under {_seeds(seeds)}"


def _seeds(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"seeds {seeds[0]} to {seeds[-1]}"
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def _foretold(record: RunRecord) -> list[tuple[str, str]]:
    """What trials predicted, of the quantity that the result has."""
    if (band := record.foretold) is None:
        return []
    scored = record.federation is not None
    one, write = (band.accuracy, partial(findings.score, record)) if scored else (band.loss, level)
    if one.mean is None or one.least is None or one.most is None:
        return []
    bought = " beside what was bought" if bought_before(record) else ""
    text = (
        f"What was predicted before training, by trials on public data, within {write(one.least)} to "
        f"{write(one.most)}. No private record was read for it{bought}."
    )
    return [(write(one.mean), text)]


def _trained_again(record: RunRecord, found: Result | None) -> list[tuple[str, str]]:
    """The plan in the comparison, where its seeds are others."""
    compare = record.compare
    if compare is None or found is None or found.seeds == compare.seeds or not record.plan.train:
        return []
    planned = findings.planned_cell(compare)
    outcome = planned and Outcome.of(found.quantity, planned.over_seeds(found.quantity))
    if outcome is None:
        return []
    text = (
        f"The same plan trained again beside the other settings, under {_seeds(compare.seeds)}: it is held "
        "against those alone. What differs from the result is chance."
    )
    return [(written(record, found.quantity, outcome.mean), text)]
