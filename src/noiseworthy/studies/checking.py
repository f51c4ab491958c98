"""Whether records can be trained on: everything that is wrong, found at their owner's machine, without jax.

Nothing is written or sent. What is found tells of records, its counts too; it is for their owner.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from noiseworthy._wording import count
from noiseworthy.data.federation import Federation
from noiseworthy.data.intake.checks import Examples, check_columns, check_norm
from noiseworthy.data.intake.findings import LEVELS, Finding, note, refused, warning
from noiseworthy.data.readers import SQL, is_table, opened, read_columns
from noiseworthy.data.records import held_apart
from noiseworthy.data.schema import Schema
from noiseworthy.data.schema.values import keys
from noiseworthy.data.table import OWNERS, FederationTable
from noiseworthy.data.table_records import plain_schema
from noiseworthy.data.tables import SPLIT_COLUMN, Columns
from noiseworthy.errors import ConfigError, DataError, InvalidInput
from noiseworthy.privacy.clipping import unit_of
from noiseworthy.privacy.mechanisms import Family, law_of
from noiseworthy.studies.clients import large_deltas
from noiseworthy.studies.opening import check_clients, default_model, open_federation
from noiseworthy.studies.privacy_table import Drawn
from noiseworthy.studies.tables import Study
from noiseworthy.tasks.intercepts import intercept_of
from noiseworthy.tasks.own import is_own
from noiseworthy.tasks.table import TaskTable

_UNSTATED = (
    "columns are taken as the numbers that they hold, whatever their scales; [columns] says what each is, "
    "and noiseworthy init drafts it"
)
_SIMULATED = "ranges and values were read off the records: this study is a simulation, and is never deployed"
_LISTED = 12
_FEW_TESTS = 100


@dataclass(frozen=True)
class Checked:
    """What was found.

    Attributes:
        source: of the records.
        records: how many there are.
        columns: how many the table has, 0 where it is none.
        findings: in order of weight.
    """

    source: str
    records: int
    columns: int
    findings: Sequence[Finding]

    @property
    def refused(self) -> bool:
        """Whether training would be refused."""
        return any(one.level == "refused" for one in self.findings)

    def told(self) -> dict[str, Any]:
        """All of it but the cells, as plain values."""
        findings = [asdict(one) for one in self.findings]
        for one in findings:
            del one["examples"]
        return {
            "source": self.source, "records": self.records, "columns": self.columns, "refused": self.refused,
            "findings": findings,
        }  # fmt: skip


@dataclass(frozen=True)
class Terms:
    """What owners' noise follows from, by one budget or one for each, and if they hold records out."""

    mechanism: Family
    epsilon: ArrayLike
    delta: ArrayLike
    relation: Any = "replace-one"
    holds_out: bool = False


def check_study(study: Study) -> Checked:
    """What is found in the records of a study, or in its test records where the others lie at their owners.

    Raises:
        ConfigError: a study of sizes alone.
    """
    table = study.federation
    if table.data is None:
        raise ConfigError("[federation] has sizes and no data, so there is nothing to check; set data")
    if table.of_owners:
        if study.test_file is None:
            raise ConfigError(
                "the records lie at their owners and [federation] test names no test records, so there is "
                "nothing to check here; each owner checks its own, with noiseworthy check owner.toml"
            )
        source = study.located(study.test_file)
        return _checked(table, source, study.counted_columns, study.task, whole=True)
    dealt: list[Federation] = []

    def deal() -> Federation:
        dealt.append(open_federation(study))
        return dealt[0]

    source = study.located(table.data)
    checked = _checked(table, source, study.counted_columns, study.task, deal, _terms_of(study))
    said = [
        finding for federation in dealt
        for finding in _numbers_of_clients(study, federation) or _own_model(study, federation)
    ]  # fmt: skip
    return replace(checked, findings=[*checked.findings, *said])


def check_own(table: FederationTable, columns: Schema | None, terms: Terms) -> Checked:
    """What is found in the records of an owner, as its gateway reads them.

    Args:
        table: `[federation]` of the owner's file.
        columns: what they are, and whether persons are rows; None takes what `table` says of them.
        terms: of its budget, which is spent at most once.
    """
    from noiseworthy.data.datasets import load_federation

    source = str(table.data)

    def dealt() -> Federation:
        settings = table.model_dump(exclude={"sizes", "data", "test"})
        return load_federation(source, **settings, columns=columns)

    whole = table.clients == 1 and is_table(source)
    return _checked(table, source, columns, TaskTable(), None if whole else dealt, terms, whole=whole)


def _checked(
    table: FederationTable, source: str, columns: Schema | None, task: TaskTable,
    deal: Callable[[], Federation] | None = None, terms: Terms | None = None, *, whole: bool = False,
) -> Checked:  # fmt: skip
    cells = _cells(source, table) if is_table(source) else {}
    found, examples, schema = _of_cells(cells, source, table, columns, whole=whole)
    if examples is not None and schema is not None and len(examples.x):
        intercept = intercept_of(task, task.model or default_model(schema.n_classes))
        found += check_norm(examples.x, schema, intercept, task.radius)
    records = max((len(values) for values in cells.values()), default=0)
    if not any(one.level == "refused" for one in found):
        try:
            federation = None if deal is None else deal()
        except (DataError, InvalidInput) as error:
            found.append(refused("", "records cannot be dealt out to clients", None, str(error)))
        else:
            classes, at_most = (None, None) if schema is None else (schema.n_classes, schema.persons)
            found += _of_clients(federation, examples, classes, terms, task, at_most)
            if federation is not None:
                records = records or int(federation.sizes.sum()) + len(federation.test_y)
    found.sort(key=lambda one: LEVELS.index(one.level))
    return Checked(source.removeprefix(OWNERS), records, len(cells), found)


def _cells(source: str, table: FederationTable) -> dict[str, NDArray]:
    place = opened(source, table.data_dir, table.query)
    cells = read_columns(place, cells=True)[0]
    if source.startswith(SQL):
        again = read_columns(place, cells=True)[0]
        if any(keys(values) != keys(again[name]) for name, values in cells.items()):
            raise DataError(
                f"{source} answers otherwise the second time; end the query with order by and columns that "
                "no two rows share"
            )
    return cells


def _of_cells(
    cells: Mapping[str, NDArray], source: str, table: FederationTable, columns: Schema | None, *, whole: bool
) -> tuple[list[Finding], Examples | None, Schema | None]:
    """What is found in a table, its usable records, and what its columns are taken for."""
    said = [warning("", _SIMULATED)] if table.simulation else []
    schema = columns
    if cells and columns is None:
        schema, unstated = _plain(cells, table.columns)
        said += unstated
    if not cells or schema is None:
        return said, None, None
    found, examples = check_columns(cells, schema, whole=whole)
    return [*said, *found], examples, schema


def _plain(cells: Mapping[str, NDArray], columns: Columns) -> tuple[Schema | None, list[Finding]]:
    """The schema of numbers as they are, of the older keys; None where a record is no row of numbers."""
    if any(values.ndim != 1 for values in cells.values()):
        return None, []
    others = (columns.label, columns.client, SPLIT_COLUMN)
    features = columns.features or tuple(name for name in cells if name not in others)
    said = [note("", _UNSTATED)]
    found: list[str] = []
    if not (columns.regression or columns.classes) and columns.label in cells:
        found = sorted(set(keys(cells[columns.label])) - {""})
        said.append(warning(columns.label, "its classes are read off the records, in simulation only"))
    return plain_schema(cells, columns, features, found), said


def _of_clients(
    federation: Federation | None, examples: Examples | None, classes: int | None, terms: Terms | None,
    task: TaskTable, at_most: int | None = None,
) -> list[Finding]:  # fmt: skip
    """What is found in the records as clients hold them, and in those that test."""
    if federation is not None:
        sizes, names = federation.sizes, federation.clients
        rows = "records" if federation.persons is None else "persons"
        said = [*_tests(len(federation.test_y), federation.classes), *_sizes(sizes, names, rows)]
        dimension = _dimension(federation.feature_shape, federation.classes, task)
        return said + _of_terms(sizes, names, dimension, terms, rows)
    if examples is None or terms is None:
        return []
    tests, n = examples.tests, len(examples.y)
    try:
        tests = held_apart(tests, examples.persons, "the table", n) if terms.holds_out else tests
    except DataError as error:
        return [refused("", str(error))]
    trains = np.ones(n, bool) if tests is None else ~tests
    if not (kept := int(trains.sum())) or (terms.holds_out and kept == n):
        lacking = "held out for scores; mark some 'test', or bring more" if kept else "marked 'train'"
        return [refused("", f"no record is {lacking}")]
    which = f"and {n - kept} are held out" if terms.holds_out else "those marked 'train'"
    said = [] if tests is None else [note("", f"{kept} records train, {which}")]
    rows = "records"
    if at_most is not None and examples.persons is not None:
        each = np.unique(examples.persons[trains], return_counts=True)[1]
        said.append(_together(each, at_most))
        kept, rows = len(each), "persons"
    dimension = _dimension(examples.x.shape[1:], classes, task)
    return said + _of_terms(np.array([kept]), ("this owner",), dimension, terms, rows)


def _together(each: NDArray, at_most: int) -> Finding:
    """How many persons an owner has, and what becomes of their records."""
    who, records = count(len(each), "person"), count(int(each.sum()), "training record")
    return note(
        "",
        f"{who} with {records}, up to {each.max()} of one; all of a person, {at_most} at most, are clipped "
        "together, count once, and are what the budget protects",
    )


def _numbers_of_clients(study: Study, federation: Federation) -> list[Finding]:
    """Whether budgets and other numbers are those of the clients that the records have."""
    try:
        check_clients(study, federation)
    except (ConfigError, InvalidInput) as error:
        said = "the study says of clients what does not fit those of the records"
        return [refused("", said, None, str(error))]
    return []


def _own_model(study: Study, federation: Federation) -> list[Finding]:
    """Which parameters of a model of the user's own make clipping slow where records are clipped, and why."""
    if not is_own(study.task.model):
        return []
    import jax.numpy as jnp  # here, because nothing else needs it

    from noiseworthy.methods.registry import method
    from noiseworthy.studies.models import task_for
    from noiseworthy.studies.prepare import Prepared
    from noiseworthy.tasks.networks import ModelTask

    task, (x, y) = task_for(study, federation), (federation.test_x[:1], federation.test_y[:1])
    question = Prepared(study, federation, task, federation.sizes, task.dimension).question
    clipped = unit_of(method(study.algorithm.name).local_step(question, study.algorithm).mode) != "client"
    if not isinstance(task, ModelTask) or not len(y) or not clipped:
        return []
    formed = task.formed(task.prepare(jnp.asarray(x))[0], y[0], law_of(study.privacy.mechanism).norm)
    if not formed:
        return []
    listed = [f"{name} {why}" for name, why in formed.items()]
    told = "; ".join([*listed[:_LISTED], *["..."] * (len(listed) > _LISTED)])
    return [note("", f"[task] model: clipping forms a gradient for every record of these parameters: {told}")]


def _tests(tests: int, classes: int | None) -> list[Finding]:
    known = f", so that an accuracy is known to +-{50 / tests**0.5:.1f} points" * (classes is not None)
    few, verb = tests < _FEW_TESTS, "tests" if tests == 1 else "test"
    told = f"{'only ' * few}{count(tests, 'record')} {verb} the model{known}"
    return [(warning if few else note)("", told)]


def _sizes(sizes: NDArray, names: Sequence[str], rows: str) -> list[Finding]:
    told = [f"{name} {size}" for name, size in zip(names, sizes.tolist(), strict=True)][:_LISTED]
    more = ", ..." if len(names) > _LISTED else ""
    return [note("", f"training {rows} of {len(names)} clients: {', '.join(told)}{more}")]


def _dimension(shape: tuple[int, ...], classes: int | None, task: TaskTable) -> int:
    """Numbers of the linear model; of a network there are more, and the noise is larger."""
    model = task.model or default_model(classes)
    outputs = (classes or 1) if model == "softmax" else 1
    return outputs * (int(np.prod(shape)) + (intercept_of(task, model) > 0))


def _of_terms(
    sizes: NDArray, names: Sequence[str], dimension: int, terms: Terms | None, rows: str
) -> list[Finding]:
    """Clients whose delta promises nothing, or whose noise drowns even one answer for all of epsilon."""
    if terms is None or not law_of(terms.mechanism).noisy:
        return []
    said = [warning("", one) for one in large_deltas(rows.removesuffix("s"), terms.delta, sizes, names)]
    from noiseworthy.plans.problem import Problem  # here, because it takes scipy
    from noiseworthy.privacy.budget import PrivacyBudget

    budget = PrivacyBudget.of(terms.epsilon, terms.delta, len(sizes), terms.relation)
    noise = np.sqrt(Problem(sizes, dimension, budget, terms.mechanism, 1.0).upload_variance)
    few = np.flatnonzero(noise > 1)
    if not len(few):
        return said
    worst = ", ".join(f"{names[one]} ({sizes[one]} {rows})" for one in few[:_LISTED])
    more = ", ..." if len(few) > _LISTED else ""
    says = (
        f"too few {rows} for this epsilon: even if all of it pays for one answer, the noise on it is up to "
        f"{noise[few].max():.2g} times the largest signal that there can be, at {worst}{more}"
    )
    return [*said, warning("", says)]


def _terms_of(study: Study) -> Terms | None:
    """Budgets that are stated as one number; those that differ or are drawn are the plan's to look at."""
    table = study.privacy
    if isinstance(table.epsilon, Drawn | dict) or isinstance(table.delta, Drawn | dict):
        return None
    return Terms(table.mechanism, table.epsilon, table.delta, table.relation)
