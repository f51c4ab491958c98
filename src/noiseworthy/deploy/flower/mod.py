"""A mod for Flower apps of one's own: updates leave clipped, noised, and paid for by the owner's ledger.

    app = ClientApp(mods=[pay_and_noise])

and, beside the data, a file of `Terms` that the node's configuration names: `terms="/home/owner.toml"`.

Whoever sends a Flower app sends its mods too. So this holds an app to the owner's terms that its author means
to be held to them. It protects from nobody who may send another app: that is what a gateway is for.
"""

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode
from numpy.typing import NDArray
from pydantic import Field, model_validator

from noiseworthy._tables import Positive, Table, checked, read_toml
from noiseworthy.deploy.gateway.price import price_of
from noiseworthy.errors import Unwitnessed, UserError
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.deployed_noise import DeployedNoise
from noiseworthy.privacy.durable import Account, Charge, DurableLedger, Grant, Refusal, accounts_of
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.durable.storage import make_private
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.mechanisms.fields import DeployedMechanism
from noiseworthy.privacy.mechanisms.registry import delta_misfit
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_clipped_whole
from noiseworthy.privacy.sums import NoisedSum

Name = Annotated[str, Field(min_length=1, max_length=100)]


class Terms(Table):
    """An owner's file for `mod.pay_and_noise`; everything in it is public.

    Attributes:
        client: name of the owner.
        data_set: name that the lifetime budget is kept under.
        mechanism: of the noise.
        epsilon: of all releases from these data, ever.
        delta: likewise; 0 for laplace.
        clip_norm: C of the whole update, in l2 for gaussian noise and l1 for laplace.
        noise: standard deviation or Laplace scale of every coordinate.
        ledger: file of the budget; other gateways to the same data must share it.
        witness: file on another disk that is told what was spent, so that a ledger that is set back is
            noticed; None for none.

    Example:
        >>> terms = Terms(
        ...     client="north", data_set="digits", mechanism="gaussian", epsilon=8.0, delta=1e-5,
        ...     clip_norm=1.0, noise=4.0, ledger=Path("ledger.sqlite"),
        ... )  # fmt: skip
        >>> terms.releases(650)
        11
    """

    client: Name
    data_set: Name
    mechanism: DeployedMechanism
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip_norm: Positive
    noise: Positive
    ledger: Annotated[Path, Field(strict=False)]
    witness: Annotated[Path, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if misfit := delta_misfit(self.mechanism, self.delta):
            raise ValueError(misfit)
        return self

    @property
    def account(self) -> Account:
        """The lifetime budget, for everything that the owner holds."""
        budget = PrivacyBudget.of(self.epsilon, self.delta, 1, unit="client")
        return accounts_of(budget, self.mechanism, self.data_set, "", [self.client])[0]

    def noised_sum(self, dimension: int) -> NoisedSum:
        """How an update of p numbers is clipped and noised.

        Args:
            dimension: p.

        Raises:
            InvalidInput: a clip too large or too small beside the noise.
        """
        noise = law_of(self.mechanism).noise(np.array([self.noise]))
        release = Release(noise, of_clipped_whole(self.clip_norm, 1, noise.norm))
        return NoisedSum.planned(release, self.clip_norm, 1, dimension)

    def releases(self, dimension: int) -> int:
        """How many updates of p numbers the whole budget pays for.

        Raises:
            InvalidInput: a clip too large or too small beside the noise.
            UnsoundClaim: a grid too coarse for delta.
        """
        account = self.account
        return (WHOLE + LAST_BITS) // price_of([self.noised_sum(dimension)], account)


def load_terms(path: Path) -> Terms:
    """Read and check an owner's file; a relative ledger or witness is looked up beside it.

    Raises:
        ConfigError: a missing or unreadable file, unknown keys, values out of range.
    """
    terms = checked(Terms, read_toml(path, "owner's file"), str(path), "; see docs/flower.md")
    witness = terms.witness and path.parent / terms.witness
    return terms.model_copy(update={"ledger": path.parent / terms.ledger, "witness": witness})


ONLY_TRAINING = "only training is answered; whatever else an app computes would leave without noise"
ONE_RECORD = "a message must hold one ArrayRecord of finite numbers, some of them floats; nothing was spent"
NO_TERMS = "the owner's terms or ledger cannot be used; nothing was spent, ask the owner"
ONCE = "this message was paid for before, and its noise is drawn once; send another"
LOST = "the update was paid for and could not be made; it is lost, send another message"
FAULT = "the mod could not look at this message; ask the owner"

_log = logging.getLogger("noiseworthy.flower")

Train = Callable[[Message, Context], Message]


class Declined(Exception):
    """Ends a message in an error; its words are made of public things alone."""


def pay_and_noise(message: Message, context: Context, call_next: Train) -> Message:
    """A train function's update, clipped whole to C, noised, and paid for before it was computed.

        arrays = arrays sent + clip(arrays trained - arrays sent) + noise

    Args:
        message: of a Message-API strategy, with the model in its one ArrayRecord.
        context: of the node, whose configuration names the owner's `terms`.
        call_next: the app's train function, whatever it does.

    Returns:
        The model with the noised update, under the names that were sent, and `num-examples` 1: the number
        of records would tell of them, so that owners count the same. Arrays of whole numbers come back as
        they were sent, and other records of the reply stay here. A train function that fails changes nothing,
        and what leaves is noise. Or an error (code 6), whose words tell nothing of the data.

    Guarantee: over all messages, whatever they hold, what leaves is (epsilon, delta)-private for everything
    that the owner holds, under replace-one, the time that it takes not counted. The price is on disk before
    the train function is called.
    """
    try:
        return Message(_answered(message, context, call_next), reply_to=message)
    except Declined as declined:
        return _refused(message, str(declined))
    except Exception:
        _log.exception("a message could not be looked at")
        return _refused(message, FAULT)


def _refused(message: Message, reason: str) -> Message:
    return Message(Error(ErrorCode.MOD_FAILED_PRECONDITION, reason), reply_to=message)


def _answered(message: Message, context: Context, call_next: Train) -> RecordDict:
    model = _sent(message)
    terms, noised, price = _terms(context, model)
    # opened for every message: Flower may start a process for each, and one file serves several nodes
    with _ledger(terms) as ledger:
        grant = _paid(ledger, terms, message.metadata.message_id, price)
        values = _released(noised, _update(model, message, context, call_next), ledger, grant)
    return RecordDict({model.name: model.moved(values), "metrics": MetricRecord({"num-examples": 1})})


@dataclass(frozen=True)
class Model:
    """The arrays that a message holds.

    Attributes:
        name: of their record.
        arrays: by name.
    """

    name: str
    arrays: dict[str, NDArray]

    @property
    def trained(self) -> dict[str, NDArray]:
        """The arrays of floats; others count something and are not moved."""
        return {name: array for name, array in self.arrays.items() if array.dtype.kind == "f"}

    @property
    def dimension(self) -> int:
        """Numbers that an update has."""
        return sum(array.size for array in self.trained.values())

    def difference(self, record: ArrayRecord) -> NDArray[np.float64]:
        """What these arrays lack of another record's, one behind the other, shape (p,)."""
        parts = []
        for name, array in self.trained.items():
            new = record[name].numpy()
            if new.shape != array.shape:
                raise ValueError(f"{name} had shape {array.shape} and came back with {new.shape}")
            parts.append((new.astype(np.float64) - array.astype(np.float64)).ravel())
        return np.concatenate(parts)

    def moved(self, update: NDArray[np.float64]) -> ArrayRecord:
        """The arrays with an update, in their own precision."""
        found, start = dict(self.arrays), 0
        for name, array in self.trained.items():
            part = update[start : start + array.size].reshape(array.shape)
            # what was sent is public and the update is noised: this rounding comes after, and tells no more
            found[name] = np.asarray(array.astype(np.float64) + part, array.dtype)
            start += array.size
        return ArrayRecord({name: Array(array) for name, array in found.items()})


def _sent(message: Message) -> Model:
    """The model of a message; looks at public things only."""
    if message.metadata.message_type.split(".")[0] != "train":
        raise Declined(ONLY_TRAINING)
    records = message.content.array_records
    if len(records) != 1:
        raise Declined(ONE_RECORD)
    ((name, record),) = records.items()
    model = Model(name, {key: array.numpy() for key, array in record.items()})
    if not model.dimension or not all(np.all(np.isfinite(array)) for array in model.trained.values()):
        raise Declined(ONE_RECORD)
    return model


def _update(model: Model, message: Message, context: Context, call_next: Train) -> NDArray[np.float64]:
    """What the train function makes of the model; none if it fails, because a failure would tell of data."""
    try:
        ((_, record),) = call_next(message, context).content.array_records.items()
        return model.difference(record)
    except (Exception, SystemExit, KeyboardInterrupt):  # whatever it raises, it may have raised for a record
        _log.exception("the train function failed; its noised update is that of no change")
        return np.zeros(model.dimension)


def _released(
    noised: NoisedSum, update: NDArray[np.float64], ledger: DurableLedger, grant: int
) -> NDArray[np.float64]:
    """The update with its noise, shape (p,), whose digest is in the ledger."""
    try:
        values = noised.of([update[None]]).values
        ledger.seal(grant, hashlib.sha256(values.tobytes()).digest())
        return values
    except Exception:
        _log.exception("an update was paid for and is lost")
        raise Declined(LOST) from None


def _terms(context: Context, model: Model) -> tuple[Terms, NoisedSum, int]:
    """The owner's terms, how an update is noised by them, and what it costs."""
    try:
        terms = load_terms(Path(str(context.node_config["terms"])))
        noised = terms.noised_sum(model.dimension)
        return terms, noised, price_of([noised], terms.account)
    except (UserError, KeyError):
        _log.exception("the owner's terms cannot be used")
        raise Declined(NO_TERMS) from None


def _ledger(terms: Terms) -> DurableLedger:
    try:
        DeployedNoise(terms.mechanism, 1.0)
        ledger = DurableLedger.open(terms.ledger, terms.witness)
        make_private(terms.ledger)  # not before: it may have been another file
        return ledger
    except UserError:
        _log.exception("the owner's ledger cannot be used")
        raise Declined(NO_TERMS) from None


def _paid(ledger: DurableLedger, terms: Terms, message: str, price: int) -> int:
    """The grant of one release, in a run of its own that is named by the message; it is on disk."""
    try:
        (account,) = ledger.enrol([terms.account])
        answer = ledger.reserve(ledger.begin(f"flower message {message}"), [Charge(account, 1, price)])
    except Unwitnessed:
        _log.exception("an update was paid for and is lost")
        raise Declined(LOST) from None
    except UserError:
        _log.exception("the owner's ledger cannot be used")
        raise Declined(NO_TERMS) from None
    if isinstance(answer, Refusal) and answer.why != "lost":
        raise Declined(answer.message)
    if not isinstance(answer, Grant):
        raise Declined(ONCE)
    return answer.number
