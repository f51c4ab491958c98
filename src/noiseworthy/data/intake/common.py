"""Ranges that are common knowledge, by what columns are called."""

import re
from typing import NamedTuple


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
    joined = words.replace(" ", "")
    return next((it for form, it in _KNOWN if re.fullmatch(form, words) or re.fullmatch(form, joined)), None)
