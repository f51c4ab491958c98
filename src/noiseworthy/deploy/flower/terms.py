"""What an owner agrees to where an app of its own computes updates: whose, at which price, out of what."""

from pathlib import Path
from typing import Annotated, Self

import numpy as np
from pydantic import Field, model_validator

from noiseworthy._tables import Positive, Table, checked, read_toml
from noiseworthy.deploy.gateway.price import price_of
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.durable import Account, accounts_of
from noiseworthy.privacy.durable.accounts import LAST_BITS, WHOLE
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.mechanisms.fields import DeployedMechanism
from noiseworthy.privacy.mechanisms.registry import delta_misfit
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import of_clipped_whole
from noiseworthy.privacy.sums import NoisedSum

Name = Annotated[str, Field(min_length=1, max_length=100)]


class Terms(Table):
    """An owner's file for `mod.pay_and_noise`; everything in it is public.

    Attributes:
        client: name of the owner.
        data_set: name that the lifetime budget is kept under.
        mechanism: of the noise.
        epsilon: of all releases from these data, ever.
        delta: likewise; 0 for laplace.
        clip_norm: C of the whole update, in l2 for gaussian noise and l1 for laplace.
        noise: standard deviation or Laplace scale of every coordinate.
        ledger: file of the budget; other gateways to the same data must share it.
        witness: file on another disk that is told what was spent, so that a ledger that is set back is
            noticed; None for none.

    Example:
        >>> terms = Terms(
        ...     client="north", data_set="digits", mechanism="gaussian", epsilon=8.0, delta=1e-5,
        ...     clip_norm=1.0, noise=4.0, ledger=Path("ledger.sqlite"),
        ... )  # fmt: skip
        >>> terms.releases(650)
        11
    """

    client: Name
    data_set: Name
    mechanism: DeployedMechanism
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip_norm: Positive
    noise: Positive
    ledger: Annotated[Path, Field(strict=False)]
    witness: Annotated[Path, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if misfit := delta_misfit(self.mechanism, self.delta):
            raise ValueError(misfit)
        return self

    @property
    def account(self) -> Account:
        """The lifetime budget, for everything that the owner holds."""
        budget = PrivacyBudget.of(self.epsilon, self.delta, 1, unit="client")
        return accounts_of(budget, self.mechanism, self.data_set, "", [self.client])[0]

    def noised_sum(self, dimension: int) -> NoisedSum:
        """How an update of p numbers is clipped and noised.

        Args:
            dimension: p.

        Raises:
            InvalidInput: a clip too large or too small beside the noise.
        """
        noise = law_of(self.mechanism).noise(np.array([self.noise]))
        release = Release(noise, of_clipped_whole(self.clip_norm, 1, noise.norm))
        return NoisedSum.planned(release, self.clip_norm, 1, dimension)

    def releases(self, dimension: int) -> int:
        """How many updates of p numbers the whole budget pays for.

        Raises:
            InvalidInput: a clip too large or too small beside the noise.
            UnsoundClaim: a grid too coarse for delta.
        """
        account = self.account
        return (WHOLE + LAST_BITS) // price_of([self.noised_sum(dimension)], account)


def load_terms(path: Path) -> Terms:
    """Read and check an owner's file; a relative ledger or witness is looked up beside it.

    Raises:
        ConfigError: a missing or unreadable file, unknown keys, values out of range.
    """
    terms = checked(Terms, read_toml(path, "owner's file"), str(path), "; see docs/flower.md")
    witness = terms.witness and path.parent / terms.witness
    return terms.model_copy(update={"ledger": path.parent / terms.ledger, "witness": witness})
