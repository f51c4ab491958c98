"""What a release costs its owner, by the owner's own arithmetic."""

from collections.abc import Sequence
from dataclasses import replace

from noiseworthy.errors import UnsoundClaim
from noiseworthy.privacy.budget import UNITS, Row
from noiseworthy.privacy.deployed_noise import DeployedNoise, grid_surcharge
from noiseworthy.privacy.durable import Account
from noiseworthy.privacy.durable.accounts import WHOLE, costs_of
from noiseworthy.privacy.gaussian import gaussian_delta
from noiseworthy.privacy.grid_mechanism import as_drawn
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sums import NoisedSum

_COVERS = {"record": "one record", "person": "all records of a person", "client": "all that the owner holds"}


def price_of(sums: Sequence[NoisedSum], account: Account, row: Row = "record") -> int:
    """Shares of the lifetime budget that a job costs: of all its noised sums, each as often as it is drawn.

    Args:
        sums: of a job.
        account: lifetime budget.
        row: what the owner's rows are, whose clip a sum bounds: records, or persons.

    Raises:
        UnsoundClaim: a unit that the budget does not cover, a grid surcharge above its part, or noise that
            hides nothing.
    """
    return sum(
        one.times * share_of(_of_rows(one.release, row), account, _drawn(one), one.dimension) for one in sums
    )


def _of_rows(release: Release, row: Row) -> Release:
    """The release with what its clip of rows hides, where it clips rows."""
    one = release.sensitivity
    return release if one.unit == "client" else replace(release, sensitivity=replace(one, unit=row))


def _drawn(one: NoisedSum) -> DeployedNoise:
    noise = one.mechanism.noise
    if not isinstance(noise, DeployedNoise):
        raise UnsoundClaim("only deployed noise is paid for; simulated noise hides nothing")
    return noise


def share_of(release: Release, account: Account, noise: DeployedNoise, dimension: int) -> int:
    """Shares of the lifetime budget that one release costs, of 2^62.

    A grid mechanism adds a little more noise than it is charged for, so that a budget that is spent whole
    leaves delta - delta(epsilon; mu drawn) for the grid. That is given out in proportion to the shares: a
    release is refused if

        (1 + e^epsilon) p eta > share (delta - delta(epsilon; mu drawn))

    Args:
        release: with its planned noise.
        account: lifetime budget.
        noise: as drawn, in steps of the grid.
        dimension: coordinates p.

    Raises:
        UnsoundClaim: a unit that the budget does not cover, or a grid surcharge above its part.

    Guarantee: releases whose shares sum to the whole at most are (epsilon, delta)-private with discrete
    noise, whatever their clips, sizes and noise.
    """
    if UNITS.index(release.sensitivity.unit) < UNITS.index(account.unit):
        raise UnsoundClaim(
            f"the budget is for {_COVERS[account.unit]}, and the noise asked hides one "
            f"{release.sensitivity.unit}; ask for an algorithm that clips its whole update"
        )
    share = account.share(costs_of(release)[0])
    surcharge = grid_surcharge(noise, account.epsilon, 1, dimension)
    # pure epsilon needs no part: the discrete Laplace has the epsilon of the continuous one on whole steps
    if account.delta and surcharge > _spare(account, release, share):
        asked = f"a lifetime epsilon of less than {account.epsilon:g}, or ask for more noise beside the clip"
        raise UnsoundClaim(f"the grid is too coarse for this delta; state {asked}")
    return share


def _spare(account: Account, release: Release, share: int) -> float:
    """The part of delta that belongs to a share of the budget and its noise does not use."""
    drawn = account.size * float(release.mechanism.size[0] / as_drawn(release).mechanism.size[0])
    # a difference of a millionth to a thousandth of delta, of which only the small relative error of
    # gaussian_delta leaves digits: five where mu is smallest, seven elsewhere
    return share / WHOLE * (account.delta - float(gaussian_delta(account.epsilon, drawn)))
