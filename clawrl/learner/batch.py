"""How a batch of samples is split over ranks and micro-batches, and made into tensors.

Every rank sees the whole batch and computes the same plan, so that all of them run the same number
of forward passes: a rank without work runs an empty one, for the others wait for it in collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Scored:
    """Reply ids after prompt ids, whose log-probabilities are wanted at a temperature."""

    index: int
    """Of the sample in its batch."""
    prompt_ids: Sequence[int]
    reply_ids: Sequence[int]
    temperature: float = 1.0

    @property
    def tokens(self) -> int:
        """Length of prompt and reply."""
        return len(self.prompt_ids) + len(self.reply_ids)


MicroBatch = list[Scored]

EMPTY = Scored(index=-1, prompt_ids=(0,), reply_ids=(0,))
"""What a rank without work runs, so that no other rank waits for it in vain."""


def share_out(items: Sequence[Scored], ranks: int) -> list[list[Scored]]:
    """Each rank's items, of about the same total length: longest first to the least loaded."""
    shares: list[list[Scored]] = [[] for _ in range(ranks)]
    load = [0] * ranks
    for item in sorted(items, key=lambda item: (-item.tokens, item.index)):
        rank = load.index(min(load))
        shares[rank].append(item)
        load[rank] += item.tokens
    return shares


def micro_batches(items: Sequence[Scored], *, budget_tokens: int) -> list[MicroBatch]:
    """Items of like length together, rows x longest row within the budget; a longer one alone."""
    batches: list[MicroBatch] = []
    for item in sorted(items, key=lambda item: (-item.tokens, item.index)):
        longest = batches[-1][0].tokens if batches else 0
        if batches and (len(batches[-1]) + 1) * longest <= budget_tokens:
            batches[-1].append(item)
        else:
            batches.append([item])
    return batches


def plans(shares: Sequence[Sequence[Scored]], *, budget_tokens: int) -> list[list[MicroBatch]]:
    """Each rank's micro-batches: as many as any other rank has, the missing ones empty."""
    made = [micro_batches(share, budget_tokens=budget_tokens) for share in shares]
    longest = max(len(batches) for batches in made)
    return [batches + [[EMPTY]] * (longest - len(batches)) for batches in made]


@dataclass(frozen=True, slots=True)
class Collated:
    """A micro-batch as tensors. B rows, L the longest, N reply tokens of all rows in order."""

    input_ids: Tensor
    """[B, L], padded on the right."""
    positions: Tensor
    """[N] indices into the B x L hidden states: the one that predicts each reply token."""
    targets: Tensor
    """[N] the reply tokens."""
    temperature: Tensor
    """[N] float32, of each token's sample."""
    mask: Tensor
    """[B, T] bool, true on reply tokens; T is the longest reply."""

    def padded(self, flat: Tensor) -> Tensor:
        """[N] values as [B, T], 0 in the padding."""
        return flat.new_zeros(self.mask.shape).masked_scatter(self.mask, flat)


def collate(batch: MicroBatch, device: torch.device) -> Collated:
    """Make tensors of a micro-batch.

    The padding stands on the right, where a causal model cannot see it: no attention mask is
    needed, and the padding's id cannot matter.
    """
    width = max(item.tokens for item in batch)
    longest_reply = max(len(item.reply_ids) for item in batch)
    input_ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros(len(batch), longest_reply, dtype=torch.bool)
    positions: list[Tensor] = []
    for row, item in enumerate(batch):
        input_ids[row, : item.tokens] = torch.tensor([*item.prompt_ids, *item.reply_ids])
        mask[row, : len(item.reply_ids)] = True
        first = row * width + len(item.prompt_ids) - 1
        positions.append(torch.arange(first, first + len(item.reply_ids)))
    targets = [token for item in batch for token in item.reply_ids]
    temperature = [item.temperature for item in batch for _ in item.reply_ids]
    return Collated(
        input_ids=input_ids.to(device),
        positions=torch.cat(positions).to(device),
        targets=torch.tensor(targets, device=device),
        temperature=torch.tensor(temperature, dtype=torch.float32, device=device),
        mask=mask.to(device),
    )
