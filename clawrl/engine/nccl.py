"""Weights from the learner's GPU to the engine's GPUs without the disk, by vLLM's own NCCL sender.

Used on CUDA only. It runs in the learner's processes, on every rank: all of them gather sharded
parameters, and rank 0 sends. The server must be started with `nccl_updates=True`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx

from clawrl.errors import EngineError
from clawrl.processes import free_port

if TYPE_CHECKING:
    from torch import nn

CALL_TIMEOUT_S = 30.0


class NcclSender:
    """A standing NCCL group of one trainer rank and all of the engine's workers."""

    def __init__(
        self, module: nn.Module, base_url: str, *, rank: int = 0, update_timeout_s: float = 120
    ) -> None:
        """Meet the engine's workers; returns when the group stands.

        Args:
            module: whose parameters are sent, under the names that the engine's loader knows.
            base_url: the engine's.
            rank: this learner process's; only 0 talks to the engine.
            update_timeout_s: limit of one control call.

        Raises:
            EngineError: the engine does not answer.
        """
        from vllm.distributed.weight_transfer.base import ModuleSource
        from vllm.distributed.weight_transfer.clients import HTTPVLLMWeightSyncClient
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo

        self._base_url = base_url
        self._rank = rank
        self._sender: Any = WeightTransferTrainerFactory.trainer_init(
            NCCLTrainerInitInfo(
                master_address="127.0.0.1",
                master_port=free_port(),
                world_size=1 + (self._workers() if rank == 0 else 0),
                rank=rank,
            ),
            client=HTTPVLLMWeightSyncClient(base_url, timeout=update_timeout_s),
            source=ModuleSource(module),
        )

    def send(self, version: int) -> None:
        """Send the module's parameters as they are now. Every rank calls it.

        Requests in flight are held (pause `keep`) and go on under the new weights.

        Raises:
            EngineError: the engine refused a step; it takes requests again.
        """
        if self._rank != 0:
            self._sender.send_weights()
            return
        self._call("/pause?mode=keep")
        try:
            self._sender.send_weights()
            if self._call("/reset_prefix_cache").get("success") is not True:
                raise EngineError(f"version {version}: the engine kept its old prefix cache")
            self._call("/update_weight_version", {"new_version": f"v{version}"})
        finally:
            self._call("/resume")

    def close(self) -> None:
        """Leave the group."""
        self._sender.shutdown()

    def _workers(self) -> int:
        return int(self._call("/get_world_size", method="GET")["world_size"])

    def _call(
        self, path: str, body: dict[str, Any] | None = None, *, method: str = "POST"
    ) -> dict[str, Any]:
        try:
            with httpx.Client(trust_env=False, timeout=CALL_TIMEOUT_S) as http:
                answer = http.request(method, f"{self._base_url}{path}", json=body)
                answer.raise_for_status()
                return dict(answer.json())
        except httpx.HTTPError as error:
            raise EngineError(f"the engine failed at {path}: {error}") from None
