"""Adult: does a person earn more than 50,000 dollars a year? Eight categories from the census of 1994."""

from pathlib import Path
from typing import Any

from noiseworthy.data.frames import read_frame
from noiseworthy.data.records import Records
from noiseworthy.data.schema import read_schema
from noiseworthy.data.schema.tables import stated_examples

COLUMNS = Path(__file__).with_name("adult.toml")
_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip


def adult(data_dir: Path) -> Records:
    """Adult (census income): 32,561 people as 102 zeros and ones, 16,281 to test; class 1 earns over 50,000.

    The features are the eight categorical columns, one 0/1 feature per value of the published code book, as
    `adult.toml` beside this file says; age, hours and the other numbers are left out, as in the experiments
    of Hu et al. A record has norm sqrt(8), so `feature_norm = 1` with `normalise` puts each on the unit
    sphere and keeps its eight ones equal.

    The owner of a record is its level of education, so the partition `natural` has 16 clients of 51 to
    10,501 people. On each of them the 16 features of education are constant. Test records have one, too.

    Args:
        data_dir: holds adult/adult.data.gz and adult/adult.test.gz.

    Returns:
        Records with x (32,561, 102); the share of class 1 is 0.241.

    Raises:
        DataError: a file is missing or damaged, or holds a value that the code book lacks.

    Source: Becker & Kohavi (1996), "Adult", UCI Machine Learning Repository, CC BY 4.0.
    """
    schema = read_schema(str(COLUMNS))
    people, others = (_people(data_dir / "adult" / f"adult.{part}.gz") for part in ("data", "test"))
    private, test = (stated_examples(table, schema, "adult")[:2] for table in (people, others))
    owners, tested = (table["education"].to_numpy(str) for table in (people, others))
    return Records(*private, *test, schema.n_classes, "adult", owners, schema=schema, test_client_ids=tested)


def _people(path: Path) -> Any:
    """The file as text; the test file starts with a line that the format marks as a comment by a bar."""
    return read_frame(
        path, names=_COLUMNS, skipinitialspace=True, comment="|", dtype=str, keep_default_na=False,
        index_col=False,
    )  # fmt: skip
