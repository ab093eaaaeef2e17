"""How long streams stand still while weights change: through the gateway, and at the engine alone.

    python benchmarks/gateway_stall.py [--updates 20] [--streams 16] [--rounds 3] [--json FILE]

Every stream asks again as soon as its reply has ended. A stall is the time between two chunks of a
reply, or from the request to its first one. The rounds go to the engine and the gateway in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from gateway_ends import Ends, both_ends
from openai import AsyncOpenAI, OpenAIError

WORDS = "Tell me a story about a lighthouse, please ({})."
APART_S = 0.3
"""Between the end of an update and the next."""


@dataclass
class Seen:
    """What the clients of one round saw."""

    stalls: list[float] = field(default_factory=list)
    replies: int = 0
    failed: int = 0
    update_s: list[float] = field(default_factory=list)


async def talk(client: AsyncOpenAI, number: int, seen: Seen, done: asyncio.Event) -> None:
    """One stream after another, until the updates have ended."""
    while not done.is_set():
        last = time.perf_counter()
        try:
            stream = await client.chat.completions.create(
                model="policy",
                messages=[{"role": "user", "content": WORDS.format(f"{number}.{seen.replies}")}],
                max_tokens=150,
                stream=True,
                extra_body={"ignore_eos": True, "logprobs": True, "return_token_ids": True},
            )
            async for _ in stream:
                now = time.perf_counter()
                seen.stalls.append(now - last)
                last = now
            seen.replies += 1
        except OpenAIError as error:
            print(f"failed: {error}")
            seen.failed += 1


async def one_round(ends: Ends, *, gateway: bool, streams: int, updates: int) -> Seen:
    """All streams through all updates."""
    seen, done = Seen(), asyncio.Event()
    client = ends.through if gateway else ends.direct
    async with asyncio.TaskGroup() as group:
        for number in range(streams):
            group.create_task(talk(client, number, seen, done))
        await asyncio.sleep(2)
        for version in range(1, updates + 1):
            began = time.perf_counter()
            await ends.update(version, gateway=gateway)
            seen.update_s.append(time.perf_counter() - began)
            await asyncio.sleep(APART_S)
        done.set()
    return seen


async def measure(streams: int, updates: int, rounds: int) -> list[dict[str, object]]:
    """Rows, one for each round and end."""
    rows: list[dict[str, object]] = []
    async with both_ends() as ends:
        for number in range(rounds):
            for gateway in (False, True):
                seen = await one_round(ends, gateway=gateway, streams=streams, updates=updates)
                row = {
                    "round": number,
                    "end": "gateway" if gateway else "engine",
                    "longest_stall_s": round(max(seen.stalls), 2),
                    "longest_update_s": round(max(seen.update_s), 2),
                    "replies": seen.replies,
                    "failed": seen.failed,
                }
                print(row, flush=True)
                rows.append(row)
    return rows


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = asyncio.run(measure(options.streams, options.updates, options.rounds))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
