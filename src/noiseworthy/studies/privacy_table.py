"""`[privacy]` of a study: mechanism and budgets, stated for each client or drawn in public."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from noiseworthy import _validate as check
from noiseworthy._tables import LEAST, LEAST_DELTA, MOST, MOST_STEPS, Auto, Number, PerClient, Table
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.mechanisms.fields import AnyMechanism
from noiseworthy.privacy.trust import Cohorts, Trust, TrustModel
from noiseworthy.studies.clients import Stated, StatedDelta, forms, in_order, is_named

if TYPE_CHECKING:
    from noiseworthy.studies.tables import Study


class Drawn(Table):
    """A number for every client, drawn in public: evenly between two ends, or evenly in its logarithm."""

    uniform: list[float] | None = None
    """Least and greatest, drawn evenly."""
    loguniform: list[float] | None = None
    """Least and greatest, drawn evenly in the logarithm."""

    @property
    def ends(self) -> list[float]:
        """The least and the greatest number that may be drawn."""
        return self.uniform or self.loguniform or []


_KIND = Discriminator(lambda budget: "drawn" if isinstance(budget, Drawn) else "stated")
Budget = Annotated[Annotated[Stated, Tag("stated")] | Annotated[Drawn, Tag("drawn")], _KIND]
"""One number for all clients, one for each, or a range to draw them from."""
DeltaBudget = Annotated[Annotated[StatedDelta, Tag("stated")] | Annotated[Drawn, Tag("drawn")], _KIND]
_MOST_DELTA = 0.99
_TAGS = {"epsilon": 0xE9517, "delta": 0xDE17A}
"""What tells the public draws of a study apart."""
_LAWS = ("{ uniform = [least, greatest] }", "{ loguniform = [least, greatest] }")


def _drawn(key: str, source: dict[str, Any] | str) -> Drawn:
    """A range of budgets, with its ends checked."""
    if isinstance(source, str) or len(source) != 1 or not source.keys() <= Drawn.model_fields.keys():
        raise ValueError(forms(f"[privacy] {key}", source, _LAWS))
    ((law, ends),) = source.items()
    where = f"[privacy] {key} {law}"
    numbers = isinstance(ends, list) and all(type(end) in (int, float) for end in ends)
    if not numbers or len(ends) != 2 or not ends[0] <= ends[1] < float("inf"):
        raise ValueError(f"{where} must be two numbers, the least and the greatest, got {ends!r}")
    least = LEAST_DELTA if key == "delta" else LEAST
    if not all(least <= abs(end) <= MOST for end in ends if end):
        raise ValueError(f"{where} must have ends between {least:g} and {MOST:g} in size, got {ends}")
    if (key == "epsilon" or law == "loguniform") and ends[0] <= 0:
        raise ValueError(f"{where} must begin above 0, got {ends[0]}")
    if key == "delta" and not 0 <= ends[0] <= ends[1] < 1:
        raise ValueError(f"{where} must lie in [0, 1), got {ends}; use a delta far below 1/records")
    return Drawn(**{law: [float(end) for end in ends]})


_DELTA = {
    False: "use a delta far below 1/records",
    True: "Gaussian noise needs a delta above 0; use Laplace noise for pure epsilon",
}
"""Remedies for a delta out of range, by whether the noise needs one."""


def _each(key: str, stated: Stated) -> list[tuple[str, float | list[float]]]:
    """Numbers with whose they are, for complaints."""
    if isinstance(stated, dict):
        return [(f"[privacy] {key} of {name}", value) for name, value in stated.items()]
    return [(f"[privacy] {key}", stated)]


class PrivacyTable(Table):
    """`[privacy]`: mechanism, budgets, clip, neighbours."""

    mechanism: AnyMechanism
    """Kind of noise."""
    epsilon: Budget = 1.0
    """Privacy loss that each client allows, above 0."""
    delta: DeltaBudget = 0.0
    """Probability of a larger loss, in [0, 1), far below 1/records; 0 with `laplace` for pure epsilon."""
    clip_norm: Number | Auto = "auto"
    """Norm that gradients or updates are clipped to, L2 or L1 as the noise needs; `auto` is planned."""
    relation: Literal["replace-one", "add-remove"] = "replace-one"
    """What neighbours are: one record exchanged (sizes are public), or one more or less."""
    sampling_rate: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of its records that a client draws for each reply, in (0, 1]."""
    accountant: Literal["auto", "pure"] = "auto"
    """`pure` counts Laplace noise as pure epsilon; `auto` takes the tightest exact count."""

    persons_have_at_most: Annotated[int, Field(ge=2, le=MOST_STEPS)] | None = Field(
        default=None, exclude_if=lambda records: records is None
    )
    """Records that one person has at most at a client; the claim card then says what all of them cost."""
    unit: Literal["record", "person"] = Field(default="record", exclude_if=lambda unit: unit == "record")
    """Whose change epsilon bounds: one record's, or that of all records of a person at a client, by the
    column of role `person`. Methods that clip whole updates hide all that a client holds in either case."""
    trust: TrustModel = Field(default="local", exclude_if=lambda model: model == "local")
    """Who sees what: `local`, everybody each upload; `secure-sum`, everybody sums only; `central`, a trusted
    server clipped uploads."""
    colluders: Annotated[int, Field(ge=0, le=MOST_STEPS)] = Field(default=0, exclude_if=lambda t: t == 0)
    """Owners that tell the server what they know; of `secure-sum`."""
    dropouts: Annotated[int, Field(ge=0, le=MOST_STEPS)] = Field(default=0, exclude_if=lambda d: d == 0)
    """Owners of a cohort that may be missing in a round; of `secure-sum`."""
    cohorts: Cohorts = Field(default="public", exclude_if=lambda cohorts: cohorts == "public")
    """Who knows whom a round asks: `public`, everybody; `secret`, the trusted server alone, which asks each
    client with probability `clients_per_round` over all; of `central`, by methods that hide whole clients."""

    @field_validator("epsilon", "delta", mode="before")
    @classmethod
    def _range(cls, value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, dict | str) or is_named(value):
            return value
        return _drawn(str(info.field_name), value)

    @model_validator(mode="after")
    def _budgets(self) -> PrivacyTable:
        """What every planner refuses later, said before anything is loaded."""
        if not isinstance(self.epsilon, Drawn):
            for whose, epsilon in _each("epsilon", self.epsilon):
                check.positive(whose, epsilon, remedy="ask such a client for nothing, or give it a budget")
        if not isinstance(self.delta, Drawn):
            needed = law_of(self.mechanism).needs_delta
            for whose, delta in _each("delta", self.delta):
                check.in_unit_interval(whose, delta, closed_left=not needed, remedy=_DELTA[needed])
        if self.clip_norm != "auto":
            remedy = "a clip of 0 would remove every gradient"
            check.positive("[privacy] clip_norm", self.clip_norm, remedy=remedy)
        return self

    @model_validator(mode="after")
    def _persons_in_full_batches(self) -> PrivacyTable:
        if self.unit == "record" and self.persons_have_at_most is not None and self.sampling_rate < 1:
            raise ValueError(
                "[privacy] persons_have_at_most is counted exactly for full batches only; take "
                'sampling_rate = 1 or unit = "person", or leave it out'
            )
        return self

    @model_validator(mode="after")
    def _is_a_delta(self) -> PrivacyTable:
        if any(_MOST_DELTA < delta < 1 for delta in self._deltas()):
            raise ValueError(
                f"[privacy] delta must be at most {_MOST_DELTA:g}, got {max(self._deltas())!r}; use a delta "
                "far below 1/records"
            )
        return self

    @model_validator(mode="after")
    def _pure_is_pure(self) -> PrivacyTable:
        if self.accountant == "pure" and (not law_of(self.mechanism).pure or any(self._deltas())):
            delta = self.delta.ends if isinstance(self.delta, Drawn) else self.delta
            raise ValueError(
                f'accountant = "pure" is Laplace noise with delta = 0, got {self.mechanism} with delta '
                f"{delta}; set delta = 0.0, or leave accountant out to account with a delta"
            )
        return self

    @model_validator(mode="after")
    def _trusts(self) -> PrivacyTable:
        _ = self.whom
        return self

    @property
    def whom(self) -> Trust:
        """Whom owners trust, as planners take it."""
        return Trust(self.trust, self.colluders, self.dropouts, self.cohorts)

    def _deltas(self) -> list[float]:
        """Every delta that is stated, the ends of a range."""
        stated = self.delta.ends if isinstance(self.delta, Drawn) else self.delta
        if isinstance(stated, dict):
            return [*stated.values()]
        return stated if isinstance(stated, list) else [stated]


def budgets_of(
    study: Study, key: Literal["epsilon", "delta"], names: Sequence[str], *, named: bool
) -> PerClient:
    """`[privacy] epsilon` or `delta` of the clients, in their order.

    Args:
        study: with its budgets.
        key: which of the two.
        names: of the clients.
        named: whether these are names of their own.
    """
    stated = getattr(study.privacy, key)
    if not isinstance(stated, Drawn):
        return in_order(f"[privacy] {key}", stated, names, named=named)
    seed = check.count("[federation] seed", study.federation.seed, least=0)
    return draw_budgets(stated, len(names), np.random.default_rng([seed, _TAGS[key]])).tolist()


def draw_budgets(law: Drawn, clients: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """Budgets of clients whom nobody has asked, drawn from a range.

    Args:
        law: evenly between two ends, or evenly in the logarithm.
        clients: N.
        generator: public; budgets say nothing of records.

    Returns:
        shape (N,), within the ends.

    Example:
        >>> draw_budgets(Drawn(loguniform=[0.1, 10.0]), 3, np.random.default_rng(0)).round(3)
        array([1.879, 0.346, 0.121])
    """
    low, high = law.ends
    if law.uniform is not None:
        return generator.uniform(low, high, clients)
    return np.clip(np.exp(generator.uniform(np.log(low), np.log(high), clients)), low, high)
