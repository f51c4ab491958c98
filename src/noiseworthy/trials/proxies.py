"""Public data made to look like the private federation: same clients, same skew, same kind of records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import zoom

from noiseworthy.data import Records, federate, load_records
from noiseworthy.data.files import locate
from noiseworthy.data.mixture import mixture
from noiseworthy.engines.simulation import Shards
from noiseworthy.errors import DataError, InvalidInput
from noiseworthy.tasks.base import Task
from noiseworthy.trials.facts import PublicFacts

MIXTURE = "mixture"
MOST_CLIENTS = 50
RECORDS_PER_CLIENT = 100
TEST_RECORDS = 1000
_SEED = 20
_TWINS = ({"mnist", "mnist-writers"}, {"cifar10", "cifar10-jpeg"})


@dataclass(frozen=True)
class Proxy:
    """A public federation on the device, ready for trials.

    Attributes:
        name: of the data set.
        task: the study's model for its records.
        shards: its records.
        sizes: records of each of its clients; as many clients as the study has, up to `MOST_CLIENTS`.
        untrained_loss: test loss of the start.
    """

    name: str
    task: Task
    shards: Shards
    sizes: NDArray[np.float32]
    untrained_loss: float

    @property
    def clients(self) -> int:
        """Number of clients of the proxy."""
        return len(self.sizes)


def public_sources(facts: PublicFacts) -> list[str]:
    """What ships with the product and may stand in for a study's data, and the mixture made to its facts.

    Images for images; tables with two classes for two classes, one of them hard; else tables that are
    easy, because a hard two-class problem says little of ten classes: on digits it cost 11 % of the
    gain. Iris is left out, because without an intercept it is an odd problem.
    """
    if len(facts.record_shape) > 1 and facts.source != "digits":
        shipped = ("digits",)
    else:
        shipped = ("breast-cancer", "diabetes") if facts.classes == 2 else ("breast-cancer", "wine")
    return [*(name for name in shipped if name != facts.source), MIXTURE]


def make_proxies(
    facts: PublicFacts, sources: Sequence[str], data_dir: str | Path | None = None
) -> list[Proxy]:
    """One proxy per source.

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
    return [_proxy(facts, _records(facts, source, data_dir)) for source in sources]


def _same_data(one: str, other: str, data_dir: str | Path | None) -> bool:
    """Whether two sources hold the same records: one name, one file, MNIST or CIFAR-10 in two forms."""
    if one == other or {one, other} in _TWINS:
        return True
    try:
        paths = [locate(source.split(":", 1)[-1], data_dir).resolve() for source in (one, other)]
    except DataError:
        return False
    return paths[0] == paths[1]


def _records(facts: PublicFacts, source: str, data_dir: str | Path | None) -> Records:
    if source == MIXTURE:
        return mixture(facts.record_shape, facts.classes)
    return load_records(source, data_dir=data_dir)


def _proxy(facts: PublicFacts, records: Records) -> Proxy:
    if (classes := records.classes) is None:
        raise InvalidInput(f"public data need classes, {records.name} is a regression")
    records = _like(records, facts.record_shape)
    clients = min(facts.problem.n_clients, MOST_CLIENTS)
    federation = federate(
        _enough(records, clients * RECORDS_PER_CLIENT),
        clients=clients,
        partition=facts.partition,
        seed=_SEED,
        records_per_client=RECORDS_PER_CLIENT,
        **_scaled_settings(facts, classes),
    )
    task = facts.make_task(federation.record_shape, classes)
    shards = Shards.load(federation, task)
    theta = task.initial(jax.random.key(_SEED))
    start = float(task.score(theta, shards.test_x, shards.test_y).loss)
    return Proxy(records.name, task, shards, federation.sizes.astype(np.float32), start)


def _like(records: Records, shape: tuple[int, ...]) -> Records:
    """Images resized to the study's shape; other records as they are. Test sets cut to size."""
    test = np.random.default_rng(_SEED).permutation(len(records.test_x))[:TEST_RECORDS]
    records = replace(records, test_x=records.test_x[test], test_y=records.test_y[test])
    if len(shape) < 2 or len(records.record_shape) != len(shape) or records.record_shape == shape:
        return records
    return replace(records, x=_resized(records.x, shape), test_x=_resized(records.test_x, shape))


def _resized(images: NDArray, shape: tuple[int, ...]) -> NDArray[np.float32]:
    factors = [1.0, *(new / old for new, old in zip(shape, images.shape[1:], strict=True))]
    return np.asarray(zoom(images, factors, order=1), np.float32)


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
