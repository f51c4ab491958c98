"""The keys that a superlink lets in: those of a deployment's folder, and no others."""

from collections.abc import Mapping
from pathlib import Path

from noiseworthy.deploy.flower.keys import Keys, public_key
from noiseworthy.deploy.flower.orders import Orders
from noiseworthy.errors import ConfigError


def known_keys(keys: Keys) -> dict[str, bytes]:
    """Public keys of nodes in a folder, as PEM, by the names of their files.

    Raises:
        ConfigError: a file that is no key, or a key under two names.
    """
    found = {path.stem: public_key(path) for path in sorted((keys.folder / "nodes").glob("*.pub"))}
    for name, key in found.items():
        if (other := next(each for each, same in found.items() if same == key)) != name:
            raise ConfigError(
                f"{other}.pub and {name}.pub in {keys.folder / 'nodes'} hold one key; each owner has one of "
                "its own, so remove the wrong file"
            )
    return found


def key_in(folder: Path, name: str) -> bytes | None:
    """The public key of a node's name in a deployment's folder; None without one."""
    path = Keys(folder / "keys").node_public_key(name)
    return public_key(path) if path.exists() else None


def register(orders: Orders, wanted: Mapping[str, bytes]) -> None:
    """Have a superlink know these keys by these names, and forget all others.

    So a key that was replaced, or removed, lets nobody in any more.

    Args:
        orders: to the superlink.
        wanted: public keys as PEM, by name.

    Raises:
        GatewayError: it does not answer, or refuses.
    """
    there = orders.nodes()
    for node in there:
        if wanted.get(node.name) != node.key:
            orders.unregister(node.number)
    stay = {node.name for node in there if wanted.get(node.name) == node.key}
    for name in wanted.keys() - stay:
        orders.register(name, wanted[name])
