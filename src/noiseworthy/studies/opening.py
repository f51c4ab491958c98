"""The data that a study names; neither model nor planner is loaded for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from noiseworthy.data.datasets import load_federation
from noiseworthy.data.federation import Federation
from noiseworthy.data.files import locate
from noiseworthy.data.table import OWNERS
from noiseworthy.errors import ConfigError
from noiseworthy.methods.selection import cohort
from noiseworthy.studies.clients import in_order
from noiseworthy.studies.loading import PER_CLIENT
from noiseworthy.studies.tables import BY_OWNERS, Study
from noiseworthy.tasks.images import image_shape
from noiseworthy.tasks.names import IMAGES

if TYPE_CHECKING:
    from noiseworthy.data.schema import Schema
    from noiseworthy.plans.stages import BoughtRanges


class Opened(NamedTuple):
    """The data of a study, and what was bought to see them in its ranges."""

    federation: Federation
    ranges: BoughtRanges | None


def open_data(study: Study) -> Opened:
    """The federation of `[federation]`, by ranges that are bought first where `[columns]` say so.

    The same study buys the same ranges whenever it is opened: that is one release, and one charge.

    Raises:
        ConfigError: ranges that cannot be bought.
    """
    if study.columns is None or not study.columns.to_buy:
        return Opened(_federation(study, study.counted_columns), None)
    from noiseworthy.studies.ranges import bought_ranges, check_can_be_bought

    check_can_be_bought(study)
    columns = study.columns.with_persons(study.persons_have_at_most)  # a study of persons buys none
    ranges = bought_ranges(study, _federation(study, columns.with_gaps_told()))
    return Opened(_federation(study, columns.with_ranges(ranges.found)), ranges)


def open_federation(study: Study) -> Federation:
    """The federation of `open_data`."""
    return open_data(study).federation


def file_of_owners(study: Study) -> Path:
    """What owners told, of a study whose records lie with them."""
    owners = study.located(str(study.federation.data)).removeprefix(OWNERS)
    return locate(owners, study.federation.data_dir, "the file of owners that noiseworthy deploy ask writes")


def _federation(study: Study, columns: Schema | None) -> Federation:
    table = study.federation
    if table.of_owners:
        from noiseworthy.data.owners import check_scores, federation_of_owners, read_owners

        file = file_of_owners(study)
        test = study.test_file and locate(study.located(study.test_file), table.data_dir)
        known = federation_of_owners(file, test or None, study.counted_columns or study.meaning)
        if table.test == BY_OWNERS:
            check_scores(read_owners(file), file)
        return known
    keys = {"clients", "partition", "alpha", "labels_per_client", "records_per_client", "fraction",
            "data_dir", "query", "regression", "label_column", "client_column", "feature_columns", "classes",
            "seed"}  # fmt: skip
    settings: dict[str, Any] = table.model_dump(include=keys)
    held_out = "records" if study.privacy.relation == "add-remove" else "rows"
    return load_federation(study.located(str(table.data)), **settings, columns=columns, held_out=held_out)


_STRUCTURED = ("lstm", "unet3d")
"""Models whose records have a label for every token or voxel."""


def default_model(classes: int | None) -> str:
    """The linear model that fits the labels; of two classes one output says as much as two.

    A second output would cost Laplace noise a factor of sqrt(2), and the plan twice the parameters.
    """
    if classes is None:
        return "linear"
    return "logistic" if classes == 2 else "softmax"


def check_model(study: Study, federation: Federation) -> None:
    """Refuse a model for another kind of records or labels than the data have, before a model is loaded.

    Raises:
        ConfigError: another kind of labels.
        InvalidInput: records that are no images, for a model that needs some.
    """
    model = study.task.model
    if model in IMAGES:
        image_shape(model, federation.feature_shape)
    structured = len(federation.label_shape) > 0
    if structured and model not in _STRUCTURED:
        raise ConfigError(
            f"[task] model must be {' or '.join(_STRUCTURED)} for {federation.name}, whose records have "
            f"labels of shape {federation.label_shape}, got {model or 'none'}"
        )
    if model in _STRUCTURED and not structured:
        raise ConfigError(
            f"[task] model {model} needs a label for every token or voxel, {federation.name} has one per "
            "record; choose another model"
        )


def check_clients(study: Study, federation: Federation) -> None:
    """Refuse what a study says of clients that the data do not have, before anything is planned.

    Raises:
        ConfigError: numbers of clients that are not there, or none for one that is.
        InvalidInput: more clients to ask in a round than there are.
    """
    names, named = federation.clients, federation.named
    for table, keys in PER_CLIENT.items():
        for key in keys:
            stated = getattr(getattr(study, table), key, None)
            if isinstance(stated, list | dict):
                in_order(f"[{table}] {key}", stated, names, named=named)
    asked = getattr(study.algorithm, "clients_per_round", None)
    if isinstance(asked, int):
        cohort(asked, len(names), "[algorithm] clients_per_round")
