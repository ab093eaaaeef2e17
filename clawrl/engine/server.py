"""The vLLM server as a child process: its command line, its environment, its start.

Its routes for weights and pauses have no key of their own, so that it listens on 127.0.0.1 only, on
a free port, and nobody but `clawrl.engine.client` talks to it. Everything about the command is a
pure function of the configuration, so that `--dry-run` prints what would run.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import httpx

from clawrl.config import schema
from clawrl.errors import EngineError, MachineError
from clawrl.processes.child import Child, free_port

HEALTH_POLL_S = 0.25
PROGRESS_EVERY_S = 5.0
STOP_GRACE_S = 10.0
LORA_VERSIONS = 2
"""Adapters in use at once: the served version's, and the one that streams in flight still use."""

CPU_BATCH_TOKENS = 2048


class EngineServer:
    """One vLLM server, on the CPU or on some GPUs."""

    def __init__(
        self,
        model_path: Path,
        *,
        model: schema.Model,
        engine: schema.Engine,
        resources: schema.Resources,
        gpus: list[int],
        log: Path,
        served_name: str = "policy",
    ) -> None:
        """Nothing is started yet.

        Args:
            model_path: a folder that `clawrl.models` has checked.
            model: context, precision, LoRA.
            engine: device, memory, time limits.
            resources: parallel sizes and CPU cores.
            gpus: the GPUs that it gets; empty on a CPU.
            log: where vLLM's output goes.
            served_name: the model's name in requests.
        """
        self.model_path = model_path
        self.served_name = served_name
        self.log = log
        self.port: int | None = None
        """Chosen at the first start and kept by every restart, so that clients need not know."""
        self.stopping = False
        """True once `stop` was called: an end of the process is no crash."""
        self._model = model
        self._engine = engine
        self._resources = resources
        self._gpus = gpus
        self._child: Child | None = None

    @property
    def base_url(self) -> str:
        """Where it listens. Raises RuntimeError before `start`."""
        if self.port is None:
            raise RuntimeError("the engine has no port before it is started")
        return f"http://127.0.0.1:{self.port}"

    @property
    def child(self) -> Child:
        """The process. Raises RuntimeError before `start`."""
        if self._child is None:
            raise RuntimeError("the engine was not started")
        return self._child

    def command(self) -> list[str]:
        """The whole command line; before `start` with `PORT` in place of the port."""
        model = self._model
        command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
        command += ["--model", str(self.model_path), "--served-model-name", self.served_name]
        command += ["--host", "127.0.0.1", "--port", str(self.port or "PORT")]
        command += ["--dtype", model.dtype, "--max-model-len", str(model.context_tokens)]
        # The learner divides by the temperature itself and must know the support: no defaults of
        # the model's own, and log-probabilities of the distribution that was sampled from.
        command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
        command += ["--enable-scale-out", "--disable-uvicorn-access-log"]
        command += ["--worker-extension-cls", "clawrl.engine.worker.WorkerExtension"]
        command += ["--tensor-parallel-size", str(self._resources.tensor_parallel)]
        command += ["--data-parallel-size", str(self._resources.data_parallel)]
        if self._engine.device == "cpu":
            # vLLM's CPU build dies when a seeded request is prefilled in chunks.
            budget = max(model.context_tokens, CPU_BATCH_TOKENS)
            command += ["--enforce-eager", "--no-enable-chunked-prefill"]
            command += ["--max-num-batched-tokens", str(budget)]
        else:
            command += ["--gpu-memory-utilization", str(self._engine.gpu_memory_share)]
        if model.lora is not None:
            command += ["--enable-lora", "--max-lora-rank", str(_vllm_rank(model.lora.rank))]
            command += ["--max-loras", str(LORA_VERSIONS)]
        command += ["--enable-auto-tool-choice", "--tool-call-parser", model.tool_parser]
        if model.reasoning_parser is not None:
            command += ["--reasoning-parser", model.reasoning_parser]
        if model.trust_remote_code:
            command.append("--trust-remote-code")
        return command + self._engine.extra_args

    def environment(self) -> dict[str, str]:
        """The variables that are set beside the inherited ones."""
        variables = {
            "VLLM_SERVER_DEV_MODE": "1",  # registers pause, reload, resume
            "VLLM_NO_USAGE_STATS": "1",  # nothing leaves the machine
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",  # the model is a folder, whole
        }
        if self._model.lora is not None:
            variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
        if self._engine.device == "cuda":
            variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, self._gpus))
        else:
            variables["VLLM_CPU_KVCACHE_SPACE"] = str(self._engine.kv_cache_gib)
            variables["VLLM_CPU_OMP_THREADS_BIND"] = self._cores()
            variables["VLLM_CPU_NUM_OF_RESERVED_CPU"] = "0"
        return variables

    def _cores(self) -> str:
        if self._resources.cpu_cores is not None:
            return self._resources.cpu_cores
        workers = self._resources.tensor_parallel * self._resources.data_parallel
        return core_list(usable_cores(), workers)

    async def start(self, progress: Callable[[str], None]) -> None:
        """Start it and wait until it is healthy; again after a crash, on the same port.

        Args:
            progress: is told every few seconds how long it has taken.

        Raises:
            EngineError: it ended, or is not healthy in time; with the end of its log.
        """
        if self.port is None:
            self.port = free_port()
        self.stopping = False
        child = Child(
            f"{self.served_name} engine", self.command(), log=self.log, env=self.environment()
        )
        self._child = child
        try:
            await child.start()
            await self._healthy(child, progress)
        except MachineError as error:
            raise EngineError(str(error)) from None
        except BaseException:
            await self.stop()
            raise

    async def _healthy(self, child: Child, progress: Callable[[str], None]) -> None:
        began = time.monotonic()
        told = began
        async with httpx.AsyncClient(base_url=self.base_url, trust_env=False, timeout=5) as client:
            while not await _answers(client):
                now = time.monotonic()
                if child.returncode is not None:
                    raise self._failure(f"ended with exit code {child.returncode} at its start")
                if now - began > self._engine.start_timeout_s:
                    limit = f"{self._engine.start_timeout_s:g} s (engine.start_timeout_s)"
                    raise self._failure(f"is not healthy after {limit}")
                if now - told >= PROGRESS_EVERY_S:
                    told = now
                    progress(f"{child.name}: starting, {now - began:.0f} s")
                await asyncio.sleep(HEALTH_POLL_S)
        progress(f"{child.name}: ready after {time.monotonic() - began:.0f} s")

    def _failure(self, what: str) -> EngineError:
        tail = self.child.log_tail(10)
        return EngineError(f"{self.child.name} {what}; see {self.log}, which ends with:\n{tail}")

    async def stop(self) -> None:
        """Stop it and everything that it started. Does nothing if it does not run."""
        self.stopping = True
        if self._child is not None:
            await self._child.stop(STOP_GRACE_S)


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/health")).is_success
    except httpx.HTTPError:
        return False


def usable_cores() -> list[int]:
    """The CPU cores that this process may use."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def core_list(cores: Iterable[int], workers: int = 1) -> str:
    """Cores as vLLM wants them bound: `0-3`, or `0-1,6`; for several workers `0-1|2-3`."""
    ordered = sorted(cores)
    share = max(1, len(ordered) // workers)
    groups = [ordered[start * share : (start + 1) * share] for start in range(workers)]
    return "|".join(_ranges(group or ordered) for group in groups)


def _ranges(cores: list[int]) -> str:
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ",".join(f"{first}-{last}" if last > first else f"{first}" for first, last in runs)


def _vllm_rank(rank: int) -> int:
    """The smallest of vLLM's allowed maximal ranks that holds `rank`."""
    allowed = (1, 8, 16, 32, 64, 128, 256, 320, 512)
    return next((size for size in allowed if size >= rank), rank)
