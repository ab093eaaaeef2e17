"""What the gateway adds to the engine: time to the first token, and throughput of 32 streams.

    python benchmarks/gateway_latency.py [--requests 50] [--rounds 5] [--json FILE]

Requests go to the engine and to the gateway in turn, so that both see the same machine. The engine
is asked as a client asks it, and also for the ids and log-probabilities that the gateway records.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from pathlib import Path
from typing import Any

from gateway_ends import Ends, both_ends
from openai import AsyncOpenAI

WORDS = "Tell me in one sentence what a hash table is. Request number {}."
EVERYTHING = {"logprobs": True, "return_token_ids": True}
"""What the gateway asks the engine for on top: without them there is nothing to train on."""


async def first_token_s(client: AsyncOpenAI, number: int) -> float:
    """Seconds from the request to its first piece of content."""
    began = time.perf_counter()
    stream = await client.chat.completions.create(
        model="policy",
        messages=[{"role": "user", "content": WORDS.format(number)}],
        max_tokens=8,
        stream=True,
    )
    async for chunk in stream:
        if chunk.choices and chunk.choices[0].delta.content:
            first = time.perf_counter() - began
            break
    async for _ in stream:
        pass
    return first


async def tokens_per_s(
    client: AsyncOpenAI, streams: int, round_number: int, extra: dict[str, Any]
) -> float:
    """Reply tokens a second over `streams` requests at once."""

    async def one(number: int) -> int:
        stream = await client.chat.completions.create(
            model="policy",
            messages=[{"role": "user", "content": WORDS.format(f"{round_number}.{number}")}],
            max_tokens=64,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True, **extra},
        )
        usages = [chunk.usage async for chunk in stream if chunk.usage]
        return usages[-1].completion_tokens

    began = time.perf_counter()
    spent = sum(await asyncio.gather(*(one(number) for number in range(streams))))
    return spent / (time.perf_counter() - began)


async def measure(requests: int, rounds: int, streams: int) -> dict[str, object]:
    """Start both, and compare them."""
    async with both_ends() as ends:
        return await _compare(ends, requests, rounds, streams)


async def _compare(ends: Ends, requests: int, rounds: int, streams: int) -> dict[str, object]:
    direct, through = ends.direct, ends.through
    for client in (direct, through):  # warm
        await first_token_s(client, -1)
        await tokens_per_s(client, streams, -1, EVERYTHING)
    pairs = [
        (await first_token_s(direct, 2 * n), await first_token_s(through, 2 * n + 1))
        for n in range(requests)
    ]
    rates = [
        (
            await tokens_per_s(direct, streams, 3 * n, {}),
            await tokens_per_s(direct, streams, 3 * n + 1, EVERYTHING),
            await tokens_per_s(through, streams, 3 * n + 2, {}),
        )
        for n in range(rounds)
    ]
    return {
        "first_token_engine_ms": 1000 * statistics.median(a for a, _ in pairs),
        "first_token_gateway_ms": 1000 * statistics.median(b for _, b in pairs),
        "first_token_added_ms": 1000 * statistics.median(b - a for a, b in pairs),
        "tokens_per_s_engine": statistics.median(a for a, _, _ in rates),
        "tokens_per_s_engine_recording": statistics.median(b for _, b, _ in rates),
        "tokens_per_s_gateway": statistics.median(c for _, _, c in rates),
        "ratio_to_engine": statistics.median(c / a for a, _, c in rates),
        "ratio_to_engine_recording": statistics.median(c / b for _, b, c in rates),
        "ratios_to_engine": [round(c / a, 3) for a, _, c in rates],
        "ratios_to_engine_recording": [round(c / b, 3) for _, b, c in rates],
        "requests": requests,
        "streams": streams,
    }


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--streams", type=int, default=32)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = asyncio.run(measure(options.requests, options.rounds, options.streams))
    for name, value in found.items():
        print(f"{name:28} {value:.3f}" if isinstance(value, float) else f"{name:28} {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
