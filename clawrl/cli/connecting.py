"""`clawrl connect`: point an installed agent at the gateway."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.markup import escape

from clawrl.cli.screen import err, out
from clawrl.connect.change import plan
from clawrl.connect.clients import CLIENTS, Endpoint
from clawrl.errors import UserError, nearest

_COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def connect(name: str, to: Endpoint, *, yes: bool, show: bool) -> None:
    """`clawrl connect NAME`."""
    client = CLIENTS.get(name)
    if client is None:
        raise UserError(f"clawrl does not know '{name}'{nearest(name, list(CLIENTS))}")
    if show:
        print(client.connected("", to), end="")
        return
    change = plan(client, to, Path.home())
    if not change.needed:
        err.print(f"{change.path}: {name} is connected already", soft_wrap=True)
        return
    for line in change.lines():
        colour = _COLOURS.get(line[:1])
        out.print(f"[{colour}]{escape(line)}[/]" if colour else escape(line), highlight=False)
    if not yes and not typer.confirm("Write this?"):
        raise UserError("nothing was changed")
    backup = change.write()
    kept = f"; what was there before: {backup}" if backup else ""
    err.print(f"{change.path} written{kept}", soft_wrap=True, highlight=False)


def how_to_connect(base_url: str, model: str, *, key: bool) -> list[str]:
    """What somebody who has just started the gateway wants to read."""
    lines = [f"  export OPENAI_BASE_URL={base_url}/v1", f"  model: {model}"]
    if not key:
        lines[0] += " OPENAI_API_KEY=none"
    known = ", ".join(CLIENTS)
    url = f" --url {base_url}/v1"
    return [*lines, f"  {known}: clawrl connect NAME{url}"]
