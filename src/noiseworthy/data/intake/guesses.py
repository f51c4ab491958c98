"""What the columns of a table seem to be, by its header and its cells; what only cells tell stays apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from noiseworthy._tables import MOST
from noiseworthy.data.schema.stated import QUESTION
from noiseworthy.data.schema.values import GAPS, NO, YES, columns_of, days, key, numbers
from noiseworthy.data.thousands import DECIMAL, POINTED, Thousands
from noiseworthy.errors import ConfigError


class Common(NamedTuple):
    """A range that anybody knows, with its unit."""

    least: float
    most: float
    unit: str


_KNOWN: tuple[tuple[str, Common], ...] = (
    ("age|age at .*|age years|alter", Common(0, 110, "years")),
    (".*systolic.*|sbp|trestbps|resting bp|blood pressure|bp", Common(50, 250, "mmHg, systolic")),
    (".*diastolic.*|dbp", Common(30, 150, "mmHg, diastolic")),
    (".*heart rate.*|pulse|pulse rate|thalach|max hr", Common(30, 220, "beats a minute")),
    ("resp.* rate", Common(4, 60, "breaths a minute")),
    ("(body )?temp(erature)?( c)?", Common(30, 45, "degrees Celsius, of a body")),
    ("bmi|body mass index", Common(10, 70, "kg/m^2")),
    ("height( cm)?|body height", Common(50, 230, "cm")),
    ("weight kg|body weight", Common(1, 300, "kg")),
    ("chol|.*cholesterol.*", Common(50, 600, "mg/dl; of mmol/l 1 to 16")),
    ("hdl.*", Common(5, 150, "mg/dl; of mmol/l 0.1 to 4")),
    ("ldl.*", Common(10, 400, "mg/dl; of mmol/l 0.3 to 10")),
    ("triglycerides?", Common(20, 2000, "mg/dl; of mmol/l 0.2 to 23")),
    ("glucose|blood sugar", Common(20, 600, "mg/dl; of mmol/l 1 to 33")),
    ("hba1c", Common(3, 20, "%")),
    ("creatinine", Common(0.1, 20, "mg/dl; of umol/l 10 to 1800")),
    ("h(a)?emoglobin|hgb|hb", Common(3, 25, "g/dl")),
    ("(serum )?sodium", Common(100, 180, "mmol/l")),
    ("(serum )?potassium", Common(1.5, 9, "mmol/l")),
    ("platelets?|plt", Common(1, 1500, "10^9/l")),
    ("wbc|leu[ck]ocytes", Common(0.1, 200, "10^9/l")),
    ("spo2|oxygen saturation|o2 sat", Common(50, 100, "%")),
    ("apgar.*", Common(0, 10, "points")),
    (".*percent(age)?.*|.* pct|pct", Common(0, 100, "%")),
    ("prob(ability)?|.* prob(ability)?|share|fraction", Common(0, 1, "a share")),
    ("(birth )?year|year of .*|yob", Common(1900, 2050, "calendar years")),
    ("month", Common(1, 12, "months")),
    ("weekday|day of week", Common(0, 7, "days")),
    ("day( of month)?", Common(1, 31, "days")),
    ("hour( of day)?", Common(0, 24, "hours")),
    ("hours (per|a) week", Common(0, 168, "hours of a week")),
    ("lat(itude)?", Common(-90, 90, "degrees")),
    ("lon(gitude)?|lng", Common(-180, 180, "degrees")),
    ("fico( score)?|credit score", Common(300, 850, "points")),
    ("(pixel|grey|gray|red|green|blue)( .*)?", Common(0, 255, "levels of a byte")),
)  # fmt: skip


def common_range(name: str) -> Common | None:
    """The range of a column that is common knowledge; None where none is known by this name.

    Example:
        >>> common_range("Age_at_visit"), common_range("BMI").unit, common_range("oldpeak")
        (Common(least=0, most=110, unit='years'), 'kg/m^2', None)
    """
    words = " ".join(re.findall(r"[a-z]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    spelt = words, words.replace(" ", "")
    return next((known for form, known in _KNOWN for one in spelt if re.fullmatch(form, one)), None)


_LABELS = ("label", "target", "outcome", "diagnosis", "class", "y", "response")
_CLIENTS = ("client", "owner", "site", "hospital", "clinic", "center", "centre", "institution", "bank",
            "school", "ward", "branch", "device", "sensor")  # fmt: skip
_CODES = ("?", "-", "--", ".", "*", "missing")
"""Texts that stand for a gap where they are among numbers, or among few other values."""
_IDENTIFIER = re.compile(
    r"(^|[^a-z])(id|ids|nr|no|mrn|index|key|uuid|name|ticket|record|row|plz)([^a-z]|$)|nummer([^a-z]|$)"
    r"|(patient|person|subject|case|user|customer|sample|record)id$|^(patient|person|participant|customer|pseudonym)s?$|^fall(nr|id)?$"
)
_AMOUNT = re.compile(r"^(num|n|no of|nr of|number|count)[_ .-]|[_ .-](count|number)$")
_NAMELESS = "Unnamed: 0"
"""What pandas calls a first column without a name."""
_STRANGE = "; some cells are no {}: mend them, or list them, missing = true and gaps = [...]"
_FORMS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d.%m.%y")
_MOST_CODES, _MOST_VALUES = 6, 60
_WITHIN, _SPREAD = 0.8, 0.02
"""Share of the values that a range must hold, and of the range that they must take, to be of one unit."""
_NUMBERS, _COUNTED = 0.9, 10
"""Share of the cells of a column of numbers or dates that are some; records of which a count is no chance."""


@dataclass(frozen=True)
class Guess:
    """What a column seems to be.

    Attributes:
        name: of the column.
        stated: its keys as in `[columns]`, as far as header, common knowledge and kind of its cells go.
        seen: the keys that are left to answer, as the cells would answer them: private, and never written
            unless somebody says that they are public.
        why: a comment for whoever fills in.
        last: more of its keys, of gaps.
    """

    name: str
    stated: dict[str, Any]
    seen: dict[str, Any] = field(default_factory=dict)
    why: str = ""
    last: dict[str, Any] = field(default_factory=dict)

    @property
    def asked(self) -> dict[str, Any]:
        """Its keys, with questions where only the cells have an answer."""
        return self.stated | dict.fromkeys(self.seen, QUESTION) | self.last

    @property
    def answered(self) -> dict[str, Any]:
        """Its keys with the cells' own answers."""
        return self.stated | self.seen | self.last

    @property
    def of_values(self) -> bool:
        """Whether it is answered by a list of values, which a code book has, and not by a range."""
        return bool({"values", "classes"} & self.seen.keys())


def guesses(table: Mapping[str, NDArray], label: str | None, client: str | None) -> list[Guess]:
    """A guess for every column of a table, in its order.

    Args:
        table: cells by column, shape (n,), each by itself.
        label: the column to predict; None takes the one that is called as labels often are.
        client: the column of owners; None takes the one that is called so, if any is.

    Raises:
        ConfigError: columns that the table does not have, no column that is called like a label, or a table
            without records.
    """
    label = _role("--label", label, _LABELS, table, client)
    client = _role("--client", client, _CLIENTS, table, label)
    if label is None:
        raise ConfigError(f"say which column is to be predicted: --label COLUMN, one of {', '.join(table)}")
    if label == client:
        raise ConfigError(f"--label and --client must be two columns, got {label!r} for both")
    if not any(values.size for values in table.values()):
        raise ConfigError("the table has names and no records, which tell init what columns are: add some")
    return [_guess(name, values, label, client) for name, values in columns_of(table).items()]


def _role(
    option: str, stated: str | None, usual: Sequence[str], names: Mapping[str, Any], other: str | None
) -> str | None:
    if stated is None:
        return next((one for known in usual for one in names if one.lower() == known and one != other), None)
    if stated not in names:
        raise ConfigError(
            f"{option} must be a column of the table, got {stated!r}; it has {', '.join(names)}; of a csv or "
            "an .xlsx these are the first row, of the first sheet"
        )
    return stated


def _guess(name: str, values: NDArray, label: str, client: str | None) -> Guess:
    if values.ndim != 1:
        raise ConfigError(f"column {name!r} must hold one value per record, got shape {values.shape}")
    if any(type(cell).__hash__ is None for cell in values.tolist()):
        if name in (label, client):
            raise ConfigError(f"column {name!r} must hold one value per record, and has lists or structures")
        return Guess(name, {"kind": "left-out"}, why="lists or structures, of more than one value per record")
    cells = _Cells.of(values)
    if name == client:
        return Guess(name, {"role": "client"}, why="whose each record is")
    if name == label:
        return _label(name, cells)
    if name.lower() == "split" and set(cells.texts) <= {"train", "test"}:
        return Guess(name, {"role": "split"}, why="train or test")
    found = _feature(name, cells)
    if found.stated["kind"] == "left-out" or not cells.gaps:
        return found
    codes = {"gaps": cells.codes} if cells.codes else {}
    return replace(found, last=codes | {"missing": True})


@dataclass(frozen=True)
class _Cells:
    """The distinct cells of a column as text, how often each occurs, and how many are gaps.

    Numbers with points between thousands are as they are to be written, without. `counting` says that the
    cells are whole numbers which go up by one from record to record; `none` are gaps that are that word.
    """

    texts: Counter[str]
    gaps: int
    codes: list[str]
    thousands: bool
    counting: bool
    none: list[str]

    @classmethod
    def of(cls, values: NDArray) -> _Cells:
        counted: Counter[str] = Counter()
        thousands = False
        for value, times in Counter(values.tolist()).items():
            parted = isinstance(value, Thousands)
            counted[key(value.replace(".", "").replace(",", ".") if parted else value)] += times
            thousands |= parted
        gaps = [text for text in counted if text.lower() in GAPS]
        codes = [text for text in counted if text.lower() in _CODES]
        lost = sum(counted.pop(text) for text in (*gaps, *codes))
        words = [text for text in gaps if text.lower() == "none"]
        return cls(counted, lost, codes, thousands, _counts(values), words)

    @property
    def among_numbers(self) -> bool:
        return bool(self._read) and self.mostly(np.array([text in self._read for text in self.texts]))

    def mostly(self, some: NDArray[np.bool_]) -> bool:
        """Whether some of the distinct texts are so many of the cells that the others may be mistakes."""
        return int(np.array([*self.texts.values()])[some].sum()) >= _NUMBERS * self.texts.total()

    @cached_property
    def days(self) -> dict[str | None, NDArray[np.float64]]:
        """The distinct texts as days, by the form that they are read in."""
        texts = np.array([*self.texts], object)
        return {form: days(texts, form) for form in (None, *_FORMS)}

    @property
    def strange(self) -> bool:
        """Whether some are no numbers that a range may hold."""
        return len(self._read) < len(self.texts)

    @property
    def numbers(self) -> NDArray[np.float64]:
        """Those that are some."""
        return np.array([*self._read.values()])

    @cached_property
    def _read(self) -> dict[str, float]:
        found = numbers(np.array([*self.texts], object)).tolist()
        return {text: number for text, number in zip(self.texts, found, strict=True) if abs(number) <= MOST}

    @property
    def whole(self) -> bool:
        return all(re.fullmatch(r"[+-]?\d+", text) for text in self._read)

    @property
    def several(self) -> bool:
        """Whether few values occur often."""
        return len(self.texts) <= min(_MOST_VALUES, max(2, self.texts.total() // 2))

    @property
    def in_order(self) -> list[str] | list[int]:
        if self.strange:
            return sorted(self.texts)
        if self.whole and all(text == str(int(text)) for text in self.texts):
            return sorted(map(int, self.texts))
        return sorted(self.texts, key=float)

    @property
    def ends(self) -> list[float]:
        """A range around the numbers, in two digits of its width."""
        least, most = float(self.numbers.min()), float(self.numbers.max())
        step = 10.0 ** np.floor(np.log10(max(most - least, 1e-9)) - 1)
        down, up = np.floor(least / step) * step, np.ceil(most / step) * step
        low, high = round(float(down), 9), round(float(up), 9)
        return [_plain(low), _plain(high if high > low else low + 1)]


def _counts(values: NDArray) -> bool:
    found = numbers(values)
    if len(found) < _COUNTED or not np.isfinite(found).all():
        return False
    return float(found[0]).is_integer() and bool(np.all(np.diff(found) == 1))


def _label(name: str, cells: _Cells) -> Guess:
    many = not cells.whole or len(cells.texts) > 2 * _MOST_CODES
    amount = cells.among_numbers and (many or cells.thousands)
    if not amount:
        several = len(cells.texts) > 2
        why = "all classes, in their order" + ("; or { no = [0], yes = [1, 2] } of several values" * several)
        why += "; none is one where it stands among them, else a gap" * bool(cells.none)
        # beside words it is a class, beside numbers what Python writes of a gap
        classes = sorted([*cells.texts, *cells.none]) if cells.strange else cells.in_order
        return Guess(name, {"role": "label"}, {"classes": classes}, why + _hint(cells) * cells.strange)
    if (known := _common(name, cells)) is not None:
        return Guess(name, {"role": "label", "range": [known.least, known.most]}, why=_confirm(known, cells))
    why = "least and most that it can be; clipped to it"
    return Guess(name, {"role": "label"}, {"range": cells.ends}, why + _to_mend(cells))


def _feature(name: str, cells: _Cells) -> Guess:
    if not cells.texts:
        return Guess(name, {"kind": "left-out"}, why="empty in this table")
    known = {text.lower() for text in cells.texts}
    if known <= YES | NO and not (len(known) == 1 and known <= {*"fnty"}):
        return Guess(name, {"kind": "yes-no"})
    if why := _identity(name, cells):
        return Guess(name, {"kind": "left-out"}, why=why)
    if cells.among_numbers:
        return _number(name, cells)
    if (found := _date(name, cells)) is not None:
        return found
    if not cells.several:
        why = f"free text, or almost as many values as rows{_hint(cells)}"
        return Guess(name, {"kind": "left-out"}, why=why)
    why = f"all values, as the code book lists them{_hint(cells)}"
    return Guess(name, {"kind": "category"}, {"values": cells.in_order}, why)


def _hint(cells: _Cells) -> str:
    """How cells of text would be written to be days or numbers, where they seem to be meant so."""
    if not cells.among_numbers and cells.mostly(~np.isnan(numbers(np.array([*cells.texts], object)))):
        return f"; of numbers beyond {MOST:g}, write them in a larger unit"
    if cells.mostly(np.any(np.isfinite([*cells.days.values()]), axis=0)):
        return "; of dates, write all in one form, such as 2024-12-31"
    pointed = np.array([bool(DECIMAL.fullmatch(text)) or text.isdecimal() for text in cells.texts])
    if not cells.among_numbers and cells.mostly(pointed):
        return f"; of numbers, {POINTED}"
    digits = sum(text.lstrip("<>~ ")[0].isdigit() for text in cells.texts if text.strip("<>~ "))
    return "; of amounts, write numbers without units and signs" * (digits > _NUMBERS * len(cells.texts))


def _identity(name: str, cells: _Cells) -> str:
    """Why a column seems to tell which record one is, and no more; empty where it does not."""
    if name == _NAMELESS:
        return "a first column without a name, as numbers of rows have"
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()
    if not cells.several and _IDENTIFIER.search(spaced):
        again = max(cells.texts.values()) > 1
        return "an identifier: tells nothing of other records" + '; of persons, role = "person"' * again
    if cells.counting and common_range(name) is None:
        return "counts the records: the number of a row tells nothing of other records"
    return ""


def _number(name: str, cells: _Cells) -> Guess:
    if (known := _common(name, cells)) is not None:
        return Guess(name, {"kind": "number", "range": [known.least, known.most]}, why=_confirm(known, cells))
    few = cells.whole and len(cells.texts) <= _MOST_CODES and cells.several and not cells.thousands
    if few and not _AMOUNT.search(name.lower()):
        why = 'all codes; of amounts, kind = "number" and range = [least, most]'
        return Guess(name, {"kind": "category"}, {"values": cells.in_order}, why)
    why = "least and most that it can be, from public sources"
    return Guess(name, {"kind": "number"}, {"range": cells.ends}, why + _to_mend(cells))


def _to_mend(cells: _Cells) -> str:
    """What is to be done about cells of a column of numbers that are none."""
    thousands = "; write its numbers without points between thousands; codes are a category"
    return _STRANGE.format("numbers") * cells.strange + thousands * cells.thousands


def _date(name: str, cells: _Cells) -> Guess | None:
    known = {form: ~np.isnan(found) for form, found in cells.days.items()}
    most = max(int(some.sum()) for some in known.values())
    read = [form for form, some in known.items() if some.sum() == most]
    if not cells.mostly(known[read[0]]):
        return None
    found = cells.days[read[0]]
    first, last = int(np.nanmin(found)), int(np.nanmax(found))
    ends = [date.fromordinal(day).isoformat() for day in (first, max(last, first + 1))]
    form = {} if read[0] is None else {"format": read[0]}
    stated, seen = {"kind": "date"} | form, {"range": ends}
    why = "first and last day that it can be, from the design of the study"
    if len(read) > 1:
        why = f"{why}; format may be {' or '.join(map(str, read))}"
    if read[0] == "%d.%m.%y":
        why = f"{why}; years from 69 on are 19.., others 20.."
    why += _STRANGE.format("dates") * (most < len(found))
    return Guess(name, stated, seen, why)


def _common(name: str, cells: _Cells) -> Common | None:
    """The range that is common knowledge, where the numbers look as if they were in its unit."""
    known = common_range(name)
    if known is None:
        return None
    within = (cells.numbers >= known.least) & (cells.numbers <= known.most)
    spread = np.ptp(cells.numbers) / (known.most - known.least)
    return known if within.mean() > _WITHIN and spread > _SPREAD else None


def _confirm(known: Common, cells: _Cells) -> str:
    return f"{known.unit}: common knowledge, to be confirmed{_to_mend(cells)}"


def _plain(number: float) -> float:
    return int(number) if number.is_integer() else number
