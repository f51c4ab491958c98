"""Real tables that ship with the product: public data to plan with, condensed to some thousand records each.

Features are in [-1, 1] by round public ranges, categories are zeros and ones, numbers to predict lie in
[-1, 1] as well. docs/public_data.md says of each what it is, where it comes from and under which licence.
"""

from pathlib import Path

import numpy as np

from noiseworthy.data.files import read_npz
from noiseworthy.data.records import Records
from noiseworthy.errors import InvalidInput

PARENTS = {
    "anes-vote": "anes", "anes-party": "anes",
    "randhie-visit": "randhie", "randhie-visits": "randhie", "randhie-health": "randhie",
    "modechoice": "modechoice", "engel": "engel", "grunfeld": "grunfeld", "elnino": "elnino", "co2": "co2",
    "sunspots": "sunspots", "phishing": "phishing", "segment": "segment", "segment-grows": "segment",
    "shuttle": "shuttle", "solar-flare": "solar-flare", "solar-class": "solar-flare",
    "trump-approval": "trump-approval",
}  # fmt: skip
"""Tables by name, and what their records come from: tables of one parent hold the same records."""
FILE = Path(__file__).with_name("tables.npz")


def read_shipped(name: str) -> Records:
    """A table that ships: at most 1,000 records and 500 to test, features in [-1, 1].

    Args:
        name: a key of `PARENTS`.

    Returns:
        Its records; `client_ids` where they have owners.

    Raises:
        InvalidInput: a name of no such table.

    Example:
        >>> records = read_shipped("segment")
        >>> records.x.shape, records.classes, float(abs(records.x).max()) <= 1
        ((1000, 18), 7, True)
    """
    if name not in PARENTS:
        raise InvalidInput(f"tables that ship are {', '.join(PARENTS)}; got {name!r}")
    arrays = read_npz(FILE)
    x, y, test_x, test_y = (arrays[f"{name} {part}"] for part in ("x", "y", "test x", "test y"))
    classes = int(arrays[f"{name} classes"]) or None
    y, test_y = (one.astype(np.int32) if classes else one.astype(np.float32) for one in (y, test_y))
    return Records(
        x.astype(np.float32), y, test_x.astype(np.float32), test_y, classes, name,
        arrays.get(f"{name} owners"), test_origin="rows",
    )  # fmt: skip
