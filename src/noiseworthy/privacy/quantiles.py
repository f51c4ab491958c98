"""A quantile of private numbers by the exponential mechanism: answers of a small rank error are likelier.

Among public candidates y the answer y has a probability in proportion to

    exp(-epsilon e(y) / (2 D)),    e(y) = |#{x <= y} - q n|

where D is the most that one record can change in e: 1 where one is exchanged, max(q, 1 - q) where one comes
or goes, the length n with it. The weight of each answer and the sum of all weights move by a factor of
e^(epsilon / 2) at most, so that the answer is epsilon-differentially private. Candidates are listed, so that
the law is computed and no digit of an answer comes from a record.

Source: McSherry & Talwar 2007; Smith 2011 (quantiles), here over listed candidates.
    docs/theory/accounting.md#bought-ranges derives D and the price.
"""

from __future__ import annotations

import numpy as np

from noiseworthy import _validate as check
from noiseworthy._validate import Real
from noiseworthy.privacy.budget import RELATIONS, Relation


def rank_sensitivity(level: float, relation: Relation) -> float:
    """D: the most that one record can change in the rank error of any candidate.

    Args:
        level: q in (0, 1).
        relation: what neighbours are; a number that is missing counts as no number under both.
    """
    check.one_of("relation", relation, RELATIONS)
    return 1.0 if relation == "replace-one" else max(level, 1 - level)


def quantile_law(
    values: Real, level: float, candidates: Real, epsilon: float, relation: Relation = "replace-one"
) -> Real:
    """Probabilities of the answers.

    Args:
        values: private numbers, shape (n,); n may be 0, and every answer is equally likely then.
        level: q in (0, 1).
        candidates: public, shape (m,).
        epsilon: that the answer may cost, above 0.
        relation: what neighbours are.

    Returns:
        shape (m,), with a sum of 1.

    Guarantee: neighbouring values change no probability by more than a factor of e^epsilon.

    Example:
        >>> values = np.array([1.0, 2.0, 2.0, 3.0])
        >>> quantile_law(values, 0.5, np.array([1.0, 2.0, 3.0]), 2.0).round(3)
        array([0.422, 0.422, 0.155])
    """
    from scipy.special import softmax  # here, because it is slow to load

    check.in_unit_interval("level", level, closed_left=False)
    check.positive("epsilon", epsilon)
    below = np.searchsorted(np.sort(values), candidates, side="right")
    error = np.abs(below - level * len(values))
    # answers whose weight underflows (e^-745 of the likeliest) get 0, where the law has more
    return softmax(-epsilon * error / (2 * rank_sensitivity(level, relation)))


def private_quantile(
    values: Real,
    level: float,
    candidates: Real,
    epsilon: float,
    generator: np.random.Generator,
    relation: Relation = "replace-one",
) -> float:
    """One answer, drawn by `quantile_law`.

    Args:
        values, level, candidates, epsilon, relation: as there.
        generator: of the draw; in simulation a public one, which is no privacy.
    """
    law = quantile_law(values, level, candidates, epsilon, relation)
    return float(generator.choice(candidates, p=law))
