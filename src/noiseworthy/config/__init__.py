"""A study file: one TOML that says everything, checked at the border with unknown keys refused."""

from noiseworthy.config.loading import load_study, parse_study
from noiseworthy.config.tables import (
    ALGORITHMS,
    Auto,
    AveragingTable,
    CompareTable,
    Drawn,
    FedAvgTable,
    FederationTable,
    FedSGDTable,
    PerClient,
    PrivacyTable,
    ResourcesTable,
    RivalTable,
    ScaffNewTable,
    SelectionTable,
    Study,
    TaskTable,
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
    "ScaffNewTable",
    "SelectionTable",
    "Study",
    "TaskTable",
    "TradeoffTable",
    "load_study",
    "parse_study",
]
