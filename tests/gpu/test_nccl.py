"""Weights from one GPU to the engine on another, by NCCL."""

from __future__ import annotations

import asyncio

import pytest

from clawrl.config import schema
from clawrl.engine.client import VllmEngine
from clawrl.engine.nccl import NcclSender
from clawrl.engine.server import EngineServer
from tests.tiny import make_tiny_model

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def two_gpus() -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA GPUs: NCCL joins no two processes on one")


async def test_the_engine_serves_what_the_trainer_sends(tiny_model, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    other = make_tiny_model(tmp_path / "other", seed=1)
    module = AutoModelForCausalLM.from_pretrained(other, dtype=torch.float32).to("cuda:0")
    server = EngineServer(
        tiny_model,
        model=schema.Model(name="tiny", context_tokens=512),
        engine=schema.Engine(device="cuda", gpu_memory_share=0.2),
        resources=schema.Resources(policy_gpus=[1]),
        gpus=[1],
        log=tmp_path / "engine.log",
        nccl_updates=True,
    )
    await server.start(lambda _line: None)
    try:
        async with VllmEngine(
            server.base_url, model="policy", request_timeout_s=60, update_timeout_s=60
        ) as policy:
            before = await policy.score([10, 20, 30], [40, 50])
            sender = await asyncio.to_thread(NcclSender, module, server.base_url)
            await asyncio.to_thread(sender.send, 1)
            after = await policy.score([10, 20, 30], [40, 50])
            await policy.update_weights(other, 1)
            assert after == pytest.approx(await policy.score([10, 20, 30], [40, 50]), abs=1e-3)
            assert after != pytest.approx(before, abs=1e-3)
            assert await policy.served_version() == "v1"
            sender.close()
    finally:
        await server.stop()
