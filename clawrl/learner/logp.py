"""Log-probabilities of reply tokens: the one forward pass that everything in the learner uses.

The vocabulary is large, the hidden state is small: logits are computed for reply tokens only, a
chunk at a time, and never kept for the prompt. With several chunks each is computed again in the
backward pass, so that one chunk of logits is the most that is ever held.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from clawrl.errors import ModelError


class ReplyLogp(nn.Module):
    """Wraps a causal language model (or a LoRA model around one); `forward` gives log-probs."""

    def __init__(self, model: nn.Module, *, chunk_tokens: int) -> None:
        super().__init__()
        self.model = model
        self.chunk_tokens = chunk_tokens
        causal = causal_model(model)
        config: Any = causal.config
        for name in ("final_logit_softcapping", "logit_scale", "logits_scaling"):
            if getattr(config, name, None) not in (None, 1, 1.0):
                raise ModelError(
                    f"{config.model_type}: it changes its logits by {name}, which the learner "
                    "does not do; choose a model without it, such as Qwen3 or Llama"
                )

    def forward(
        self, input_ids: Tensor, positions: Tensor, targets: Tensor | int, temperature: Tensor
    ) -> Any:
        """Log-probabilities of the targets.

        Args:
            input_ids: [B, L], padded on the right.
            positions: [N] indices into the B x L hidden states.
            targets: [N, K] token ids, each predicted from its row's position; or an int K for the
                K most likely ones.
            temperature: [N] by which the logits are divided, as the sampler did.

        Returns:
            [N, K] float32, nats; for the most likely ones a pair of [N, K] ids and [N, K] nats.
        """
        causal = causal_model(self.model)
        hidden = causal.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
        hidden = hidden.flatten(0, 1).index_select(0, positions)  # [N, H]
        head = cast("nn.Module", causal.get_output_embeddings())
        if isinstance(targets, int):
            parts = self._parts(hidden, temperature)
            found = [_top(head, states, heat, targets) for states, heat in parts]
            return torch.cat([ids for ids, _ in found]), torch.cat([logp for _, logp in found])
        if len(targets) <= self.chunk_tokens or not torch.is_grad_enabled():
            parts = [_token_logp(head, *part) for part in self._parts(hidden, targets, temperature)]
        else:
            parts = [
                cast("Tensor", checkpoint(_token_logp, head, *part, use_reentrant=False))
                for part in self._parts(hidden, targets, temperature)
            ]
        return torch.cat(parts)

    def _parts(self, *tensors: Tensor) -> list[tuple[Tensor, ...]]:
        return list(zip(*(tensor.split(self.chunk_tokens) for tensor in tensors), strict=True))


def _token_logp(head: nn.Module, hidden: Tensor, targets: Tensor, temperature: Tensor) -> Tensor:
    """[n, K] log-probabilities of [n, K] ids from [n, H] hidden states."""
    logits = _logits(head, hidden, temperature)
    return logits.gather(1, targets) - logits.logsumexp(dim=1, keepdim=True)


def _top(head: nn.Module, hidden: Tensor, temperature: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """[n, K] ids of the most likely tokens and [n, K] their log-probabilities."""
    logits = _logits(head, hidden, temperature)
    best = logits.topk(min(count, logits.shape[1]), dim=1)
    return best.indices, best.values - logits.logsumexp(dim=1, keepdim=True)


def _logits(head: nn.Module, hidden: Tensor, temperature: Tensor) -> Tensor:
    """[n, V] divided by the temperature, in float32 (or float64)."""
    logits = head(hidden)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    return logits / temperature[:, None]


def causal_model(model: nn.Module) -> Any:
    """The transformers model inside, whether or not adapters stand around it."""
    unwrap = getattr(model, "get_base_model", None)
    return unwrap() if unwrap is not None else model
