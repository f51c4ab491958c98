"""Lending Club: predict the interest rate of a loan, in per cent a year, from ten principal components.

Standardising and principal components read the records they are fitted to. Here these are a tenth of the
loans, drawn by a fixed seed and declared public: they teach the preparation, and are then neither given to a
client nor tested on. A direction in which other loans differ most is nothing that `[columns]` can say: the
schema of these data begins at the components.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.frames import read_frame
from noiseworthy.data.records import Records, holdout, split_records
from noiseworthy.data.schema import Schema
from noiseworthy.data.schema.tables import stated_examples
from noiseworthy.errors import DataError

PUBLIC_FRACTION = 0.1
PUBLIC_SEED = 0
COMPONENTS = 10


class Loans(NamedTuple):
    """Columns of a file of loans.

    Attributes:
        rate: the target, per cent a year; rows without it are left out.
        numbers: numeric features. A gap takes the median of the public part.
        categories: features of a few values each. A value that the public part lacks counts as none.
    """

    rate: str
    numbers: tuple[str, ...]
    categories: tuple[str, ...]


FINISHED = Loans(
    rate="int_rate_derived",
    numbers=(
        "loan_amnt", "term", "annual_inc", "dti", "revol_bal", "revol_util", "open_acc", "emp_length",
        "delinq_2yrs_zero", "pub_rec_zero",
    ),
    categories=("purpose", "home_ownership"),
)  # fmt: skip
"""Left out: payment_inc_ratio, from which the rate was derived; grade, from which the lender set it; status
and outcome, which came after it."""

QUARTER_2018 = Loans(
    rate="interest_rate",
    numbers=(
        "emp_length", "annual_income", "debt_to_income", "delinq_2y", "months_since_last_delinq",
        "earliest_credit_line", "inquiries_last_12m", "total_credit_lines", "open_credit_lines",
        "total_credit_limit", "total_credit_utilized", "num_collections_last_12m",
        "num_historical_failed_to_pay", "current_accounts_delinq", "total_collection_amount_ever",
        "current_installment_accounts", "accounts_opened_24m", "months_since_last_credit_inquiry",
        "num_satisfactory_accounts", "num_accounts_120d_past_due", "num_accounts_30d_past_due",
        "num_active_debit_accounts", "total_debit_limit", "num_total_cc_accounts", "num_open_cc_accounts",
        "num_cc_carrying_balance", "num_mort_accounts", "account_never_delinq_percent", "tax_liens",
        "public_record_bankrupt", "loan_amount", "term",
    ),
    categories=(
        "homeownership", "verified_income", "loan_purpose", "application_type", "initial_listing_status",
        "disbursement_method",
    ),
)  # fmt: skip
"""Left out: installment, grade and sub_grade, from which the rate can be read; balance, paid_* and
loan_status, which came after it; the job title, state and month; and four columns that more than 70 % of the
loans lack."""


def lending_club(data_dir: Path) -> Records:
    """118,578 finished loans with a derived interest rate: regression on 10 components of 26 features.

    11,858 loans are the public part that the preparation is fitted to (see `prepared`), 85,376 are private
    and 21,344 test the model. Read from `data_dir`/lending-club/lending_club_120k.csv.gz. The rate is not
    published: it follows from the instalment, 5.06 to 26.06 % a year, and 1,409 loans where not are left out.

    Raises:
        DataError: the file is missing or damaged, or a column is missing or not numeric.

    Source: public Lending Club loan data; the task of Fu et al. (there 66 features of 500,000 loans).
    """
    return _records(data_dir / "lending-club" / "lending_club_120k.csv.gz", FINISHED, "lending-club")


def lending_club_2018(data_dir: Path) -> Records:
    """10,000 loans of early 2018 with their interest rate: regression on 10 components of 56 features.

    1,000 loans are the public part that the preparation is fitted to (see `prepared`), 7,200 are private and
    1,800 test the model. Rates are 5.31 to 30.94 % a year. Read from
    `data_dir`/lending-club/lending_club_2018q1_10k.csv.gz.

    Raises:
        DataError: the file is missing or damaged, or a column is missing or not numeric.

    Source: public Lending Club loan data (OpenIntro, CC BY-SA 3.0).
    """
    path = data_dir / "lending-club" / "lending_club_2018q1_10k.csv.gz"
    return _records(path, QUARTER_2018, "lending-club-2018")


def prepared(table: Any, columns: Loans) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Principal components of all loans, fitted to the public part alone, and which loans are public.

    Numbers are standardised, categories become one 0/1 feature per value, and all features together are
    centred and turned onto the 10 directions of largest variance: z = (features - mean) V. Gaps, means,
    deviations, values and V come from the public part, a tenth of the rows drawn by a fixed seed. Given
    those, what becomes of one private loan depends on that loan alone.

    Args:
        table: a pandas DataFrame with the feature columns, n rows.
        columns: which they are.

    Returns:
        z (n, 10) and the mask of the public rows (n,).

    Example:
        >>> import pandas as pd
        >>> names = [f"x{i}" for i in range(12)]
        >>> table = pd.DataFrame(np.random.default_rng(0).normal(size=(200, 12)), columns=names)
        >>> z, public = prepared(table.assign(kind="car"), Loans("rate", tuple(names), ("kind",)))
        >>> z.shape, int(public.sum()), np.allclose(z[public].mean(axis=0), 0)
        ((200, 10), 20, True)
    """
    is_public = np.zeros(len(table), bool)
    chosen = np.random.default_rng(PUBLIC_SEED).permutation(len(table))
    is_public[chosen[: round(PUBLIC_FRACTION * len(table))]] = True
    return _preparation(columns).fit(table[is_public]).transform(table), is_public


def _preparation(columns: Loans) -> Any:
    from sklearn.compose import make_column_transformer  # here, because it takes a second to import
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median", keep_empty_features=True), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    features = make_column_transformer((numbers, [*columns.numbers]), (categories, [*columns.categories]))
    return make_pipeline(features, PCA(COMPONENTS, svd_solver="full"))


def _records(path: Path, columns: Loans, name: str) -> Records:
    loans = read_frame(path, converters={"term": lambda term: float(term.removesuffix(" months"))})
    _check(loans, columns, path)
    loans = loans.dropna(subset=[columns.rate])
    if len(loans) < COMPONENTS / PUBLIC_FRACTION:
        raise DataError(f"{path} must hold at least 100 loans with a rate, got {len(loans)}")
    z, is_public = prepared(loans, columns)
    numbers = {f"component_{place}": {"kind": "number", "step": 1.0} for place in range(1, COMPONENTS + 1)}
    schema = Schema.model_validate(numbers | {columns.rate: {"role": "label", "kind": "number"}})
    table = dict(zip((one.name for one in schema.features), z[~is_public].T, strict=True))
    rates = {columns.rate: loans[columns.rate].to_numpy()[~is_public]}
    x, y, _, _ = stated_examples(table | rates, schema, name)
    records = split_records(x, y, holdout(np.zeros(len(y))), classes=None, name=name)
    return replace(records, schema=schema)


def _check(loans: Any, columns: Loans, path: Path) -> None:
    numbers = (columns.rate, *columns.numbers)
    for column in (*numbers, *columns.categories):
        if column not in loans:
            raise DataError(f"{path} has no column {column!r}; copy the file again")
    for column in numbers:
        if loans[column].dtype.kind not in "biuf" or np.any(np.isinf(loans[column])):
            raise DataError(f"{path}: column {column!r} must hold finite numbers; copy the file again")
