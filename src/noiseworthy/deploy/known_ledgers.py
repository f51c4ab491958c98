"""What a server knows of owners' ledgers from all runs of a deployment, so that one set back is noticed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from noiseworthy._tables import Part, Table
from noiseworthy.deploy.gateway.messages import About
from noiseworthy.errors import ConfigError, GatewayError
from noiseworthy.privacy.durable.chain import HEAD
from noiseworthy.privacy.durable.storage import write_whole

FILE = "ledgers.json"
_ROUNDING = 1e-9


class _Known(Table):
    """What an owner told of one ledger."""

    head: Annotated[str, Field(pattern=f"^{HEAD}$")] | None = None
    spent: Part = 0.0


_TABLE = TypeAdapter(dict[str, dict[str, _Known]])
"""By owner and data set."""


@dataclass(frozen=True)
class KnownLedgers:
    """A file of the deployment: the head that each owner told last, and how much was spent, by data set.

    Attributes:
        path: of the file.
        data_sets: that owners tell of now, by owner.
    """

    path: Path
    data_sets: Mapping[str, str]

    @classmethod
    def of(cls, folder: Path, abouts: Sequence[About]) -> KnownLedgers:
        """What the server of a deployment knows of these owners; a ledger that was set back is refused.

        Args:
            folder: of the deployment.
            abouts: what owners tell now.

        Raises:
            GatewayError: an owner who tells of less spent than before.
            ConfigError: a file that was changed.
        """
        known = cls(folder / FILE, {about.client: about.data_set for about in abouts})
        known.note(abouts)
        return known

    def heads(self) -> dict[str, str]:
        """By owner, of those who ever told one for the data set that they tell of now."""
        return {owner: one.head for owner, one in self._mine().items() if one.head is not None}

    def keep(self, heads: Mapping[str, str]) -> None:
        """Note the heads that owners told, durably; what is none is left out, and the one before kept."""
        usable = {owner: head for owner, head in heads.items() if re.fullmatch(HEAD, head)}
        self._write({owner: {"head": head} for owner, head in usable.items() if owner in self.data_sets})

    def note(self, abouts: Sequence[About]) -> None:
        """Note how much is spent, which never falls.

        Raises:
            GatewayError: an owner who tells of less than before; nothing is noted.
        """
        mine = self._mine()
        for about in abouts:
            before = mine[about.client].spent
            if about.spent < before - _ROUNDING:
                raise GatewayError(
                    f"{about.client} told that {before:.4%} of its budget for {about.data_set} was spent and "
                    f"now tells {about.spent:.4%}: its ledger was set back; it must put the latest one back, "
                    "or say what was spent with noiseworthy ledger accept"
                )
        self._write({about.client: {"spent": about.spent} for about in abouts})

    def _mine(self) -> dict[str, _Known]:
        known = self._read()
        return {owner: known.get(owner, {}).get(data, _Known()) for owner, data in self.data_sets.items()}

    def _read(self) -> dict[str, dict[str, _Known]]:
        try:
            return _TABLE.validate_json(self.path.read_bytes())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            raise ConfigError(
                f"{self.path} cannot be read or was changed, which holds what owners told of their ledgers; "
                "put its copy back"
            ) from None

    def _write(self, changes: Mapping[str, dict[str, Any]]) -> None:
        everything = self._read()
        for owner, change in changes.items():
            ledgers, data = everything.setdefault(owner, {}), self.data_sets[owner]
            ledgers[data] = ledgers.get(data, _Known()).model_copy(update=change)
        write_whole(self.path, _TABLE.dump_json(everything, indent=1), mode=0o666)
