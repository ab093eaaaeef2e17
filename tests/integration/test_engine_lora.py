"""Adapters under versioned names, on a server of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from clawrl.config import schema
from clawrl.engine.client import VllmEngine
from tests.conftest import tiny_server

pytestmark = [pytest.mark.engine, pytest.mark.slow]

PROMPT, REPLY = [10, 20, 30, 40], [50, 60, 70]


def make_adapter(model_path: Path, folder: Path, *, seed: int) -> list[float]:
    """Save a random adapter; returns the reply's log-probabilities under it by transformers."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    base = AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32)
    config = LoraConfig(
        r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False,
        task_type="CAUSAL_LM",
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = get_peft_model(base, config).eval()
    model.save_pretrained(folder)
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT + REPLY])).logits[0]
    logp = torch.log_softmax(logits, dim=-1)
    return [logp[len(PROMPT) - 1 + t, token].item() for t, token in enumerate(REPLY)]


async def test_each_version_is_an_adapter_of_its_own(tiny_model, tmp_path):
    expected = {
        version: make_adapter(tiny_model, tmp_path / f"v{version}", seed=version)
        for version in (1, 2, 3)
    }
    server = tiny_server(tiny_model, tmp_path / "log", lora=schema.Lora(rank=8))
    await server.start(lambda _line: None)
    try:
        async with VllmEngine(
            server.base_url, model="policy", request_timeout_s=60, update_timeout_s=60, lora=True
        ) as policy:
            base = await policy.score(PROMPT, REPLY)
            for version, logp in expected.items():
                await policy.update_weights(tmp_path / f"v{version}", version)
                assert await policy.score(PROMPT, REPLY) == pytest.approx(logp, abs=0.01)
                assert base != pytest.approx(logp, abs=0.01)
            await check_that_a_stream_keeps_its_adapter(policy, tmp_path)
            await policy.update_weights(tiny_model, 0)
            assert await policy.score(PROMPT, REPLY) == pytest.approx(base, abs=1e-4)
    finally:
        await server.stop()


async def check_that_a_stream_keeps_its_adapter(policy: VllmEngine, folder: Path) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 300}
    body["ignore_eos"] = True
    chunks = policy.chat_stream(body)
    first = await anext(chunks)
    assert first["model"] == "policy-v3"
    await policy.update_weights(folder / "v1", 4)
    last = [chunk async for chunk in chunks][-1]
    assert last["model"] == "policy-v3"
    assert last["choices"][0]["finish_reason"] == "length"
