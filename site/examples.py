"""Docstrings say `Example:`; the site's reader of them knows `Examples:` as code that is shown as such."""

from __future__ import annotations

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Reads one as the other."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class and function that is found."""
        if obj.docstring is not None:
            obj.docstring.value = obj.docstring.value.replace("Example:\n", "Examples:\n")
