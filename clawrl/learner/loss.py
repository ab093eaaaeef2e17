"""The loss of one batch, as gradients on the policy's parameters, micro-batch by micro-batch.

All that must stay as it was before the first step is taken once and kept: the teacher's log-probs
by a pass of their own, the policy's (pi_old) from the first step's forward pass, so that pi_old
never costs a pass. Later steps on the same batch use what was kept.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from clawrl.config import schema
from clawrl.learner.batch import Collated, MicroBatch, Scored, collate, plans, share_out
from clawrl.learner.hindsight import VocabularyHindsight
from clawrl.learner.measures import Measures
from clawrl.learner.policy import Policy
from clawrl.learner.pool import staleness
from clawrl.learner.rank import Rank
from clawrl.objective.advantages import centred_scores, combined_advantage, hindsight_gap
from clawrl.objective.losses import (
    aggregate,
    clipped,
    k2_kl,
    ppo_clip_loss,
    ratio,
    token_shares,
)
from clawrl.records.nouns import Sample


@dataclass(frozen=True, slots=True)
class Before:
    """What one micro-batch keeps from before the first step; [B, T] each."""

    old_logp: Tensor
    advantage: Tensor


class BatchLoss:
    """One batch on one rank. Call `look_back` once, then `backward` once per optimiser step."""

    def __init__(
        self,
        samples: list[Sample],
        policy: Policy,
        *,
        config: schema.Config,
        rank: Rank,
        version: int,
    ) -> None:
        """Plan the batch; `version` is that of the policy's weights, for staleness."""
        self._samples = samples
        self._policy = policy
        self._objective = config.objective
        self._ranks = rank.count
        self._device = rank.device
        self._version = version
        score = torch.tensor([sample.signal for sample in samples], dtype=torch.float64)
        if config.objective.baseline == "batch":
            score = centred_scores(score)
        self._scores: list[float] = score.tolist()
        trained = [tokens for sample in samples if (tokens := self._trained_tokens(sample))]
        self.window_tokens = sum(trained)
        """Trained tokens of all ranks: what the mean is taken over."""
        self.window_samples = len(trained)
        self.measures = Measures(rank.device)
        scored = [
            Scored(index, sample.prompt_ids, sample.reply_ids, sample.temperature)
            for index, sample in enumerate(samples)
        ]
        budget = config.learner.micro_batch_tokens
        shares = share_out(scored, rank.count)
        self.micro_batches = plans(shares, budget_tokens=budget)[rank.index]
        hinted = [[h for item in share if (h := self._hinted(item))] for share in shares]
        self._hinted_batches = plans(hinted, budget_tokens=budget)[rank.index]
        self._teacher: dict[int, Tensor] = {}
        self._vocabulary = (
            VocabularyHindsight(config.objective)
            if config.objective.opd_over == "vocabulary"
            else None
        )
        self._reference: list[Tensor] = []
        self.before: list[Before] = []
        """What each micro-batch keeps; filled by the first `backward`."""

    def _trained_tokens(self, sample: Sample) -> int:
        cut = self._objective.mask_cut_replies and sample.finish_reason == "length"
        return 0 if cut else len(sample.reply_ids)

    def _hinted(self, item: Scored) -> Scored | None:
        prompt_ids = self._samples[item.index].hinted_prompt_ids
        if prompt_ids is None or self._objective.w_opd == 0:
            return None
        return Scored(item.index, prompt_ids, item.reply_ids, item.temperature)

    def look_back(self) -> None:
        """Score the replies after their hints by the policy as it is now, and by the reference."""
        with self._policy.evaluating():
            for batch in self._hinted_batches:
                tensors = collate(batch, self._device)
                if self._vocabulary is not None:
                    self._vocabulary.ask(batch, tensors, self._policy)
                    continue
                logp = self._policy.logp(tensors)
                lengths = [len(item.reply_ids) for item in batch]
                for item, part in zip(batch, logp.split(lengths), strict=True):
                    self._teacher[item.index] = part
            if self._objective.kl_beta > 0:
                for batch in self.micro_batches:
                    tensors = collate(batch, self._device)
                    flat = self._policy.reference_logp(tensors)
                    self._reference.append(tensors.padded(flat))

    def backward(self) -> None:
        """Add the whole batch's gradient to the parameters.

        Ranks average their gradients, so each multiplies its loss by their number: the result is
        that of one process over all samples.
        """
        for index, batch in enumerate(self.micro_batches):
            loss = self._micro_batch_loss(index, batch)
            (loss * self._ranks).backward()

    def _micro_batch_loss(self, index: int, batch: MicroBatch) -> Tensor:
        tensors = collate(batch, self._device)
        ids = tensors.targets[:, None]
        if self._vocabulary is not None:
            ids = self._vocabulary.targets(batch, tensors)
        logp = self._policy.logp_of(tensors, ids)  # [N, 1 + K]
        policy_logp = tensors.padded(logp[:, 0])  # [B, T]
        mask = tensors.mask & self._rows_trained(batch)[:, None]
        behaviour_logp = self._behaviour(batch, tensors)
        first_step = len(self.before) == index
        if first_step:
            before = self._look_at(batch, tensors, policy_logp.detach(), mask)
            self.before.append(before)
            self._measure_distance(batch, before.old_logp, behaviour_logp, mask)
        before = self.before[index]
        objective = self._objective
        token_loss = ppo_clip_loss(
            policy_logp,
            before.old_logp,
            behaviour_logp,
            before.advantage,
            clip_low=objective.clip_low,
            clip_high=objective.clip_high,
            truncate_weight=objective.truncate_weight,
        )
        if self._vocabulary is not None:
            expected, size = self._vocabulary.loss(index, batch, tensors, logp)
            token_loss = token_loss + self._objective.w_opd * tensors.padded(expected)
            if first_step:
                self.measures.add(opd_abs=objective.w_opd * tensors.padded(size)[mask])
        if self._reference:
            divergence = k2_kl(policy_logp, self._reference[index])
            token_loss = token_loss + objective.kl_beta * divergence
            if first_step:
                self.measures.add(kl=divergence[mask])
        shares = token_shares(
            mask,
            aggregation=objective.aggregation,
            window_tokens=self.window_tokens,
            window_samples=self.window_samples,
        )
        loss = aggregate(token_loss, shares)
        if first_step:
            self.measures.add(loss=loss)
        self._measure_clipping(policy_logp.detach(), before, mask)
        return loss

    def _rows_trained(self, batch: MicroBatch) -> Tensor:
        """[B] bool: not an empty row, not a reply that the recipe masks."""
        rows = [
            item.index >= 0 and self._trained_tokens(self._samples[item.index]) > 0
            for item in batch
        ]
        return torch.tensor(rows, device=self._device)

    def _behaviour(self, batch: MicroBatch, tensors: Collated) -> Tensor:
        """[B, T] log-probs as the sampler gave them."""
        flat = [
            logp
            for item in batch
            for logp in (self._samples[item.index].behaviour_logp if item.index >= 0 else [0.0])
        ]
        return tensors.padded(torch.tensor(flat, dtype=torch.float32, device=self._device))

    def _look_at(
        self, batch: MicroBatch, tensors: Collated, old_logp: Tensor, mask: Tensor
    ) -> Before:
        """The advantages, by the policy of before the first step."""
        objective = self._objective
        teacher_logp = old_logp.clone()
        scores = []
        for row, item in enumerate(batch):
            scores.append(self._scores[item.index] if item.index >= 0 else 0.0)
            if item.index >= 0 and (teacher := self._teacher.get(item.index)) is not None:
                teacher_logp[row, : len(teacher)] = teacher
        score = torch.tensor(scores, dtype=old_logp.dtype, device=self._device)
        advantage = combined_advantage(
            score,
            teacher_logp,
            old_logp,
            mask,
            w_binary=objective.w_binary,
            w_opd=objective.w_opd,
            opd_clip=objective.opd_clip,
        )
        gap = hindsight_gap(teacher_logp, old_logp, mask, clip=objective.opd_clip)
        self.measures.add(
            tokens=mask,
            binary_abs=objective.w_binary * score.abs()[:, None] * mask,
            opd_abs=objective.w_opd * gap.abs(),
        )
        return Before(old_logp, advantage)

    def _measure_distance(
        self, batch: MicroBatch, old_logp: Tensor, behaviour_logp: Tensor, mask: Tensor
    ) -> None:
        """Mismatch of the engine at equal weights, and drift where the sample is older."""
        fresh_rows = [
            item.index >= 0 and staleness(self._samples[item.index], self._version) == 0
            for item in batch
        ]
        fresh = torch.tensor(fresh_rows, device=self._device)[:, None] & mask
        distance = (old_logp - behaviour_logp).abs()
        self.measures.add(
            mismatch=distance[fresh],
            mismatch_tokens=fresh,
            drift=distance[mask & ~fresh],
            drift_tokens=mask & ~fresh,
        )

    def _measure_clipping(self, policy_logp: Tensor, before: Before, mask: Tensor) -> None:
        rho = ratio(policy_logp, before.old_logp)
        cut = clipped(
            rho,
            before.advantage,
            low=self._objective.clip_low,
            high=self._objective.clip_high,
        )
        self.measures.add(clipped=cut & mask, step_tokens=mask)
