"""What is wrong with the values of a column, for errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from noiseworthy._names import nearest, shown
from noiseworthy.data.schema.reading import Reading, many
from noiseworthy.data.schema.values import key
from noiseworthy.data.thousands import UNPARTED, Thousands

if TYPE_CHECKING:
    from noiseworthy.data.schema.roles import Label, Weight
    from noiseworthy.data.schema.schema import Feature


def complaints(column: Feature | Label | Weight, values: NDArray, read: Reading) -> list[str]:
    """What is wrong with the values of a column, in a sentence each without a full stop."""
    said, gaps, strange = [], read.wrong & read.gap, read.wrong & ~read.gap
    if np.any(gaps):
        said.append(f"column {column.name!r} has {many(gaps, 'missing value')}; {column.remedy_of_gaps}")
    if np.any(thousands := with_thousands(column, values, strange)):
        first = int(np.argmax(thousands))
        said.append(
            f"column {column.name!r} has {many(thousands, 'number')} whose points may part thousands, such "
            f"as {values[first]!r} in record {first + 1}; {UNPARTED}"
        )
    if np.any(strange := strange & ~thousands):
        first = key(values[int(np.argmax(strange))])
        said.append(
            f"column {column.name!r} has {many(strange, 'value')} other than {column.expected}, such as "
            f"{shown(first)!r}{nearest(first, column.known)}; {column.remedy}"
        )
    return said


def with_thousands(
    column: Feature | Label | Weight, values: NDArray, strange: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Which values of a column of numbers are none because their points may part thousands, shape (n,)."""
    if not (np.any(strange) and column.expected.startswith("numbers")):
        return np.zeros(len(strange), bool)
    return strange & np.array([isinstance(one, Thousands) for one in values.tolist()])
