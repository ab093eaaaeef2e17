"""Memory and losses of the gateway over many sessions, with an engine that answers at once.

    python benchmarks/gateway_sessions.py [--sessions 10000] [--turns 5] [--at-once 200]

The gateway and its stub engine are a process of their own, whose memory is read from outside; the
clients give no session ids, so that the resolver works for every request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import httpx
import psutil

from clawrl.config import schema
from clawrl.gateway.app import create_app
from clawrl.gateway.serve import GatewayServer
from clawrl.records.folder import RunFolder
from clawrl.records.writer import RecordWriter
from clawrl.serving.policy import ServedPolicy

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.stub_engine import StubEngine

MIB = 2**20


class ForgetfulEngine(StubEngine):
    """Keeps no requests: it is the gateway whose memory is measured."""

    async def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """As the other one."""
        self.bodies.clear()
        return await super().chat(body)


def gateway(root: Path, idle_s: float, told: Connection) -> None:
    """The process that is measured."""

    async def serve() -> None:
        folder = RunFolder(root)
        writer = RecordWriter(folder, version=0, queue_records=10_000)
        app = create_app(
            engine=ForgetfulEngine(),
            served=ServedPolicy(0, ""),
            writer=writer,
            config=schema.Gateway(session_idle_s=idle_s, record_wait_ms=5000),
            model_name="policy",
            template_kwargs={},
            temperature=1.0,
            on_feedback=lambda _turn, _feedback: None,
        )
        async with GatewayServer(app, "127.0.0.1", 0) as server:
            told.send(server.base_url)
            await asyncio.to_thread(told.recv)
        writer.close()

    asyncio.run(serve())


async def talk(client: httpx.AsyncClient, number: int, turns: int, spent: list[float]) -> int:
    """One session; returns how many of its requests failed."""
    messages = [{"role": "user", "content": f"Question {number}: what is {number} + 2?"}]
    failed = 0
    for turn in range(turns):
        began = time.perf_counter()
        answer = await client.post(
            "/v1/chat/completions", json={"model": "policy", "messages": messages}
        )
        spent.append(time.perf_counter() - began)
        failed += answer.status_code != 200
        reply = answer.json()["choices"][0]["message"]
        messages += [reply, {"role": "user", "content": f"And once more, {number}.{turn}?"}]
    return failed


async def load(
    url: str, process: psutil.Process, sessions: int, turns: int, at_once: int
) -> dict[str, object]:
    """Hold all sessions; returns what was measured."""
    limits = httpx.Limits(max_connections=at_once, max_keepalive_connections=at_once)
    spent: list[float] = []
    memory: list[tuple[int, float]] = []
    failed = 0
    numbers = iter(range(sessions))

    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=120) as client:
        alone: list[float] = []
        for number in range(20):
            await talk(client, -number - 1, turns, alone)

        async def worker() -> None:
            nonlocal failed
            for number in numbers:
                failed += await talk(client, number, turns, spent)
                if number % 100 == 99:
                    memory.append((number + 1, process.memory_info().rss / MIB))

        began = time.perf_counter()
        await asyncio.gather(*(worker() for _ in range(at_once)))
        seconds = time.perf_counter() - began
        health = (await client.get("/healthz")).json()
    spent.sort()
    alone.sort()
    base = [size for done, size in memory if done >= sessions / 5]
    return {
        "requests": len(spent),
        "failed": failed,
        "requests_per_s": len(spent) / seconds,
        "latency_alone_p50_ms": 1000 * statistics.median(alone),
        "latency_alone_p99_ms": 1000 * alone[int(0.99 * len(alone))],
        "latency_at_once_p50_ms": 1000 * statistics.median(spent),
        "latency_at_once_p99_ms": 1000 * spent[int(0.99 * len(spent))],
        "memory_mib": [(done, round(size)) for done, size in memory],
        "memory_growth_after_a_fifth": max(base) / base[0] - 1,
        "sessions_held": health["sessions"],
        "feedback": health["feedback"],
        "feedback_expected": (sessions + 20) * (turns - 1),
        "records_dropped": health["records_dropped"],
    }


def main() -> None:
    """Read the options, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--idle-s", type=float, default=20)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        here, there = multiprocessing.Pipe()
        child = multiprocessing.get_context("spawn").Process(
            target=gateway, args=(Path(scratch), options.idle_s, there)
        )
        child.start()
        url = here.recv()
        found = asyncio.run(
            load(url, psutil.Process(child.pid), options.sessions, options.turns, options.at_once)
        )
        here.send("end")
        child.join()
        recorded = sum(1 for _ in RunFolder(Path(scratch)).interactions.read())
        found["recorded"] = recorded
        found["lost"] = found["requests"] + 20 * options.turns - recorded
    for name, value in found.items():
        print(f"{name:28} {value:.3f}" if isinstance(value, float) else f"{name:28} {value}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
