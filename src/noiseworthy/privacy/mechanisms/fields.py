"""Names of mechanisms as fields of files and messages, checked against the registry."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from noiseworthy._tables import among
from noiseworthy.privacy.mechanisms.base import Family
from noiseworthy.privacy.mechanisms.registry import deployed_names, names, noisy_names

AnyMechanism: TypeAlias = Annotated[Family, among(names)]
"""With noise or without."""
NoisyMechanism: TypeAlias = Annotated[Family, among(lambda: sorted(noisy_names()))]
"""With noise."""
DeployedMechanism: TypeAlias = Annotated[Family, among(deployed_names)]
"""With noise that owners can really draw."""
