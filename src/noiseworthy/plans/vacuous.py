"""What is said where a bound is vacuous: even without noise it is not below its value without training.

Such a bound recommends no training at any epsilon, so that its "do not train" says nothing about privacy.
"""

from __future__ import annotations

BY_TRIAL = "leave [constants] out to plan by trial on public data instead"
"""The remedy: constants from worst cases explain, but do not decide."""


def unless_noise(needed: str, compared: str, remedy: str = BY_TRIAL) -> str:
    """The outcome of a plan that a vacuous bound refuses.

    Args:
        needed: what the bound would need, e.g. `it recommends nothing below 4e+05 rounds`.
        compared: its value beside that of no training.
        remedy: what to do instead.

    Example:
        >>> unless_noise("it recommends nothing below 90 rounds", "bound 7 against 2 without training")
        'Do not train, but the bound is vacuous here: even without noise it recommends nothing below 90 \
rounds; leave [constants] out to plan by trial on public data instead (bound 7 against 2 without training).'
    """
    return f"Do not train, but the bound is vacuous here: even without noise {needed}; {remedy} ({compared})."
