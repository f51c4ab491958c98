"""What `[task] bias = "auto"` is: owners are sent a number in its place."""

from noiseworthy.tasks.table import TaskTable

INTERCEPTS = {"softmax": 0.3, "logistic": 0.3, "svm": 0.3, "linear": 1.0}
"""The constant that "auto" appends to records of a linear model, over the norm that they are scaled to.

Chosen on tables that ship with the product (docs/trials.md): numbers to predict are rarely centred, so that
their intercept is worth half of a record's squared norm; that of classes is worth 1/12 of it.
"""


def intercept_of(table: TaskTable, model: str) -> float:
    """Value of the constant that is appended to records for a model, 0 for none; networks have none."""
    return INTERCEPTS.get(model, 0.0) * (table.radius or 1.0) if table.bias == "auto" else table.bias
