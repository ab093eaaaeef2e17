"""The hindsight signal over the vocabulary, for one batch on one rank.

The teacher is the policy of before the first step, shown the hint. What it finds likely in each
place of a reply is asked once and kept; each micro-batch then scores those tokens beside the
sampled one, in the same forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clawrl.config import schema
from clawrl.learner.batch import Collated, MicroBatch
from clawrl.learner.policy import Policy
from clawrl.objective.expected import bucket_gap, expected_clip_loss, with_rest


@dataclass(frozen=True, slots=True)
class _Likely:
    """The teacher's most likely tokens in M hinted places of a micro-batch."""

    rows: Tensor
    """[M] the places among the micro-batch's N reply tokens."""
    ids: Tensor
    """[M, K]."""
    logp: Tensor
    """[M, K] nats."""


@dataclass(frozen=True, slots=True)
class _Before:
    """The policy of before the first step and what the hint changes; [M, K + 1] each."""

    old: Tensor
    gap: Tensor


class VocabularyHindsight:
    """Call `ask` for every hinted micro-batch; then, each step, `targets` and `loss` for each."""

    def __init__(self, objective: schema.Objective) -> None:
        self._objective = objective
        self._answers: dict[int, tuple[Tensor, Tensor]] = {}
        self._before: dict[int, _Before] = {}

    def ask(self, batch: MicroBatch, hinted: Collated, policy: Policy) -> None:
        """Let the policy, as it is now, say what is likely after the hint."""
        lengths = [len(item.reply_ids) for item in batch]
        ids, logp = policy.most_likely(hinted, self._objective.opd_kept)
        answers = zip(ids.split(lengths), logp.split(lengths), strict=True)
        self._answers |= {item.index: answer for item, answer in zip(batch, answers, strict=True)}

    def targets(self, batch: MicroBatch, tensors: Collated) -> Tensor:
        """[N, 1 + K] ids to score: the sampled token, and what the teacher finds likely there."""
        likely = self._likely(batch, tensors)
        ids = tensors.targets[:, None].repeat(1, 1 + likely.ids.shape[1])
        ids[likely.rows, 1:] = likely.ids
        return ids

    def loss(
        self, index: int, batch: MicroBatch, tensors: Collated, logp: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The signal's loss in each place, and its size.

        Args:
            index: of the micro-batch; its first call fixes what was before the first step.
            batch: the micro-batch.
            tensors: the same as tensors.
            logp: [N, 1 + K] nats of `targets`, with gradient.

        Returns:
            [N] loss, and [N] mean |gap| in nats; both 0 where there was no hint.
        """
        likely = self._likely(batch, tensors)
        policy = with_rest(logp[likely.rows, 1:])
        if index not in self._before:
            teacher = with_rest(likely.logp)
            gap = bucket_gap(teacher, policy, clip=self._objective.opd_clip)
            self._before[index] = _Before(policy.detach(), gap)
        before = self._before[index]
        expected = expected_clip_loss(
            policy,
            before.old,
            before.gap,
            clip_low=self._objective.clip_low,
            clip_high=self._objective.clip_high,
        )
        size = (before.old.exp() * before.gap.abs()).sum(dim=1)
        nowhere = logp.new_zeros(len(logp))
        return (
            nowhere.index_put((likely.rows,), expected),
            nowhere.index_put((likely.rows,), size),
        )

    def _likely(self, batch: MicroBatch, tensors: Collated) -> _Likely:
        rows: list[Tensor] = []
        answers: list[tuple[Tensor, Tensor]] = []
        start = 0
        for item in batch:
            end = start + len(item.reply_ids)
            if (answer := self._answers.get(item.index)) is not None:
                rows.append(torch.arange(start, end, device=tensors.targets.device))
                answers.append(answer)
            start = end
        if not answers:
            none = tensors.targets.new_zeros(0)
            return _Likely(none, none[:, None], none[:, None].to(torch.float32))
        return _Likely(
            torch.cat(rows),
            torch.cat([ids for ids, _ in answers]),
            torch.cat([logp for _, logp in answers]),
        )
