"""What a record says, in sentences and in the few numbers that every view of it shares."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from noiseworthy.reports.wording import count, finite, number, percent, rounded_up, span, times

Record = dict[str, Any]
"""A run record as `experiments.record` writes it, or the same read back from JSON."""


@dataclass(frozen=True)
class Outcome:
    """A quantity over seeds: mean, least and most."""

    mean: float
    least: float
    most: float

    @classmethod
    def of(cls, values: list[float | None]) -> Outcome | None:
        """The outcome, or None where no seed has the quantity; a diverged seed counts as infinite."""
        if all(value is None or math.isnan(value) for value in values):
            return None
        array = finite(values)
        return cls(float(array.mean()), float(array.min()), float(array.max()))


def clients_of(record: Record) -> int:
    """Number of clients N."""
    return len(record["plan"]["releases"])


def client_names(record: Record) -> list[str]:
    """Names of the clients, or their numbers where the plan was made without data."""
    federation = record["federation"]
    return federation["clients"] if federation else [f"client {i}" for i in range(clients_of(record))]


def final(record: Record, quantity: str) -> Outcome | None:
    """Test `loss` or `accuracy` after training, or None where there is none."""
    training = record["training"]
    return Outcome.of([curve[-1] for curve in training[quantity]]) if training else None


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


def predicts_test_loss(record: Record) -> bool:
    """Whether the prediction is in the unit of the measured loss."""
    predicted = record["plan"]["predicted"]
    return bool(predicted) and predicted["unit"].startswith("test loss")


# Sentences --------------------------------------------------------------------------------------------


def headline(record: Record) -> str:
    """The decision in one sentence."""
    plan, n = record["plan"], clients_of(record)
    if not plan["train"]:
        return "Do not train."
    asked = (
        f"all {n} clients"
        if plan["clients_per_round"] == n
        else f"{plan['clients_per_round']} of {n} clients"
    )
    return f"Train {count(plan['rounds'], 'round')}, asking {asked} in each."


def finding(record: Record) -> str | None:
    """What the comparison with fixed settings found, in words; None without a comparison."""
    if not record["compare"]:
        return None
    lost, trains = record["compare"]["lost_gain"], record["plan"]["train"]
    if lost is None or math.isnan(lost):
        return "No fixed setting gains anything" + ("" if trains else ": not training is right")
    if not trains:
        return "The plan does not train, but a fixed setting would have gained"
    if lost > 1:
        return "The plan ends worse than no training"
    if lost < -0.005:
        return f"The plan beats every fixed setting, by {percent(-lost)} of the attainable gain"
    if lost < 0.005:
        return "The plan keeps all of the attainable gain"
    return f"The plan keeps {'only ' if lost > 0.5 else ''}{percent(1 - lost)} of the attainable gain"


def why_caption(record: Record) -> str:
    """What the figure of the prediction shows."""
    evidence, plan = record["evidence"], record["plan"]
    dots = " Dots are trials on public data." if evidence["trials"] else ""
    start = f"The {evidence['unit']}, for T rounds and b clients per round.{dots}"
    if not plan["train"]:
        return f"{start} No setting is predicted to end below the untrained model."
    return f"{start} The ring is the plan. {_shape(evidence, plan)}"


def _shape(evidence: Record, plan: Record) -> str:
    """Whether the predicted loss rises again or flattens, read off the plan's own curve."""
    curves = {curve["clients_per_round"]: curve["bound"] for curve in evidence["curves"]}
    bound = curves.get(plan["clients_per_round"])
    if bound is None:
        return ""
    if bound[-1] > 1.02 * min(bound):
        return "First each round teaches more than its noise hides; later it is the other way round."
    return "The curve flattens: more rounds share the same budget and gain little."


def training_caption(record: Record) -> str:
    """What the training curves show."""
    training, loss = record["training"], final(record, "loss")
    seeds = len(training["seeds"])
    spread = (
        "one simulated training"
        if seeds == 1
        else f"mean of {seeds} simulated trainings, band from least to most"
    )
    ended = "" if loss is None else f" from {number(training['untrained_loss'])} to {number(loss.mean)}"
    predicted = record["plan"]["predicted"]
    foretold = f"; {number(predicted['bound'])} was predicted" if predicted_beside(record) else ""
    return f"Test loss went{ended}{foretold} ({spread})."


def predicted_beside(record: Record) -> bool:
    """Whether prediction and measurement can be set side by side."""
    return bool(record["training"]) and predicts_test_loss(record)


def who_caption(record: Record) -> str:
    """Who is asked how often, and what it costs."""
    plan, training = record["plan"], record["training"]
    paid = f"Each client's noise pays for {count(1, 'upload') if set(plan['releases']) == {1} else span(plan['releases']) + ' uploads'}"
    if training:
        paid += f"; it was asked {times(span(u for seed in training['uploads'] for u in seed))}"
    spent = most_spent(record) or [row["spent_epsilon"] for row in plan["privacy"]["clients"]]
    if not plan["privacy"]["private"] or None in spent:
        return f"{paid}. Without noise no epsilon bounds what is revealed."
    verb = "The most any client spent" if training else "The most any client would spend"
    share = max(s / row["epsilon"] for s, row in zip(spent, plan["privacy"]["clients"], strict=True))
    return f"{paid}. {verb} is {rounded_up(100 * share, 3)} % of its epsilon."


def compare_caption(record: Record) -> str:
    """What the comparison shows."""
    compare = record["compare"]
    best, fixed = compare["best"], sum(not cell["planned"] for cell in compare["cells"])
    seeds = len(compare["seeds"])
    means = "one training each" if seeds == 1 else f"means of {seeds} seeds with bars from least to most"
    return (
        f"The plan beside {count(fixed, 'fixed setting')} with their own exact noise ({means}). "
        f"The best of them has T = {best['rounds']}, b = {best['clients_per_round']}."
    )


def warnings_of(record: Record) -> list[str]:
    """What a reader must see before the rest."""
    plan, loud = record["plan"], []
    if not plan["privacy"]["private"]:
        loud.append("Not private: this run adds no noise to what clients upload.")
    if record["training"] and record["training"]["assurance"] == "simulation":
        loud.append(
            "Simulated noise: right for measuring accuracy, no protection of real data. Do not release."
        )
    loss = final(record, "loss")
    if loss and record["training"]["untrained_loss"] <= loss.mean:
        loud.append(
            f"Training did not help: test loss {number(loss.mean)} against "
            f"{number(record['training']['untrained_loss'])} untrained."
        )
    return loud + [note.removeprefix("Warning: ") for note in plan["notes"] if note.startswith("Warning: ")]


def notes_of(record: Record) -> list[str]:
    """What else the planner says."""
    return [note for note in record["plan"]["notes"] if not note.startswith("Warning: ")]
