"""Places that are written to: what is kept between runs, and those that cannot be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noiseworthy.errors import DataError

CACHE_VARIABLE = "NOISEWORTHY_CACHE"


def kept_folder() -> Path:
    """The folder of what is kept between runs: NOISEWORTHY_CACHE says where, else it is the user's cache."""
    stated = os.environ.get(CACHE_VARIABLE) or os.environ.get("XDG_CACHE_HOME")
    return Path(stated or Path.home() / ".cache") / "noiseworthy"


@contextmanager
def writing(place: Path | str, remedy: str = "choose another with --out") -> Iterator[None]:
    """Say in a line which place cannot be written to, and what to do.

    Raises:
        DataError: it cannot.
    """
    try:
        yield
    except OSError as error:
        raise DataError(f"{place} cannot be written ({error}); {remedy}") from None
