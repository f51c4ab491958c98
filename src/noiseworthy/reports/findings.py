"""What a record says, in sentences and in the few numbers that every view of it shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from noiseworthy._wording import count, finite, level, number, percent, percent_up, rounded_up, span, times
from noiseworthy.methods.phrases import clients_of
from noiseworthy.methods.words import Course, Record
from noiseworthy.reports.schedules import words_of


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
    def of(cls, quantity: str, values: Sequence[float | None]) -> Outcome | None:
        """The outcome: a missing `loss` has diverged, a missing score is left out; None without any score."""
        array = finite(values)
        if quantity != "loss":
            array = array[np.isfinite(array)]
        return cls(float(array.mean()), float(array.min()), float(array.max())) if array.size else None


def client_names(record: Record) -> list[str]:
    """Names of the clients, or their numbers where the plan was made without data."""
    federation = record["federation"]
    return federation["clients"] if federation else [f"client {i}" for i in range(clients_of(record))]


def final(record: Record, quantity: str) -> Outcome | None:
    """Test `loss` or `accuracy` after training, or None where there is none."""
    training = record["training"]
    return Outcome.of(quantity, [curve[-1] for curve in training[quantity]]) if training else None


def is_scored(record: Record) -> bool:
    """Whether anything of training or comparison has a score."""
    ends = [curve[-1] for curve in record["training"]["accuracy"]] if record["training"] else []
    cells = record["compare"]["cells"] if record["compare"] else []
    return (
        Outcome.of("accuracy", [*ends, *(value for cell in cells for value in cell["accuracy"])]) is not None
    )


def planned_cell(record: Record) -> Record | None:
    """The plan's cell of the comparison."""
    cells = record["compare"]["cells"] if record["compare"] else []
    return next((cell for cell in cells if cell["planned"]), None)


def score_name(record: Record) -> str:
    """What `accuracy` is: R² where the labels are numbers."""
    federation = record["federation"]
    return "R²" if federation and federation["classes"] is None else "accuracy"


def score(record: Record, value: float) -> str:
    """A score as it is usually written: accuracy in percent, R² as a number."""
    return number(value, 2) if score_name(record) == "R²" else percent(value)


def most_spent(record: Record) -> list[float | None] | None:
    """Greatest epsilon over seeds that each client spent in training; None for a client without bound."""
    if not record["training"]:
        return None
    columns = zip(*record["training"]["spent_epsilon"], strict=True)
    return [None if None in column else max(column) for column in columns]


def spent_words(spent: Sequence[float | None]) -> str:
    """What clients spend, never written smaller than it is; None is a client without bound."""
    known = [value for value in spent if value is not None]
    return span(known, rounded_up) if len(known) == len(spent) else "without bound"


def predicts_test_loss(record: Record) -> bool:
    """Whether the prediction is in the unit of the measured loss."""
    predicted = record["plan"]["predicted"]
    return bool(predicted) and predicted["bound"] is not None and predicted["unit"].startswith("test loss")


def band_of(record: Record) -> str:
    """The band of a predicted loss, as it is written behind it; empty where none was foretold.

    Example:
        >>> band_of({"foretold": {"loss": {"least": 0.3, "most": 0.5}}})
        ' [0.300, 0.500]'
    """
    band = record["foretold"]["loss"] if record.get("foretold") else None
    return "" if band is None else f" [{level(band['least'])}, {level(band['most'])}]"


# Sentences --------------------------------------------------------------------------------------------


def setting(record: Record) -> str:
    """Whose training it is, in a line: data, clients, mechanism, budget."""
    plan, federation = record["plan"], record["federation"]
    parts = [federation["name"]] if federation else []
    parts.append(count(clients_of(record), "client"))
    if not plan["privacy"]["private"]:
        return ", ".join([*parts, "no noise: not private"])
    budget = plan["privacy"]["clients"]
    parts.append(f"{plan['mechanism'].capitalize()} noise")
    parts.append(f"ε = {span(row['epsilon'] for row in budget)}")
    parts.append(f"δ = {span(row['delta'] for row in budget)}")
    measured = record["training"] or record["compare"] or record.get("tradeoff") or record.get("rivals")
    where = ", over a network" if record.get("network") else ", simulated" if measured else ""
    return ", ".join(parts) + f" per {plan['privacy']['unit']}{where}"


def preparation(record: Record) -> str:
    """What becomes of records before a linear model sees them, in words; empty where nothing does.

    Example:
        >>> preparation({"study": {"task": {"pooling": 2, "normalise": True}}})
        'images pooled 2 x 2, records scaled to norm 1'
    """
    task = record["study"].get("task", {})
    parts = []
    if (side := task.get("pooling", 1)) > 1:
        parts.append(f"images pooled {side} x {side}")
    public = ", ".join(task.get("reference") or ())
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
    return ", ".join(parts)


def finding(record: Record) -> str | None:
    """What the comparison with fixed settings found, in words; None without a comparison."""
    if not record["compare"]:
        return None
    lost, trains = record["compare"]["lost_gain"], record["plan"]["train"]
    planned = planned_cell(record)
    if planned and math.isinf(_mean_loss(planned)):
        return "The plan diverged"
    if lost is None or math.isnan(lost):
        if not trains:
            return "No fixed setting gains, so not training is right"
        alone = planned is not None and _mean_loss(planned) < record["compare"]["untrained_loss"]
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


def _mean_loss(cell: Record) -> float:
    return float(finite(cell["loss"]).mean())


def why_caption(record: Record) -> str:
    """What the figure of the prediction shows."""
    evidence, plan = record["evidence"], record["plan"]
    dots = " Dots are trials on public data." if evidence["trials"] else ""
    start = f"The {evidence['unit']}, against {evidence['axis']}.{dots}"
    if not plan["train"]:
        return f"{start} No setting that the study allows is predicted to end below the untrained model."
    course = words_of(plan).courses.get(evidence["axis"])
    return f"{start} The ring is the plan. {_read_off(course, evidence)}".rstrip()


def _read_off(course: Course | None, evidence: Record) -> str:
    """What the plan's own curve does, by its ends and its least value."""
    bound = finite(evidence["curves"][0]["bound"])
    least = bound.min()
    falls, rises = bound[0] > 1.02 * least, bound[-1] > 1.02 * least
    if not falls and not rises:
        return "The curve is flat."
    if course is None:
        return ""
    return course.turns if falls and rises else course.falls if falls else course.rises


def training_caption(record: Record) -> str:
    """What the training curves show."""
    training, loss = record["training"], final(record, "loss")
    seeds = len(training["seeds"])
    kind = "training over a network" if record.get("network") else "simulated training"
    spread = f"one {kind}" if seeds == 1 else f"mean of {seeds} {kind}s, band from least to most"
    ended = "" if loss is None else f" from {level(training['untrained_loss'])} to {level(loss.mean)}"
    predicted = record["plan"]["predicted"]
    foretold = f"; {level(predicted['bound'])} was predicted" if predicted_beside(record) else ""
    return f"Test loss went{ended}{foretold} ({spread})."


def predicted_beside(record: Record) -> bool:
    """Whether prediction and measurement can be set side by side."""
    return bool(record["training"]) and predicts_test_loss(record)


def who_caption(record: Record) -> str:
    """Who is asked how often, and what it costs."""
    plan, training = record["plan"], record["training"]
    paid = f"Each client's noise pays for {words_of(plan).noised.caption(plan)}"
    if training:
        paid += f"; it was asked {times(span(u for seed in training['uploads'] for u in seed))}"
    spent = most_spent(record) or [row["spent_epsilon"] for row in plan["privacy"]["clients"]]
    if not plan["privacy"]["private"] or None in spent:
        return f"{paid}. Without noise no epsilon bounds what is revealed."
    verb = "The most any client spent" if training else "The most any client would spend"
    share = max(s / row["epsilon"] for s, row in zip(spent, plan["privacy"]["clients"], strict=True))
    return f"{paid}. {verb} is {percent_up(share)} of its epsilon."


def compare_caption(record: Record) -> str:
    """What the comparison shows."""
    compare, words = record["compare"], words_of(record["plan"])
    best, fixed = compare["best"], sum(not cell["planned"] for cell in compare["cells"])
    seeds = len(compare["seeds"])
    means = "one training each" if seeds == 1 else f"means of {seeds} seeds with bars from least to most"
    baseline = f" {words.baseline}" if words.baseline else ""
    paid = " that the resources pay for" if record["plan"].get("resources") else ""
    return (
        f"The plan beside {count(fixed, 'fixed setting')}{paid}{words.alike}, with their own exact noise "
        f"({means}). The best of them has {words.symbols(best, compare['axes'])}."
        f"{baseline}{search_price(record)}"
    )


def search_price(record: Record) -> str:
    """What trying every fixed setting on private data would spend; empty where it has no simple sum."""
    spent = record["compare"].get("search_epsilon")
    if spent is None:
        return ""
    budget = max(row["epsilon"] for row in record["plan"]["privacy"]["clients"])
    return (
        f" Trained for real, they would together spend epsilon {rounded_up(spent, 3)} of the client that is "
        f"worst off; the plan spends at most {number(budget, 6)}."
    )


def warnings_of(record: Record) -> list[str]:
    """What a reader must see before the rest."""
    plan, loud = record["plan"], []
    if not plan["privacy"]["private"]:
        loud.append("Not private: this run adds no noise to what clients upload.")
    elif record["training"] and record["training"]["assurance"] == "simulation":
        loud.append(
            "Simulated noise: right for measuring accuracy, no protection of real data. Do not release."
        )
    if record["training"]:
        loud += record["training"].get("flags", [])
    planner = [note.removeprefix("Warning: ") for note in plan["notes"] if note.startswith("Warning: ")]
    return loud + [f"{note[:1].upper()}{note[1:]}" for note in planner]


def notes_of(record: Record) -> list[str]:
    """What else the planner says."""
    return [note for note in record["plan"]["notes"] if not note.startswith("Warning: ")]


def lost_gain(record: Record) -> str:
    """The share of the attainable gain that the plan misses, as it is written everywhere."""
    lost = record["compare"]["lost_gain"]
    return "not defined" if lost is None or math.isnan(lost) else percent(lost, 1)
