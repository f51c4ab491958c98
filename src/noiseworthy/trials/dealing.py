"""Public records dealt out to as many clients as the study has, as its own are believed to be."""

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Federation, Records, federate
from noiseworthy.data.records import members_of
from noiseworthy.engines.flat import FlatRecords
from noiseworthy.engines.shards import Shards
from noiseworthy.trials.facts import OWNERS, PublicFacts

RECORDS = 1000
"""Records of a proxy in all, more only where clients are many."""
RECORDS_OF_NETWORKS = 300
"""The same where networks are tried, of which a gradient takes long."""
LEAST_RECORDS = 4
"""Records of a client, as long as it holds so many."""
TEST_RECORDS = 1000


def dealt(facts: PublicFacts, records: Records, seed: int, most: int = RECORDS) -> Federation:
    """A public federation with the clients and the skew of a study, each client's records in proportion.

    Where the study's owners are given, nobody knows how they differ: as much as real public owners, or not
    at all. Odd seeds have real owners stand in for them: each client holds records of one owner, drawn at
    random, again and again where there are too few. Even seeds deal records out alike.

    Args:
        facts: of the study.
        records: public ones, made to look like those of the study.
        seed: of the deal and of the choice of test records.
        most: records in all, unless clients are many.
    """
    sizes = facts.problem.sizes
    total = max(most, LEAST_RECORDS * len(sizes))
    few = np.minimum(sizes, np.maximum(LEAST_RECORDS, np.round(total * sizes / sizes.sum())).astype(np.int64))
    test = np.random.default_rng(seed).permutation(len(records.test_x))[:TEST_RECORDS]
    records = replace(records, test_x=records.test_x[test], test_y=records.test_y[test])
    rng = np.random.default_rng(seed)
    if (stood_for := real_owners(facts, records, seed, rng)) is not None:
        parts = [np.resize(rng.permutation(own), int(n)) for own, n in zip(stood_for, few, strict=True)]
        owners = [(records.x[part], records.y[part]) for part in parts]
        test = records.test_x, records.test_y
        return Federation.from_clients(owners, test=test, classes=records.classes, name=records.name)
    settings = _scaled_settings(facts, records.classes)
    rule = "iid" if records.classes is None or facts.partition == OWNERS else facts.partition
    some = _some(records, 2 * len(sizes) * int(few.max()), rng)
    return federate(some, clients=len(sizes), partition=rule, seed=seed, **settings).take_records(few)


def real_owners(
    facts: PublicFacts, records: Records, seed: int, rng: np.random.Generator
) -> list[NDArray[np.int64]] | None:
    """Places of the records of the public owner that stands for each client; None where none does.

    Args:
        facts: of the study.
        records: public ones.
        seed: of the deal.
        rng: the generator of that seed, which draws owners first of all.
    """
    if facts.partition != OWNERS or records.client_ids is None or not seed % 2:
        return None
    every = members_of(records.client_ids)
    order = rng.permutation(len(every))
    return [every[order[i % len(every)]] for i in range(facts.problem.n_clients)]


def weighted(shards: Shards, weights: NDArray[np.float64]) -> Shards:
    """Each record of client i counted weights[i] times: a trial's few stand for all that the client holds."""
    if isinstance(shards.train, FlatRecords):
        return shards._replace(train=shards.train.weighted(weights))
    scale = jnp.asarray(weights, jnp.float32)[:, None]
    train = shards.train._replace(mask=shards.train.mask * scale)
    groups = tuple(
        group._replace(train=group.train._replace(mask=group.train.mask * scale[group.clients]))
        for group in shards.groups
    )
    return shards._replace(train=train, groups=groups)


def _some(records: Records, wanted: int, rng: np.random.Generator) -> Records:
    """So many records at random, again and again where there are too few; a trial may reuse them freely."""
    chosen = np.resize(rng.permutation(len(records)), wanted)
    return replace(records, x=records.x[chosen], y=records.y[chosen], client_ids=None)


def _scaled_settings(facts: PublicFacts, classes: int | None) -> dict[str, Any]:
    """The partition's settings, with labels per client kept as a share of all classes."""
    if classes is None:
        return {}
    settings = dict(facts.settings)
    if "labels_per_client" in settings and facts.classes:
        share = settings["labels_per_client"] / facts.classes
        settings["labels_per_client"] = max(1, round(share * classes))
    return settings
