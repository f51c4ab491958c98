"""Columns as a user would state them: round public ranges from knowledge of the domain, and code books."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Column = dict[str, Any]
Columns = dict[str, Column]


def number(least: float, most: float, **more: Any) -> Column:
    """A number in a public range; `transform` and `missing` as in `[columns]`."""
    return {"kind": "number", "range": [least, most], **more}


def rooted(most: float, **more: Any) -> Column:
    """A number from 0 whose tail is long, brought to [-1, 1] by its square root."""
    return number(0, most, transform="sqrt", **more)


def category(*values: str | int, **more: Any) -> Column:
    """One of some values."""
    return {"kind": "category", "values": [*values], **more}


def yes_no(**more: Any) -> Column:
    """Yes or no."""
    return {"kind": "yes-no", **more}


def classes(*names: str | int) -> Column:
    """A label of classes that are written as they are called."""
    return {"role": "label", "classes": [*names]}


def amount(least: float, most: float) -> Column:
    """A label that is a number in its own unit."""
    return {"role": "label", "range": [least, most]}


def task(features: Mapping[str, Column], label: str, stated: Column, *without: str) -> Columns:
    """The columns of one task: features but for the label and what tells it, and the label."""
    told = {label, *without}
    return {name: one for name, one in features.items() if name not in told} | {label: stated}
