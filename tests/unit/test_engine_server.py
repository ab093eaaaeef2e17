from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.config import schema
from clawrl.engine.server import EngineServer, core_list, usable_cores
from clawrl.errors import EngineError


def make_server(log: Path = Path("engine.log"), **changes) -> EngineServer:
    sections = {
        "model": schema.Model(name="m", context_tokens=4096),
        "engine": schema.Engine(),
        "resources": schema.Resources(),
        "gpus": [],
    }
    return EngineServer(Path("/models/m"), log=log, **(sections | changes))


def option(command: list[str], name: str) -> str:
    return command[command.index(name) + 1]


def test_the_command_listens_on_loopback_only():
    command = make_server().command()
    assert option(command, "--host") == "127.0.0.1"
    assert option(command, "--port") == "PORT"


def test_log_probabilities_are_those_of_the_distribution_that_was_sampled_from():
    command = make_server().command()
    assert option(command, "--logprobs-mode") == "processed_logprobs"
    assert option(command, "--generation-config") == "vllm"


def test_on_a_cpu_a_prompt_is_never_prefilled_in_chunks():
    command = make_server().command()
    assert "--no-enable-chunked-prefill" in command
    assert int(option(command, "--max-num-batched-tokens")) >= 4096


def test_on_gpus_the_engine_sees_only_its_own():
    server = make_server(
        engine=schema.Engine(device="cuda", gpu_memory_share=0.7),
        resources=schema.Resources(policy_gpus=[4, 5], tensor_parallel=2),
        gpus=[4, 5],
    )
    assert server.environment()["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert option(server.command(), "--tensor-parallel-size") == "2"
    assert option(server.command(), "--gpu-memory-utilization") == "0.7"
    assert "--enforce-eager" not in server.command()


def test_nothing_leaves_the_machine():
    environment = make_server().environment()
    assert environment["VLLM_NO_USAGE_STATS"] == "1"
    assert environment["HF_HUB_OFFLINE"] == "1"


def test_an_adapters_rank_is_rounded_up_to_one_that_vllm_knows():
    model = schema.Model(name="m", lora=schema.Lora(rank=12))
    server = make_server(model=model)
    assert option(server.command(), "--max-lora-rank") == "16"
    assert server.environment()["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] == "1"


def test_the_users_own_arguments_come_last():
    engine = schema.Engine(extra_args=["--tool-call-parser", "hermes"])
    assert make_server(engine=engine).command()[-2:] == ["--tool-call-parser", "hermes"]


def test_given_cores_are_taken_as_they_are():
    server = make_server(resources=schema.Resources(cpu_cores="3,5"))
    assert server.environment()["VLLM_CPU_OMP_THREADS_BIND"] == "3,5"


@pytest.mark.parametrize(
    ("cores", "workers", "text"),
    [
        ([0, 1], 1, "0-1"),
        ([2], 1, "2"),
        ([0, 2], 1, "0,2"),
        ([7, 0, 1, 2], 1, "0-2,7"),
        ([0, 1, 2, 3], 2, "0-1|2-3"),
        ([0], 2, "0|0"),
    ],
)
def test_cores_are_written_as_vllm_reads_them(cores, workers, text):
    assert core_list(cores, workers) == text


@given(st.sets(st.integers(0, 63), min_size=1))
def test_a_core_list_names_each_core_once(cores):
    named = []
    for part in core_list(cores).split(","):
        first, _, last = part.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(cores)


def test_only_cores_that_this_process_may_use_are_named():
    assert set(usable_cores()) == os.sched_getaffinity(0)


class ProgramInstead(EngineServer):
    """Starts another program in the engine's place."""

    program: list[str]

    def command(self) -> list[str]:
        return self.program


def make_program(log: Path, program: list[str], **engine) -> ProgramInstead:
    server = ProgramInstead(
        Path("/models/m"),
        model=schema.Model(name="m"),
        engine=schema.Engine(**engine),
        resources=schema.Resources(),
        gpus=[],
        log=log,
    )
    server.program = program
    return server


async def test_a_server_that_cannot_start_says_why_and_where(tmp_path):
    program = [sys.executable, "-c", "raise SystemExit('no such model')"]
    server = make_program(tmp_path / "engine.log", program)
    with pytest.raises(EngineError, match="exit code 1 at its start") as caught:
        await server.start(lambda _line: None)
    assert "no such model" in str(caught.value)
    assert str(tmp_path / "engine.log") in str(caught.value)


async def test_a_server_that_never_gets_healthy_is_stopped_after_its_limit(tmp_path):
    server = make_program(tmp_path / "engine.log", ["sleep", "1000"], start_timeout_s=0.5)
    with pytest.raises(EngineError, match="not healthy after"):
        await server.start(lambda _line: None)
    assert server.child.returncode is not None


async def test_a_restart_keeps_the_port(tmp_path):
    server = make_program(tmp_path / "engine.log", ["false"])
    ports = set()
    for _ in range(2):
        with pytest.raises(EngineError):
            await server.start(lambda _line: None)
        ports.add(server.port)
    assert len(ports) == 1
