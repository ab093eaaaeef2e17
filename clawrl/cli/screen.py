"""Where the commands write: results on stdout, everything else on stderr."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

out = Console()
err = Console(stderr=True)


def short(path: Path) -> str:
    """Relative to here where that is shorter to type."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
