"""A model in use: predictions of records that are new to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from noiseworthy._jax import Array, jax
from noiseworthy._names import nearest
from noiseworthy._validate import Real
from noiseworthy._wording import count, shortened
from noiseworthy.data.labels import scaled_images
from noiseworthy.data.leaf import femnist_images
from noiseworthy.data.schema.values import columns_of
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.model.card import card_of
from noiseworthy.model.coefficients import COLUMNS, coefficients_of
from noiseworthy.model.description import Description
from noiseworthy.model.folder import Kept, load_folder, save_folder
from noiseworthy.model.metrics import Metrics, of_classes, of_numbers
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.factory import make_task
from noiseworthy.tasks.intercepts import intercept_of
from noiseworthy.tasks.linear import LinearModel
from noiseworthy.tasks.names import MODELS
from noiseworthy.tasks.networks import ModelTask
from noiseworthy.tasks.structured_losses import LOSSES

if TYPE_CHECKING:
    import pandas as pd

    from noiseworthy.data.schema import Schema

CHUNK = 4096
"""Records that are predicted at once."""
_PROBED = 2
_ROUNDING = 1e-3
"""Relative difference of a probe that is a matter of rounding."""


def load_model(path: Path | str, task: Any = None) -> Model:
    """The model of a run's folder, or of a model's own.

    Args:
        path: the folder.
        task: the network, where it is one of your own, as its function returns it, or its task.

    Raises:
        InvalidInput: what is no network, or gives no outputs for the classes.
        DataError: no model, one of another format, one that is damaged or was changed, or whose parameters
            this program would read otherwise than the one that wrote it.
    """
    path = Path(path)
    kept = load_folder(path)
    own = task_of(kept) if task is None else _given(task, kept.description)
    if kept.theta.shape != (own.dimension,):
        raise DataError(
            f"{path} holds {kept.theta.size} parameters and its model has {own.dimension}; give the network "
            "that it was trained with"
        )
    if (probe := kept.description.probe) is None:
        raise DataError(f"{path} diverged in training and predicts nothing; train with a smaller step size")
    found = probed(own, kept.theta, kept.description.record_shape)
    if found is None or len(found) != len(probe) or not np.allclose(found, probe, _ROUNDING, _ROUNDING):
        raise DataError(
            f"the model of {path} does not answer as it did when it was written; load it with noiseworthy "
            f"{kept.description.version} and the jax of that time"
        )
    return Model(kept, own)


def task_of(kept: Kept) -> Task:
    """The task of a model, made as its description says.

    Raises:
        DataError: a network that only its user can make.
    """
    said = kept.description
    table, classes = said.task, said.classes
    if table.model not in MODELS:
        own = "the model is a network of your own, which no file can hold"
        raise DataError(f"{own}; give it to nw.load_model(path, task=...)")
    return make_task(
        table.model, said.record_shape, None if classes is None else len(classes), ridge=table.ridge,
        feature_norm=table.radius, normalise=table.normalise, bias=intercept_of(table, table.model),
        pooling=table.pooling, projection=table.projection, reference=kept.reference,
        features=kept.encoder or table.mapped_by, class_weights=table.weights,
    )  # fmt: skip


def _given(network: Any, said: Description) -> Task:
    """A network of the user's own as a task."""
    from noiseworthy.tasks.adapters import as_task  # here, because few models are networks of one's own

    classes = None if said.classes is None else len(said.classes)
    return as_task(said.task.model or "your own", network, tuple(said.record_shape), classes, ridge=0.0)


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model that was trained, with its columns and classes.

    Attributes:
        kept: what its folder holds.
        task: that computes it.

    Example:
        >>> model = load_model("runs/hearts")  # doctest: +SKIP
        >>> model.predict({"age": [61], "sex": ["female"]})  # doctest: +SKIP
        array(['no'], dtype='<U3')
    """

    kept: Kept
    task: Task

    def __repr__(self) -> str:
        said, names = self.description, self.classes
        found = "numbers" if names is None else f"{len(names)} classes ({', '.join(names)})"
        head = f"model {said.name}: {said.task.model}, {found} from records of shape {said.record_shape}"
        return f"{shortened(head, 200)}\n{said.privacy.claim}"

    @property
    def description(self) -> Description:
        """All but the numbers."""
        return self.kept.description

    @property
    def schema(self) -> Schema | None:
        """What its columns are, or None where records are no named columns."""
        return self.description.columns

    @property
    def classes(self) -> tuple[str, ...] | None:
        """Names of the classes in order; None for a regression."""
        return None if self.description.classes is None else tuple(self.description.classes)

    @property
    def card(self) -> str:
        """The model card, in Markdown."""
        return card_of(self.description)

    def predict(self, records: Any) -> NDArray:
        """What it says of each record: the name of a class, or a number.

        Args:
            records: a frame, or columns by name, where the model has a schema; else an array of shape
                (n, *record_shape). Bytes of images are divided by 255, and LEAF's turned as in training.

        Returns:
            Shape (n,), text or float32; of tokens and masks (n, *label_shape).

        Raises:
            DataError: columns that are missing, unknown or hold what they may not; another shape; a class
                of outputs that are NaN.
        """
        return self.named(self.answers(self.encoded(records)))

    def named(self, z: NDArray) -> NDArray:
        """What outputs say of each record: the name of a class, or a number."""
        if self.loss == "own":
            raise InvalidInput("a loss of your own says nothing of its outputs; use encoded and answers")
        if self.classes is None:
            return z[:, 0]
        if strange := int(np.isnan(z).any(axis=tuple(range(1, z.ndim))).sum()):
            raise DataError(
                f"the model answers {strange} of {len(z):,} records with NaN, which names no class; leave "
                "out records that it cannot compute with"
            )
        if self.loss in ("softmax", "tokens"):
            return np.asarray(self.classes)[z.argmax(axis=-1)]
        places = (z if self.loss == "dice" else z[:, 0]) > 0
        return np.asarray(self.classes)[places.astype(int)]

    def predict_proba(self, records: Any) -> Real:
        """Probabilities of the classes in their order, shape (n, K); of tokens (n, L, V), of masks (n, ...).

        Raises:
            InvalidInput: a model that gives none: a regression, or an svm.
            DataError: as `predict`.
        """
        return self.probabilities(self.answers(self.encoded(records)))

    def probabilities(self, z: NDArray) -> Real:
        """Outputs as probabilities, calibrated where the model is."""
        if not self.gives_probabilities:
            kind = "a regression" if self.classes is None else f"the {self.description.task.model}"
            way = "encoded and answers" if self.loss == "own" else "predict"
            raise InvalidInput(f"{kind} gives no probabilities; use {way}")
        return self._shares(np.asarray(z, np.float64) * self.description.scale)

    def _shares(self, z: Real) -> Real:
        if self.loss in ("softmax", "tokens"):
            return softmax(z, axis=-1)
        if self.loss == "dice":
            return expit(z)
        return np.concatenate([expit(-z), expit(z)], axis=1)

    @property
    def gives_probabilities(self) -> bool:
        """Whether `predict_proba` has an answer."""
        return self.loss in ("softmax", "tokens", "dice", "logistic")

    def save(self, folder: Path | str) -> Path:
        """Write the model into a folder of its own; one that is there is replaced whole.

        Raises:
            DataError: a place that cannot be written to, or that holds something other than a model.
        """
        return save_folder(self.kept, Path(folder).resolve())

    def coefficients(self) -> pd.DataFrame:
        """Coefficients of a linear model by feature and class, with their intercepts.

        Returns:
            Columns `feature`, `class`, `coefficient` of the encoded feature, and `per_unit` of the column
            itself, NaN where it has no such.

        Raises:
            InvalidInput: a model that is not linear.
        """
        import pandas as pd  # here, because it takes most of a second to import

        rows = coefficients_of(self.description, self.kept.theta)
        if not rows:
            raise InvalidInput(f"{self.description.task.model} is no linear model and has no coefficients")
        return pd.DataFrame(rows, columns=list(COLUMNS)).astype({"per_unit": float})

    def measured(
        self, encoded: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None,
        scales: ArrayLike | None = None,
    ) -> Metrics | None:  # fmt: skip
        """How well it does on encoded records; None without records, or where a record has many labels.

        Args:
            encoded: shape (n, *record_shape).
            labels: classes 0..K-1, or numbers, shape (n,).
            weights: of the records, shape (n,), where the loss of the training was weighted by them.
            scales: for each record what outputs are multiplied by, shape (n,), not the calibration.
        """
        y = np.asarray(labels)
        if y.ndim != 1 or not len(y) or self.loss == "own":
            return None
        z = self.answers(encoded)
        if not np.all(np.isfinite(z)):
            return None
        if self.classes is None:
            return of_numbers(y, z, weights)
        weights = weights_of(y, self.description.task.weights, weights)
        if self.loss == "hinge":
            return of_classes(y, np.concatenate([-z, z], axis=1), probabilities=False, weights=weights)
        by = self.description.scale if scales is None else np.asarray(scales)[:, None]
        return of_classes(y, self._shares(np.asarray(z, np.float64) * by), weights=weights)

    @property
    def loss(self) -> str:
        """Name of the loss that it was trained by, which says what its outputs are."""
        return loss_of(self.task)

    def encoded(self, records: Any, name: str = "the records") -> NDArray:
        """Records as the numbers that the model takes, shape (n, *record_shape).

        Args:
            records: as `predict`.
            name: what they are, for errors.

        Raises:
            DataError: as `predict`.
        """
        named = hasattr(records, "columns") or hasattr(records, "keys")
        if self.schema is None:
            return self._array(records, named, name)
        if not named:
            wanted = shortened(", ".join(one.name for one in self.schema.features), 80)
            raise DataError(f"the model takes columns by name ({wanted}); give a frame or dictionary of them")
        columns = columns_of(records)
        stated = [one.name for one in self.schema.columns]
        if strange := [name for name in columns if name not in stated]:
            raise DataError(
                f"{name}: the model knows no column {strange[0]!r}{nearest(strange[0], stated)}; leave it "
                'out, or train with a schema that states it as "left-out"'
            )
        return self.schema.encode(columns, name, trained=True)

    def answers(self, encoded: ArrayLike) -> NDArray[np.float32]:
        """Outputs z of encoded records, shape (n, ...): a number, log odds, or a score for every class.

        Where a known loss takes one number of a record, the shape is (n, 1).
        """
        x = np.asarray(encoded)
        parts = [self._answers(x[start : start + CHUNK]) for start in range(0, max(1, len(x)), CHUNK)]
        z = jax.tree.map(lambda *each: np.concatenate(each), *parts)  # an own loss may take several arrays
        return z[:, None] if self.loss != "own" and z.ndim == 1 else z

    def _answers(self, x: NDArray) -> NDArray[np.float32]:
        """Outputs of at most `CHUNK` records, filled up to a power of two: few programs are compiled."""
        filled = np.zeros((1 << max(0, len(x) - 1).bit_length(), *x.shape[1:]), x.dtype)
        filled[: len(x)] = x
        return jax.tree.map(lambda z: np.asarray(z)[: len(x)], answering(self.task)(self.kept.theta, filled))

    def _array(self, records: Any, named: bool, name: str) -> NDArray:
        shape = tuple(self.description.record_shape)
        wanted = f"(n, {', '.join(map(str, shape))})"
        if named:
            raise DataError(f"{name}: this model has no named columns; give an array of shape {wanted}")
        x = np.asarray(records)
        if x.dtype.kind not in "biuf" or x.shape[1:] != shape:
            raise DataError(f"{name} must be numbers of shape {wanted}, got {x.dtype} of shape {x.shape}")
        if self.loss == "tokens":
            with np.errstate(invalid="ignore"):
                tokens = x.astype(np.int32)
            last = (getattr(self.task, "vocabulary", None) or 2**31) - 1  # of an own model nobody said
            if len(strange := x[(tokens != x) | (tokens < 0) | (tokens > last)]):
                raise DataError(f"{name}: tokens must be whole numbers, got {strange[0]}; give 0 to {last}")
            return tokens
        numbers = scaled_images(x) if x.dtype.kind in "iu" and x.ndim > 2 else x.astype(np.float32)
        bad = ~np.isfinite(numbers).all(axis=(*range(1, x.ndim),))
        if np.any(bad):
            raise DataError(
                f"{name}: {count(int(bad.sum()), 'record')} with NaN or infinite numbers; impute or drop "
                f"them first, beginning with record {np.argmax(bad) + 1}"
            )
        return femnist_images(numbers) if self.description.turned else numbers


def weights_of(y: NDArray, of_classes: tuple[float, ...] | None, own: ArrayLike | None) -> Real | None:
    """What the losses of records were multiplied by; None where by nothing."""
    if of_classes is None and own is None:
        return None
    weights = np.ones(len(y)) if of_classes is None else np.asarray(of_classes, np.float64)[y]
    return weights if own is None else weights * np.asarray(own, np.float64)


def loss_of(task: Task) -> str:
    """Name of a task's loss; `own` for one that only its user knows."""
    if isinstance(task, LinearModel):
        return task.loss
    loss = task.loss if isinstance(task, ModelTask) else None
    return next((name for name, known in LOSSES.items() if known == loss), "own")


@lru_cache(maxsize=64)
def answering(task: Task) -> Callable[[NDArray, NDArray], Array]:
    """What computes outputs from parameters and encoded records: one program for all models of a task."""
    if not isinstance(task, LinearModel | ModelTask):
        raise InvalidInput("only models of nw.make_task, nw.model_task and nw.equinox_task have outputs")

    @jax.jit
    def run(theta: Array, x: Array) -> Array:
        # By default an accelerator rounds factors by 2^-11, half of what its probe may be off by.
        with jax.default_matmul_precision("highest"):
            return task.answers(theta, task.prepare(x))

    return run


def probed(task: Task, theta: NDArray[np.float32], record_shape: list[int]) -> list[float] | None:
    """Mean and mean size of the outputs on a few public records; None where they are not finite."""
    generator = np.random.default_rng(0)
    shape = (_PROBED, *record_shape)
    tokens = loss_of(task) == "tokens"
    x = generator.integers(0, 2, shape, np.int32) if tokens else generator.random(shape, np.float32)
    outputs = jax.tree.leaves(answering(task)(theta, x))
    z = np.concatenate([np.reshape(one, (_PROBED, -1)) for one in outputs], axis=1).astype(np.float64)
    found = np.concatenate([z.mean(axis=1), np.abs(z).mean(axis=1)])
    return found.tolist() if np.all(np.isfinite(found)) else None
