"""Ranges that `[columns]` leaves to be bought: noised quantiles of every client, in simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from noiseworthy.data.federation import Federation
from noiseworthy.data.schema import Schema
from noiseworthy.data.schema.columns import NumberColumn
from noiseworthy.data.schema.fields import BoughtRange
from noiseworthy.errors import ConfigError, DataError, UnsoundClaim
from noiseworthy.plans.stages import BoughtRanges
from noiseworthy.privacy.budget import PrivacyBudget
from noiseworthy.privacy.mechanisms import law_of
from noiseworthy.privacy.quantiles import private_quantile
from noiseworthy.privacy.releases import Release
from noiseworthy.privacy.sensitivity import Sensitivity
from noiseworthy.studies.privacy_table import budgets_of
from noiseworthy.studies.tables import Study

CANDIDATES = 2**16 + 1
"""Answers that a quantile may have: even steps of the public range around it, in the column's transform."""
_TAG = 0x9A17E5
"""What tells the draws of a study apart."""


def check_can_be_bought(study: Study) -> None:
    """Refuse ranges that this study cannot buy, before its records are read.

    Raises:
        ConfigError: no noise, records at their owners, or all of the budget for ranges.
        UnsoundClaim: Poisson batches, whose composition with full batches is not provided.
    """
    columns = (study.columns or Schema(columns=())).to_buy
    names, privacy = ", ".join(columns), study.privacy
    if study.federation.of_owners:
        raise ConfigError(f"{NOT_OVER_A_NETWORK} (column {names})")
    if not law_of(privacy.mechanism).noisy:
        raise ConfigError(
            f"[columns] {names}: a range is bought from a budget, and mechanism = {privacy.mechanism!r} has "
            "none; state range = [least, most], or a mechanism with noise"
        )
    if privacy.sampling_rate < 1:
        raise UnsoundClaim(f"[columns] {names}: Poisson batches buy no ranges; use sampling_rate = 1")
    if (shares := sum(_stated(one).share for one in columns.values())) >= 1:
        raise ConfigError(
            f"[columns] {names}: the shares of the budget that ranges cost must add up to less than 1, got "
            f"{shares:g}; nothing would be left to train on"
        )


NOT_OVER_A_NETWORK = (
    "ranges are bought in simulation only, where all owners' records are at hand; state range = [least, "
    "most], or the one that a simulation on like records bought"
)


def bought_ranges(study: Study, federation: Federation) -> BoughtRanges:
    """The ranges that a study leaves to be bought, drawn by its seed, and what they cost.

    Every client answers two noised quantiles of each column by the records that it trains on; the ends of
    the range are the medians of the answers. Each answer is released by the exponential mechanism, with the
    pure epsilon that its part of the share pays for in the currency of the study's noise.

    Args:
        study: with budgets, and columns whose range is to be bought.
        federation: its data by the ranges around, with a number that tells gaps beside each such column.

    Raises:
        DataError: a range whose ends are one answer.
    """
    law, schema, table = law_of(study.privacy.mechanism), _schema(federation), study.privacy
    epsilon, delta = (
        budgets_of(study, key, federation.clients, named=federation.named) for key in ("epsilon", "delta")
    )
    budget = PrivacyBudget.of(epsilon, delta, federation.n_clients, table.relation)
    ones, twice = np.ones(federation.n_clients), np.full(federation.n_clients, 2)
    parts, found, clients = [], {}, range(federation.n_clients)
    for place, column in enumerate(schema.to_buy.values()):
        bought = _stated(column)
        size = law.paid_in.analysis.noise(ones, budget, bought.share, twice)
        release = Release(law.noise(size), Sensitivity(ones, law.norm, table.relation))
        parts.append((release, twice))
        asked = law.paid_in.analysis.pure(release.shift)
        private = [_numbers(federation, column.name, client) for client in clients]
        generators = [np.random.default_rng([study.federation.seed, _TAG, place, one]) for one in clients]
        answers = [
            [private_quantile(of_one, level, _GRID, each, generator, table.relation)
             for of_one, each, generator in zip(private, asked, generators, strict=True)]
            for level in bought.quantiles
        ]  # fmt: skip
        found[column.name] = _range(column, answers)
    return BoughtRanges(tuple(parts), budget, found)


def widened(study: Study, ranges: BoughtRanges, sizes: NDArray[np.int64]) -> tuple[str, ...]:
    """A warning for every range that noise is likely to have widened, by what is public.

    The end of a column's public range is e^(epsilon q n / 2) times less likely an answer than its quantile,
    for a share q n of the records beyond it. There are about as many more answers as `_ROOM` says.
    """
    said, law = [], law_of(study.privacy.mechanism)
    columns = [*(study.columns.to_buy.values() if study.columns else ())]
    for column, (release, _) in zip(columns, ranges.parts, strict=False):
        low, high = _stated(column).quantiles
        margin = law.paid_in.analysis.pure(release.shift) * min(low, 1 - high) * sizes / 2
        if np.median(margin) < _ROOM:
            there = int(np.median(sizes))
            needed = int(np.ceil(there * _ROOM / np.median(margin)))
            said.append(
                f"Warning: noise has probably widened the bought range of {column.name}: clients have about "
                f"{there} records, and it takes some {needed} to tell its quantiles; raise its share, or "
                "choose quantiles further from the ends."
            )
    return tuple(said)


_ROOM = 8.0
"""Logarithm of how many more answers lie outside of a range than at its quantiles, with room to spare."""
_GRID = np.linspace(-1.0, 1.0, CANDIDATES)


def _range(column: NumberColumn, answers: Sequence[Sequence[float]]) -> tuple[float, float]:
    """The medians of the clients' answers, in the column's own unit."""
    least, most = column.value_of(np.median(answers, axis=1)).tolist()
    if not least < most:
        raise DataError(
            f"column {column.name!r}: the range that was bought is empty, [{least:g}, {most:g}], because "
            "noise outweighs the records; state a closer buy = [least, most], a greater share or quantiles "
            "further apart, or state the range"
        )
    return least, most


def _numbers(federation: Federation, column: str, client: int) -> NDArray[np.float64]:
    """What one client trains on in one column, without gaps, shape (n,)."""
    names = _schema(federation).feature_names
    rows = federation.x[client, : federation.sizes[client]].astype(np.float64)
    gap = f"{column} is missing"
    known = rows[:, names.index(gap)] == 0 if gap in names else np.ones(len(rows), bool)
    return rows[known, names.index(column)]


def _schema(federation: Federation) -> Schema:
    if federation.schema is None:
        raise DataError(f"{federation.name} has no columns, so that there is no range to buy")
    return federation.schema


def _stated(column: NumberColumn) -> BoughtRange:
    if not isinstance(column.range, BoughtRange):
        raise ConfigError(f"[columns] {column.name} states its range, so that there is none to buy")
    return column.range
