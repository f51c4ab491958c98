"""JSON on the way out."""

from __future__ import annotations

import math
from typing import Any


def strict_json(value: Any) -> Any:
    """Plain values for JSON, without infinity and NaN, which become None; text that is no UTF-8 as escapes.

    Example:
        >>> strict_json({"loss": [1.0, float("nan")]})
        {'loss': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: strict_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [strict_json(part) for part in value]
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
