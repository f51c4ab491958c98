"""noiseworthy: plan and train differentially private federated learning.

Names are loaded on first use, so that planning never waits for (or imports) the training stack.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from noiseworthy.exports import *  # noqa: F403
    from noiseworthy.exports import __all__ as __all__

else:  # a checker reads the lines above, and knows of no other name

    def __getattr__(name):
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module 'noiseworthy' has no attribute {name!r}")
        return import_module("noiseworthy.exports").offered(name)

    def __dir__():
        return __getattr__("__all__")
