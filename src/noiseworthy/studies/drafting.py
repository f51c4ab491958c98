"""A study drafted from a table: what is common knowledge is stated, what only records tell is a question."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from noiseworthy.data.intake.guesses import Guess
from noiseworthy.studies.loading import in_key, in_line

_HEAD = """\
# noiseworthy init wrote this by the {source} of a table. What is left to do:
{steps}"""
_SIMULATED = """\
#   1. Nothing is asked: ranges, values and classes below were read off these very records. So this study is a
#      simulation, says so wherever it is reported, and is never deployed. Studies for others ask instead.
#   2. noiseworthy check {file}, then noiseworthy plan {file}.
"""
_ASKED = """\
#   1. Answer every "?" from what is public: a code book, a form, a textbook; never by what records hold, for
#      every reader of this file could then tell. What lies beyond a range counts as its end.
#   2. Go through the other lines: kinds, ranges that are common knowledge, missing = true where values may be
#      missing at any owner. An amount may take transform = "log" or "sqrt"; values in an order may be
#      kind = "ordered"; what nobody should learn from is kind = "left-out".
#   3. noiseworthy check {file} at every owner's own machine, then noiseworthy plan {file}.
"""
_STUDY = """
[privacy]
mechanism = "gaussian"          # or "laplace", with delta = 0.0, for pure epsilon
epsilon = 2.0                   # of every client
delta = 1e-5                    # far below 1/records

[algorithm]
name = "fedsgd-dpc"             # rounds, clients, clip, step size and how records are scaled are planned
"""
_OWNER = """\
# The file of {client}, kept and changed by {client} alone; docs/gateway.md explains every key.
#   noiseworthy check {file}     says what is wrong with the table
#   noiseworthy gateway {file}   serves it
columns = "../columns.toml"     # what the columns are, the same for all owners

[owner]
client = {client}
data_set = {data_set}           # the name that the lifetime budget is kept under

[federation]
data = {data}                   # its table; its path, from this file, else from the working folder
clients = 1                     # all of it is this owner's

[budget]                        # what all releases from these records may cost together, ever
mechanism = "gaussian"
epsilon = 4.0
delta = 1e-5
noise_floor = 1.0

[allowed]
algorithms = ["fedsgd-dpc"]
models = {models}
most_releases = 200

[files]
socket = "gateway.sock"
ledger = "ledger.sqlite"
"""


@dataclass(frozen=True)
class Draft:
    """What is drafted from a table.

    Attributes:
        columns: guesses, in the order of the table.
        data: path of the table, or `sql:` and a connection string.
        query: of a database.
        public: names of columns whose values somebody says to be public, as they occur.
        simulation: whether everything is to be answered by the records themselves.
    """

    columns: Sequence[Guess]
    data: str
    query: str | None = None
    public: Collection[str] = ()
    simulation: bool = False

    def asked(self) -> list[Guess]:
        """Columns with a question."""
        return [one for one in self.columns if one.seen and not self._answered(one)]

    def tables(self) -> str:
        """`[columns]`, a line each."""
        lines = [self._line(one) for one in self.columns]
        width = max((len(line) for line, _ in lines if len(line) < _WIDE), default=0)
        said = (f"{line:<{width}}   # {why}" if why else line for line, why in lines)
        return "\n".join(["[columns]", *said]) + "\n"

    def study(self, file: str, *, apart: str | None = None) -> str:
        """The study.

        Args:
            file: that it will be in.
            apart: file of `[columns]`, where they lie in a file of their own.
        """
        steps = (_SIMULATED if self.simulation else _ASKED).format(file=file)
        source = "cells" if self.simulation else "names of columns and the kinds of cells"
        told = _HEAD.format(source=source, steps=steps)
        beside = "" if apart is None else f"columns = {in_line(apart)}\n\n"
        return told + beside + self._federation() + _STUDY + ("" if apart else f"\n{self.tables()}")

    def owner(self, client: str, file: str) -> str:
        """The file of an owner, beside whose folder `columns.toml` lies."""
        data = in_line(f"{client}.csv")
        return _OWNER.format(
            client=in_line(client), file=file, data_set=in_line(f"records of {client}"), data=data,
            models=in_line(self.models),
        )  # fmt: skip

    @property
    def models(self) -> list[str]:
        """The linear models that fit the label; how many classes it has is still a question."""
        label = next(one.asked for one in self.columns if one.stated.get("role") == "label")
        return ["logistic", "softmax"] if "classes" in label else ["linear"]

    def _answered(self, one: Guess) -> bool:
        return self.simulation or (one.of_values and one.name in self.public)

    def _line(self, one: Guess) -> tuple[str, str]:
        keys = one.answered if self._answered(one) else one.asked
        return f"{in_key(one.name)} = {in_line(keys)}", one.why

    def _federation(self) -> str:
        lines = ["[federation]", f"data = {in_line(self.data)}"]
        if self.query is not None:
            lines.append(f"query = {in_line(self.query)}")
        if self.simulation:
            lines.append("simulation = true               # columns are as the records themselves have them")
        if not any(one.stated.get("role") == "client" for one in self.columns):
            lines += [
                "clients = 5                     # no column says whose each record is: they are dealt out",
                'partition = "iid"',
            ]
        return "\n".join(lines) + "\n"


_WIDE = 90


def pasted(one: Guess) -> str:
    """A column as its own cells would answer for it: a line of `[columns]`, for the owner's eyes alone."""
    return f"{in_key(one.name)} = {in_line(one.answered)}"
