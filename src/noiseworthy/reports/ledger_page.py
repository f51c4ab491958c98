"""What is left of the lifetime budgets of a ledger's data sets over all runs, as one HTML page."""

from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from noiseworthy._names import shown
from noiseworthy._wording import count, percent, percent_up, rounded_down, rounded_up, shortened_apart, span
from noiseworthy.methods.words import Key
from noiseworthy.privacy.durable import DurableLedger
from noiseworthy.privacy.durable.accounts import SCHEDULE, WHOLE, Account
from noiseworthy.privacy.durable.reading import leases_of
from noiseworthy.privacy.durable.statement import epsilon_of, statement
from noiseworthy.reports.html import PAGES
from noiseworthy.reports.ledger import put_back_line
from noiseworthy.reports.marks import beside, name_rows
from noiseworthy.reports.scales import percent_axis
from noiseworthy.reports.style import INK, MUTED, NARROW, PAPER, RULE, TONES, head, new_figure, styled, svg

_ROWS = 30
"""Clients that are drawn: those with the least left."""
_OF_RUNS = """
SELECT r.account, runs.name, sum(r.share), count(*)
FROM releases r JOIN runs ON runs.id = r.run GROUP BY r.account, r.run ORDER BY r.run
"""


class Spending(NamedTuple):
    """What one run has spent of an account: shares of 2^62, and releases."""

    run: str
    shares: int
    releases: int


@dataclass(frozen=True)
class Owned:
    """One client's account over all runs.

    Attributes:
        account: budget and whose it is.
        shares: spent of it, of 2^62.
        held: shares that are leased to runs and not spent yet.
        spendings: run by run.
    """

    account: Account
    shares: int
    held: int
    spendings: tuple[Spending, ...]

    @property
    def spent(self) -> float:
        """Spent part of the budget, at most 1."""
        return min(self.shares / WHOLE, 1.0)

    @property
    def left(self) -> float:
        """Part of the budget that is neither spent nor held."""
        return max(WHOLE - self.shares - self.held, 0) / WHOLE

    @property
    def epsilon_left(self) -> float:
        """Epsilon that a further training may spend at the account's delta; of a schedule that began, 0."""
        if self.account.currency.startswith(SCHEDULE):
            return 0.0 if self.shares or self.held else self.account.epsilon
        return epsilon_of(self.account, max(WHOLE - self.shares - self.held, 0))


@dataclass(frozen=True)
class DataSet:
    """A data set in a ledger, of real data or of one simulated world, with its clients."""

    data: str
    world: str
    clients: tuple[Owned, ...]

    @property
    def name(self) -> str:
        """As it is headed."""
        return shown(f"{self.data}, simulated: {self.world}" if self.world else self.data)

    @property
    def finding(self) -> str:
        """What is left, in a sentence."""
        least = min(self.clients, key=lambda one: one.left)
        whose = "its lifetime budget" if len(self.clients) == 1 else "the lifetime budget of every client"
        if spent := sum(_down(one.left) == _down(0.0) for one in self.clients):
            clients = count(len(self.clients), "client")
            return f"Nothing is left of the lifetime budget of {spent:,} of {clients}."
        at_least = "" if len(self.clients) == 1 else "At least "
        return f"{at_least}{_down(least.left)} of {whose} is left."

    @property
    def keys(self) -> list[Key]:
        """Numbers that a reader should take away."""
        budgets = [one.account for one in self.clients]
        runs = {spending.run for one in self.clients for spending in one.spendings}
        most = max(self.clients, key=lambda one: one.spent)
        return [
            Key("lifetime epsilon", span((b.epsilon for b in budgets), lambda v: rounded_up(v, 6)),
                f"delta {span((b.delta for b in budgets), rounded_up)} per {budgets[0].unit}"),
            Key("spent at most", percent_up(most.spent),
                f"epsilon {rounded_up(epsilon_of(most.account, most.shares))}"),
            Key("epsilon left for a training", rounded_down(min(one.epsilon_left for one in self.clients)),
                "of the client with least"),
            Key("runs", f"{len(runs):,}", count(len(self.clients), "client")),
        ]  # fmt: skip

    @property
    def rows(self) -> list[dict[str, str]]:
        """A row for each client."""
        return [
            {
                "client": shown(one.account.client),
                "lifetime epsilon": rounded_up(one.account.epsilon, 6),
                "delta": rounded_up(one.account.delta),
                "spent": percent_up(one.spent),
                "held for runs": percent_up(one.held / WHOLE) if one.held else "",
                "left": _down(one.left),
                "epsilon left": rounded_down(one.epsilon_left),
                "releases": f"{sum(spending.releases for spending in one.spendings):,}",
            }
            for one in self.clients
        ]

    @property
    def runs(self) -> list[dict[str, str]]:
        """A row for each run, in the order in which they began to spend."""
        every = [spending for one in self.clients for spending in one.spendings]
        rows = []
        for name in dict.fromkeys(spending.run for spending in every):
            own = [spending for spending in every if spending.run == name]
            rows.append({
                "run": shown(name),
                "clients": f"{len(own):,}",
                "releases": f"{sum(spending.releases for spending in own):,}",
                "of a lifetime budget": span((spending.shares / WHOLE for spending in own), percent_up),
            })  # fmt: skip
        return rows


def ledger_page(books: DurableLedger) -> str:
    """The page of a ledger: a section for each data set, which begins a new sheet when printed."""
    sets = data_sets(books)
    drawings = [svg(budgets_figure(one), f"budgets-{i}") for i, one in enumerate(sets)]
    return PAGES.get_template("ledger.html.jinja").render(
        sets=list(zip(sets, drawings, strict=True)),
        name=books.path.name,
        entries=books.head.length,
        head=str(books.head),
        put_back=put_back_line(books),
    )


def data_sets(books: DurableLedger) -> list[DataSet]:
    """Every data set of a ledger, real ones first."""
    held, spendings = dict[int, int](), dict[int, list[Spending]]()
    for lease in leases_of(books):
        held[lease.account] = held.get(lease.account, 0) + lease.rest
    for account, *spending in books.query(_OF_RUNS):
        spendings.setdefault(account, []).append(Spending(*spending))
    numbers = [row[0] for row in books.query("SELECT id FROM accounts ORDER BY id")]
    owned = [
        Owned(line.account, line.shares, held.get(i, 0), tuple(spendings.get(i, ())))
        for i, line in zip(numbers, statement(books), strict=True)
    ]

    def whose(one: Owned) -> tuple[bool, str, str]:
        return bool(one.account.world), one.account.data, one.account.world

    groups = groupby(sorted(owned, key=whose), whose)
    return [DataSet(data, world, tuple(clients)) for (_, data, world), clients in groups]


@styled
def budgets_figure(one: DataSet) -> Figure:
    """A bar for each client: what every run spent, what is held, what is left."""
    clients = sorted(one.clients, key=lambda owned: owned.left)[:_ROWS]
    figure = new_figure(NARROW, 1.3 + 0.3 * len(clients))
    axes = figure.subplots()
    some = f", the {len(clients)} of {len(one.clients):,} with least" * (len(clients) < len(one.clients))
    subtitle = f"dark: spent, a piece per run; grey: held for runs{some}"
    head(axes, "What is left", subtitle, "of the lifetime budget")
    axes.grid(visible=False)
    for row, owned in enumerate(clients):
        axes.barh(row, 1, height=0.62, color=PAPER, edgecolor=MUTED, linewidth=0.8, zorder=1)
        start = 0.0
        for i, spending in enumerate(owned.spendings):
            part = spending.shares / WHOLE
            axes.barh(row, part, left=start, height=0.62, color=TONES[1 + i % 3], zorder=2, gid="spent")
            start += part
        axes.barh(row, owned.held / WHOLE, left=start, height=0.62, color=RULE, zorder=2, gid="held")
        beside(axes, row, f"{_down(owned.left)} left", INK)
    name_rows(axes, shortened_apart([shown(owned.account.client) for owned in clients]))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_locator(MultipleLocator(0.25))
    percent_axis(axes.xaxis)
    return figure


def _down(part: float) -> str:
    """A share that is left, never written larger than it is.

    Example:
        >>> _down(0.99999), _down(0.5)
        ('99.9\\xa0%', '50\\xa0%')
    """
    tenths = int(1000 * part + 1e-9) / 1000
    return percent(tenths, 0 if round(100 * tenths, 6).is_integer() else 1)
