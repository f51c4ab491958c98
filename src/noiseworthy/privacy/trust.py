"""Whom owners trust: nobody, a sum that only shows itself, or a server; and how their noises add up there.

    local        everybody sees each upload: its own noise alone hides a record
    secure-sum   server, network and up to t owners see sums of cohorts only, of which up to d may be missing:
                 the noises of the m = b - t - d owners that are honest and there at least hide it together
    central      a server sees clipped uploads and adds the noise of the sum once; it may keep to itself whom
                 it asks, each client by a coin of its own, which amplifies

With s_j the noise of owner j as it enters the sum, a record of owner i is hidden by s_i and the m - 1 least
of the others (`Sharing.hiding`). The theory is in docs/theory/trust.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy import _validate as check
from noiseworthy._wording import count
from noiseworthy.errors import InvalidInput
from noiseworthy.privacy.mechanisms import Law
from noiseworthy.privacy.releases import LEFT_OUT_IF_DEFAULT

TrustModel = Literal["local", "secure-sum", "central"]
TRUST_MODELS: tuple[TrustModel, ...] = ("local", "secure-sum", "central")
Cohorts = Literal["public", "secret"]
COHORTS: tuple[Cohorts, ...] = ("public", "secret")
ADVERSARY = "the server and everybody who sees the traffic: every upload, and who sent it when"
_FEWEST = 2
"""Honest owners whose noises must meet in a sum: one alone is no sum."""


@dataclass(frozen=True)
class Trust:
    """Who sees what in a training.

    Attributes:
        model: a word of `TRUST_MODELS`.
        colluders: t, owners that tell the server what they know; of a secure sum only.
        dropouts: d, owners of a cohort that may be missing in a round; of a secure sum only.
        cohorts: who knows whom a round asks: everybody, or in `secret` the trusted server alone, which tosses
            a coin for each client in each round.

    Raises:
        InvalidInput: another word, colluders or drop-outs where every upload is seen, or secret cohorts where
            no server is trusted.

    Example:
        >>> Trust("secure-sum", colluders=2, dropouts=1).survivors([10, 4]).tolist()
        [7, 0]
    """

    model: TrustModel = "local"
    colluders: int = 0
    dropouts: int = 0
    cohorts: Cohorts = field(default="public", metadata=LEFT_OUT_IF_DEFAULT)

    def __post_init__(self):
        check.one_of("trust", self.model, TRUST_MODELS)
        check.one_of("cohorts", self.cohorts, COHORTS)
        if self.secret and self.owners_add:
            raise InvalidInput(
                f'cohorts = "secret" is of trust = "central" only, got trust = "{self.model}", where it is '
                "seen who takes part; leave it out, or trust a server"
            )
        for name in ("colluders", "dropouts"):
            value = check.count(name, getattr(self, name), least=0)
            if value and self.model != "secure-sum":
                raise InvalidInput(
                    f'{name} = {value} is of trust = "secure-sum" only, got trust = "{self.model}"; leave it '
                    "out, or let owners sum"
                )

    @property
    def in_sums(self) -> bool:
        """Whether noises add up before anybody sees them."""
        return self.model != "local"

    @property
    def sums_itself(self) -> bool:
        """Whether owners run a protocol by which nobody sees more than their sum."""
        return self.model == "secure-sum"

    @property
    def owners_add(self) -> bool:
        """Whether owners add noise, and not a server."""
        return self.model != "central"

    @property
    def secret(self) -> bool:
        """Whether a round asks each client by a coin that only the server sees."""
        return self.cohorts == "secret"

    def asked_with(self, clients_per_round: int, clients: int) -> float:
        """Probability with which a round asks a client, where that is secret; 1 where cohorts are public.

        Args:
            clients_per_round: b, on average.
            clients: N.

        Example:
            >>> Trust("central", cohorts="secret").asked_with(10, 200), Trust("central").asked_with(10, 200)
            (0.05, 1.0)
        """
        return clients_per_round / clients if self.secret else 1.0

    @property
    def least_cohort(self) -> int:
        """The smallest cohort that its protocol can protect; 1 where there is none."""
        if self.model != "secure-sum":
            return 1
        # the threshold is in reach from b = t + 2 d + 1 on, so that the range holds one
        enough = self.colluders + self.dropouts + _FEWEST
        return next(b for b in range(enough, 3 * enough + 3) if self.threshold(b) <= b - self.dropouts)

    def threshold(self, cohort: int) -> int:
        """Owners of a cohort that must sign who survived: more than half of those who do not collude."""
        return (cohort + self.colluders) // 2 + 1

    def survivors(self, cohort: ArrayLike) -> NDArray[np.int64]:
        """m: how many noises hide a record at least, its owner's among them; 0 where a cohort is too small.

        Args:
            cohort: owners b that a round asks, of any shape.
        """
        b = np.asarray(cohort)
        left = b - self.colluders - self.dropouts if self.in_sums else np.ones_like(b)
        return np.where(b < self.least_cohort, 0, left)

    def check_cohort(self, cohort: int) -> None:
        """Refuse a cohort that no protocol can protect.

        Raises:
            InvalidInput: fewer owners per round than `least_cohort`.
        """
        if cohort < self.least_cohort:
            raise InvalidInput(
                f"a secure sum against {self.colluders} colluders that survives {self.dropouts} drop-outs "
                f"needs at least {self.least_cohort} owners in each round, got {cohort}; ask more owners per "
                "round, or state fewer colluders or dropouts"
            )

    @property
    def adversary(self) -> str:
        """Whom records are hidden from, in words."""
        if self.model == "local":
            return ADVERSARY
        if self.model == "central":
            keeps = ", also to tell nobody whom it asked in which round" * self.secret
            return (
                "everybody but the server: each model that it sends out. The server sees every clipped "
                f"upload before it adds the noise, and is trusted{keeps}"
            )
        others = f" and up to {self.colluders} other owners" * bool(self.colluders)
        missing = f", up to {self.dropouts} of them missing" if self.dropouts else ""
        return (
            f"the server and everybody who sees the traffic{others}: the sum of the uploads of each cohort"
            f"{missing}, and who took part when, never one upload by itself"
        )

    @property
    def observers(self) -> str:
        """The same in a few words, after "over all uploads, against"."""
        if self.model == "central":
            return "everybody but the server"
        if self.model == "local":
            return "everybody who sees them"
        owners = f" and {count(self.colluders, 'other owner')}" * bool(self.colluders)
        return f"everybody who sees sums of them{owners}"

    def as_dict(self) -> dict[str, Any]:
        """As in `plan --json`."""
        told = {"model": self.model, "colluders": self.colluders, "dropouts": self.dropouts}
        return {**told, "cohorts": self.cohorts} if self.secret else told


LOCAL = Trust()
"""Everybody sees each upload."""


@dataclass(frozen=True)
class Sharing:
    """How the noises of uploads add up in a sum before anybody sees it.

    Attributes:
        weights: of the uploads in the sum, shape (N,), summing to 1.
        survivors: m, how many noises of a cohort hide a record at least, its owner's own among them.

    Example:
        >>> from noiseworthy.privacy.mechanisms import law_of
        >>> sharing = Sharing(np.array([0.5, 0.25, 0.25]), 2)
        >>> sharing.shares(np.array([1.0, 2.0, 1.0]), law_of("gaussian")).round(4)  # 0.5 in the sum
        array([0.7071, 1.4142, 1.4142])
    """

    weights: NDArray[np.float64]
    survivors: int

    def __post_init__(self):
        check.positive("weights", self.weights)
        check.count("survivors", self.survivors, most=len(self.weights))

    def shares(self, alone: NDArray[np.float64], law: Law) -> NDArray[np.float64]:
        """Noise of each owner's upload where all hide each other: the least that pays for what each needs.

        Args:
            alone: noise that each owner's upload would need by itself, shape (N,).
            law: of the noise.

        Returns:
            shape (N,), in units of the uploads. Every owner adds the same noise to the sum.
        """
        # of a law that is not stable shares divide the shape, and each has the whole scale
        parts = np.sqrt(self.survivors) if law.stable else 1.0
        return np.max(self.weights * alone) / parts / self.weights

    def hiding(self, sizes: NDArray[np.float64], law: Law) -> NDArray[np.float64]:
        """Noise that hides a record of each owner, in units of its own upload, shape (N,).

        Args:
            sizes: noise of each owner's upload, shape (N,): of a law that is not stable, the scale of the law
                that `survivors` shares of this size add up to.
            law: of the noise.
        """
        parts = self.weights * sizes
        if not law.stable:
            return np.min(parts) / self.weights
        squares = np.square(parts)
        least = np.sort(squares)[: self.survivors]
        # an owner among the least is in their sum already; any other adds its own in the place of the
        # largest. Who ties with the largest may be either: both are the same
        among = squares <= least[-1]
        return np.sqrt(np.where(among, least.sum(), squares + least[:-1].sum())) / self.weights
