"""What a training says against its plan: it gained nothing, or ended where the plan did not foresee it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from noiseworthy._wording import count, level, percent
from noiseworthy.data import Federation
from noiseworthy.model.metrics import Metrics
from noiseworthy.studies.decision import Decision
from noiseworthy.studies.tables import BY_OWNERS
from noiseworthy.studies.typed_owners import OwnersScore, ScorePart

WIDER = 1.25
"""Factor by which a measured loss may lie outside what trials gave on the public data sets."""
POINTS = 0.05
"""What an accuracy or R^2 may lie outside of it."""
_ROUNDING = 1e-6
"""Relative difference of scores and losses in float32 that is none."""
Record = dict[str, Any]


def foretold(decision: Decision, classes: int | None) -> Record | None:
    """What a plan foretells, as a record keeps it; None without trials, or where it does not train.

    Args:
        decision: the plan and what trials say of it.
        classes: of the study; None for a regression, whose losses are shares of the untrained loss.

    Returns:
        `loss` and `accuracy` (R^2), each a prediction `mean` and its band, `least` to `most`: from the least
        to the greatest of any public data set, a quarter wider (loss) or 0.05 wider (accuracy). `metric`
        where the study names one to choose by, with its band as trials gave it. `public`: what stood in, its
        weight in the vote, the plan's loss on it and the share of the gain that it loses there. `frontier`:
        what other numbers of uploads would lose. `home` of a study that delivers to its owners.
    """
    said, predicted = decision.foretold, decision.plan.prediction
    if said is None or not decision.plan.train:
        return None
    unit = decision.untrained(classes)
    mean = unit * said.loss if predicted is None else predicted.bound
    losses = [mean, *(unit * loss for loss in said.losses)]
    named = {} if said.quality is None else {"metric": vars(said.quality)}
    weights = said.weights or [1.0] * len(said.sources)
    public = [
        {"name": name, "weight": weight, "loss": unit * loss, "lost": lost}
        for name, weight, loss, lost in zip(said.sources, weights, said.losses, said.lost, strict=True)
    ]
    at_home = {} if said.home is None else {"home": said.home.as_dict()}
    return named | at_home | {
        "public": public,
        "frontier": [{"uploads": uploads, "lost": lost} for uploads, lost in said.frontier],
        "loss": {"mean": mean, "least": min(losses) / WIDER, "most": max(losses) * WIDER},
        "accuracy": {
            "mean": said.accuracy, "least": said.least - POINTS, "most": min(said.most + POINTS, 1.0),
        },
    }  # fmt: skip


def class_prior(federation: Federation) -> float | None:
    """What always answering the most frequent class scores on the test records; None without classes.

    Records with a label for every token or voxel have none, either.
    """
    if federation.classes is None or federation.label_shape or not len(federation.test_y):
        return None
    return float(np.bincount(federation.test_y).max() / len(federation.test_y))


class _End(NamedTuple):
    """How training ended: mean test loss, infinite if a seed diverged; mean score, or None."""

    loss: float
    score: float | None
    untrained: float
    prior: float | None


def flags(record: Record, training: Record, *, answers: bool = True) -> list[str]:
    """Sentences that a reader must see at once.

    Args:
        record: of the plan, with `foretold` if trials foretold anything.
        training: its curves over seeds, `untrained_loss` and `prior`, and `metrics` once its model is scored.
        answers: whether its model answers by numbers that are finite.

    Example:
        >>> ended = {"loss": [[0.69, 0.7]], "accuracy": [[0.5, 0.52]], "untrained_loss": 0.69, "prior": 0.5}
        >>> flags({"federation": {"classes": 2}}, ended)
        ['Training did not help: test loss 0.7 against 0.69 untrained.']
    """
    if not answers:
        return [_DIVERGED, *flags(record, training)]
    federation, said, study = record["federation"], record.get("foretold"), record.get("study", {})
    weighted = bool(study.get("task", {}).get("class_weights"))
    if federation is not None and not federation.get("test_records", 1):
        if told := record.get("network", {}).get("score"):
            return sentences(ScorePart.model_validate(told), weighted)[1:]
        return [_UNTOLD if study.get("federation", {}).get("test") == BY_OWNERS else _UNTESTED]
    losses, scores = ([curve[-1] for curve in training[name]] for name in ("loss", "accuracy"))
    loss = float(np.mean(losses)) if _known(losses) else float("inf")
    score = float(np.mean(scores)) if _known(scores) else None
    end = _End(loss, score, training["untrained_loss"], training["prior"])
    if weighted:
        end = end._replace(prior=None)  # rare classes are worth more than the accuracy that they cost
    regression = federation is not None and federation["classes"] is None
    metrics = None if (scores := training.get("metrics")) is None else Metrics.model_validate(scores)
    found = _useless(end, regression) + ([] if metrics is None else _constant(end, metrics))
    return found + ([] if said is None else _contradicted(said, end, regression))


_DIVERGED = (
    "Diverged: the model answers by numbers that are not finite and predicts nothing; train with a smaller "
    "[algorithm] step_size."
)
_UNTESTED = (
    "Not scored: the server has no test records ([federation] test), and nothing here says how good the "
    'model is. Owners may hold records out, and tell (test = "owners") or look at home (noiseworthy tune).'
)
_UNTOLD = "Not scored: owners were asked how good the model is and none told. deploy run --resume asks again."


def sentences(told: ScorePart, weighted: bool = False) -> list[str]:
    """How good the model is by its owners and, if classes weigh alike, whether a constant would do as well.

    Example:
        >>> north = OwnersScore(client="north", records=400, score=0.8, deviation=0.02)
        >>> sentences(ScorePart(score=0.8, deviation=0.02, owners=[north]))[0].replace("\\xa0", " ")
        'Right on 80 % ± 4, as 1 owner told, with noise, of 400 records that no release trained on.'
    """
    owners, rows = count(len(told.owners), "owner"), count(told.records, told.row)
    whose = f"{owners} told, with noise, of {rows} that no release trained on"
    reached = f"{reached_by(told, told.reach)}, as {whose}."
    found = [f"{percent(one.found)} ± {200 * one.deviation:.0f} of {one.label}" for one in told.classes]
    reached += f" It finds {' and '.join(found)}." if found else ""
    often = max(told.classes, key=lambda one: one.share, default=None)
    if weighted or often is None or told.score > often.share:
        return [reached]
    shared = f"{percent(often.share)} of these {told.row}s are {often.label}."
    return [reached, f"No better than a constant, as far as noise tells: {shared}"]


def reached_by(told: ScorePart | OwnersScore, reach: float) -> str:
    """A told score within two deviations of it.

    Example:
        >>> reached_by(OwnersScore(client="north", records=9, score=2.0, deviation=0.25), 40.0)
        'Off by 2.00 ± 0.500 on average'
    """
    if reach:
        return f"Off by {level(told.score)} ± {level(2 * told.deviation)} on average"
    return f"Right on {percent(told.score)} ± {200 * told.deviation:.0f}"


def _known(values: Sequence[float | None]) -> bool:
    return all(value is not None and math.isfinite(value) for value in values)


def _useless(end: _End, regression: bool) -> list[str]:
    """Whether a model that has learned nothing would do as well."""
    found = []
    if end.loss >= end.untrained:
        found.append(
            f"Training did not help: test loss {_loss(end.loss)} against {_loss(end.untrained)} untrained."
        )
    if end.score is not None and regression and end.score <= 0:
        found.append(
            f"{'Worse' if end.score < 0 else 'No better'} than a constant: R² is {end.score:.2f} on the test "
            "records, and 0 for always answering their mean."
        )
    # scores are float32, which may round what equals the share of a class to below it
    if end.score is not None and end.prior is not None and end.score < end.prior * (1 - _ROUNDING):
        found.append(
            f"Worse than a constant: test accuracy is {end.score:.1%}, and {end.prior:.1%} for always "
            "answering the most frequent class."
        )
    return found


def _constant(end: _End, metrics: Metrics) -> list[str]:
    """Whether classes are answered no better than by their shares, or all records alike."""
    found, shares, accuracy, balanced = [], metrics.constant_loss, metrics.accuracy, metrics.balanced_accuracy
    if accuracy is None or balanced is None:
        return found
    if shares is not None and shares * (1 - _ROUNDING) <= end.loss < end.untrained:
        found.append(
            f"No better than the shares of the classes: test loss {_loss(end.loss)} against {_loss(shares)} "
            "for always answering them."
        )
    most, even = metrics.prior_accuracy or 0.0, metrics.prior_balanced_accuracy or 0.0
    if max(abs(accuracy - most), abs(balanced - even)) < _ROUNDING:
        found.append(
            f"One answer for all: accuracy {accuracy:.1%} and balanced accuracy {balanced:.1%} of the model "
            "are those of always answering the most frequent class."
        )
    return found


def _contradicted(said: Record, end: _End, regression: bool) -> list[str]:
    """Whether loss or score lie outside the bands that were foretold."""
    loss, score, missed = said["loss"], said["accuracy"], []
    unit = end.untrained if regression else 1.0
    ended = end.loss / unit if unit else math.inf  # nothing is a share of a loss of 0
    if not loss["least"] <= ended <= loss["most"]:
        name = "share of the untrained test loss" if regression else "test loss"
        missed.append(_missed(name, loss, ended, _loss))
    if end.score is not None and not score["least"] <= end.score <= score["most"]:
        name, write = ("R²", "{:.2f}".format) if regression else ("accuracy", lambda p: f"{100 * p:.0f} %")
        missed.append(_missed(name, score, end.score, write))
    if not missed:
        return []
    why = _HARDER if ended > loss["mean"] else _EASIER
    return [f"The measurement contradicts the plan: {'; '.join(missed)}. {why}"]


_HARDER = (
    "These records are harder than the public data that it was planned on: name data closer to them under "
    "[planning] public, or compare with fixed settings."
)
_EASIER = (
    "These records are easier than the public data that it was planned on: data closer to them under "
    "[planning] public may bring a better plan."
)


def _missed(name: str, band: Record, measured: float, write: Callable[[float], str]) -> str:
    least, most = write(band["least"]), write(band["most"])
    return f"predicted {name} {write(band['mean'])} [{least}, {most}], measured {write(measured)}"


def _loss(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "diverged"
