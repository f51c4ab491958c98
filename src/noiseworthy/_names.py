"""Names are data: of clients, owners, data sets and files, wherever people read them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from difflib import get_close_matches

_PASSWORD = re.compile(r"(://[^:/@\s\"']*:)[^@\s\"']+(@)")
_HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
"""Kinds of characters that move the cursor, colour, turn the direction of writing, or show nothing."""


def shown(text: str) -> str:
    r"""Text in one line in which nothing moves a terminal: control characters as their escapes.

    Example:
        >>> shown("Zürich\x1b[2J\n北京"), shown("a\u202eb")
        ('Zürich\\x1b[2J\\n北京', 'a\\u202eb')
    """
    return "".join(
        c if unicodedata.category(c) not in _HIDDEN else c.encode("unicode_escape").decode() for c in text
    )


def concealed(text: str) -> str:
    """Text in which no connection string shows a password.

    Example:
        >>> concealed('data = "sql:postgresql://ann:hunter2@host/wards" cannot be read')
        'data = "sql:postgresql://ann:***@host/wards" cannot be read'
    """
    return _PASSWORD.sub(r"\1***\2", text)


def nearest(name: str, known: Iterable[str]) -> str:
    """What a name may have been meant for, as the end of a complaint; empty where nothing is near.

    Example:
        >>> nearest("chool", ["age", "chol"]), nearest("weight", ["age", "chol"])
        (" (did you mean 'chol'?)", '')
    """
    by_small_letters = {one.lower(): one for one in known}
    near = get_close_matches(name.lower(), by_small_letters, n=1)
    return f" (did you mean {shown(by_small_letters[near[0]])!r}?)" if near else ""
