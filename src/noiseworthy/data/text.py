"""Shakespeare's speakers: predict the next character of what one of them says."""

from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from noiseworthy._validate import count
from noiseworthy.data.frames import read_frame
from noiseworthy.data.records import HOLDOUT_FRACTION, Records
from noiseworthy.errors import DataError

ALPHABET = "\n" + "".join(map(chr, range(ord(" "), 127)))
"""Newline and the 95 printable characters of ASCII: a public set, the same whatever anybody wrote. A
vocabulary counted from the texts would read them."""
LENGTH = 10
LEAST_CHARACTERS = 1000

Tokens = NDArray[np.int32]
Windows = tuple[Tokens, Tokens]


def shakespeare(data_dir: Path, length: int = LENGTH) -> Records:
    """Next-character prediction by speaker: 141 speakers, 78,031 windows and 19,451 test windows of 10.

    A record is a window of `length` characters x = (c_1, ..., c_L) with labels y = (c_2, ..., c_{L+1}), as
    positions in `ALPHABET`. A speaker's speeches are joined by newlines; the first four fifths are cut into
    windows to train on, the rest into test windows. Windows follow each other without overlap, so every
    character is a label once. Speakers of fewer than 1,000 characters are left out.

    The private unit of record-level guarantees is one window here, a part of a line. Guarantees for clients
    protect all that a speaker says.

    Args:
        data_dir: holds shakespeare/speeches.csv.gz.
        length: L, at most 199, so that every speaker has a test window.

    Returns:
        Records with x and y of shape (n, L), int32; `classes` is the size of the alphabet, 96.

    Raises:
        InvalidInput: a length outside its range.
        DataError: the file is missing or damaged, or holds characters outside the alphabet.

    Source: plays of Shakespeare (public domain), as gathered by Karpathy (2015) for char-rnn.
    """
    longest = round(LEAST_CHARACTERS * HOLDOUT_FRACTION) - 1
    count("length", length, most=longest, remedy="every speaker needs a test window")
    texts = _texts(data_dir / "shakespeare" / "speeches.csv.gz")
    train, test = zip(*(_split(encode(text), length) for text in texts.values()), strict=True)
    owners, of_tests = (np.repeat(list(texts), [len(x) for x, _ in part]) for part in (train, test))
    sides = *_joined(train), *_joined(test)
    return Records(*sides, len(ALPHABET), "shakespeare", owners, "rows", test_client_ids=of_tests)


def encode(text: str) -> Tokens:
    """Positions in `ALPHABET` of the characters of a text, shape (characters,).

    Raises:
        DataError: a character outside the alphabet.

    Example:
        >>> encode("Oh\\n!")
        array([48, 73,  0,  2], dtype=int32)
    """
    if unknown := sorted(set(text) - set(ALPHABET)):
        raise DataError(f"text must be printable ASCII and newlines, got {unknown[0]!r}; replace it first")
    codes = np.frombuffer(text.encode("ascii"), np.uint8).astype(np.int32)
    # newline is below the space, and becomes 0
    return np.maximum(codes - (ord(" ") - 1), 0)


def windows(tokens: Tokens, length: int) -> Windows:
    """Consecutive windows and, for each of their tokens, the next one; both (floor((n - 1) / L), L).

    Args:
        tokens: n tokens, more than `length`.
        length: L.

    Example:
        >>> x, y = windows(np.arange(8), 3)
        >>> x.tolist(), y.tolist()
        ([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]])
    """
    both = sliding_window_view(tokens, length + 1)[::length]
    return both[:, :-1], both[:, 1:]


def _split(tokens: Tokens, length: int) -> tuple[Windows, Windows]:
    cut = int((1 - HOLDOUT_FRACTION) * len(tokens))
    return windows(tokens[:cut], length), windows(tokens[cut:], length)


def _joined(parts: tuple[Windows, ...]) -> Windows:
    x, y = zip(*parts, strict=True)
    return np.concatenate(x), np.concatenate(y)


def _texts(path: Path) -> dict[str, str]:
    """What each speaker says, for those who say enough, in the order of their names."""
    speeches = read_frame(path, dtype=str, keep_default_na=False)
    for column in ("speaker", "text"):
        if column not in speeches:
            raise DataError(f"{path} must have the columns speaker and text; {column} is missing")
    texts = speeches.groupby("speaker")["text"].agg("\n".join)
    enough = texts[texts.str.len() >= LEAST_CHARACTERS]
    if enough.empty:
        raise DataError(f"{path} has no speaker of {LEAST_CHARACTERS} characters; copy the file again")
    return enough.to_dict()
