"""scikit-learn estimators: plan and train a linear model on arrays, in simulation, as a study would.

Ranges of the features, the classes and the range of what a regression predicts are public facts, which are
stated as parameters. Where they are left out they are read off X and y, as is usual in scikit-learn: then no
epsilon covers them, and `SimulationWarning` says so.
"""

import secrets
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d, validate_data

from noiseworthy import _validate as check
from noiseworthy.data import Federation
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.registry import FIRST
from noiseworthy.model.model import Model, probed
from noiseworthy.studies.delivery import delivered
from noiseworthy.studies.loading import parse_study
from noiseworthy.studies.opening import Opened
from noiseworthy.studies.plan_file import planned
from noiseworthy.studies.prepare import Prepared, prepare
from noiseworthy.studies.record import with_training
from noiseworthy.studies.training import train
from noiseworthy.tasks.intercepts import intercept_of

_LABEL = "(label)"
_SOURCE = "estimator"


class SimulationWarning(UserWarning):
    """Public facts were read off the data, so that no epsilon covers what they tell."""


class _Estimator(BaseEstimator, ABC):
    """What both kinds share.

    Parameters are kept as they are given, and looked at in `fit`.
    """

    _MODEL: ClassVar[str]

    def __init__(
        self, *, epsilon: float = 1.0, delta: float = 1e-5, mechanism: str = "gaussian",
        algorithm: str = FIRST, public: str | Sequence[str] = "auto",
        feature_range: tuple[ArrayLike, ArrayLike] | None = None,
        tables: Mapping[str, Mapping[str, Any]] | None = None, random_state: Any = 0,
    ):  # fmt: skip
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.algorithm = algorithm
        self.public = public
        self.feature_range = feature_range
        self.tables = tables
        self.random_state = random_state

    def _checked(self, *arrays: ArrayLike, **how: bool) -> Any:
        """Arrays as scikit-learn checks them, X as float64."""
        checked: Any = validate_data
        return checked(self, *arrays, dtype=np.float64, **how)

    def fit(self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None) -> Self:
        """Plan and train.

        Args:
            X: records, shape (n, d).
            y: labels or targets, shape (n,).
            groups: whose each record is, shape (n,); None takes them all for one client's.

        Raises:
            InvalidInput: parameters out of range, or a plan that is worth no training.
        """
        x, labels, label = self._numbered(X, y)
        if _LABEL in (columns := self._columns(x)):
            raise InvalidInput(f"X must have no feature {_LABEL!r}, as y is called; rename it")
        schema = read_schema({**columns, _LABEL: {"role": "label", **label}})
        federation = _federation(schema.encode(_by_name(schema, x)), labels, groups, schema)
        seed = _seed(self.random_state)
        made = planned(self._prepared(federation, seed))
        if not made.plan.train:
            raise InvalidInput(f"{made.plan.outcome.rstrip('.')}; fit with a larger epsilon, or more records")
        _, task = made.prepared.trained()
        run = train(made.plan, federation, task, (seed,), evaluations=1)
        record = with_training(made.record(_SOURCE), run, [seed], 0.0)
        kept = delivered(made.prepared, run.theta[0], record, [seed])
        if kept is None:
            raise InvalidInput(f"an estimator trains models by name, got {type(task).__name__}")
        unscored = kept.description.model_copy(update={"metrics": None, "test_origin": None})
        model = Model(kept._replace(description=unscored), task)
        self.model_ = _in_units(model, *label["range"]) if "range" in label else model
        self.plan_ = made.plan
        self.spent_epsilon_ = run.spent[0]
        return self

    @abstractmethod
    def _numbered(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray, dict[str, Any]]:
        """Arrays that were checked, labels as classes 0..K-1 or numbers in [-1, 1], and what these are."""

    def _columns(self, x: NDArray[np.float64]) -> dict[str, dict[str, Any]]:
        """The columns of a schema, each with its range."""
        given = self.feature_range
        if given is None:
            _warn("feature_range", "the least and the greatest value of every feature")
            low, high = x.min(axis=0), x.max(axis=0)
            given = low, np.where(high > low, high, low + 1)
        try:
            least, most = (np.broadcast_to(np.asarray(end, float), x.shape[1]) for end in given)
        except (TypeError, ValueError):
            raise InvalidInput(
                f"feature_range must be (least, most), a number each or one for each of the {x.shape[1]} "
                f"features, got {given!r:.60}"
            ) from None
        if not np.all(least < most):
            raise InvalidInput("feature_range must have each least below its most; state public ends")
        names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(x.shape[1])])
        ranges = zip(names, least, most, strict=True)
        return {str(name): {"kind": "number", "range": [float(a), float(b)]} for name, a, b in ranges}

    def _prepared(self, federation: Federation, seed: int) -> Prepared:
        """The study that the parameters state, on data that no file holds."""
        if np.iterable(public := self.public) and not isinstance(public, str):
            public = [*public]
        stated: dict[str, dict[str, Any]] = {
            "task": {"model": self._MODEL, "normalise": True, "feature_norm": 1.0},
            "privacy": {"mechanism": self.mechanism, "epsilon": self.epsilon, "delta": self.delta},
            "algorithm": {"name": self.algorithm},
            "planning": {"public": public},
        }
        if not isinstance(tables := self.tables or {}, Mapping):
            raise InvalidInput(f'tables must be like {{"algorithm": {{"rounds": 20}}}}, got {tables!r:.60}')
        for name, table in tables.items():
            if name in ("federation", "columns", "training"):
                raise InvalidInput(f"tables must leave out {name!r}, which X, y, groups and parameters say")
            if name == "privacy" and isinstance(table, Mapping) and not {*stated[name]}.isdisjoint(table):
                raise InvalidInput(f"tables must leave out {', '.join(stated[name])}, which parameters say")
            stated[name] = {**stated.get(name, {}), **table} if isinstance(table, Mapping) else table
        if federation.classes is None:
            stated["planning"] = {"label_scale": _LABEL_SCALE, **stated["planning"]}
        read_off = any(getattr(self, key, ...) is None for key in ("feature_range", "label_range", "classes"))
        source = {"data": _SOURCE, "simulation": read_off}
        raw = {**stated, "federation": source, "training": {"seeds": [seed], "evaluations": 1}}
        prepared = prepare(parse_study(raw), Opened(federation, None))
        if federation.classes is None and not intercept_of(prepared.study.task, self._MODEL):
            raise InvalidInput("[task] bias must be above 0, got 0: targets are centred; leave it out")
        return prepared

    def _answers(self, X: ArrayLike) -> NDArray[np.float32]:
        check_is_fitted(self, "model_")
        x = self._checked(X, reset=False)
        schema = self.model_.schema
        return self.model_.answers(schema.encode(_by_name(schema, x)) if schema else x)


class NoiseworthyClassifier(ClassifierMixin, _Estimator):
    """A linear classifier, trained in private federated rounds in simulation.

    Args:
        epsilon, delta, mechanism: the budget of every client for each of its records, and the noise.
        algorithm: by which it is planned and trained.
        public: sets of public data that plans are tried on, by name; "auto" takes those that ship with the
            product, none plans by the rule of FedSGD-DPC, which takes no trials.
        feature_range: (least, most) of the features, a number each or one for each feature. Values are
            clipped to it.
        classes: all labels that there are.
        tables: keys of other tables as a study states them, such as {"algorithm": {"rounds": 20}}.
        random_state: of start, schedule and noise; a whole number, or None for another one each time.

    Attributes:
        classes_: labels in their order.
        model_: the `noiseworthy.Model`, which can be saved.
        plan_: the plan.
        spent_epsilon_: of every client, in sorted order of the groups.

    Example:
        >>> x, y = np.random.default_rng(0).uniform(-1, 1, (400, 2)), np.repeat([0, 1], 200)
        >>> x[:, 0] = np.abs(x[:, 0]) * np.where(y, 1, -1)
        >>> made = NoiseworthyClassifier(epsilon=4.0, public=[], feature_range=(-1, 1), classes=[0, 1])
        >>> made.fit(x, y, groups=np.arange(400) % 2).score(x, y) > 0.8
        True
    """

    _MODEL = "softmax"

    def __init__(
        self, *, epsilon: float = 1.0, delta: float = 1e-5, mechanism: str = "gaussian",
        algorithm: str = FIRST, public: str | Sequence[str] = "auto",
        feature_range: tuple[ArrayLike, ArrayLike] | None = None, classes: ArrayLike | None = None,
        tables: Mapping[str, Mapping[str, Any]] | None = None, random_state: Any = 0,
    ):  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, mechanism=mechanism, algorithm=algorithm, public=public,
            feature_range=feature_range, tables=tables, random_state=random_state,
        )  # fmt: skip
        self.classes = classes

    def _numbered(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray, dict[str, Any]]:
        x, found = self._checked(X, y)
        check_classification_targets(found)
        if self.classes is None:
            _warn("classes", "which labels there are")
        try:
            self.classes_ = np.unique(found if self.classes is None else np.asarray(self.classes))
        except TypeError:
            raise InvalidInput("classes must be all texts or all numbers; make them texts") from None
        if len(self.classes_) < 2:
            raise InvalidInput(f"a classifier can't train on one class only, got {self.classes_.tolist()}")
        if strange := set(np.unique(found)) - set(self.classes_):
            raise InvalidInput(f"y has the label {min(map(str, strange))!r}, which is none of classes")
        return x, np.searchsorted(self.classes_, found).astype(np.int32), {"classes": _texts(self.classes_)}

    def predict(self, X: ArrayLike) -> NDArray:
        """The most probable label of each record, shape (n,)."""
        z = self._answers(X)
        return self.classes_[z.argmax(axis=1) if z.shape[1] > 1 else (z[:, 0] > 0).astype(int)]

    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of `classes_`, shape (n, K)."""
        z = self._answers(X)
        return self.model_.probabilities(z)


class NoiseworthyRegressor(RegressorMixin, _Estimator):
    """A linear regression, trained in private federated rounds in simulation.

    Args:
        label_range: (least, most) of what is predicted, public; targets are clipped to it. The rule that
            needs no trials is for classes: without public data, state rounds, step and clip in `tables`.
        epsilon, delta, mechanism, algorithm, public, feature_range, tables, random_state: as
            `NoiseworthyClassifier`.

    Attributes:
        model_, plan_, spent_epsilon_: as `NoiseworthyClassifier`.

    Example:
        >>> x = np.random.default_rng(0).uniform(-1, 1, (400, 2))
        >>> stated = {"algorithm": {"rounds": 30, "step_size": 1.0}, "privacy": {"clip_norm": 1.0}}
        >>> ranges = {"feature_range": (-1, 1), "label_range": (-3, 3)}
        >>> made = NoiseworthyRegressor(epsilon=8.0, tables=stated, **ranges)
        >>> made.fit(x, 2 * x[:, 0]).score(x, 2 * x[:, 0]) > 0.5
        True
    """

    _MODEL = "linear"

    def __init__(
        self, *, epsilon: float = 1.0, delta: float = 1e-5, mechanism: str = "gaussian",
        algorithm: str = FIRST, public: str | Sequence[str] = "auto",
        feature_range: tuple[ArrayLike, ArrayLike] | None = None,
        label_range: tuple[float, float] | None = None,
        tables: Mapping[str, Mapping[str, Any]] | None = None, random_state: Any = 0,
    ):  # fmt: skip
        super().__init__(
            epsilon=epsilon, delta=delta, mechanism=mechanism, algorithm=algorithm, public=public,
            feature_range=feature_range, tables=tables, random_state=random_state,
        )  # fmt: skip
        self.label_range = label_range

    def _numbered(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray, dict[str, Any]]:
        x, found = (np.asarray(one, np.float64) for one in self._checked(X, y, y_numeric=True))
        if self.label_range is None:
            _warn("label_range", "the least and the greatest target")
            least, most = float(found.min()), float(max(found.max(), found.min() + 1))
        else:
            least, most = _ends(self.label_range)
        center, unit = (least + most) / 2, (most - least) / 2
        return x, np.clip((found - center) / unit, -1, 1).astype(np.float32), {"range": [least, most]}

    def predict(self, X: ArrayLike) -> NDArray[np.float32]:
        """The target of each record, shape (n,)."""
        return self._answers(X)[:, 0]


_LABEL_SCALE = 0.5
"""Root mean square of targets in [-1, 1], as planning by trial assumes it; evenly spread ones have 0.58."""


def _in_units(model: Model, least: float, most: float) -> Model:
    """A model of targets in [-1, 1] as one of targets in [least, most]."""
    theta = (most - least) / 2 * model.kept.theta
    theta[-1] += (most + least) / 2 / intercept_of(model.description.task, "linear")
    probe = probed(model.task, theta, model.description.record_shape)
    described = model.description.model_copy(update={"probe": probe})
    return Model(model.kept._replace(theta=theta, description=described), model.task)


def _ends(given: Any) -> tuple[float, float]:
    """The two ends of a stated range."""
    try:
        least, most = map(float, given)
    except (TypeError, ValueError):
        least = most = 0.0
    if not least < most:
        raise InvalidInput(f"label_range must be (least, most), two numbers, got {given!r:.60}")
    return least, most


def _federation(x: NDArray[np.float32], y: NDArray, groups: ArrayLike | None, schema: Schema) -> Federation:
    """Clients by the values of `groups`, in sorted order; the test record is nobody's, and constant."""
    owners = np.zeros(len(x), int) if groups is None else column_or_1d(groups)
    check_consistent_length(x, owners)
    if pd.isna(owners).any():
        raise InvalidInput("groups has missing values; say whose those records are, or drop them")
    try:
        names = np.unique(owners)
    except TypeError:
        raise InvalidInput("groups must be all texts or all numbers, got both; make them texts") from None
    parts = [(x[owners == name], y[owners == name]) for name in names]
    test = np.zeros((1, x.shape[1]), np.float32), np.ones(1, y.dtype)
    ids = None if groups is None else [str(name) for name in names]
    made = Federation.from_clients(parts, test=test, classes=schema.n_classes, name=_SOURCE, client_names=ids)
    return replace(made, schema=schema)


def _by_name(schema: Schema, x: NDArray) -> dict[str, NDArray]:
    return {one.name: x[:, j] for j, one in enumerate(schema.features)}


def _texts(classes: NDArray) -> list[str]:
    """Labels as different texts."""
    texts = [str(label) for label in classes.tolist()]
    return texts if len(set(texts)) == len(texts) else [repr(label) for label in classes.tolist()]


def _seed(state: Any) -> int:
    """A seed from what scikit-learn calls a random state."""
    if state is None:
        return secrets.randbits(31)
    drawn = state.randint(2**31 - 1) if hasattr(state, "randint") else state
    return check.count("random_state", drawn, least=0, most=2**32 - 1)


def _warn(parameter: str, what: str) -> None:
    warnings.warn(
        f"{what} were read off the data, which no epsilon covers: this is a simulation; state {parameter}",
        SimulationWarning,
        stacklevel=4,
    )
