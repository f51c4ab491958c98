"""Tables of the data folder (NOISEWORTHY_DATA), never copied into this repository."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from federations.source import OWNER, Source, as_raw
from federations.stated import Columns, amount, category, classes, number, rooted, task, yes_no
from noiseworthy.data import published
from noiseworthy.data.datasets import required_folder
from noiseworthy.data.files import read_npz
from noiseworthy.data.published import readings
from noiseworthy.data.schema import read_schema

Frame = pd.DataFrame

# Adult ------------------------------------------------------------------------------------------------

_CODES = {name: one for name, one in read_schema(str(published.ADULT)).tables().items() if "values" in one}
ADULT = {name: one for name, one in _CODES.items() if one.get("kind") == "category"} | {
    "age": number(0, 100), "capital-gain": rooted(100_000), "capital-loss": rooted(5000),
    "hours-per-week": number(0, 100),
}  # fmt: skip


def adult(owner: str, known: str = "workclass") -> Frame:
    """People of the census of 1994 with `known`; the owner is a column."""
    folder = required_folder("adult", None) / "adult"
    names = [*published._OF_ADULT]
    parts = [
        pd.read_csv(folder / f"adult.{part}.gz", names=names, skipinitialspace=True, comment="|")
        for part in ("data", "test")
    ]
    people = pd.concat(parts, ignore_index=True)
    people["income"] = people["income"].str.rstrip(".")
    people = people[people[known] != "?"]
    return people.assign(**{OWNER: people[owner]})


# Lending Club -----------------------------------------------------------------------------------------

HOMES = ("MORTGAGE", "RENT", "OWN", "OTHER")
PURPOSES = (
    "debt_consolidation", "credit_card", "other", "home_improvement", "major_purchase", "small_business",
    "car", "medical", "wedding", "moving", "house", "vacation",
)  # fmt: skip
LENDING = {
    "loan_amnt": number(0, 40_000), "term": category("36 months", "60 months"),
    "annual_inc": rooted(1_000_000), "dti": number(0, 40), "payment_inc_ratio": number(0, 60),
    "revol_bal": rooted(1_000_000),
    "revol_util": number(0, 150), "purpose": category(*PURPOSES), "home_ownership": category(*HOMES),
    "delinq_2yrs_zero": number(0, 1), "pub_rec_zero": number(0, 1), "open_acc": rooted(100),
    "grade": number(0, 7), "emp_length": number(0, 11),
}  # fmt: skip
_GAPS: dict[str, Any] = {"missing": True}
LENDING_2018 = {
    "emp_length": number(0, 10, **_GAPS), "annual_income": rooted(1_000_000),
    "debt_to_income": number(0, 100, **_GAPS), "delinq_2y": number(0, 10),
    "months_since_last_delinq": number(0, 120, **_GAPS), "earliest_credit_line": number(1950, 2020),
    "inquiries_last_12m": number(0, 30), "total_credit_lines": number(0, 100),
    "open_credit_lines": number(0, 60), "total_credit_limit": rooted(2_000_000),
    "total_credit_utilized": rooted(1_000_000), "num_historical_failed_to_pay": number(0, 10),
    "current_installment_accounts": number(0, 40), "accounts_opened_24m": number(0, 30),
    "months_since_last_credit_inquiry": number(0, 24, **_GAPS), "num_active_debit_accounts": number(0, 40),
    "total_debit_limit": rooted(500_000), "num_total_cc_accounts": number(0, 80),
    "num_open_cc_accounts": number(0, 50), "num_cc_carrying_balance": number(0, 50),
    "num_mort_accounts": number(0, 20), "account_never_delinq_percent": number(0, 100),
    "tax_liens": number(0, 10), "public_record_bankrupt": number(0, 5), "loan_amount": number(0, 40_000),
    "term": category(36, 60), "homeownership": category("MORTGAGE", "RENT", "OWN"),
    "verified_income": category("Source Verified", "Not Verified", "Verified"),
    "application_type": category("individual", "joint"),
    "initial_listing_status": category("whole", "fractional"),
    "disbursement_method": category("Cash", "DirectPay"),
}  # fmt: skip


def lending(owner: str, known: str = "outcome") -> Frame:
    """Finished loans with `known`; the owner is a column."""
    path = required_folder("lending-club", None) / "lending-club" / "lending_club_120k.csv.gz"
    loans = pd.read_csv(path).dropna(subset=[known])
    return loans.assign(**{OWNER: loans[owner].astype(str)})


def lending_2018() -> Frame:
    """Loans of early 2018; the owner is the state."""
    path = required_folder("lending-club-2018", None) / "lending-club" / "lending_club_2018q1_10k.csv.gz"
    loans = pd.read_csv(path)
    return loans.assign(**{OWNER: loans["state"]})


# Hospitals, sensors, schools --------------------------------------------------------------------------

HEART = {
    "age": number(0, 100), "sex": category(0, 1), "cp": category(1, 2, 3, 4),
    "trestbps": number(60, 220, gaps=[0], **_GAPS), "chol": number(100, 600, gaps=[0], **_GAPS),
    "fbs": yes_no(**_GAPS), "restecg": category(0, 1, 2, **_GAPS), "thalach": number(60, 220, **_GAPS),
    "exang": yes_no(**_GAPS), "oldpeak": number(-5, 10, **_GAPS), "slope": category(1, 2, 3, **_GAPS),
    "ca": number(0, 3, **_GAPS), "thal": category(3, 6, 7, **_GAPS),
}  # fmt: skip
VEHICLE = {f"reading {place}": number(-4, 4) for place in range(100)}
SCHOOL = {f"column {place}": number(0, 100 if place in (3, 4) else 1) for place in range(27)}
BANDS = ("lowest", "low", "middle", "high", "highest")
SCORES = (10, 15, 20, 30)
"""Scores, of 70, at which bands begin."""


def heart() -> Frame:
    path = required_folder("heart-disease", None) / "heart-disease" / "heart_disease_4sites.csv.gz"
    patients = pd.read_csv(path)
    return patients.assign(**{"ill": (patients["num"] > 0).astype(int), OWNER: patients["site"]})


def vehicle() -> Frame:
    found = readings(required_folder("vehicle", None))
    frame = pd.DataFrame(found.x.astype(float), columns=[*VEHICLE])
    return frame.assign(**{"vehicle": found.y, OWNER: found.sensor.astype(str)})


def school() -> Frame:
    arrays = read_npz(required_folder("school", None) / "school" / "school.npz")
    frame = pd.DataFrame(arrays["X"][:, :27].astype(float), columns=[*SCHOOL])
    band = np.array(BANDS)[np.digitize(arrays["y"], SCORES)]
    return frame.assign(
        **{"score": arrays["y"].astype(float), "band": band, OWNER: arrays["school"].astype(str)}
    )


# Shakespeare ------------------------------------------------------------------------------------------

LETTERS = "abcdefghijklmnopqrstuvwxyz"
_BESIDE = ("two before", "before", "after", "two after")


def letters() -> Frame:
    """Letters of what speakers say, each with its neighbours; the owner is the speaker."""
    path = required_folder("shakespeare", None) / "shakespeare" / "speeches.csv.gz"
    speeches = pd.read_csv(path, keep_default_na=False)
    said = speeches.groupby("speaker")["text"].agg(" ".join).str.lower()
    said = said.str.replace(r"[^a-z]+", "_", regex=True).loc[lambda text: text.str.len() >= 1000]
    return pd.concat([_windows(who, text) for who, text in said.items()], ignore_index=True)


def _windows(who: Any, text: str) -> Frame:
    """Every fifth letter of a speaker's first 2,000 characters."""
    places = [place for place in range(2, min(len(text), 2000) - 2, 5) if text[place] != "_"]
    beside = {name: [text[place + away] for place in places]
              for name, away in zip(_BESIDE, (-2, -1, 1, 2), strict=True)}  # fmt: skip
    return pd.DataFrame({**beside, "letter": [text[place] for place in places], OWNER: str(who)})


_ADULT = ("Becker & Kohavi (1996), UCI Adult", "CC BY 4.0")
_LENDING = ("Lending Club, finished loans", "public loan data")
_QUARTER = ("Lending Club, early 2018, OpenIntro", "CC BY-SA 3.0")
_HEART = ("Janosi et al. (1989), UCI Heart Disease", "CC BY 4.0")
_SCHOOL = ("Inner London Education Authority 1985 to 1987, MALSAR", "not stated")
_EDUCATION = _CODES["education"]["values"]
_JOBS = [job for job in _CODES["occupation"]["values"] if job != "?"]
_2018 = LENDING_2018 | {
    "loan_purpose": category(*(one for one in PURPOSES if one != "wedding"), "renewable_energy")
}
_ROWS: tuple[tuple[str, str, Any, Columns, str, str], ...] = (
    ("adult-income", "adult", partial(adult, "education"),
     task(ADULT, "income", classes("<=50K", ">50K")), *_ADULT),
    ("adult-occupation", "adult", partial(adult, "native-country", "occupation"),
     task(ADULT, "occupation", classes(*_JOBS), "native-country")
     | {"income": category("<=50K", ">50K")}, *_ADULT),
    ("adult-education", "adult", partial(adult, "occupation"),
     task(ADULT, "education", classes(*_EDUCATION), "native-country")
     | {"income": category("<=50K", ">50K")}, *_ADULT),
    ("adult-marital", "adult", partial(adult, "workclass"),
     task(ADULT, "marital-status", classes(*_CODES["marital-status"]["values"]), "relationship"), *_ADULT),
    ("adult-hours", "adult", partial(adult, "occupation"),
     task(ADULT, "hours-per-week", amount(0, 100), "native-country"), *_ADULT),
    ("lending-default", "lending-club", partial(lending, "purpose"),
     task(LENDING, "outcome", classes("paid off", "default")), *_LENDING),
    ("lending-rate", "lending-club", partial(lending, "emp_length", "int_rate_derived"),
     task(LENDING, "int_rate_derived", amount(0, 40), "payment_inc_ratio", "grade"), *_LENDING),
    ("lending-purpose", "lending-club", partial(lending, "emp_length"),
     task(LENDING, "purpose", classes(*PURPOSES)), *_LENDING),
    ("lending-2018-rate", "lending-club", lending_2018,
     task(_2018, "interest_rate", amount(0, 40)), *_QUARTER),
    ("lending-2018-grade", "lending-club", lending_2018,
     task(_2018, "grade", classes(*"ABCDEFG")), *_QUARTER),
    ("lending-2018-home", "lending-club", lending_2018,
     task(_2018, "homeownership", classes("MORTGAGE", "RENT", "OWN")), *_QUARTER),
    ("heart-disease", "heart-disease", heart, task(HEART, "ill", classes(0, 1)), *_HEART),
    ("heart-degree", "heart-disease", heart, task(HEART, "num", classes(*range(5))), *_HEART),
    ("vehicle", "vehicle", vehicle, task(VEHICLE, "vehicle", classes(0, 1)),
     "Duarte & Hu (2004), SensIT, a subset", "not stated"),
    ("school-score", "school", school, task(SCHOOL, "score", amount(0, 70)), *_SCHOOL),
    ("school-band", "school", school, task(SCHOOL, "band", classes(*BANDS)), *_SCHOOL),
    ("letters", "shakespeare", letters,
     {**dict.fromkeys(_BESIDE, category(*LETTERS, "_")), "letter": classes(*LETTERS)},
     "plays of Shakespeare, as gathered for char-rnn", "public domain"),
)  # fmt: skip


def _source(name: str, parent: str, read: Any, columns: Columns, origin: str, licence: str) -> Source:
    label = next(one for one in columns.values() if one.get("role") == "label")
    n_classes = len(label["classes"]) if "classes" in label else None
    return Source(name, parent, read, columns, n_classes, "folder", origin, licence)


_STATED = tuple(_source(*row) for row in _ROWS)
FOLDER = (*_STATED, *(as_raw(one) for one in _STATED if one.name in ("vehicle", "school-score")))
