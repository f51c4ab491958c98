"""The card of a model, in Markdown: what it was trained on and promises, how well it does, its limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noiseworthy._names import shown
from noiseworthy._wording import count, level, number, percent, shortened, span
from noiseworthy.data.records import words_of_tests
from noiseworthy.data.schema.columns import Column
from noiseworthy.model.description import Description
from noiseworthy.model.metrics import Metrics
from noiseworthy.privacy.assurances import WORDS
from noiseworthy.tasks.names import MODELS, is_encoder

MOST_NAMES = 20
"""Clients, classes or values that are named; the file has all."""


def card_of(description: Description) -> str:
    """The card of a model, every word of it from its description."""
    parts = [
        [f"# Model of {_text(description.name)}", _what(description), _use(description)],
        ["## What it was trained on", _trained_on(description), *_weights(description)],
        ["## Privacy", *_privacy(description)],
        ["## Records", *_records(description)],
        ["## How well it does", *_scores(description)],
        ["## Limits", *_limits(description)],
    ]
    return "\n\n".join(paragraph for part in parts for paragraph in part) + "\n"


def _text(name: str) -> str:
    """A name that is data, in one line in which nothing is markup."""
    plain = shortened(shown(name), 80)
    return "".join(f"\\{one}" if one in "\\`*_[]<>|#&!" else one for one in plain)


def _listed(names: list[str]) -> str:
    told = ", ".join(map(_text, names[:MOST_NAMES]))
    return told if len(names) <= MOST_NAMES else f"{told} and {len(names) - MOST_NAMES:,} more"


def _what(description: Description) -> str:
    predicts = f"predicts the number {_text(description.label_name)}"
    if description.classes is not None:
        predicts = f"tells {len(description.classes)} classes apart: {_listed(description.classes)}"
    seeds = len(description.seeds)
    which = f" Of {seeds} trainings, which are for measuring, it is that of seed {description.seed}."
    return (
        f"A model of kind `{description.task.model}` that {predicts}. Written by noiseworthy "
        f"{description.version}.{which if seeds > 1 else ''}"
    )


def _use(description: Description) -> str:
    file = "new.npy" if description.columns is None else "new.csv"
    own, after = description.task.model not in MODELS, f"or `noiseworthy predict RUN {file} -o out.csv`."
    if own:
        after = "where `task` is your network, as `nw.equinox_task` or `nw.model_task` makes it."
    elif description.label_shape:
        after = "It answers for every token or voxel of a record, which makes no table."
    return (
        f'```python\nimport noiseworthy as nw\n\nmodel = nw.load_model("this/folder"{", task=task" * own})\n'
        f"model.predict(records)\n```\n\n{after}"
    )


def _trained_on(description: Description) -> str:
    on = description.trained_on
    return (
        f"{_text(on.data)}: {count(len(on.clients), 'client')} ({_listed(on.clients)}) with "
        f"{span(on.records)} records each, {sum(on.records):,} in all. Names and sizes are all that is kept "
        "of them here."
    )


def _weights(description: Description) -> Iterator[str]:
    own = None if description.columns is None else description.columns.weight
    if own is not None:
        name = _text(own.name)
        yield f"In training a record counts by '{name}', 1 for {number(own.step)}; to predict needs none."
    weights, names = description.task.weights, description.classes
    if weights is None or names is None:
        return
    stated = [f"{name} {number(weight)}" for name, weight in zip(names, weights, strict=True)]
    yield (
        f"Losses of the classes were multiplied by public weights: {_listed(stated)}. Its probabilities are "
        "those of records among which each class is as much more frequent as its weight says; divided by the "
        "weights, and brought to a sum of 1 again, they are those of records like the trained ones."
    )


def _privacy(description: Description) -> Iterator[str]:
    promised = description.privacy
    if promised.warning:
        yield f"**Not for release.** {promised.warning}"
    yield promised.claim
    if not promised.private:
        return
    protects = "Deployed, a training by this plan protects" if promised.warning else "Protected is"
    free = "" if promised.warning else " Predictions, and whatever else is made of it, cost no more epsilon."
    yield (
        f"{protects} one {promised.unit} ({promised.relation} neighbours), against {promised.adversary}. "
        f"Noise: {promised.mechanism}; assurance: {promised.assurance}, {WORDS[promised.assurance]}.{free}"
    )


def _records(description: Description) -> Iterator[str]:
    if is_encoder((task := description.task).features):
        yield (
            "Each passes a frozen encoder first, `encoder.onnx` of this folder, sha256 "
            f"{task.encoder_digest}. Source: {_text(task.encoder_source or '')}. "
            f"Licence: {_text(task.encoder_licence or '')}."
        )
    if description.columns is None:
        yield f"Arrays of shape (n, {', '.join(map(str, description.record_shape))})."
        return
    yield "Columns by name, in any order; those that are no features may be absent."
    rows = [f"| {_text(one.name)} | {_column(one)} |" for one in description.columns.columns]
    yield "\n".join(["| column | what it is |", "|---|---|", *rows])


def _column(column: Column) -> str:
    """A column in words, from all that is stated of it."""
    stated = column.model_dump(mode="json", exclude_defaults=True, exclude={"name"})
    kind = stated.pop("role", None) or stated.pop("kind", "number")
    stated.pop("kind", None)
    return "; ".join([_text(kind), *(f"{key} {_text(_value(value))}" for key, value in stated.items())])


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    if value is True:
        return "true"
    return number(value, 6) if isinstance(value, float) else str(value)


def _scores(description: Description) -> Iterator[str]:
    found = description.metrics
    if found is None:
        diverged = "It diverged in training and predicts nothing. " * (description.probe is None)
        yield diverged + (description.told or "Not measured.")
        return
    yield f"On {count(found.records, 'test record')}, which were not trained on:"
    lines = ["| | this model | always the same answer |", "|---|---|---|"]
    yield "\n".join([*lines, *(f"| {name} | {own} | {other} |" for name, own, other in scores(found))])
    if description.test_origin is not None:
        yield words_of_tests(count(found.records, "test record"), description.test_origin)
    if found.calibration_error is not None:
        yield (
            f"Calibration error {percent(found.calibration_error, 1)}: by so much, on average, its "
            "probability for the class that it names differs from how often it is right."
        )
        yield _calibrated(description)


def _calibrated(description: Description) -> str:
    if (found := description.calibration) is None:
        return (
            "Its probabilities are not calibrated: there were no public records to do it by, and none are "
            "read that a client holds."
        )
    return (
        f"Its probabilities are calibrated: outputs are multiplied by {number(found.scale, 4)}, found on "
        f"{count(found.records, 'public record')} ({found.source}) and on nothing that a client holds. "
        f"Without that the error was {percent(found.error, 1)}."
    )


def scores(found: Metrics) -> Iterator[tuple[str, str, str]]:
    """Names of scores, what a model reaches, and what always answering the same would reach; where known."""
    rows = [
        ("accuracy", found.accuracy, found.prior_accuracy, percent),
        ("balanced accuracy", found.balanced_accuracy, found.prior_balanced_accuracy, percent),
        ("AUC", found.auc, 0.5, level),
        ("log loss", found.log_loss, found.prior_log_loss, level),
        ("R²", found.r2, 0.0, lambda value: f"{value:.2f}"),
        ("root mean squared error", found.error, found.prior_error, level),
    ]
    for name, own, other, write in rows:
        if own is not None:
            yield name, write(own), "" if other is None else write(other)


def _limits(description: Description) -> Iterator[str]:
    if description.metrics is not None:
        yield "The scores are of records like those that were tested; elsewhere, or later, they may be worse."
    yield "Nobody has looked at how it does for single groups of people."
    if description.columns is not None:
        yield "Numbers beyond the stated range of their column are read as its end."
    yield (
        "Clipping and noise pull a model towards answering alike for all. It is no ground for a decision "
        "about one person without somebody who understands it."
    )
    if description.privacy.private:
        yield (
            f"Epsilon bounds what the model tells of one {description.privacy.unit}; what follows from the "
            "data as a whole, it tells."
        )
