"""What a reproduction is made of: frozen descriptions going in, measured points and verdicts coming out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from noiseworthy.plans.plan import StepSize
from noiseworthy.privacy.clipping import ClippingMode
from noiseworthy.privacy.mechanisms import Family
from noiseworthy_papers.budgets import Budgets
from noiseworthy_papers.judge import Claim, Verdict
from noiseworthy_papers.points import Point, Role, Score, Statistic
from noiseworthy_papers.settings import Setting

if TYPE_CHECKING:
    from noiseworthy.data.records import Records
    from noiseworthy_papers.keeping import Store
    from noiseworthy_papers.laboratory import Laboratory

# Going in ---------------------------------------------------------------------------------------------


class Federated(NamedTuple):
    """N clients of which b answer in a round."""

    clients: int
    clients_per_round: int


class LossUnit(NamedTuple):
    """What the paper calls the loss, how many times ours it is, and what the quality beside it is."""

    name: str
    factor: float
    quality: str = "accuracy"


class Costs(NamedTuple):
    """What a communication and a local step cost every client, and how much it may spend."""

    per_round: float
    per_step: float
    budget: float


OURS = LossUnit("test loss", 1.0)
"""The loss of this product."""


@dataclass(frozen=True)
class Bench:
    """Data, clients and model of an experiment.

    Attributes:
        source: name of the data, as in a study file.
        model: name of the model.
        partition: how records are dealt out.
        labels_per_client: of label shards, else None.
        alpha: concentration of a Dirichlet partition, else None.
        strata: deal real targets out by so many quantiles of them, as if these were classes.
        clients: number of clients N; None takes one per owner.
        records_per_client: keep at most so many of each client's records; None keeps all.
        bias: append a constant feature to a linear model.
        batch_size: records per local step; None takes all of a client.
        loss: what the paper calls the loss.
        miniature: train on `scale` of each client's records with the noise of all of them, because the
            model is too slow for full batches on a CPU.
        noise_of: federation whose aggregate noise this one gets, where fewer clients are simulated; only for
            clipping modes that protect a whole client, because their noise knows no number of records.
        test_records: how many test records are scored; None scores all.
        horizon: most iterations of any setting; schedules are padded to it to share compiled programs.
        preferred: source to take instead where its files are there.
        made: makes the records of `source`, from the folder of data files, where that names no data set.
        by_device: train on 80 % of each client's records, validate on 10 %, test on 10 %, and score by the
            mean over clients of their own scores.
        task: options of a linear model, such as `feature_norm`.
        public: data to plan by trial on, where their files are there; empty if nothing is planned so.
        caveat: what a reader must know about the data.
    """

    source: str
    model: str
    partition: str
    labels_per_client: int | None = None
    clients: int | None = 10
    records_per_client: int | None = None
    bias: bool = False
    batch_size: int | None = None
    loss: LossUnit = OURS
    miniature: bool = False
    noise_of: Federated | None = None
    test_records: int | None = None
    horizon: int = 500
    preferred: str | None = None
    made: Callable[[str | Path | None], Records] | None = None
    by_device: bool = False
    task: tuple[tuple[str, Any], ...] = ()
    public: tuple[str, ...] = ()
    caveat: str = ""
    alpha: float | None = None
    strata: int | None = None


class Planned(NamedTuple):
    """What a planner decided: a setting, or None not to train; clip and step; and the time that it took."""

    setting: Setting | None
    clip_norm: float
    step: StepSize
    seconds: float = 0.0


Planner = Callable[["Laboratory", "Arm", float, float, Callable[[float], None]], Planned]
"""Decides in a laboratory, for an arm, an epsilon and a share of the records; tells its progress."""


@dataclass(frozen=True)
class Series:
    """A setting under every budget: `setting(epsilon, fraction)`, or what a planner decides there.

    The setting None is not training.
    """

    label: str
    role: Role
    setting: Callable[[float, float], Setting | None] | None = None
    planner: Planner | None = None


@dataclass(frozen=True)
class Arm:
    """One mechanism with its budgets, its clip and step size as published, and the settings to train.

    Attributes:
        mechanism: kind of noise.
        epsilons: budgets; infinite is a training without noise.
        delta: of every budget.
        clip_norm: C.
        step: step sizes.
        series: what to train under each budget.
        clipping: what is clipped, A to E.
        constant: v of sigma^2 = v C^2 k ln(1/delta)/epsilon^2 where noise is as printed.
        costs: costs and budget of every client; None where only privacy is scarce.
        budgets: how clients draw their own budgets up to each epsilon; None gives everybody the same.
    """

    mechanism: Family
    epsilons: tuple[float, ...]
    delta: float
    clip_norm: float
    step: StepSize
    series: tuple[Series, ...]
    clipping: ClippingMode = "A"
    constant: float = 1.0
    costs: Costs | None = None
    budgets: Budgets | None = None


@dataclass(frozen=True)
class Layout:
    """How points are drawn: scores against a quantity, a line per `lines`, a panel per value of `panels`.

    Attributes:
        along: quantity of the horizontal axis; `round` and `iteration` draw curves while training.
        scores: what is drawn, a row of panels for each.
        lines: quantity that tells lines apart: `series`, `epsilon` or `budget`.
        panels: quantities whose values get a panel each; the last one gives the columns.
        log: axes that are logarithmic, of "x" and "y".
        most: upper end of the axis of the loss; None fits it.
        zoomed: whether scores other than the loss are drawn in the range that was measured, not from 0 to 1.
    """

    along: str
    scores: tuple[Score, ...] = ("loss",)
    lines: Literal["series", "epsilon", "budget"] = "epsilon"
    panels: tuple[str, ...] = ("mechanism",)
    log: str = ""
    most: float | None = None
    zoomed: bool = False


@dataclass(frozen=True)
class Figure:
    """A figure or table of a paper: what to train, what it claims, how to show it, what else to know.

    Attributes:
        title: what it shows.
        layout: how it is drawn; None for a table.
        bench: data, clients and model.
        arms: what is trained.
        claims: what is said of it.
        fractions: shares of the records to train on.
        note: what else a reader must know.
        repeats: how often each training is repeated at scale 1.
        repeats_stated: whether it is the paper that says so.
        evaluations: how often a training is scored, densest at the beginning.
        tables: the paper's numbers beside ours, from the points.
        alphas: concentrations of a Dirichlet partition to train under; empty takes the bench's.
        least_seeds: fewest trainings of each setting, whatever the scale.
    """

    title: str
    layout: Layout | None
    bench: Bench
    arms: tuple[Arm, ...]
    claims: tuple[Claim, ...]
    fractions: tuple[float, ...] = (1.0,)
    note: str = ""
    repeats: int = 10
    evaluations: int = 12
    tables: Callable[[Sequence[Point]], list[Table]] = lambda points: []
    alphas: tuple[float, ...] = ()
    least_seeds: int = 2
    repeats_stated: bool = True


# Coming out -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Numbers of the paper beside ours, as text."""

    header: list[str]
    rows: list[list[str]]
    title: str = "Entry by entry"


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A reproduced item: what was run, what came out, and what it says of the paper.

    `repeats` are those of the paper, 0 where it does not say.
    `estimates` (`studies.record.estimated`) are drawn in place of points where an item is about them; its
    claims are judged on `statistics`.
    """

    paper: str
    item: str
    title: str
    layout: Layout | None = None
    loss: LossUnit = OURS
    data: str
    scale: float
    seeds: int = 0
    repeats: int = 0
    verdicts: list[Verdict] = field(default_factory=list)
    points: list[Point] = field(default_factory=list)
    tables: list[Table]
    notes: list[str]
    estimates: dict[str, Any] | None = None
    statistics: list[Statistic] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time spent training and planning, wherever it was spent first."""
        return sum(point.seconds for point in self.points)


# Papers -----------------------------------------------------------------------------------------------


class Circumstances(NamedTuple):
    """Under what an item is measured: as `reproduce` takes them, and what was measured before."""

    data_dir: str | Path | None
    scale: float
    store: Store
    on_progress: Callable[[float], None]


@dataclass(frozen=True)
class SelfMeasured:
    """An item that is no figure of trainings: it measures by itself.

    Attributes:
        measure: what it measures.
        claims: judged on the statistics of the result; empty where the verdicts need no statistics.
    """

    measure: Callable[[Circumstances], Reproduction]
    claims: tuple[Claim, ...] = ()


Item = Figure | SelfMeasured | Callable[[float], Figure | Reproduction]
"""A figure, an item that measures itself, or a function from the scale to a figure or to a result that needs
no training."""


@dataclass(frozen=True)
class Paper:
    """A paper by its short name: its items by name, and what a reader must know of all of them.

    Attributes:
        name: as in the command, such as `zhou`.
        authors: as in `Reproductions of Zhou et al.`.
        items: in their order.
        common: what is common to all items, markdown.
        ours: items that are no table or figure of the paper.
        simpler: items that train less than the paper did whatever the scale: a pattern of names, and how.
        missing: why items were not measured: a pattern of names, and the reason; the first that fits.
    """

    name: str
    authors: str
    items: dict[str, Item]
    common: str
    ours: tuple[str, ...] = ()
    simpler: tuple[tuple[str, str], ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
