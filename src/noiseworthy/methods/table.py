"""`[algorithm]`: what the tables of all methods are heirs of."""

from __future__ import annotations

from typing import Any

from noiseworthy._tables import Table


class AlgorithmTable(Table):
    """The table `[algorithm]` of a study: one heir for every method, which names it."""

    name: Any
