"""Adult: does a person earn more than 50,000 dollars a year? Eight categories from the census of 1994."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.files import read_frame
from noiseworthy.data.records import Records
from noiseworthy.errors import DataError

MISSING = "?"
CODE_BOOK: dict[str, tuple[str, ...]] = {
    "workclass": (
        "Private", "Self-emp-not-inc", "Self-emp-inc", "Federal-gov", "Local-gov", "State-gov", "Without-pay",
        "Never-worked", MISSING,
    ),
    "education": (
        "Bachelors", "Some-college", "11th", "HS-grad", "Prof-school", "Assoc-acdm", "Assoc-voc", "9th",
        "7th-8th", "12th", "Masters", "1st-4th", "10th", "Doctorate", "5th-6th", "Preschool",
    ),
    "marital-status": (
        "Married-civ-spouse", "Divorced", "Never-married", "Separated", "Widowed", "Married-spouse-absent",
        "Married-AF-spouse",
    ),
    "occupation": (
        "Tech-support", "Craft-repair", "Other-service", "Sales", "Exec-managerial", "Prof-specialty",
        "Handlers-cleaners", "Machine-op-inspct", "Adm-clerical", "Farming-fishing", "Transport-moving",
        "Priv-house-serv", "Protective-serv", "Armed-Forces", MISSING,
    ),
    "relationship": ("Wife", "Own-child", "Husband", "Not-in-family", "Other-relative", "Unmarried"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "native-country": (
        "United-States", "Cambodia", "England", "Puerto-Rico", "Canada", "Germany",
        "Outlying-US(Guam-USVI-etc)", "India", "Japan", "Greece", "South", "China", "Cuba", "Iran",
        "Honduras", "Philippines", "Italy", "Poland", "Jamaica", "Vietnam", "Mexico", "Portugal", "Ireland",
        "France", "Dominican-Republic", "Laos", "Ecuador", "Taiwan", "Haiti", "Columbia", "Hungary",
        "Guatemala", "Nicaragua", "Scotland", "Thailand", "Yugoslavia", "El-Salvador", "Trinadad&Tobago",
        "Peru", "Hong", "Holand-Netherlands", MISSING,
    ),
}  # fmt: skip
"""The values of each categorical column in the order and spelling of the published code book (adult.names),
with `?` for missing where the publisher says that a column has gaps. Values counted from the records would
read them: one country there belongs to a single person."""
INCOMES = ("<=50K", ">50K")
_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip


def adult(data_dir: Path) -> Records:
    """Adult (census income): 32,561 people as 102 zeros and ones, 16,281 to test; class 1 earns over 50,000.

    The features are the eight categorical columns, one 0/1 feature per value of `CODE_BOOK`; age, hours and
    the other numbers are left out, as in the experiments of Hu et al. A record has norm sqrt(8), so
    `feature_norm = 1` with `normalise` puts each on the unit sphere and keeps its eight ones equal.

    The owner of a record is its level of education, so the partition `natural` has 16 clients of 51 to
    10,501 people. On each of them the 16 features of education are constant. The test set is common.

    Args:
        data_dir: holds adult/adult.data.gz and adult/adult.test.gz.

    Returns:
        Records with x (32,561, 102); the share of class 1 is 0.241.

    Raises:
        DataError: a file is missing or damaged, or holds a value that the code book lacks.

    Source: Becker & Kohavi (1996), "Adult", UCI Machine Learning Repository, CC BY 4.0.
    """
    people = _people(data_dir / "adult" / "adult.data.gz")
    others = _people(data_dir / "adult" / "adult.test.gz")
    private, test = ((one_hot(table), _earns_more(table)) for table in (people, others))
    return Records(*private, *test, len(INCOMES), "adult", people["education"].to_numpy(str))


def one_hot(table: Any) -> NDArray[np.float32]:
    """One 0/1 feature per value of the code book, column by column.

    Args:
        table: a pandas DataFrame with the columns of `CODE_BOOK`, n rows of text.

    Returns:
        Shape (n, 102); each row holds eight ones.

    Raises:
        DataError: a value that the code book lacks.

    Example:
        >>> import pandas as pd
        >>> person = {column: values[-1] for column, values in CODE_BOOK.items()}
        >>> x = one_hot(pd.DataFrame([person]))
        >>> x.shape, np.flatnonzero(x[0]).tolist()
        ((1, 102), [8, 24, 31, 46, 52, 57, 59, 101])
    """
    blocks = [
        np.eye(len(values), dtype=np.float32)[_positions(table[column], values)]
        for column, values in CODE_BOOK.items()
    ]
    return np.concatenate(blocks, axis=1)


def _people(path: Path) -> Any:
    """The file as text; the test file starts with a line that the format marks as a comment by a bar."""
    return read_frame(
        path, names=_COLUMNS, skipinitialspace=True, comment="|", dtype=str, keep_default_na=False,
        index_col=False,
    )  # fmt: skip


def _earns_more(table: Any) -> NDArray[np.int32]:
    """Position in `INCOMES`; the test file ends its labels in a full stop."""
    return _positions(table["income"].str.removesuffix("."), INCOMES).astype(np.int32)


def _positions(column: Any, values: tuple[str, ...]) -> NDArray[np.intp]:
    import pandas as pd  # here, because it takes most of a second to import

    found = pd.Index(values).get_indexer(column)
    if np.any(found < 0):
        stranger, known = column.iloc[int(np.argmin(found))], ", ".join(values)
        raise DataError(
            f"column {column.name!r} must hold a value of Adult's code book ({known}), got {stranger!r}; "
            "copy the file again"
        )
    return found
