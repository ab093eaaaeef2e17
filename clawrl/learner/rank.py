"""Where one learner process computes: its device, its rank, its precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of the learner. The default is the only one, on the CPU, in float32."""

    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    index: int = 0
    count: int = 1
    bf16: bool = False

    @property
    def first(self) -> bool:
        """True on the rank that alone reads and writes the run folder."""
        return self.index == 0

    def autocast(self) -> torch.autocast:
        """Matrix products in bfloat16 inside, where the configuration asks for it."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.bf16)

    def decide(self, choose: Callable[[], T]) -> T:
        """What the first rank chooses, on every rank. Every rank must call this."""
        choice = [choose() if self.first else None]
        if self.count > 1:
            dist.broadcast_object_list(choice, src=0, device=self.device)
        return choice[0]  # pyright: ignore[reportReturnType]
