"""What a contest of DPFL-BCS and its rivals came to, as plain values: the key `rivals` of a record."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.sweeps.contest import Condition, Contest, Entry

Quantity = Literal["accuracy", "loss"]
Real = NDArray[np.float64]


def standings(contest: Contest, quantity: Quantity, seconds: float) -> dict[str, Any]:
    """Everybody's outcomes at every point, with the gaps between DPFL-BCS and the other private algorithms.

    Args:
        contest: trained.
        quantity: what gaps are in, test accuracy or test loss.
        seconds: that training took.
    """
    own = contest.points[0]
    return {
        "mechanisms": list(contest.mechanisms),
        "epsilon_max": own.epsilon_max,
        "alpha": own.alpha,
        "seeds": list(contest.seeds),
        "quantity": quantity,
        "replies": contest.replies,
        "seconds": seconds,
        "points": [_point(point, own, quantity) for point in contest.points],
    }


def gap(ours: Entry, other: Entry, quantity: Quantity) -> dict[str, float] | None:
    """By how much DPFL-BCS does better than another, seed by seed: mean and standard deviation.

    None where a training of either diverged.

    Example:
        >>> from types import SimpleNamespace as Entry
        >>> ours, other = Entry(loss=np.array([0.5, 0.75])), Entry(loss=np.array([1.0, 1.0]))
        >>> gap(ours, other, "loss")
        {'mean': 0.375, 'std': 0.125}
    """
    if not np.all(np.isfinite([ours.loss, other.loss])):
        return None
    by = other.loss - ours.loss if quantity == "loss" else ours.accuracy - other.accuracy
    return {"mean": float(by.mean()), "std": float(by.std())}


def _point(point: Condition, own: Condition, quantity: Quantity) -> dict[str, Any]:
    ours = point.entries[-1]
    held = law_of(point.mechanism).noisy
    return {
        "mechanism": point.mechanism,
        "epsilon_max": point.epsilon_max,
        "alpha": point.alpha,
        "own": (point.epsilon_max, point.alpha) == (own.epsilon_max, own.alpha),
        "search_epsilon": point.search_epsilon,
        "algorithms": [
            {**_entry(entry), "gap": gap(ours, entry, quantity) if held and entry is not ours else None}
            for entry in point.entries
        ],
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "algorithm": entry.plan.algorithm,
        "asked": [int(entry.replies.min()), int(entry.replies.max())],
        "spent": float(entry.spent.max()),
        **_over_seeds("loss", entry.loss),
        **_over_seeds("accuracy", entry.accuracy),
        **({"home": entry.home} if entry.home else {}),
    }


def _over_seeds(name: str, values: Real) -> dict[str, Any]:
    """Values with mean and standard deviation."""
    mean, std = over_seeds(values)
    return {name: values.tolist(), f"mean_{name}": mean, f"std_{name}": std}


def over_seeds(values: Real) -> tuple[float | None, float | None]:
    """Mean and standard deviation, which one training that diverged leaves undefined."""
    if values.size and np.all(np.isfinite(values)):
        return float(values.mean()), float(values.std())
    return None, None
