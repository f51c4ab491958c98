"""Names of mechanisms as fields of files and messages, checked against the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator
from pydantic_core import PydanticKnownError

from noiseworthy.privacy.mechanisms.base import Family
from noiseworthy.privacy.mechanisms.registry import deployed_names, names, noisy_names


def _among(allowed: Callable[[], Sequence[str]]) -> BeforeValidator:
    def checked(value: Any) -> Any:
        choices = allowed()
        if isinstance(value, str) and value in choices:
            return value
        *first, last = map(repr, choices)
        raise PydanticKnownError("literal_error", {"expected": f"{', '.join(first)} or {last}"})

    return BeforeValidator(checked)


AnyMechanism: TypeAlias = Annotated[Family, _among(names)]
"""With noise or without."""
NoisyMechanism: TypeAlias = Annotated[Family, _among(lambda: sorted(noisy_names()))]
"""With noise."""
DeployedMechanism: TypeAlias = Annotated[Family, _among(deployed_names)]
"""With noise that owners can really draw."""
