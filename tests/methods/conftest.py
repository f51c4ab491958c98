"""A method that the product does not have: the file of docs/new_algorithm.md, and the line that lists it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from noiseworthy.methods import registry

PAGE = Path(__file__).parents[2] / "docs" / "new_algorithm.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="session")
def page() -> str:
    """The file that the page writes: its blocks up to the line of the registry."""
    return "\n\n".join(BLOCK.findall(PAGE.read_text().split("## The line")[0]))


@pytest.fixture(scope="module")
def sixth(page, tmp_path_factory) -> Iterator[str]:
    """The method listed, by its name in a study file."""
    folder, name = tmp_path_factory.mktemp("sixth"), "dp-fedadam"
    (folder / "dp_fedadam.py").write_text(page)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setitem(registry.METHODS, name, "dp_fedadam")
        yield name
