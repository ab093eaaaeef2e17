"""Changing a client's configuration: the difference first, a backup, then one rename."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from clawrl.connect.clients import Client, Endpoint
from clawrl.errors import UserError


@dataclass(frozen=True, slots=True)
class Change:
    """What a file says, and what it will."""

    path: Path
    before: str
    after: str

    @property
    def needed(self) -> bool:
        """It does not say so already."""
        return self.before != self.after

    def lines(self) -> list[str]:
        """The difference, as `diff -u` shows it."""
        old, new = self.before.splitlines(), self.after.splitlines()
        return list(unified_diff(old, new, str(self.path), str(self.path), lineterm=""))

    def write(self) -> Path | None:
        """Put it there.

        Returns:
            The backup of what was there before; None: there was nothing.

        Raises:
            UserError: the file cannot be written; it is as it was.
        """
        backup = None
        fresh = self.path.with_name(f"{self.path.name}.clawrl-new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.exists():
                backup = self.path.with_name(f"{self.path.name}.before-clawrl-{time.time_ns()}")
                backup.write_bytes(self.path.read_bytes())
            fresh.touch(mode=0o600)  # it may hold a key
            fresh.write_text(self.after, "utf-8")
            os.replace(fresh, self.path.resolve())
        except OSError as error:
            raise UserError(f"{self.path}: cannot be written: {error.strerror}") from None
        return backup


def plan(client: Client, to: Endpoint, home: Path) -> Change:
    """What connecting a client would change. Raises UserError: its file cannot be read."""
    path = home / client.path
    try:
        before = path.read_text("utf-8") if path.exists() else ""
        return Change(path, before, client.connected(before, to))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    except UserError as error:
        raise UserError(
            f"{path}: {error}; mend it, or write into it by hand what `clawrl connect "
            f"{client.name} --show` prints"
        ) from None
