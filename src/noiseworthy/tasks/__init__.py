"""Models with their losses, as clipped gradients of records; loaded when used."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseworthy.tasks.everything import *  # noqa: F403

else:  # a checker reads the line above, and knows of no other name

    def __getattr__(name):
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module("noiseworthy.tasks.everything"), name)
