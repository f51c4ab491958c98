"""Public data made to look like the private federation: same clients, same skew, same kind of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from noiseworthy.data import Federation, Records, federate, load_records
from noiseworthy.data.files import locate
from noiseworthy.data.mixture import mixture
from noiseworthy.engines.simulation import Shards
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.planning.problem import Problem
from noiseworthy.tasks.base import Task
from noiseworthy.trials.facts import PublicFacts
from noiseworthy.trials.treatment import Treatment

MIXTURE = "mixture"
REGRESSION = "diabetes-progression"
"""What ships with the product and has numbers to predict."""
RECORDS = 1000
"""Records of a proxy in all, more only where clients are many."""
LEAST_RECORDS = 4
"""Records of a client, as long as it holds so many."""
TEST_RECORDS = 1000
_SEED = 20
_TWINS = ({"mnist", "mnist-writers"}, {"cifar10", "cifar10-jpeg"}, {REGRESSION, "diabetes"})


@dataclass(frozen=True)
class Proxy:
    """A public federation on the device, ready for trials.

    Attributes:
        name: of the data set.
        facts: those of the study, thinned to the clients of the trial.
        task: the study's model for its records.
        shards: its records; each stands for as many of the client's as the study has for it.
        condensed: the same as moments, for algorithms that need no more; else equal to `shards`.
        untrained_loss: test loss of the start.
        untrained_quality: accuracy of the start (R^2 of a regression).
        noise_factor: what noise is multiplied by, below 1 where clients were left out.
    """

    name: str
    facts: PublicFacts
    task: Task
    shards: Shards
    condensed: Shards
    untrained_loss: float
    untrained_quality: float
    noise_factor: float

    @property
    def problem(self) -> Problem:
        """The private problem with the dimension of this proxy's model."""
        return replace(self.facts.problem, dimension=self.task.dimension)


def public_sources(facts: PublicFacts) -> list[str]:
    """What ships with the product and may stand in for a study's data, and the mixture made to its facts.

    Images for images; tables with two classes for two classes, one of them hard; else tables that are
    easy, because a hard two-class problem says little of ten classes: on digits it cost 11 % of the
    gain. Iris is left out, because without an intercept it is an odd problem. Numbers for numbers, of
    which no mixture is made.
    """
    if facts.classes is None:
        return [] if {facts.source, REGRESSION} in (*_TWINS, {REGRESSION}) else [REGRESSION]
    if len(facts.record_shape) > 1 and facts.source != "digits":
        shipped = ("digits",)
    else:
        shipped = ("breast-cancer", "diabetes") if facts.classes == 2 else ("breast-cancer", "wine")
    return [*(name for name in shipped if name != facts.source), MIXTURE]


def make_proxies(
    facts: PublicFacts,
    sources: Sequence[str],
    treatment: Treatment | None = None,
    data_dir: str | Path | None = None,
) -> list[Proxy]:
    """One proxy per source, its records prepared as the study says or as it might.

    Raises:
        InvalidInput: the study's own data among the sources, or no source at all.
    """
    if not sources:
        raise InvalidInput("planning by trial needs at least one public data set under [planning] public")
    own = [source for source in sources if _same_data(facts.source, source, data_dir)]
    if own:
        raise InvalidInput(
            f"{own[0]} is the private data of this study and cannot be called public; "
            "remove it from [planning] public"
        )
    return [_proxy(facts, source, treatment, str(data_dir) if data_dir else None) for source in sources]


def _same_data(one: str, other: str, data_dir: str | Path | None) -> bool:
    """Whether two sources hold the same records: one name, one file, or one data set in two forms."""
    if one == other or {one, other} in _TWINS:
        return True
    try:
        paths = [locate(source.split(":", 1)[-1], data_dir).resolve() for source in (one, other)]
    except DataError:
        return False
    return paths[0] == paths[1]


def _proxy(facts: PublicFacts, source: str, treatment: Treatment | None, data_dir: str | None) -> Proxy:
    few = facts.thinned()
    federation = _federation(few, _public(facts, source, data_dir))
    task = facts.make_task(federation.record_shape, federation.classes, treatment)
    shards = _weighted(Shards.load(federation, task), few.problem.sizes / federation.sizes)
    condensed = Shards.load(federation, task, condensed=True) if federation.classes is None else shards
    theta = task.initial(jax.random.key(_SEED))
    start = task.score(theta, shards.test_x, shards.test_y)
    factor = float(np.sqrt(few.problem.n_clients / facts.problem.n_clients))
    return Proxy(
        federation.name, few, task, shards, condensed, float(start.loss), float(start.accuracy), factor
    )


def _public(facts: PublicFacts, source: str, data_dir: str | None) -> Records:
    """Public records made to look like those of the study."""
    if source != MIXTURE:
        return _like(_records(source, data_dir), facts)
    if facts.classes is None:
        raise InvalidInput(
            f"mixture has classes, and the study predicts numbers; use {REGRESSION} under [planning] public"
        )
    return mixture(facts.record_shape, facts.classes)


def shape_of(facts: PublicFacts, source: str, data_dir: str | Path | None) -> tuple[int, ...]:
    """Shape of a public record, resized to the study's where it is an image."""
    if source == MIXTURE:
        return facts.record_shape
    return _seen_as(_records(source, str(data_dir) if data_dir else None).record_shape, facts.record_shape)


def _seen_as(shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    return wanted if len(wanted) > 1 and len(shape) == len(wanted) else shape


@cache
def _records(source: str, data_dir: str | None) -> Records:
    return load_records(source, data_dir=data_dir)


def _federation(facts: PublicFacts, records: Records) -> Federation:
    """Records dealt out as the study's are believed to be, each client's in proportion to its size."""
    sizes = facts.problem.sizes
    total = max(RECORDS, LEAST_RECORDS * len(sizes))
    few = np.minimum(sizes, np.maximum(LEAST_RECORDS, np.round(total * sizes / sizes.sum())).astype(np.int64))
    classes = records.classes
    return federate(
        _enough(records, 2 * len(sizes) * int(few.max())),
        clients=len(sizes),
        partition="iid" if classes is None else facts.partition,
        seed=_SEED,
        **({} if classes is None else _scaled_settings(facts, classes)),
    ).take_records(few)


def _weighted(shards: Shards, weights: NDArray[np.float64]) -> Shards:
    """Each record of client i counted weights[i] times: a trial's few stand for all that the client holds."""
    scale = jnp.asarray(weights, jnp.float32)[:, None]
    train = shards.train._replace(mask=shards.train.mask * scale)
    groups = tuple(
        group._replace(train=group.train._replace(mask=group.train.mask * scale[group.clients]))
        for group in shards.groups
    )
    return shards._replace(train=train, groups=groups)


def _like(records: Records, facts: PublicFacts) -> Records:
    """Images resized to the study's shape, classes merged to two for two. Test sets cut to size."""
    records = _relabelled(records, facts.classes) if facts.classes else _rescaled(records, facts.label_scale)
    shape = _seen_as(records.record_shape, facts.record_shape)
    test = np.random.default_rng(_SEED).permutation(len(records.test_x))[:TEST_RECORDS]
    records = replace(records, test_x=records.test_x[test], test_y=records.test_y[test])
    if records.record_shape == shape:
        return records
    return replace(records, x=_resized(records.x, shape), test_x=_resized(records.test_x, shape))


def _relabelled(records: Records, classes: int) -> Records:
    """Every second class against the others where the study has two, and numbers above their median."""
    if records.classes is None and classes == 2:
        return _halved(records)
    if records.classes is None:
        raise InvalidInput(
            f"the study predicts {classes} classes, but the public data {records.name} hold numbers; remove "
            "them from [planning] public"
        )
    if classes != 2 or records.classes == 2:
        return records
    return replace(records, y=records.y % 2, test_y=records.test_y % 2, classes=2)


def _halved(records: Records) -> Records:
    """Numbers to predict as two classes, above their median or not: a hard problem, as many real ones are."""
    middle = np.median(records.y)
    y, test_y = (np.asarray(values > middle, np.int32) for values in (records.y, records.test_y))
    return replace(records, y=y, test_y=test_y, classes=2)


def _rescaled(records: Records, label_scale: float | None) -> Records:
    """Numbers to predict brought to the size that the study states for its own."""
    if records.classes is not None:
        raise InvalidInput(
            f"the study predicts numbers, but the public data {records.name} hold classes; remove them from "
            "[planning] public"
        )
    factor = np.float32((label_scale or 1.0) / max(float(np.sqrt(np.mean(np.square(records.y)))), 1e-12))
    return replace(records, y=records.y * factor, test_y=records.test_y * factor)


def _resized(images: NDArray, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Images of another size; pixels that are merged are averaged, as scanners and cameras do."""
    resize = jax.jit(lambda image: jax.image.resize(image, shape, "linear"))
    return np.asarray(jax.lax.map(resize, jnp.asarray(images, jnp.float32), batch_size=1024))


def _enough(records: Records, wanted: int) -> Records:
    """Records repeated until there are enough; a trial may reuse public records freely."""
    if len(records) >= wanted:
        return records
    again = np.tile(np.arange(len(records)), -(-wanted // len(records)))
    return replace(records, x=records.x[again], y=records.y[again], client_ids=None)


def _scaled_settings(facts: PublicFacts, classes: int) -> dict[str, Any]:
    """The partition's settings, with labels per client kept as a share of all classes."""
    settings = dict(facts.settings)
    if "labels_per_client" in settings:
        share = settings["labels_per_client"] / facts.classes
        settings["labels_per_client"] = max(1, round(share * classes))
    return settings
