"""The noise that was drawn, beside what was planned: is it as large, of the right law, and never the same?

A residual is an upload less its noiseless mean, in units of the planned noise. It says nothing of anybody's
records. An attack alone would miss noise that is repeated, because each upload of it looks right by itself.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.stats import binom, chi2

from noiseworthy._validate import Real
from noiseworthy.privacy.mechanisms import Family, Law, law_of

_BINS = 64
_WORD = 48
"""Signs in a row that two uploads share by chance once in 2^48 pairs."""


@dataclass(frozen=True)
class ScaleTest:
    """Whether noise has its planned size and law.

    Attributes:
        p_value: of all tests together (Bonferroni).
        ratio: size that was drawn over size that was planned, of all residuals.
        worst: the ratio of the client or round that stands out most.
        where: which that is.
        count: residuals.
    """

    p_value: float
    ratio: float
    worst: float
    where: str
    count: int


def scale_test(residuals: Real, clients: NDArray[np.int64], family: Family) -> ScaleTest:
    """Two-sided tests of the size of noise, in all, per client and per round, and of its law.

        Gaussian: sum r^2 ~ chi^2_n        Laplace: 2 sum |r| ~ chi^2_2n

    Args:
        residuals: in units of the planned noise, shape (S, T, b, width).
        clients: who was asked, shape (T, b).
        family: of the noise.

    Guarantee: P(p_value <= a) <= a for independent noise as planned (the bins of the law approximately).
    """
    law = law_of(family)
    total = law.analysis.statistic(residuals).sum(axis=(0, 3))
    many = np.full(clients.shape, law.freedom * residuals.shape[0] * residuals.shape[3])
    rounds = np.repeat(np.arange(len(clients)), clients.shape[1])
    sums, counts, names = [total.sum()], [many.sum()], ["all uploads"]
    for label, groups in (("client", clients.ravel()), ("round", rounds)):
        present = np.unique(groups)
        sums += np.bincount(groups, total.ravel())[present].tolist()
        counts += np.bincount(groups, many.ravel())[present].tolist()
        names += [f"{label} {number}" for number in present]
    p = two_sided(np.array(sums), np.array(counts))
    first, ratio = int(np.argmin(p)), law.analysis.size_ratio(np.array(sums) / np.array(counts))
    least = min(float(p[first]), _law(residuals, law))
    return ScaleTest(
        min(1.0, least * (len(p) + 1)), float(ratio[0]), float(ratio[first]), names[first], residuals.size
    )


def two_sided(total: Real, freedom: Real) -> Real:
    """p-values of sums of squares, too small or too large.

    Example:
        >>> two_sided(np.array([100.0, 200.0]), np.array([100.0, 100.0])).round(3)
        array([0.962, 0.   ])
    """
    return np.minimum(1.0, 2 * np.minimum(chi2.cdf(total, freedom), chi2.sf(total, freedom)))


def _law(residuals: Real, law: Law) -> float:
    """p-value of the counts in bins that are equally likely under the planned law."""
    uniform = law.analysis.distribution().cdf(residuals.ravel())
    # far out a distribution function rounds to 1, which is the end of the last bin
    counts = np.bincount(np.minimum((_BINS * uniform).astype(int), _BINS - 1), minlength=_BINS)
    expected = residuals.size / _BINS
    return float(chi2.sf(np.sum(np.square(counts - expected)) / expected, _BINS - 1))


@dataclass(frozen=True)
class ReplayTest:
    """Whether any noise came twice.

    Attributes:
        p_value: of all tests together (Bonferroni), at most 1.
        correlation: of the two sequences that agree or disagree most, in [-1, 1].
        where: which they are.
        repeated: uploads whose noise is that of an earlier one, sign for sign.
    """

    p_value: float
    correlation: float
    where: str
    repeated: int


def replay_test(residuals: Real, clients: NDArray[np.int64]) -> ReplayTest:
    """Signs of residuals beside those of other uploads: at every distance, and any two of them alike.

    Noise of either family is symmetric, so that signs are fair coins. Products of signs at a fixed distance
    in a sequence are again independent fair coins: their sum is exactly binomial. Sequences are all uploads
    of all runs in the order in which they were made, and those of each client.

    Args:
        residuals: of at least one run, shape (S, T, b, width).
        clients: who was asked, shape (T, b).

    Guarantee: P(p_value <= a) <= a for independent symmetric noise.
    """
    signs = np.where(residuals >= 0, 1.0, -1.0)
    everything = signs.reshape(1, -1, signs.shape[3])
    sums, pairs = _at_distances(everything, np.ones(everything.shape[:2]))
    own, held = _by_client(signs, clients)
    own_sums, own_pairs = _at_distances(own, held)
    names = [f"uploads {lag} apart" for lag in range(1, len(sums) + 1)]
    names += [f"uploads of a client {lag} apart" for lag in range(1, len(own_sums) + 1)]
    total, count = np.concatenate([sums, own_sums]), np.concatenate([pairs, own_pairs])
    p = np.minimum(1.0, 2 * binom.sf((count + np.abs(total)) / 2 - 1, count, 0.5))  # of fair signs
    repeated = _repeated(everything[0])
    # K^2 / 2 pairs, each alike by chance once in 2^48, and two tests in all
    p_value = 2 * everything.shape[1] ** 2 / 2.0 ** (_WORD + 1) if repeated else 1.0
    if not p.size:
        return ReplayTest(p_value, 0.0, "one upload only", repeated)
    first = int(np.argmin(p))
    correlation = float(total[first] / max(count[first], 1))
    return ReplayTest(min(p_value, 2 * len(p) * float(p[first])), correlation, names[first], repeated)


def _at_distances(signs: Real, held: Real) -> tuple[Real, Real]:
    """Sums of products of signs at distances 1, 2, ... of sequences (m, K, width), and how many they sum."""
    length = signs.shape[1]
    # twice the length, or the end of a sequence would be compared with its start
    room = int(next_fast_len(2 * length, True) or 2 * length)

    def correlated(sequences: Real) -> Real:
        spectrum = np.zeros(room // 2 + 1)
        for one in sequences:
            spectrum += np.sum(np.square(np.abs(np.fft.rfft(one, room, axis=0))), axis=1)
        # sums of signs are whole, and the transform errs by far less than a half: rounding makes them exact
        return np.rint(np.fft.irfft(spectrum, room))[1:length]

    return correlated(signs * held[..., None]), correlated(held[..., None]) * signs.shape[2]


def _by_client(signs: Real, clients: NDArray[np.int64]) -> tuple[Real, Real]:
    """Uploads of each client, run after run, as sequences (N, K, width), and which places are taken."""
    runs, _, _, width = signs.shape
    every = np.tile(clients.ravel(), runs)
    members = [np.flatnonzero(every == client) for client in np.unique(clients)]
    longest = max(len(places) for places in members)
    own, held = np.zeros((len(members), longest, width)), np.zeros((len(members), longest))
    flat = signs.reshape(-1, width)
    for row, places in enumerate(members):
        own[row, : len(places)], held[row, : len(places)] = flat[places], 1.0
    return own, held


def _repeated(signs: Real) -> int:
    """Uploads whose first signs are those of an earlier upload; 0 where they are too few to tell."""
    if signs.shape[1] < _WORD:
        return 0
    words = np.packbits(signs[:, :_WORD] > 0, axis=1)
    return len(words) - len(np.unique(words, axis=0))
