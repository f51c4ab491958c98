"""What is packed comes back bit by bit; what is no message is refused in one sentence and costs no memory."""

from __future__ import annotations

import contextlib
import json
import struct
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from noiseworthy.deploy.gateway.wire import MALFORMED, TYPES, VERSION, pack, unpack
from noiseworthy.errors import WireError

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.binary(max_size=8)
)
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
ARRAYS = st.sampled_from(TYPES).flatmap(
    lambda kind: hnp.arrays(
        np.dtype(kind),
        SHAPES,
        elements={"allow_nan": False, "allow_infinity": False} if kind[0] == "f" else None,
    )
)
TREES = st.recursive(
    PLAIN | ARRAYS,
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(st.text("abc#._", max_size=3), parts, max_size=3)
    ),
    max_leaves=8,
)


def same(one, other) -> bool:
    """Equal in type, shape and every bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other and str(one) == str(other)  # -0.0


def message(outline: object, rest: bytes = b"", version: int = VERSION) -> bytes:
    """Bytes made by hand, by the format's description."""
    text = outline if isinstance(outline, bytes) else json.dumps(outline).encode()
    return struct.pack("<4sHI", b"NWMS", version, len(text)) + text + rest


@given(TREES)
def test_what_is_packed_comes_back(tree):
    assert same(unpack(pack(tree)), tree)


@given(TREES)
def test_equal_values_are_equal_bytes(tree):
    assert pack(tree) == pack(unpack(pack(tree)))


def test_the_format_is_as_described():
    sent = {"a": np.array([[1, 2]], "<u2"), "b": b"xy", "c": (1, [None])}
    outline = {"a": ["a", "u2", [1, 2]], "b": ["b", 2], "c": ["t", 1, ["l", None]]}
    assert unpack(message(outline, b"\x01\0\x02\0xy")).keys() == sent.keys()
    assert same(unpack(message(outline, b"\x01\0\x02\0xy")), sent)


@pytest.mark.parametrize("order", ["F", ">"])
def test_arrays_come_back_by_value_from_any_layout(order):
    values = np.arange(6.0).reshape(2, 3)
    array = np.asfortranarray(values) if order == "F" else values.astype(">f8")
    assert same(unpack(pack(array)), values)


def test_arrays_that_come_back_are_ones_own():
    back = unpack(pack(np.zeros(3)))
    back[0] = 1
    assert back.flags.owndata


@given(st.binary(max_size=64))
def test_any_bytes_are_a_value_or_refused(data):
    for bytes_ in (data, message(data)):
        with contextlib.suppress(WireError):
            assert same(unpack(pack(unpack(bytes_))), unpack(bytes_))


@given(TREES, st.data())
def test_a_message_with_a_byte_missing_or_too_many_is_refused(tree, data):
    packed = pack(tree)
    cut = data.draw(st.integers(0, len(packed) - 1))
    for wrong in (packed[:cut], packed + b"\0"):
        with pytest.raises(WireError, match="no message"):
            unpack(wrong)


@given(TREES, st.data())
def test_a_changed_byte_never_does_worse_than_another_value(tree, data):
    packed = bytearray(pack(tree))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        unpack(bytes(packed))


BOMBS = {
    "an array longer than the message": message(["a", "f8", [2**27]]),
    "an array longer than memory": message(["a", "f8", [2**62]]),
    "axes that overflow": message(["a", "f8", [2**31, 2**31, 2**31]]),
    "an empty array with endless axes": message(["a", "f8", [0, 2**62, 2**62]]),
    "bytes longer than the message": message(["b", 2**40]),
    "an outline longer than the message": struct.pack("<4sHI", b"NWMS", VERSION, 2**32 - 1),
    "brackets without end": message(b"[" * 2**19),
    "tags without end": message(b'["l",' * 60 + b"1" + b"]" * 60),
    "a number without end": message(b"1" * 2**19),
    "a long fraction": message(b"1e999"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_what_is_declared_and_not_there_takes_no_memory(bomb):
    tracemalloc.start()
    try:
        with pytest.raises(WireError, match="no message"):
            unpack(BOMBS[bomb])
        assert tracemalloc.get_traced_memory()[1] < 2**25
    finally:
        tracemalloc.stop()


WRONG = {
    "a negative axis": message(["a", "f4", [-1]], b"\0\0\0\0"),
    "a fractional axis": message(["a", "f4", [1.0]], b"\0\0\0\0"),
    "a true axis": message(["a", "f4", [True]], b"\0\0\0\0"),
    "objects": message(["a", "O", [1]], b"\0" * 8),
    "a type in words": message(["a", "float32", [1]], b"\0" * 4),
    "a type that is no text": message(["a", ["f4"], [1]], b"\0" * 4),
    "a shape that is text": message(["a", "f4", "1"], b"\0" * 4),
    "too many axes": message(["a", "u1", [1] * 9], b"\0"),
    "too many parts": message(["a", "u1", [1], 2], b"\0"),
    "a truth value of 2": message(["a", "bool", [1]], b"\x02"),
    "an unknown letter": message(["x", 1]),
    "no letter": message([]),
    "a key twice": message(b'{"a":1,"a":2}'),
    "NaN": message(b"NaN"),
    "infinity": message(b"-Infinity"),
    "a number of 65 bits": message(2**63),
    "no UTF-8": message(b'"\xff"'),
    "another start": b"PK" + message(1)[2:],
    "nothing": b"",
}


@pytest.mark.parametrize("wrong", WRONG)
def test_malformed_bytes_are_refused_in_the_fixed_sentence(wrong):
    with pytest.raises(WireError) as refused:
        unpack(WRONG[wrong])
    assert str(refused.value) == MALFORMED


def test_another_version_is_refused_by_name():
    with pytest.raises(WireError, match="version 7 cannot be read, only version 1"):
        unpack(message(1, version=7))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_numbers_are_finite_where_nothing_else_is_said(bad):
    sent = {"scores": [np.array([bad])], "theta": np.zeros(1)}
    assert same(unpack(pack(sent), not_finite=["scores.0"]), sent)
    for allowed in ([], ["theta"], ["scores"]):
        with pytest.raises(WireError, match="no message"):
            unpack(pack(sent), not_finite=allowed)


@pytest.mark.parametrize(
    "value",
    [{1: 2}, {"a"}, 1j, 2**63, float("nan"), np.float64(1), np.array(["a"]), np.array([None]), object()],
    ids=[
        "dict_of_numbers",
        "set",
        "complex",
        "too_large",
        "nan",
        "numpy_number",
        "texts",
        "objects",
        "object",
    ],
)
def test_what_no_message_can_carry_is_refused_when_it_is_packed(value):
    with pytest.raises(WireError, match="message c"):
        pack({"a": value})


def test_a_message_has_a_length_on_both_sides():
    value = np.zeros(100, np.uint8)
    with pytest.raises(WireError, match="at most 50 bytes"):
        pack(value, most=50)
    with pytest.raises(WireError, match="no message"):
        unpack(pack(value), most=50)


def test_a_value_too_deep_is_refused():
    value: list = []
    for _ in range(40):
        value = [value]
    with pytest.raises(WireError, match="16 deep"):
        pack(value)
