"""All that `noiseworthy.data` offers, which loads it when the first name of it is asked for."""

from noiseworthy.data.datasets import EMBEDDED, FILES, federate, load_federation, load_records
from noiseworthy.data.federation import Federation
from noiseworthy.data.files import DATA_DIR_VARIABLE
from noiseworthy.data.hub import read_hub
from noiseworthy.data.ixi import read_ixi, synthetic_volumes
from noiseworthy.data.leaf import read_leaf
from noiseworthy.data.partitions import PARTITIONS, partition
from noiseworthy.data.records import Records
from noiseworthy.data.schema import Schema, read_schema
from noiseworthy.data.table_records import from_columns, read_table
from noiseworthy.data.tables import Columns

__all__ = [
    "DATA_DIR_VARIABLE", "EMBEDDED", "FILES", "PARTITIONS", "Columns", "Federation",
    "Records", "Schema", "federate", "from_columns", "load_federation", "load_records",
    "partition", "read_hub", "read_ixi", "read_leaf", "read_schema", "read_table", "synthetic_volumes",
]  # fmt: skip
