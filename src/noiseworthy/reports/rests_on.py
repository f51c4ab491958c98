"""What a plan rests on, in words that a reader has: what each number of its bound stands for."""

from __future__ import annotations

from noiseworthy._wording import number
from noiseworthy.studies.typed_record import RunRecord

_MEANINGS = {
    "control_variates": "how much corrections between clients have to learn first",
    "drift": "how far clients drift apart in their own steps",
    "drift_of_noise": "how far their own noise drives them apart",
    "floor": "the loss that no training gets below, over the untrained one",
    "gamma": "rounds after which a step size halves, by the theory",
    "gradient_bound": "the largest gradient of a record",
    "gradient_variance": "how much gradients of records differ",
    "heterogeneity": "how much data differ between clients",
    "initial_distance_sq": "how far the start is from the best model, squared",
    "initial_gap": "how much loss there is to lose at the start",
    "noise_dimension": "how many directions of the noise matter",
    "noise_weight": "how much noise in an upload costs",
    "offset": "the loss that no training gets below",
    "optimum_gradient_sq": "how much clients disagree at the best model",
    "power": "how fast the loss rises with the bound",
    "record_variance": "how much records differ within a client",
    "rest": "what the first steps have left to learn",
    "sampling": "how much asking some of the clients only costs",
    "smoothness": "how sharply the loss may bend",
    "start": "what the first steps have left to learn",
    "strong_convexity": "how sharply the loss bends at least",
}
"""Constants of bounds, by the names that plans have for them."""


def rests_on(record: RunRecord) -> str:
    """What decided, in a sentence.

    Fitted constants name the public data that they come from.
    """
    sources = sorted({constant.provenance for constant in record.plan.constants.values()})
    named = ", ".join(record.plan.bought_ranges)
    bought = f" Ranges of {named} were bought with noised quantiles of every client." if named else ""
    if record.plan.bought_label_scale is not None:
        bought += " How large labels are was bought with noised counts of every client."
    if record.plan.bought_label_mean is not None:
        bought += " Intercepts start at the mean of labels, which every client told with noise."
    if record.plan.bought_mean:
        bought += " Records are seen against their mean, which every client told with noise."
    if record.plan.bought_class_shares:
        bought += " Intercepts start at shares of classes, told with it."
    if not sources:
        return f"On budgets, sizes and what the study states alone.{bought or ' No record was looked at.'}"
    its = "Its one number is" if (n := len(record.plan.constants)) == 1 else f"Its {n} numbers are"
    on = "rule of thumb" if any(source.startswith("rule") for source in sources) else "bound on the loss"
    return f"On a {on}. {its} {'; '.join(sources)}.{bought}"


def constants_of(record: RunRecord) -> list[dict[str, str]]:
    """A row for each constant: what it stands for, its value, where it comes from, and its name in theory."""
    return [
        {
            "what it stands for": _MEANINGS.get(name, name.replace("_", " ")),
            "value": number(constant.value, 6),
            "where it comes from": constant.provenance,
            "name in the theory": name.replace("_", " "),
        }
        for name, constant in record.plan.constants.items()
    ]
