"""What a study may hold where only sums of uploads are seen, and where nobody sees who takes part in them."""

from __future__ import annotations

from noiseworthy.errors import ConfigError
from noiseworthy.methods.registry import METHODS, method
from noiseworthy.privacy.amplification import check_secret_cohorts
from noiseworthy.studies.tables import Study


def check_can_be_summed(study: Study) -> None:
    """Refuse a study whose trust hides single uploads, and that has use for them.

    Raises:
        ConfigError: a method that cannot train on sums, or parts of the budget that buy something from each
            client by itself; under secret cohorts what shows who took part, or is left to the planner.
        UnsoundClaim: secret cohorts where no proof gives amplification.
    """
    trust, name = study.privacy.trust, study.algorithm.name
    if not study.privacy.whom.in_sums:
        return
    if study.privacy.whom.secret:
        _check_secret(study)
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


def _check_secret(study: Study) -> None:
    """Refuse a study with secret cohorts that shows them, that no proof covers, or that is to be planned."""
    own, privacy = method(study.algorithm.name), study.privacy
    if own.shows:
        able = ", ".join(name for name in METHODS if not method(name).shows)
        raise ConfigError(
            f'[algorithm] {own.name} cannot train with [privacy] cohorts = "secret": {own.shows}; take '
            f'{able}, or cohorts = "public"'
        )
    check_secret_cohorts(privacy.mechanism, privacy.relation, "client")
    if study.resources is not None:
        raise ConfigError(
            '[resources] count how often each client takes part, which [privacy] cohorts = "secret" keeps '
            "from everybody; leave one of them out"
        )
    if own.leaves_free(study.algorithm) or privacy.clip_norm == "auto":
        raise ConfigError(
            '[privacy] cohorts = "secret" trains what a study states and plans nothing: state clip_norm and '
            'everything under [algorithm], such as an answer that was planned with cohorts = "public"'
        )
