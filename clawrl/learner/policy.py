"""The policy in training: float32 master weights, whole on one process or sharded over several.

Sharding is torch's own FSDP2 (`fully_shard`), by the same lines on gloo and on NCCL, so that what
runs on GPUs is what the tests run on a CPU. Outside this module nobody sees a shard: weights and
optimiser state go in and out as whole tensors by name.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers import AutoModelForCausalLM

from clawrl.config import schema
from clawrl.errors import ModelError
from clawrl.learner.batch import Collated
from clawrl.learner.logp import ReplyLogp, causal_model
from clawrl.learner.rank import Rank


class Policy:
    """A causal language model whose replies are scored, and its reference where one is needed."""

    def __init__(self, model_path: Path, config: schema.Config, rank: Rank) -> None:
        self._config = config
        self._rank = rank
        self.model = load_model(model_path, config, seed=config.seed)
        self.lora = config.model.lora is not None
        self.module = self._ready(self.model)
        # Taken once: between a forward pass without gradient and the next backward pass, FSDP2
        # leaves the outermost unit whole, and the model names other tensors than the trained ones.
        self._trained = {
            name: parameter
            for name, parameter in self.model.named_parameters()
            if parameter.requires_grad
        }
        self.reference: ReplyLogp | None = None
        """The base model, frozen; None without KL, or with LoRA, where it is the model beneath."""
        if config.objective.kl_beta > 0 and not self.lora:
            frozen = load_model(model_path, config, seed=config.seed).requires_grad_(False)
            self.reference = self._ready(frozen).eval()

    def _ready(self, model: nn.Module) -> ReplyLogp:
        """Onto the device, and sharded where there are several processes."""
        module = ReplyLogp(model, chunk_tokens=self._config.learner.logit_chunk_tokens)
        module.to(self._rank.device)
        if self._rank.count > 1:
            shard(module, self._rank)
        return module

    def logp(self, batch: Collated) -> Tensor:
        """[N] log-probabilities of a micro-batch's reply tokens, nats."""
        return self.logp_of(batch, batch.targets[:, None])[:, 0]

    def logp_of(self, batch: Collated, ids: Tensor) -> Tensor:
        """[N, K] log-probabilities, nats, of [N, K] ids in the places of the reply tokens."""
        with self._rank.autocast():
            return self.module(batch.input_ids, batch.positions, ids, batch.temperature)

    def most_likely(self, batch: Collated, count: int) -> tuple[Tensor, Tensor]:
        """[N, K] the `count` most likely ids in each place, and [N, K] their nats."""
        with self._rank.autocast():
            return self.module(batch.input_ids, batch.positions, count, batch.temperature)

    @torch.no_grad()
    def reference_logp(self, batch: Collated) -> Tensor:
        """[N] the same under the base model: a frozen copy, or this one without its adapter."""
        if self.reference is None:
            adapted: Any = self.model
            with adapted.disable_adapter():
                return self.logp(batch)
        with self._rank.autocast():
            return self.reference(
                batch.input_ids, batch.positions, batch.targets[:, None], batch.temperature
            )[:, 0]

    @contextmanager
    def evaluating(self) -> Generator[None]:
        """No dropout and no gradient inside."""
        self.module.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            self.module.train()

    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that learn, by the model's own names."""
        return self._trained

    def weights(self, *, holder: bool) -> dict[str, Tensor]:
        """Whole float32 copies of the trained parameters on the CPU; empty unless `holder`.

        Every rank must call this.
        """
        whole = {}
        for name, parameter in self.trained().items():
            value = gather(parameter.detach())
            if holder:
                whole[name] = value.to("cpu", copy=True)
        return whole

    @torch.no_grad()
    def load(self, weights: dict[str, Tensor]) -> None:
        """Take over whole tensors by name. Every rank must call this, with the same tensors."""
        for name, parameter in self.trained().items():
            parameter.copy_(scatter(weights[name], parameter))


def load_model(path: Path, config: schema.Config, *, seed: int) -> nn.Module:
    """A model from a local folder, in float32, with adapters if the configuration has them.

    Raises:
        ModelError: there is no model that can be read.
    """
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            path,
            dtype=torch.float32,
            local_files_only=True,
            trust_remote_code=config.model.trust_remote_code,
        )
    except (OSError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise ModelError(f"{path}: the learner cannot read a model there: {first}") from None
    if config.learner.gradient_checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    lora = config.model.lora
    if lora is not None:
        from peft import LoraConfig, get_peft_model

        torch.manual_seed(seed)  # adapters start from random numbers: the same on every rank
        settings = LoraConfig(
            r=lora.rank,
            lora_alpha=lora.alpha,
            lora_dropout=lora.dropout,
            target_modules=lora.target_modules,
            task_type="CAUSAL_LM",
        )
        model = get_peft_model(model, settings)
    return model.train()


def shard(module: ReplyLogp, rank: Rank) -> None:
    """Split every layer's parameters over all processes, and the rest as one more unit.

    Gradients are averaged over the processes, as in any data-parallel training; who wants the sum
    multiplies the loss by their number.
    """
    mesh = init_device_mesh(rank.device.type, (rank.count,))
    precision = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if rank.bf16 else None,
        reduce_dtype=torch.float32 if rank.bf16 else None,
    )
    whole_layers: set[str] = set(causal_model(module.model)._no_split_modules or ())
    for layer in list(module.modules()):
        if type(layer).__name__ in whole_layers:
            fully_shard(layer, mesh=mesh, mp_policy=precision)
    fully_shard(module, mesh=mesh, mp_policy=precision)


def gather(tensor: Tensor) -> Tensor:
    """The whole of a tensor that may be sharded; a collective if it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def scatter(whole: Tensor, like: Tensor) -> Tensor:
    """A whole tensor laid out as `like` is; a collective if that is sharded."""
    moved = whole.to(device=like.device, dtype=like.dtype)
    if isinstance(like, DTensor):
        return distribute_tensor(moved, like.device_mesh, like.placements)
    return moved
