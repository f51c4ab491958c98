"""A superlink lets in the keys of its folder and no others: replaced and removed ones are forgotten."""

from __future__ import annotations

import shutil

import pytest

from noiseworthy.deploy.flower.keys import Keys, key_in, known_keys, make_node_key
from noiseworthy.deploy.flower.orders import Registered, register
from noiseworthy.errors import ConfigError


class Superlink:
    """Knows nodes, as Flower's does: a number each, and no key twice."""

    def __init__(self):
        self.known: dict[int, Registered] = {}
        self.numbers = iter(range(1, 100))

    def nodes(self):
        return list(self.known.values())

    def register(self, name, key):
        assert key not in {node.key for node in self.known.values()}
        number = next(self.numbers)
        self.known[number] = Registered(number, name, key, False)

    def unregister(self, number):
        del self.known[number]

    def lets_in(self):
        return {node.name: node.key for node in self.known.values()}


@pytest.fixture
def keys(tmp_path):
    for name in ("north", "south"):
        make_node_key(tmp_path / "keys", name)
    return Keys(tmp_path / "keys")


def test_new_keys_are_registered_once(keys):
    link = Superlink()
    for _ in range(2):
        register(link, known_keys(keys))
    assert link.lets_in() == known_keys(keys)
    assert set(link.known) == {1, 2}


def test_a_rotated_key_is_registered_and_the_old_one_is_not_any_more(keys):
    """It was called registered, because a file of that name had been; the old one stayed valid."""
    link = Superlink()
    register(link, known_keys(keys))
    old = key_in(keys.folder.parent, "north")
    keys.node_key("north").unlink()
    keys.node_public_key("north").unlink()
    make_node_key(keys.folder, "north")
    register(link, known_keys(keys))
    assert link.lets_in() == known_keys(keys)
    assert old not in link.lets_in().values()


def test_a_removed_key_is_forgotten(keys):
    link = Superlink()
    register(link, known_keys(keys))
    keys.node_public_key("south").unlink()
    register(link, known_keys(keys))
    assert set(link.lets_in()) == {"north"}
    assert key_in(keys.folder.parent, "south") is None


def test_keys_that_change_places_follow_their_files(keys):
    link = Superlink()
    register(link, known_keys(keys))
    north, south = keys.node_public_key("north"), keys.node_public_key("south")
    north.rename(keys.folder / "x")
    south.rename(north)
    (keys.folder / "x").rename(south)
    register(link, known_keys(keys))
    assert link.lets_in() == known_keys(keys)


def test_one_key_under_two_names_is_refused(keys):
    shutil.copy(keys.node_public_key("north"), keys.folder / "nodes" / "west.pub")
    with pytest.raises(ConfigError, match=r"north\.pub and west\.pub in .* hold one key"):
        known_keys(keys)


@pytest.mark.parametrize("text", ["", "no key", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGFi"])
def test_a_file_that_is_no_key_is_refused(keys, text):
    keys.node_public_key("north").write_text(text)
    with pytest.raises(ConfigError, match=r"north\.pub holds no public key"):
        known_keys(keys)
