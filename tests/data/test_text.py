"""Speakers of Shakespeare: nothing lost, nothing shared, nothing learned from private text."""

from __future__ import annotations

import csv
import gzip
import string
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noiseworthy.data import load_federation, load_records
from noiseworthy.data.text import ALPHABET, encode, shakespeare, windows
from noiseworthy.errors import DataError, InvalidInput

TEXT = st.text(st.sampled_from(ALPHABET), min_size=12, max_size=200)


def write(root, rows, header=("speaker", "text")):
    path = root / "shakespeare" / "speeches.csv.gz"
    path.parent.mkdir()
    with gzip.open(path, "wt", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return root


def speech(seed, characters):
    return "".join(np.random.default_rng(seed).choice(list(string.ascii_letters + " .,"), characters))


def decode(tokens):
    return "".join(ALPHABET[token] for token in tokens)


def spoken(x, y):
    """The text of a speaker's windows in their order: the first character, then every label."""
    return decode(np.concatenate([x[0, :1], y.ravel()]))


def test_the_alphabet_is_printable_ascii_whatever_the_texts_hold(tmp_path):
    assert set(ALPHABET) == {"\n"} | {chr(code) for code in range(32, 127)}
    assert len(ALPHABET) == 96
    records = shakespeare(write(tmp_path, [("A", "a" * 1000)]))
    assert (records.classes, set(records.x.ravel())) == (96, {ALPHABET.index("a")})


@given(TEXT)
def test_text_survives_the_round_trip(text):
    assert decode(encode(text)) == text
    assert [ALPHABET.index(character) for character in text] == encode(text).tolist()


@given(TEXT, st.integers(1, 11))
def test_every_character_but_the_first_and_a_short_rest_is_a_label_once(text, length):
    x, y = windows(encode(text), length)
    assert x.shape == y.shape == ((len(text) - 1) // length, length)
    assert spoken(x, y) == text[: 1 + x.size]
    np.testing.assert_array_equal(x.ravel()[1:], y.ravel()[:-1])


def test_the_last_fifth_of_every_speaker_is_the_test_part_and_shares_no_character(tmp_path):
    texts = {"B": speech(1, 1500), "A": speech(2, 1004)}
    records = shakespeare(write(tmp_path, texts.items()))
    rows = [name for name, text in sorted(texts.items()) for _ in range((int(0.8 * len(text)) - 1) // 10)]
    assert records.client_ids.tolist() == rows
    test = iter(records.test_y)
    for name, text in sorted(texts.items()):
        mine, cut = records.client_ids == name, int(0.8 * len(text))
        assert text[:cut].startswith(spoken(records.x[mine], records.y[mine]))
        labels = np.concatenate([next(test) for _ in range((len(text) - cut - 1) // 10)])
        assert text[cut + 1 :].startswith(decode(labels))
    assert next(test, None) is None


def test_speeches_of_one_speaker_are_joined_by_newlines_and_short_speakers_left_out(tmp_path):
    rows = [("A", speech(0, 600)), ("B", "Ay."), ("A", speech(1, 600)), ("C", speech(2, 999))]
    records = shakespeare(write(tmp_path, rows))
    assert set(records.client_ids) == {"A"}
    assert spoken(records.x, records.y)[600] == "\n"


def test_na_is_a_word_and_numbers_are_text(tmp_path):
    records = shakespeare(write(tmp_path, [("NA", "null"), ("NA", "1"), ("NA", speech(0, 1000))]))
    assert spoken(records.x, records.y).startswith("null\n1\n")


def test_speakers_join_into_fewer_clients_and_keep_their_windows(tmp_path):
    root = write(tmp_path, [(name, speech(i, 1000)) for i, name in enumerate("ABCD")])
    fed = load_federation("shakespeare", data_dir=root, clients=2, seed=0)
    assert (fed.clients, fed.sizes.tolist(), fed.label_shape) == (("A..B", "C..D"), [158, 158], (10,))
    assert (fed.x.dtype, fed.y.dtype) == (np.int32, np.int32)


def test_labels_by_class_cannot_be_dealt_out(tmp_path):
    root = write(tmp_path, [("A", speech(0, 1000))])
    with pytest.raises(DataError, match="needs one label per record"):
        load_federation("shakespeare", data_dir=root, clients=2, seed=0, partition="label-shards")


@pytest.mark.parametrize("length", [0, 200, 2.5])
def test_windows_longer_than_a_test_part_are_refused(tmp_path, length):
    with pytest.raises(InvalidInput, match="length must be"):
        shakespeare(tmp_path, length)


def test_the_longest_window_still_leaves_every_speaker_a_test_window(tmp_path):
    records = shakespeare(write(tmp_path, [("A", speech(0, 1000))]), 199)
    assert (records.x.shape, records.test_x.shape) == ((4, 199), (1, 199))


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([("A", "naïve" * 300)], ("speaker", "text"), "printable ASCII and newlines, got 'ï'"),
        ([("A", "Ay.")], ("speaker", "text"), "no speaker of 1000 characters"),
        ([], ("speaker", "text"), "no speaker of 1000 characters"),
        ([("A", "Ay.")], ("who", "text"), "speaker is missing"),
        ([("A", "Ay.")], ("speaker", "what"), "text is missing"),
    ],
)
def test_other_tables_are_refused(tmp_path, rows, header, message):
    with pytest.raises(DataError, match=message):
        shakespeare(write(tmp_path, rows, header))


def test_a_truncated_file_is_refused(tmp_path):
    path = write(tmp_path, [("A", speech(0, 5000))]) / "shakespeare" / "speeches.csv.gz"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(DataError, match="cannot be read as a table"):
        shakespeare(tmp_path)


@pytest.mark.data
def test_every_real_speaker_is_recovered_from_the_windows(data_dir):
    said = defaultdict(list)
    with gzip.open(data_dir / "shakespeare" / "speeches.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            said[row["speaker"]].append(row["text"])
    texts = {name: "\n".join(parts) for name, parts in said.items()}
    records = load_records("shakespeare", data_dir=data_dir)
    assert (len(texts), len(records), len(records.test_x)) == (299, 78_031, 19_451)
    speakers = set(records.client_ids.tolist())
    assert speakers == {name for name, text in texts.items() if len(text) >= 1000}
    assert len(speakers) == 141
    for name in speakers:
        mine = records.client_ids == name
        assert texts[name].startswith(spoken(records.x[mine], records.y[mine]))


@pytest.mark.data
def test_three_clients_as_in_the_paper(data_dir):
    fed = load_federation("shakespeare", data_dir=data_dir, clients=3, seed=0)
    assert (fed.n_clients, fed.sizes.sum(), fed.record_shape, fed.classes) == (3, 78_031, (10,), 96)
    assert fed.sizes.min() > 20_000
