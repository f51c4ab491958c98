"""Records of an owner that are dealt out of data with a name, as a study deals them."""

from noiseworthy import _validate as check
from noiseworthy.data.datasets import load_federation
from noiseworthy.data.dealing import hanging
from noiseworthy.data.labels import Features, Labels
from noiseworthy.data.schema import Schema
from noiseworthy.data.table import FederationTable
from noiseworthy.errors import ConfigError


def records_of(
    table: FederationTable, client: str, columns: Schema | None
) -> tuple[Features, Labels, int | None, float | None, int | None]:
    """What a `Holding` has of a client: x, y, classes, most_weight and persons; arguments as `Holding.load`.

    Raises:
        InvalidInput, DataError, ConfigError: as `Holding.load`.
    """
    settings = table.model_dump(exclude={"sizes", "data", "test"})
    federation = load_federation(str(table.data), **settings, columns=columns)
    if said := hanging(table, federation, "replace-one"):
        raise ConfigError(f"a gateway serves no records of which one changes others: {said[0]}")
    place = 0
    if federation.n_clients > 1:
        place = federation.clients.index(check.one_of("client", client, federation.clients))
    size = int(federation.sizes[place])
    x, y = federation.x[place, :size], federation.y[place, :size]
    return x, y, federation.classes, federation.most_weight, federation.persons
