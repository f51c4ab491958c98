"""The intercept that a linear model gets where a study leaves it to the product."""

from __future__ import annotations

from noiseworthy.tasks.table import TaskTable

INTERCEPTS = {"softmax": 0.3, "logistic": 0.3, "svm": 0.3, "linear": 1.0}
"""The constant that "auto" appends to records of a linear model, over the norm that they are scaled to.

Chosen on tables that ship with the product (docs/planning.md): numbers to predict are rarely centred, so that
their intercept is worth half of a record's squared norm; that of classes is worth 1/12 of it.
"""


def intercept(table: TaskTable, model: str) -> float:
    """Value of the constant that is appended to records for a model, 0 for none; networks have none."""
    return INTERCEPTS.get(model, 0.0) * (table.radius or 1.0) if table.bias == "auto" else table.bias
