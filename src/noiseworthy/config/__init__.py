"""A study file: one TOML that says everything, checked at the border with unknown keys refused."""

from noiseworthy.config.base import Auto, PerClient
from noiseworthy.config.loading import load_study, parse_study
from noiseworthy.config.records import FederationTable, TaskTable
from noiseworthy.config.tables import (
    ALGORITHMS,
    AveragingTable,
    CompareTable,
    Drawn,
    FedAvgTable,
    FedSGDTable,
    PrivacyTable,
    ResourcesTable,
    RivalsTable,
    RivalTable,
    ScaffNewTable,
    SelectionTable,
    Study,
    TradeoffTable,
)

__all__ = [
    "ALGORITHMS",
    "Auto",
    "AveragingTable",
    "CompareTable",
    "Drawn",
    "FedAvgTable",
    "FedSGDTable",
    "FederationTable",
    "PerClient",
    "PrivacyTable",
    "ResourcesTable",
    "RivalTable",
    "RivalsTable",
    "ScaffNewTable",
    "SelectionTable",
    "Study",
    "TaskTable",
    "TradeoffTable",
    "load_study",
    "parse_study",
]
