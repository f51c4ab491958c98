"""What a stated schedule costs, without planning anything."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from noiseworthy import _validate as check
from noiseworthy.errors import InvalidInput
from noiseworthy.methods.fedsgd_dpc.bound import uploads
from noiseworthy.plans.plan import Plan
from noiseworthy.privacy.accountants import spent_epsilon
from noiseworthy.privacy.budget import UNITS, Relation, Row, Unit
from noiseworthy.privacy.clipping import ClippingMode, of_upload
from noiseworthy.privacy.mechanisms import law_of, noisy_names
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.trust import ADVERSARY


def account(
    *, mechanism: str, noise: ArrayLike, clip_norm: float, sizes: ArrayLike, delta: ArrayLike = 0.0,
    releases: ArrayLike | None = None, rounds: int | None = None, clients_per_round: int | None = None,
    relation: Relation = "replace-one", sampling_rate: float = 1.0, unit: Unit = "record",
) -> dict[str, Any]:  # fmt: skip
    """Exact epsilon of every client for noise and uploads that somebody states.

    Args:
        mechanism: name of one with noise.
        noise: Laplace scale or Gaussian std per coordinate of an upload, one or per client.
        clip_norm: clip of each record's gradient, or of the whole upload for unit `client`; L1 for Laplace
            and L2 for Gaussian.
        sizes: records of each client.
        delta: 0 for pure epsilon (Laplace), else in (0, 1); one or per client.
        releases: uploads of each client; or give `rounds` and `clients_per_round` for ceil(bT/N).
        rounds: T of a reshuffled round robin.
        clients_per_round: its b.
        relation: `replace-one` or `add-remove`.
        sampling_rate: q of Poisson batches.
        unit: `record` or `person` for means of clipped gradients (2C/n, of n records or persons), `client`
            for clipped updates (2C).

    Returns:
        `mechanism`, `releases`, `noise` and `privacy` with `spent_epsilon` per client.

    Example:
        >>> answer = account(mechanism="laplace", noise=0.1, clip_norm=300.0, sizes=[6000], releases=5)
        >>> answer["privacy"]["clients"][0]["spent_epsilon"]
        5.0
    """
    law = law_of(check.one_of("mechanism", mechanism, noisy_names()))
    records = check.counts("sizes", sizes, remedy="leave a client without records out")
    check.one_of("relation", relation, ["replace-one", "add-remove"])
    n = len(records)
    size = check.positive("noise", check.per_client("noise", noise, n))
    used = _releases(releases, rounds, clients_per_round, n)
    check.one_of("unit", unit, UNITS)
    for name, value in {"clip_norm": clip_norm, "sampling_rate": sampling_rate}.items():
        if np.ndim(value):
            raise InvalidInput(f"{name} must be one number, the same for all clients, got {value!r:.60}")
    mode: ClippingMode = "D" if unit == "client" else "A"
    row: Row = "person" if unit == "person" else "record"
    sensitivity = of_upload(mode, clip_norm, records, 1, law.name, relation, sampling_rate, row)
    stated = check.per_client("delta", delta, n)
    deltas = check.in_unit_interval("delta", stated, closed_left=not law.needs_delta)
    spent = spent_epsilon(Release(law.noise(size), sensitivity, sampling_rate), used, deltas)
    clients = [{"delta": d, "spent_epsilon": e} for d, e in zip(deltas.tolist(), spent.tolist(), strict=True)]
    privacy = {"unit": unit, "relation": relation, "adversary": ADVERSARY, "clients": clients}
    return {"mechanism": mechanism, "releases": used.tolist(), "noise": size.tolist(), "privacy": privacy}


def account_plan(plan: Plan) -> dict[str, Any]:
    """What a plan's schedule costs, with the keys of `account`."""
    stated = plan.as_dict()
    return {key: stated[key] for key in ("mechanism", "releases", "noise", "privacy")}


def _releases(
    releases: ArrayLike | None, rounds: int | None, clients_per_round: int | None, clients: int
) -> np.ndarray:
    if releases is not None:
        if rounds is not None or clients_per_round is not None:
            raise InvalidInput("state releases, or rounds and clients_per_round, and not both")
        stated = check.counts("releases", releases, least=0)
        return check.per_client("releases", stated if stated.size > 1 else stated[0], clients).astype(int)
    remedy = "state the uploads, or rounds and clients_per_round"
    t = check.count("rounds", rounds, remedy=remedy)
    b = check.count("clients_per_round", clients_per_round, most=clients, remedy=remedy)
    check.counts("rounds times clients_per_round", t * b)
    return np.full(clients, int(uploads(t, b, clients)))
