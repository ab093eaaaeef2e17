"""What is measured while a batch is trained on: sums over tokens, added over ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from clawrl.records.nouns import Sample

_SUMS = (
    "loss",
    "tokens",
    "binary_abs",
    "opd_abs",
    "kl",
    "mismatch",
    "mismatch_tokens",
    "drift",
    "drift_tokens",
    "step_tokens",
    "clipped",
)


class Measures:
    """Named sums over trained tokens, on the device, so that measuring never waits for it."""

    def __init__(self, device: torch.device) -> None:
        self._sums = torch.zeros(len(_SUMS), dtype=torch.float64, device=device)

    def add(self, **amounts: Tensor) -> None:
        """Add each tensor's sum to the sum of that name."""
        for name, amount in amounts.items():
            self._sums[_SUMS.index(name)] += amount.detach().sum()

    def totals(self) -> dict[str, float]:
        """The metrics over all ranks; every rank must call this.

        `mismatch` is the engine's distance at equal weights and `drift` that of older weights, both
        mean |log pi - log pi_b| in nats a token; each is absent when no token of its kind was seen.
        """
        sums = self._sums.clone()
        if dist.is_initialized():
            dist.all_reduce(sums)
        total: dict[str, float] = dict(zip(_SUMS, sums.tolist(), strict=True))
        tokens = max(total["tokens"], 1.0)
        metrics = {name: total[name] / tokens for name in ("binary_abs", "opd_abs", "kl")}
        metrics["loss"] = total["loss"]
        metrics["clip_fraction"] = total["clipped"] / max(total["step_tokens"], 1.0)
        for name in ("mismatch", "drift"):
            if total[f"{name}_tokens"]:
                metrics[name] = total[name] / total[f"{name}_tokens"]
        return metrics


def describe(samples: Sequence[Sample]) -> dict[str, float]:
    """What the batch itself says: share with a usable hint, mean score, tokens of a reply."""
    scores = [sample.score for sample in samples if sample.score is not None]
    return {
        "hint_rate": sum(s.hinted_prompt_ids is not None for s in samples) / len(samples),
        "score_mean": sum(scores) / len(scores) if scores else 0.0,
        "reply_tokens": sum(len(s.reply_ids) for s in samples) / len(samples),
    }


def total_tokens(samples: Sequence[Sample]) -> int:
    """Prompt and reply tokens that a batch puts through the model once."""
    return sum(len(sample.prompt_ids) + len(sample.reply_ids) for sample in samples)
