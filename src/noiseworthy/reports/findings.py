"""What a record says, in sentences and in the few numbers that every view of it shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from noiseworthy._wording import count, finite, level, number, percent, percent_up, rounded_up, span
from noiseworthy.methods.words import Course, Record
from noiseworthy.model.metrics import Metrics
from noiseworthy.reports.schedules import asked_in_training, words_of
from noiseworthy.studies.typed_evidence import EvidencePart
from noiseworthy.studies.typed_parts import Quantity
from noiseworthy.studies.typed_record import RunRecord, TrainingPart, view
from noiseworthy.studies.typed_sweeps import CellPart, ComparePart
from noiseworthy.tasks.names import MEAN, is_encoder
from noiseworthy.tasks.qualities import score_of

_LEVEL = 0.977
"""Of Student's t that a difference over the same seeds must pass: two standard errors, more of few seeds."""


@dataclass(frozen=True)
class Outcome:
    """A quantity over seeds: mean, least and most."""

    mean: float
    least: float
    most: float

    def ends(self, write: Callable[[float], str]) -> str:
        """From least to most; empty where they are one."""
        return "" if self.least == self.most else f"{write(self.least)} to {write(self.most)}"

    @classmethod
    def of(cls, quantity: Quantity, values: Sequence[float | None]) -> Outcome | None:
        """The outcome: a missing `loss` has diverged, a missing score is left out; None without any score."""
        array = finite(values)
        if quantity != "loss":
            array = array[np.isfinite(array)]
        return cls(float(array.mean()), float(array.min()), float(array.max())) if array.size else None


def final(record: RunRecord, quantity: Quantity) -> Outcome | None:
    """Test `loss` or `accuracy` after training, or None where there is none, or no score of a seed's."""
    training = record.scored
    if training is None or (quantity != "loss" and any(curve[-1] is None for curve in training.loss)):
        return None
    return Outcome.of(quantity, [curve[-1] for curve in training.over_seeds(quantity)])


def held_against(training: TrainingPart) -> tuple[str, float]:
    """The test loss that a training is held against: of always answering the same, else of the start."""
    metrics = training.metrics
    if metrics is None or metrics.constant_loss is None:
        return "untrained", training.untrained_loss
    return ("class prior" if metrics.r2 is None else "a constant"), metrics.constant_loss


def baseline(training: TrainingPart) -> str:
    """The same in words."""
    name, loss = held_against(training)
    return f"{name} {level(loss)}"


def scores_of(metrics: Metrics) -> str:
    """Scores of the model that a run leaves, beside the accuracy that is an average of all seeds."""
    written = [
        ("AUC", metrics.auc, level),
        ("balanced accuracy", metrics.balanced_accuracy, percent),
        ("calibration error", metrics.calibration_error, lambda value: percent(value, 1)),
        ("R²", metrics.r2, lambda value: f"{value:.2f}"),
        ("root mean squared error", metrics.error, level),
    ]
    return ", ".join(f"{name} {write(value)}" for name, value, write in written if value is not None)


def is_scored(compare: ComparePart) -> bool:
    """Whether anything of a comparison has a score."""
    return any(Outcome.of("accuracy", cell.accuracy) for cell in compare.cells)


def planned_cell(compare: ComparePart) -> CellPart | None:
    """The plan's cell of the comparison."""
    return next((cell for cell in compare.cells if cell.planned), None)


def score_name(record: RunRecord) -> str:
    """What `accuracy` is: R² where the labels are numbers."""
    federation = record.federation
    return "R²" if federation and federation.classes is None else "accuracy"


def score(record: RunRecord, value: float) -> str:
    """A score as it is usually written: accuracy in percent, R² as a number."""
    return percent(value) if score_name(record) != "R²" else number(value, 2 if value > -99.5 else 3)


def chance(deviation: float, seeds: int) -> float:
    """What a mean of differences over the same seeds must pass, by their deviation; infinite of one seed."""
    from scipy.special import stdtrit  # here, because plans are told without it

    return float(stdtrit(seeds - 1, _LEVEL)) * deviation / math.sqrt(seeds - 1) if seeds > 1 else math.inf


def over_seeds(seeds: int) -> str:
    """What a mark and its bar are of so many seeds."""
    return "one seed" if seeds == 1 else f"mean and range of {seeds} seeds"


def metric_name(record: RunRecord) -> str:
    """What a plan is to reach: the metric that its study names, or `score_name`."""
    planning = record.study.get("planning")
    named = planning.get("metric") if isinstance(planning, dict) else "loss"
    return score_of(named, 2) if named in ("auc", "balanced-accuracy") else score_name(record)


def metric_score(record: RunRecord, value: float) -> str:
    """The same as it is usually written: AUC and R² as numbers."""
    return number(value, 2) if metric_name(record) == "AUC" else score(record, value)


def most_spent(record: RunRecord) -> list[float | None] | None:
    """Greatest epsilon over seeds that each client spent in training; None for a client without bound."""
    if not record.training:
        return None
    columns = zip(*record.training.spent_epsilon, strict=True)
    return [None if None in column else max(column) for column in columns]


def spent_words(spent: Sequence[float | None]) -> str:
    """What clients spend, never written smaller than it is; None is a client without bound."""
    known = [value for value in spent if value is not None]
    return span(known, rounded_up) if len(known) == len(spent) else "without bound"


def predicted_loss(record: RunRecord) -> float | None:
    """The prediction, where it is in the unit of the measured loss."""
    predicted = record.plan.predicted
    return predicted.bound if predicted and predicted.unit.startswith("test loss") else None


def band_of(record: RunRecord) -> str:
    """The band of a predicted loss, as it is written behind it; empty where none was foretold."""
    band = record.foretold and record.foretold.loss
    return f" [{level(band.least)}, {level(band.most)}]" if band else ""


METRICS = {"accuracy": "accuracy", "balanced-accuracy": "balanced accuracy", "auc": "AUC", "r2": "R²"}
"""Metrics that a plan may be chosen by, as they are written."""


def chosen_by(record: RunRecord) -> str:
    """The metric that a plan was chosen by, as it was foretold and measured; empty for the loss."""
    said = record.foretold and record.foretold.metric
    if not said or said.mean is None or said.least is None or said.most is None:
        return ""
    write = level if said.metric in ("auc", "r2") else percent
    band = f"{METRICS[said.metric]}, {write(said.mean)} [{write(said.least)}, {write(said.most)}] foretold"
    metrics = record.training and record.training.metrics
    measured = metrics and getattr(metrics, said.metric.replace("-", "_"))
    if metrics is None or measured is None or record.training is None:
        return band
    return f"{band}, {write(measured)} measured with seed {record.training.seeds[0]}"


# Sentences --------------------------------------------------------------------------------------------


def setting(record: RunRecord) -> str:
    """Whose training it is, in a line: data, clients, mechanism, budget."""
    plan, federation = record.plan, record.federation
    parts = [federation.name] if federation else []
    parts.append(count(len(plan.releases), "client"))
    if not plan.privacy.private:
        return ", ".join([*parts, "no noise: not private"])
    budget = plan.privacy.clients
    parts.append(f"{plan.mechanism.capitalize()} noise")
    parts += [f"trust = {plan.trust.model}"] if plan.trust else []
    parts.append(f"ε = {span((row.epsilon for row in budget), rounded_up)}")
    parts.append(f"δ = {span((row.delta for row in budget), rounded_up)}")
    measured = record.training or record.compare or record.tradeoff or record.rivals
    where = ", over a network" if record.network else ", simulated" if measured else ""
    return ", ".join(parts) + f" per {plan.privacy.unit}{where}"


_FEATURES = {
    "scattering": "images replaced by their wavelet scattering (2 scales, 8 orientations: a formula without "
    "training, data or licence)",
    "auto": "features chosen by trial",
    "fourier": "random Fourier features chosen by trial",
}


def _of_numbers(features: str, task: Mapping[str, Any]) -> str:
    if is_encoder(features):
        digest = task.get("encoder_digest") or ""
        return f"replaced by what the encoder {features} gives (sha256 {digest:.12})"
    return f"replaced by random Fourier features ({features}: a formula with a public seed)"


def preparation(task: Mapping[str, Any]) -> str:
    """What becomes of records before a linear model sees them, by the study's table; empty for nothing.

    Example:
        >>> preparation({"pooling": 2, "normalise": True})
        'images pooled 2 x 2, records scaled to norm 1'
    """
    parts = []
    if (side := task.get("pooling", 1)) > 1:
        parts.append(f"images pooled {side} x {side}")
    if features := task.get("features"):
        parts.append(_FEATURES.get(features) or _of_numbers(features, task))
    own = task.get("reference") == [MEAN]
    public = "" if own else ", ".join(task.get("reference") or ())
    if own:
        parts.append("their noised mean, which clients tell before training, subtracted")
    if public and features:
        parts.append(f"channels standardised by public images ({public})")
    if public:
        parts.append(f"mean of public records ({public}) subtracted")
    if numbers := task.get("projection"):
        how = "on their principal directions" if public else "at random"
        parts.append(f"records projected {how} to {count(numbers, 'number')}")
    if task.get("normalise"):
        parts.append(f"records scaled to norm {number(task.get('feature_norm', 1.0))}")
    elif radius := task.get("feature_norm"):
        parts.append(f"records scaled down to norm {number(radius)} where theirs is above it")
    if isinstance(bias := task.get("bias"), float) and bias > 0:
        parts.append(f"a constant of {number(bias)} appended, whose weight is the intercept")
    if isinstance(weights := task.get("class_weights"), list):
        parts.append(f"losses of the classes times {', '.join(map(number, weights))}")
    return ", ".join(parts)


def finding(record: RunRecord) -> str | None:
    """What the comparison with fixed settings found, in words; None without a comparison."""
    if not (compare := record.compare):
        return None
    lost, trains = compare.lost_gain, record.plan.train
    planned = planned_cell(compare)
    if planned and math.isinf(_mean_loss(planned)):
        return "The plan diverged"
    if lost is None or math.isnan(lost):
        if not trains:
            return "No fixed setting gains, so not training is right"
        alone = planned is not None and _mean_loss(planned) < compare.untrained_loss
        return "The plan gains, no fixed setting does" if alone else "No fixed setting gains"
    if not trains:
        return "A fixed setting gains where the plan does not train"
    if lost > 1:
        return "The plan ends worse than no training"
    if lost < -0.005:
        return "The plan beats every fixed setting"
    if lost < 0.005:
        return "The plan keeps all of the attainable gain"
    return f"The plan keeps {'only ' if lost > 0.5 else ''}{percent(1 - lost)} of the attainable gain"


def _mean_loss(cell: CellPart) -> float:
    return float(finite(cell.loss).mean())


def why_caption(record: RunRecord) -> str:
    """What the figure of the prediction shows; empty where nothing was predicted."""
    evidence, plan = record.evidence, record.plan
    if evidence is None:
        return ""
    dots = " Dots are trials on public data." if evidence.trials else ""
    start = f"The {evidence.unit}, against {evidence.axis}.{dots}"
    if not plan.train:
        return f"{start} No setting that the study allows is predicted to end below the untrained model."
    course = words_of(plan).courses.get(evidence.axis)
    return f"{start} The ring is the plan. {_read_off(course, evidence)}".rstrip()


def _read_off(course: Course | None, evidence: EvidencePart) -> str:
    """What the plan's own curve does, by its ends and its least value."""
    bound = finite(evidence.curves[0].bound)
    if len(bound) == 1:
        return ""
    least = bound.min()
    falls, rises = bound[0] > 1.02 * least, bound[-1] > 1.02 * least
    if not falls and not rises:
        own_steps = " Each is taken with the step that suits it, few rounds with long ones."
        flat = "The curve is flat: any of these counts is predicted to do about as well."
        return flat + own_steps * bool(evidence.trials)
    if course is None:
        return ""
    return course.turns if falls and rises else course.falls if falls else course.rises


def training_caption(record: RunRecord) -> str:
    """What the training curves show; empty without a training."""
    training, loss = record.scored, final(record, "loss")
    if training is None:
        return ""
    seeds = len(training.seeds)
    kind = "training over a network" if record.network else "simulated training"
    spread = f"one {kind}" if seeds == 1 else f"mean of {seeds} {kind}s, band from least to most"
    ended = "" if loss is None else f" from {level(training.untrained_loss)} to {level(loss.mean)}"
    if ended and training.metrics and training.metrics.constant_loss is not None:
        ended += f" ({baseline(training)})"
    predicted = predicted_loss(record)
    foretold = "" if predicted is None else f"; {level(predicted)} was predicted"
    course = record.evidence and record.evidence.course
    drawn = " Dashed, how it fell in trials on public data; grey, from the easiest of them to the hardest."
    return f"Test loss went{ended}{foretold} ({spread}).{drawn if course else ''}"


def who_caption(record: RunRecord) -> str:
    """Who is asked how often, and what it costs."""
    plan, training = record.plan, record.training
    pays = "Each client's noise pays" if plan.whom.owners_add else "For each client the server's noise pays"
    pays = f"{pays} for" if plan.privacy.private else "No client adds noise to its"
    asked = f"; it was asked {asked_in_training(record)}" if training else ""
    alike = " if all prove alike" * (plan.estimation is not None)
    paid = f"{pays} {words_of(plan).noised.caption(plan.written)}{alike}{asked}"
    spent = most_spent(record) or [row.spent_epsilon for row in plan.privacy.clients]
    known = [value for value in spent if value is not None]
    if not plan.privacy.private or len(known) < len(spent):
        return f"{paid}. Without noise no epsilon bounds what is revealed."
    share = percent_up(max(s / row.epsilon for s, row in zip(known, plan.privacy.clients, strict=True)))
    return f"{paid}. The most any client {'spent' if training else 'would spend'} is {share} of its epsilon."


def compare_caption(record: RunRecord) -> str:
    """What the comparison shows; empty without one."""
    compare, words = record.compare, words_of(record.plan)
    if compare is None:
        return ""
    best, fixed = compare.best, sum(not cell.planned for cell in compare.cells)
    lost, seeds = lost_gain(compare), len(compare.seeds)
    means = "one training each" if seeds == 1 else f"means of {seeds} seeds with bars from least to most"
    baseline = f" {words.baseline}" if words.baseline else ""
    against = f"Against it, known in hindsight alone, the plan loses {lost} of the gain."
    against = "None of them gains." if lost == "not defined" else against
    paid = " that the resources pay for" if record.plan.resources else ""
    return (
        f"The plan beside {count(fixed, 'fixed setting')}{paid}{words.alike}, with their own exact noise "
        f"({means}). The best of them has {words.symbols(best, compare.axes)}.{baseline} {against}"
        f"{search_price(record, compare)}"
    )


def search_price(record: RunRecord, compare: ComparePart) -> str:
    """What trying every fixed setting on private data would spend; empty where it has no simple sum."""
    if (spent := compare.search_epsilon) is None:
        return ""
    budget = max(row.epsilon for row in record.plan.privacy.clients)
    return (
        f" Trained for real, they would together spend epsilon {rounded_up(spent, 3)} of the client that is "
        f"worst off; the plan spends at most {rounded_up(budget, 6)}."
    )


def warnings_of(record: Record | RunRecord) -> list[str]:
    """What a reader must see before the rest."""
    record = view(record)
    plan, loud = record.plan, list(record.training.flags) if record.training else []
    if not plan.privacy.private:
        loud.append("Not private: this run adds no noise to what clients upload.")
    elif record.training and record.training.assurance == "simulation":
        loud += ["Simulated noise: right for measuring accuracy, no protection of real data. Do not release."]
    planner = [note.removeprefix("Warning: ") for note in plan.notes if note.startswith("Warning: ")]
    return loud + [f"{note[:1].upper()}{note[1:]}" for note in planner]


def notes_of(record: RunRecord) -> list[str]:
    """What else the planner says."""
    return [note for note in record.plan.notes if not note.startswith("Warning: ")]


def lost_gain(compare: ComparePart) -> str:
    """The share of the attainable gain that the plan misses, as it is written everywhere."""
    lost = compare.lost_gain
    return "not defined" if lost is None or math.isnan(lost) else percent(lost, 1)
