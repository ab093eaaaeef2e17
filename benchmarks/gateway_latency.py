"""What the gateway adds to the engine: time to the first token, and throughput of 32 streams.

    python benchmarks/gateway_latency.py [--requests 50] [--rounds 5] [--json FILE]

One process holds the client and the gateway, a second one the engine, as `clawrl serve` has it.
Requests go to the engine and to the gateway in turn, so that both see the same machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from pathlib import Path

from openai import AsyncOpenAI

from clawrl import models
from clawrl.config import compose as composing
from clawrl.engine.client import VllmEngine
from clawrl.engine.server import EngineServer
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.records.folder import RunFolder
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy

WORDS = "Tell me in one sentence what a hash table is. Request number {}."


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


async def tokens_per_s(client: AsyncOpenAI, streams: int, round_number: int) -> float:
    """Reply tokens a second over `streams` requests at once."""

    async def one(number: int) -> int:
        stream = await client.chat.completions.create(
            model="policy",
            messages=[{"role": "user", "content": WORDS.format(f"{round_number}.{number}")}],
            max_tokens=64,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
        usages = [chunk.usage async for chunk in stream if chunk.usage]
        return usages[-1].completion_tokens

    began = time.perf_counter()
    spent = sum(await asyncio.gather(*(one(number) for number in range(streams))))
    return spent / (time.perf_counter() - began)


async def measure(requests: int, rounds: int, streams: int) -> dict[str, object]:
    """Start both, and compare them."""
    config = composing.compose(["recipe=student_persona"])
    path = models.prepare(config.model.name, progress=print)
    with tempfile.TemporaryDirectory() as scratch:
        server = EngineServer(
            path,
            model=config.model,
            engine=config.engine,
            resources=config.resources,
            gpus=[],
            log=Path(scratch) / "engine.log",
        )
        await server.start(print)
        folder = RunFolder(Path(scratch) / "run")
        writer = RecordWriter(folder, version=0, queue_records=10_000)
        try:
            async with VllmEngine(
                server.base_url,
                model="policy",
                request_timeout_s=600,
                update_timeout_s=60,
                lora=False,
            ) as engine:
                app = create_app(
                    engine=engine,
                    served=ServedPolicy(0, ""),
                    writer=writer,
                    config=config.gateway,
                    model_name="policy",
                    template_kwargs={},
                    temperature=1.0,
                    on_feedback=lambda _turn, _feedback: None,
                )
                async with GatewayServer(app, "127.0.0.1", 0) as gateway:
                    direct, through = (
                        AsyncOpenAI(base_url=f"{url}/v1", api_key="none", timeout=600)
                        for url in (server.base_url, gateway.base_url)
                    )
                    return await _compare(direct, through, requests, rounds, streams)
        finally:
            writer.close()
            await server.stop()


async def _compare(
    direct: AsyncOpenAI, through: AsyncOpenAI, requests: int, rounds: int, streams: int
) -> dict[str, object]:
    for client in (direct, through):  # warm
        await first_token_s(client, -1)
    pairs = [
        (await first_token_s(direct, 2 * n), await first_token_s(through, 2 * n + 1))
        for n in range(requests)
    ]
    rates = [
        (await tokens_per_s(direct, streams, n), await tokens_per_s(through, streams, n + rounds))
        for n in range(rounds)
    ]
    return {
        "first_token_engine_ms": 1000 * statistics.median(a for a, _ in pairs),
        "first_token_gateway_ms": 1000 * statistics.median(b for _, b in pairs),
        "first_token_added_ms": 1000 * statistics.median(b - a for a, b in pairs),
        "tokens_per_s_engine": statistics.median(a for a, _ in rates),
        "tokens_per_s_gateway": statistics.median(b for _, b in rates),
        "throughput_ratio": statistics.median(b / a for a, b in rates),
        "throughput_ratios": [round(b / a, 3) for a, b in rates],
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
