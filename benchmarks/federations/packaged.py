"""Tables that come inside the packages scikit-learn, statsmodels and river.

Left out for want of records (fewer than some 200 teach nothing under privacy): wine, iris, linnerud, and of
statsmodels ccard, committee, copper, cpunish, china_smoking, danish_data, heart, longley, nile, scotland,
spector, stackloss, statecrime, strikes and the series of macrodata and fertility.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pandas as pd

from federations.source import OWNER, Source, as_raw
from federations.stated import Columns, amount, category, classes, number, rooted, task

Frame = pd.DataFrame
UCI, PUBLIC = "CC BY 4.0", "public domain"


def sklearn(name: str, **settings: Any) -> Frame:
    """A table of scikit-learn with its target as `target`."""
    return getattr(import_module("sklearn.datasets"), f"load_{name}")(as_frame=True, **settings).frame


def statsmodels(name: str) -> Frame:
    """A table of statsmodels."""
    return import_module(f"statsmodels.datasets.{name}").load_pandas().data


def river(file: str) -> Frame:
    """A table of river, of the files inside its package."""
    return pd.read_csv(_of_river(file))


def _of_river(file: str) -> Path:
    spec = find_spec("river")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError("river is not installed; pip install 'noiseworthy[benchmarks]'")
    return Path(spec.submodule_search_locations[0]) / "datasets" / file


# scikit-learn -----------------------------------------------------------------------------------------

_CELLS = {
    "radius": (40, 3, 50), "texture": (50, 5, 60), "perimeter": (250, 25, 300), "area": (3000, 600, 5000),
    "smoothness": (0.3, 0.05, 0.3), "compactness": (0.5, 0.2, 1.5), "concavity": (0.5, 0.5, 1.5),
    "concave points": (0.3, 0.1, 0.4), "symmetry": (0.5, 0.1, 0.8), "fractal dimension": (0.2, 0.05, 0.3),
}  # fmt: skip
"""Largest mean, error and worst value of each measure of a nucleus."""
BREAST = {
    f"{prefix}{name}{suffix}": number(0, tops[place])
    for place, (prefix, suffix) in enumerate((("mean ", ""), ("", " error"), ("worst ", "")))
    for name, tops in _CELLS.items()
}
DIABETES = {
    "age": number(0, 100), "sex": category(1, 2), "bmi": number(15, 50), "bp": number(50, 150),
    "s1": number(100, 300), "s2": number(0, 250), "s3": number(0, 100), "s4": number(1, 10),
    "s5": number(3, 7), "s6": number(50, 150),
}  # fmt: skip


def diabetes() -> Frame:
    frame = sklearn("diabetes", scaled=False)
    return frame.assign(progressed=(frame["target"] > 140).astype(int))


# statsmodels ------------------------------------------------------------------------------------------

ANES = {
    "popul": rooted(10_000), "TVnews": number(0, 7), "selfLR": number(1, 7), "ClinLR": number(1, 7),
    "DoleLR": number(1, 7), "PID": number(0, 6), "age": number(18, 100), "educ": number(1, 7),
    "income": number(1, 24),
}  # fmt: skip
FAIR = {
    "rate_marriage": number(1, 5), "age": number(15, 60), "yrs_married": number(0, 40),
    "children": number(0, 10), "religious": number(1, 4), "educ": number(8, 20),
    "occupation": category(*range(1, 7)), "occupation_husb": category(*range(1, 7)),
}  # fmt: skip
RAND = {
    "lncoins": number(0, 5), "idp": number(0, 1), "lpi": number(0, 10), "fmde": number(0, 10),
    "physlm": number(0, 1), "disea": number(0, 60), "hlthg": number(0, 1), "hlthf": number(0, 1),
    "hlthp": number(0, 1),
}  # fmt: skip
MODE = {
    "mode": category(1, 2, 3, 4), "ttme": number(0, 100), "invc": number(0, 200), "invt": number(0, 1500),
    "gc": number(0, 300), "hinc": number(0, 100), "psize": number(1, 6),
}  # fmt: skip
STAR = {
    **dict.fromkeys(("LOWINC", "PERASIAN", "PERBLACK", "PERHISP", "PERMINTE"), number(0, 100)),
    "AVYRSEXP": number(0, 30), "AVSALK": number(30, 100), "PERSPENK": number(0, 10),
    "PTRATIO": number(10, 40),
    **dict.fromkeys(("PCTAF", "PCTCHRT", "PCTYRRND"), number(0, 100)),
}  # fmt: skip
HEALTHS = ("excellent", "good", "fair", "poor")


def fair() -> Frame:
    frame = statsmodels("fair").astype({"occupation": int, "occupation_husb": int, "rate_marriage": int})
    return frame.assign(affair=(frame["affairs"] > 0).astype(int))


def randhie() -> Frame:
    """Visits to a doctor, yes or no as well, and health in words."""
    frame = statsmodels("randhie")
    place = (frame[["hlthg", "hlthf", "hlthp"]] > 0).to_numpy() @ np.array([1, 2, 3])
    return frame.assign(visited=(frame["mdvis"] > 0).astype(int), health=np.array(HEALTHS)[place])


def star98() -> Frame:
    """School districts with the share of pupils above the national median in mathematics, in per cent."""
    frame = statsmodels("star98")
    return frame.assign(above=100 * frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"]))


def grunfeld() -> Frame:
    frame = statsmodels("grunfeld")
    return frame.assign(**{OWNER: frame["firm"]})


def elnino() -> Frame:
    """Sea surface temperatures: the next month's from this and the last one's; the owner is the decade."""
    months = statsmodels("elnino").set_index("YEAR").stack()
    years = months.index.get_level_values(0)
    frame = pd.DataFrame({"now": months.to_numpy(), "month": np.tile(np.arange(1, 13), len(months) // 12)})
    frame = frame.assign(before=frame["now"].shift(1), next=frame["now"].shift(-1))
    return frame.assign(**{OWNER: (years.to_numpy() // 5 * 5).astype(int).astype(str)}).iloc[1:-1]


def co2() -> Frame:
    """Carbon dioxide in the air of Mauna Loa by date; the owner is the year."""
    series = statsmodels("co2")["co2"].dropna()
    when = pd.DatetimeIndex(series.index)
    columns = {"year": when.year + (when.day_of_year - 1) / 366, "month": when.month}
    return pd.DataFrame({**columns, "co2": series.to_numpy(), OWNER: when.year.astype(str)})


def sunspots() -> Frame:
    """Yearly sunspots from those of earlier years."""
    frame = statsmodels("sunspots")
    lags = {f"{lag} years ago": frame["SUNACTIVITY"].shift(lag) for lag in (1, 2, 9, 10, 11)}
    return pd.DataFrame({**lags, "spots": frame["SUNACTIVITY"]}).dropna()


# river ------------------------------------------------------------------------------------------------

SEGMENTS = ("brickface", "sky", "foliage", "cement", "window", "path", "grass")
SEGMENT = {
    "region-centroid-col": number(0, 255), "region-centroid-row": number(0, 255),
    "short-line-density-5": number(0, 1), "short-line-density-2": number(0, 1),
    "vedge-mean": number(0, 50), "vegde-sd": rooted(1500), "hedge-mean": number(0, 50),
    "hedge-sd": rooted(1500), "intensity-mean": number(0, 255), "rawred-mean": number(0, 255),
    "rawblue-mean": number(0, 255), "rawgreen-mean": number(0, 255), "exred-mean": number(-255, 255),
    "exblue-mean": number(-255, 255), "exgreen-mean": number(-255, 255), "value-mean": number(0, 255),
    "saturation-mean": number(0, 1), "hue-mean": number(-3.2, 3.2),
}  # fmt: skip
PHISHING = (
    "empty_server_form_handler", "popup_window", "https", "request_from_other_domain",
    "anchor_from_other_domain", "is_popular", "long_url", "age_of_domain", "ip_in_url",
)  # fmt: skip
SHUTTLE = {
    "f1": number(0, 150), "f2": number(-5000, 5000), "f3": number(0, 150), "f4": number(-5000, 5000),
    "f5": number(-500, 500), "f6": number(-30_000, 30_000), "f7": number(-150, 150),
    "f8": number(-500, 500), "f9": number(-500, 500),
}  # fmt: skip
ZURICH = ("A", "B", "C", "D", "E", "F", "H")
SOLAR = {
    "zurich-class": category(*ZURICH), "largest-spot-size": category(*"XRSAHK"),
    "spot-distribution": category(*"XOIC"), "activity": category(1, 2), "evolution": category(1, 2, 3),
    "previous-24h-flare-activity": category(1, 2, 3), "hist-complex": category(1, 2),
    "hist-complex-this-pass": category(1, 2), "area": category(1, 2),
    "largest-spot-area": category(1, 2),
}  # fmt: skip
YEAST = {f"Att{place}": number(-1, 1) for place in range(1, 104)}
POLLS = ("gallup", "ipsos", "morning_consult", "rasmussen", "you_gov")
STOCKS = ("AAPL", "AMZN", "IBM", "INTC", "JNJ", "KO", "MSFT", "WMT", "XOM")
NATURAL = ("sky", "foliage", "grass")


def banana() -> Frame:
    """Two features, written as `label 1:a 2:b`."""
    with ZipFile(_of_river("banana.zip")).open("banana.all.txt") as file:
        frame = pd.read_csv(file, header=None, names=["banana", "x1", "x2"], sep=r"\s+[12]:", engine="python")
    return frame.astype({"banana": int})


def solar() -> Frame:
    """Active regions of the sun, with whether a flare of class C followed within a day."""
    frame = river("solar-flare.csv.zip")
    return frame.assign(flares=(frame["c-class-flares"] > 0).astype(int))


def yeast() -> Frame:
    """Genes, with how many functions each has; a function is a column of 0 and 1."""
    frame = river("yeast.csv.gz")
    functions = frame.filter(regex="^Class").sum(axis="columns").rename("functions")
    return pd.concat([frame, functions], axis="columns")


def segment() -> Frame:
    frame = river("segment.csv.zip")
    return frame.assign(grows=frame["category"].isin(NATURAL).astype(int))


def trump() -> Frame:
    """Approval by day; the owner is the month."""
    frame = river("trump_approval.csv.gz")
    return frame.assign(**{OWNER: (frame["ordinal_date"] // 30).astype(str)})


def chicks() -> Frame:
    frame = river("chick-weights.csv")
    return frame.assign(**{OWNER: frame["chick"].astype(str)})


def water() -> Frame:
    """Flow of water by the hour, from the hour before and the day before."""
    frame = river("water-flow.csv")
    flow = frame["Water flow [l/s]"]
    hour = pd.to_datetime(frame["Time"], utc=True).dt.hour
    return pd.DataFrame(
        {"hour": hour, "before": flow.shift(1), "yesterday": flow.shift(24), "flow": flow}
    ).dropna()


def sp500() -> Frame:
    """Daily returns of nine shares in per cent, and whether a tenth one, a bank, rose that day."""
    frame = river("sp500.csv.gz")
    return frame.assign(rose=(frame["JPM"] > 0).astype(int))


_Row = tuple[str, str, Callable[[], Frame], Columns, str, str]
"""Name, parent, reader, columns, origin, licence."""
_BREAST = ("UCI Breast Cancer Wisconsin (Diagnostic)", UCI)
_DIABETES = ("Efron et al. (2004), Least angle regression", "with scikit-learn, BSD-3-Clause")
SKLEARN: tuple[_Row, ...] = (
    ("breast-cancer", "breast-cancer", partial(sklearn, "breast_cancer"),
     task(BREAST, "target", classes(0, 1)), *_BREAST),
    ("breast-symmetry", "breast-cancer", partial(sklearn, "breast_cancer"),
     task({name: one for name, one in BREAST.items() if name != "symmetry error"},
          "symmetry error", amount(0, 0.1)), *_BREAST),
    ("diabetes", "diabetes", diabetes, task(DIABETES, "progressed", classes(0, 1)), *_DIABETES),
    ("diabetes-progression", "diabetes", diabetes, task(DIABETES, "target", amount(0, 400)), *_DIABETES),
)  # fmt: skip
_ANES = ("American National Election Studies, 1996", PUBLIC)
_FAIR = ("R. Fair, A Theory of Extramarital Affairs, 1978", "with permission of the author")
_RAND = ("RAND Health Insurance Experiment", PUBLIC)
STATSMODELS: tuple[_Row, ...] = (
    ("anes-vote", "anes", partial(statsmodels, "anes96"), task(ANES, "vote", classes(0, 1)), *_ANES),
    ("anes-party", "anes", partial(statsmodels, "anes96"), task(ANES, "PID", classes(*range(7))), *_ANES),
    ("fair-affair", "fair", fair, task(FAIR, "affair", classes(0, 1)), *_FAIR),
    ("fair-count", "fair", fair, task(FAIR, "affairs", amount(0, 100)), *_FAIR),
    ("fair-marriage", "fair", fair,
     task({**FAIR, "affairs": rooted(100)}, "rate_marriage", classes(*range(1, 6))), *_FAIR),
    ("fair-occupation", "fair", fair, task(FAIR, "occupation", classes(*range(1, 7))), *_FAIR),
    ("randhie-visit", "randhie", randhie, task(RAND, "visited", classes(0, 1)), *_RAND),
    ("randhie-visits", "randhie", randhie, task(RAND, "mdvis", amount(0, 100)), *_RAND),
    ("randhie-health", "randhie", randhie,
     task({**RAND, "mdvis": rooted(100)}, "health", classes(*HEALTHS), "hlthg", "hlthf", "hlthp"), *_RAND),
    ("modechoice", "modechoice", partial(statsmodels, "modechoice"), task(MODE, "choice", classes(0, 1)),
     "Greene & Hensher, travel between Sydney and Melbourne", PUBLIC),
    ("modechoice-income", "modechoice", partial(statsmodels, "modechoice"),
     task({name: one for name, one in MODE.items() if name != "hinc"} | {"choice": number(0, 1)},
          "hinc", amount(0, 100)),
     "Greene & Hensher, travel between Sydney and Melbourne", PUBLIC),
    ("star98", "star98", star98, task(STAR, "above", amount(0, 100)),
     "J. Gill, Generalized Linear Models", "with permission of the author"),
    ("engel", "engel", partial(statsmodels, "engel"), {"income": number(0, 5000), "foodexp": amount(0, 2500)},
     "Engel, as Koenker & Bassett have it", PUBLIC),
    ("grunfeld", "grunfeld", grunfeld,
     {"value": rooted(10_000), "capital": rooted(3000), "year": number(1935, 1954),
      "invest": amount(0, 1500)},
     "Grunfeld, as Kleiber & Zeileis have it", PUBLIC),
    ("elnino", "elnino", elnino,
     {"now": number(15, 30), "before": number(15, 30), "month": category(*range(1, 13)),
      "next": amount(15, 30)},
     "NOAA, ERSST.V3B, Nino 1+2", PUBLIC),
    ("co2", "co2", co2,
     {"year": number(1950, 2010), "month": category(*range(1, 13)), "co2": amount(300, 400)},
     "Keeling & Whorf, CDIAC", PUBLIC),
    ("sunspots", "sunspots", sunspots,
     {**{f"{lag} years ago": number(0, 250) for lag in (1, 2, 9, 10, 11)}, "spots": amount(0, 250)},
     "NOAA, National Geophysical Data Center", PUBLIC),
    ("cancer", "cancer", partial(statsmodels, "cancer"),
     {"population": rooted(100_000), "cancer": amount(0, 400)},
     "Rice, Mathematical Statistics and Data Analysis", "not stated"),
)  # fmt: skip
_SEGMENT = ("UCI Image Segmentation (Vision Group, University of Massachusetts)", UCI)
_SOLAR = ("UCI Solar Flare (Bradshaw)", UCI)
_YEAST = ("Elisseeff & Weston, as MULAN has it", "not stated")
_CHICKS = ("Crowder & Hand, Analysis of Repeated Measures", "not stated")
RIVER: tuple[_Row, ...] = (
    ("banana", "banana", banana,
     {"x1": number(-4, 4), "x2": number(-4, 4), "banana": classes(-1, 1)},
     "OpenML 1460, artificial", "not stated"),
    ("phishing", "phishing", partial(river, "phishing.csv.gz"),
     {**dict.fromkeys(PHISHING, number(0, 1)), "is_phishing": classes(0, 1)},
     "UCI Website Phishing (Abdelhamid)", UCI),
    ("segment", "segment", segment, task(SEGMENT, "category", classes(*SEGMENTS)), *_SEGMENT),
    ("segment-grows", "segment", segment, task(SEGMENT, "grows", classes(0, 1)), *_SEGMENT),
    ("shuttle", "shuttle", partial(river, "shuttle.csv.gz"), task(SHUTTLE, "anomaly", classes(0, 1)),
     "NASA, UCI Statlog (Shuttle), as ODDS has it", UCI),
    ("solar-flare", "solar-flare", solar, task(SOLAR, "flares", classes(0, 1)), *_SOLAR),
    ("solar-count", "solar-flare", solar, task(SOLAR, "c-class-flares", amount(0, 10)), *_SOLAR),
    ("solar-class", "solar-flare", solar,
     task({**SOLAR, "c-class-flares": rooted(10)}, "zurich-class", classes(*ZURICH[1:])), *_SOLAR),
    ("yeast-second", "yeast", yeast, task(YEAST, "Class2", classes(0, 1)), *_YEAST),
    ("yeast-ninth", "yeast", yeast, task(YEAST, "Class9", classes(0, 1)), *_YEAST),
    ("yeast-functions", "yeast", yeast, task(YEAST, "functions", amount(0, 14)), *_YEAST),
    ("trump-approval", "trump-approval", trump,
     {**dict.fromkeys(POLLS, number(20, 80)), "five_thirty_eight": amount(20, 80)}, "FiveThirtyEight", UCI),
    ("chick-weight", "chicks", chicks,
     {"time": number(0, 25), "diet": category(1, 2, 3, 4), "weight": amount(0, 400)}, *_CHICKS),
    ("chick-diet", "chicks", chicks,
     {"time": number(0, 25), "weight": number(0, 400), "diet": classes(1, 2, 3, 4)}, *_CHICKS),
    ("water-flow", "water-flow", water,
     {"hour": category(*range(24)), "before": number(0, 150), "yesterday": number(0, 150),
      "flow": amount(0, 150)}, "Tecnojest s.r.l.", "not stated"),
    ("sp500", "sp500", sp500, {**dict.fromkeys(STOCKS, number(-10, 10)), "rose": classes(0, 1)},
     "daily returns of shares, 2013 to 2018", "not stated"),
)  # fmt: skip


def _source(needs: str, row: _Row) -> Source:
    name, parent, read, columns, origin, licence = row
    label = next(one for one in columns.values() if one.get("role") == "label")
    n_classes = len(label["classes"]) if "classes" in label else None
    ships = needs != "sklearn" and licence in (UCI, PUBLIC)
    return Source(name, parent, read, columns, n_classes, needs, origin, licence, ships)


STATED = tuple(
    _source(needs, row)
    for needs, rows in (("sklearn", SKLEARN), ("statsmodels", STATSMODELS), ("river", RIVER))
    for row in rows
)
_RAW = (
    "breast-cancer", "diabetes", "anes-vote", "fair-affair", "randhie-visit", "star98", "segment", "shuttle",
)  # fmt: skip
PACKAGED = (*STATED, *(as_raw(one) for one in STATED if one.name in _RAW))
