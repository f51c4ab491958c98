"""An owner's gateway in rehearsal: the owner's file and the deployed code, made-up records and a new ledger.

Nothing of the owner is opened but the owner's file: records, ledger and socket are exchanged before a gateway
sees it. There are two worlds, neighbouring data sets that differ in one record, or in both of a person where
the budget is for persons. All records are alike but for their labels, and every model is asked at zero,
so that the others cancel and what differs moves an upload as far as its clip allows, in opposite directions.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy._jax import jax, jnp
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.data.table import FederationTable
from noiseworthy.deploy.gateway.client import packed
from noiseworthy.deploy.gateway.gateway import Gateway
from noiseworthy.deploy.gateway.messages import Refused, Request, Uploaded, read_reply
from noiseworthy.deploy.gateway.owner import FilesTable, Owner
from noiseworthy.errors import GatewayError, InvalidInput
from noiseworthy.methods.probe import Probe, probe
from noiseworthy.methods.wire import WIRES, wire
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.tasks.base import Task
from noiseworthy.tasks.batch import Batch
from noiseworthy.tasks.table import TaskTable

RECORDS = 7
"""Of the made-up owner, or its persons: the one that is exchanged, and three pairs that cancel."""
_OF_A_PERSON = 2
CLIP = 0.25
_LONG = 4.0
"""Of the one feature: gradients are several clips long, and would fit on the grid without a clip too."""
_FEATURES, _SIDE = 8, 16
_LINEAR = ("logistic", "softmax", "svm", "linear")


@dataclass(frozen=True)
class Question:
    """A release that is attacked.

    Attributes:
        algorithm: by name.
        probe: what is asked.
    """

    algorithm: str
    probe: Probe

    @classmethod
    def of(cls, algorithm: str) -> Question:
        """What an algorithm has for an audit to ask."""
        return cls(algorithm, probe(algorithm))

    @property
    def divisor(self) -> int:
        """n where records are clipped, 1 where the whole update is."""
        return 1 if self.probe.whole else RECORDS

    def noise(self, ratio: float, mechanism: str) -> float:
        """Noise of which what an exchanged record changes, 2C / divisor at most, is `ratio` times."""
        return self.probe.apart(CLIP, law_of(mechanism).norm) / self.divisor / ratio


def questions(owner: Owner) -> list[Question]:
    """The releases that an owner's file allows and its budget covers.

    Raises:
        InvalidInput: none of them.
    """
    every = [Question.of(name) for name in WIRES if name in owner.allowed.algorithms]
    fits = [one for one in every if _covered(one, owner)]
    if not fits:
        raise InvalidInput("no algorithm that the owner allows fits its budget; nothing can be audited")
    return fits


def _covered(one: Question, owner: Owner) -> bool:
    obstacle = wire(one.algorithm).table.obstacle(law_of(owner.budget.mechanism))
    return not obstacle and (owner.budget.unit != "client" or one.probe.whole)


def made_up(owner: Owner, folder: Path, present: bool, **budget: float) -> Owner:
    """An owner's file with made-up records, a ledger and a socket of its own.

    Args:
        owner: the owner's file.
        folder: for all that is made up; it must exist.
        present: which of the two worlds.
        budget: keys of `[budget]` to exchange.
    """
    model = model_of(owner)
    held = folder / "records.npz"
    labels = np.array([int(present), *([0, 1] * RECORDS)[: RECORDS - 1]])
    x = _features(model, owner.allowed.most_parameters)
    y = 2.0 * labels - 1 if model == "linear" else labels
    sides: dict[str, Any] = {}
    if owner.holds_out:  # the same records once more, as held out
        x, y = np.concatenate([x, x]), np.concatenate([y, y])
        sides = {"split": np.repeat(["train", "test"], RECORDS)}
    if owner.budget.unit == "person":
        columns, federation = _persons(held, x, y, sides), FederationTable(data=str(held), clients=1)
    else:
        np.savez(held, x=x, label=y, **sides)
        kind: dict[str, Any] = {"regression": True} if model == "linear" else {"classes": [0, 1]}
        columns = None
        federation = FederationTable(data=str(held), clients=1, label_column="label", **kind)
    return owner.model_copy(
        update={
            "owner": owner.owner.model_copy(update={"client": "rehearsal", "data_set": "made up"}),
            "federation": federation,
            "columns": columns,
            "secure_sum": None,
            "budget": owner.budget.model_copy(update=budget),
            "files": FilesTable(socket=folder / "gateway.sock", ledger=folder / "ledger.sqlite"),
        }
    )


def _persons(file: Path, x: NDArray[np.float32], y: NDArray, sides: dict[str, NDArray]) -> Schema:
    """Writes a table of persons whose records are all alike, and says what its columns are."""
    flat = x.reshape(len(x), -1)
    numbers = {f"x{place}": column for place, column in enumerate(flat.T)}
    columns = {"label": y, "person": np.arange(len(x)), **sides, **numbers}
    rows: dict[str, Any] = {name: np.repeat(one, _OF_A_PERSON) for name, one in columns.items()}
    np.savez(file, **rows)
    label = {"kind": "number"} if y.dtype.kind == "f" else {"classes": ["0", "1"]}
    as_they_are = {name: {"kind": "number", "center": 0.0, "step": 1.0} for name in numbers}
    person = {"role": "person", "at_most": _OF_A_PERSON}
    stated = {"label": {"role": "label", **label}, "person": person, **as_they_are}
    return read_schema(stated | {name: {"role": "split"} for name in sides})


def model_of(owner: Owner) -> str:
    """The model that is asked for: a linear one if the owner allows any.

    Raises:
        InvalidInput: models of the owner's modules alone, whose worst case nobody knows.
    """
    if not owner.allowed.models:
        raise InvalidInput(
            "the owner's file allows own_models alone, of which nobody knows the worst case; allow one of "
            "the product's models beside them to audit the installation"
        )
    return next((name for name in _LINEAR if name in owner.allowed.models), owner.allowed.models[0])


def _features(model: str, most: int) -> NDArray[np.float32]:
    """The same for all records: one long feature, so that a gradient has one coordinate in each class."""
    if model not in _LINEAR:
        return np.zeros((RECORDS, _SIDE, _SIDE), np.float32)
    x = np.zeros((RECORDS, max(1, min(_FEATURES, most // 2))), np.float32)
    x[:, 0] = _LONG
    return x


@dataclass(frozen=True)
class World:
    """A gateway in rehearsal, and what an attacker knows of its uploads.

    Attributes:
        gateway: of made-up records.
        table: the model that is asked for.
        gradient: of the record that is exchanged, at zero, clipped to C as the noise needs, shape (p,).
        task: the model for the records.
        batch: the records.
    """

    gateway: Gateway
    table: TaskTable
    gradient: NDArray[np.float64]
    task: Task
    batch: Batch

    @classmethod
    def open(cls, owner: Owner) -> World:
        """The gateway of an owner's file in rehearsal (`made_up`)."""
        gateway = Gateway.open(owner)
        table = TaskTable.model_validate({"model": model_of(owner), "bias": False})
        task = gateway.holding.task(table)
        batch = gateway.holding.batch(task)
        one = jax.tree.map(lambda a: a[:1], batch)
        slope = jax.grad(lambda theta: task.losses(theta, one)[0])(jnp.zeros(task.dimension))
        raw = np.asarray(slope, np.float64)
        order = law_of(owner.budget.mechanism).order
        return cls(gateway, table, raw * (CLIP / np.linalg.norm(raw, order)), task, batch)

    def accounts(self, names: Sequence[str]) -> list[World]:
        """The same records with as many fresh budgets as names."""
        gateway, fresh = self.gateway, [replace(self.gateway.account, client=name) for name in names]
        made: list[World] = []
        for one, at in zip(fresh, gateway.ledger.enrol(fresh), strict=True):
            scoring = gateway.scoring and replace(gateway.scoring, account=one, number=at)
            made.append(replace(self, gateway=replace(gateway, account=one, number=at, scoring=scoring)))
        return made

    def request(self, question: Question, run: str, ratio: float) -> Request:
        """A request whose noise an exchanged record is `ratio` times of."""
        noise = question.noise(ratio, self.gateway.owner.budget.mechanism)
        return Request(
            run=run, release=1, algorithm=question.probe.work(noise), task=self.table,
            theta=np.zeros(len(self.gradient), np.float32), mechanism=self.gateway.owner.budget.mechanism,
            clip_norm=CLIP, noise=noise, deadline=time.time() + 3600,
        )  # fmt: skip

    def mean(self, question: Question) -> NDArray[np.float64]:
        """What an upload would be without its noise, shape (u,)."""
        if question.probe.mean is not None:
            norm = law_of(self.gateway.owner.budget.mechanism).norm
            return question.probe.mean(self.task, self.batch, CLIP, norm)
        return question.probe.sign / question.divisor * self.gradient

    def answer(self, request: Request) -> Uploaded | Refused:
        """The reply to a request, which goes through the wire format both ways."""
        reply = read_reply(self.gateway.answer(packed(request)))
        if not isinstance(reply, Uploaded | Refused):
            raise GatewayError("the gateway answered a request by something else; nothing can be audited")
        return reply

    def upload(self, request: Request, numbers: int | None = None) -> NDArray[np.float64]:
        """The first of the released numbers; all by default.

        Raises:
            GatewayError: a request that is refused.
        """
        reply = self.answer(request)
        if isinstance(reply, Refused):
            raise GatewayError(
                f"in rehearsal {request.algorithm.name} was refused ({reply.reason}: {reply.message}); "
                "look at [allowed] and [budget] of the owner's file"
            )
        return np.asarray(reply.upload.values, np.float64)[:numbers]

    @property
    def charged(self) -> int:
        """Shares of its budget that the ledger holds for the account."""
        find = "SELECT spent FROM accounts WHERE id = ?"
        ((spent,),) = self.gateway.ledger.query(find, [self.gateway.number])
        return spent


def cost(question: Question, ratio: float, mechanism: str) -> float:
    """What a release costs by the auditor's own arithmetic, in mu^2 (Gaussian) or epsilon (Laplace).

    Example:
        >>> cost(Question.of("fedsgd-dpc"), 0.5, "gaussian")
        0.25
    """
    ratios = [ratio, *question.probe.beside(question.noise(ratio, mechanism), RECORDS)]
    return float(sum(one ** law_of(mechanism).paid_in.power for one in ratios))
