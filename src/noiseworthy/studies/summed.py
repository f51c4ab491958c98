"""What a study may hold where only sums of uploads are seen: nothing that reads or releases a single one."""

from __future__ import annotations

from noiseworthy.errors import ConfigError
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.studies.tables import Study


def check_can_be_summed(study: Study) -> None:
    """Refuse a study whose trust hides single uploads, and that has use for them.

    Raises:
        ConfigError: a method that cannot train on sums, or parts of the budget that buy something from each
            client by itself.
    """
    trust, name = study.privacy.trust, study.algorithm.name
    if not study.privacy.whom.in_sums:
        return
    if reads := method(name).reads:
        able = ", ".join(one for one in METHODS if not method(one).reads)
        raise ConfigError(
            f'[algorithm] {name} cannot train under trust = "{trust}": {reads}; take one of {able}, or '
            'trust = "local"'
        )
    if study.constants.source == "bought":
        raise ConfigError(
            f'[constants] source = "bought" releases a gradient of each client by itself, which '
            f'trust = "{trust}" does not show; leave it out to plan by trial, or state the constants'
        )
    if study.columns is not None and study.columns.to_buy:
        raise ConfigError(
            f"[columns] {', '.join(study.columns.to_buy)}: ranges are bought from each client by itself, "
            f'which trust = "{trust}" does not show; state range = [least, most]'
        )
