"""Names are data: of clients, owners, data sets and files, wherever people read them."""

from __future__ import annotations

import unicodedata

_HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}
"""Kinds of characters that move the cursor, colour, turn the direction of writing, or show nothing."""


def shown(text: str) -> str:
    r"""Text in one line in which nothing moves a terminal: control characters as their escapes.

    Example:
        >>> shown("Zürich\x1b[2J\n北京"), shown("a\u202eb")
        ('Zürich\\x1b[2J\\n北京', 'a\\u202eb')
    """
    return "".join(map(_visible, text))


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()
