"""Run under torchrun by test_two_ranks: every case's gradient, whole, saved by the first rank."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from accelerate import Accelerator

from clawrl.learner.loss import BatchLoss
from clawrl.learner.policy import Policy, gather
from clawrl.learner.rank import Rank
from tests.learning import make_config, uneven_samples

CASES = {
    "uneven lengths": (7, {}),
    "token mean": (7, {"objective": {"aggregation": "token_mean"}}),
    "an empty micro-batch": (3, {"learner": {"micro_batch_tokens": 1}}),
    "a rank without any work": (1, {}),
    "everything masked on one rank": (2, {"objective": {"mask_cut_replies": True}}),
    "lora": (7, {"model": {"lora": {"rank": 4}}}),
    "lora with a reference": (
        5,
        {"model": {"lora": {"rank": 4}}, "objective": {"kl_beta": 0.1}},
    ),
    "a reference": (5, {"objective": {"kl_beta": 0.1}}),
    "chunks and checkpointing": (
        7,
        {"learner": {"logit_chunk_tokens": 5, "gradient_checkpointing": True}},
    ),
}
"""Number of samples, and what the configuration changes."""


def whole_gradients(model_path: Path, rank: Rank) -> dict[str, torch.Tensor]:
    """Each case's gradient as one vector."""
    vectors = {}
    for name, (count, sections) in CASES.items():
        config = make_config(**{key: dict(value) for key, value in sections.items()})
        samples = uneven_samples(count)
        if config.objective.mask_cut_replies:
            samples[0] = samples[0].model_copy(update={"finish_reason": "length"})
        policy = Policy(model_path, config, rank)
        nudge_adapters(policy)
        loss = BatchLoss(samples, policy, config=config, rank=rank, version=0)
        loss.look_back()
        loss.backward()
        parts = [gather(p.grad).flatten() for p in policy.trained().values()]
        vectors[name] = torch.cat(parts)
    return vectors


def nudge_adapters(policy: Policy) -> None:
    """LoRA's B matrices start at zero, where half of the gradient is zero: move them away."""
    if policy.lora:
        weights = policy.weights(holder=True)
        policy.load(
            {
                n: w + 0.02 * torch.cos(torch.arange(w.numel()).view_as(w))
                for n, w in weights.items()
            }
        )


def main() -> None:
    model_path, out = Path(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    accelerator = Accelerator(cpu=True)
    rank = Rank(accelerator.device, accelerator.process_index, accelerator.num_processes)
    vectors = whole_gradients(model_path, rank)
    if rank.first:
        torch.save(vectors | {"ranks": torch.tensor(rank.count)}, out)
    accelerator.end_training()


if __name__ == "__main__":
    main()
