"""What clawrl adds to vLLM's workers: a weight reload that reaches every copy of a weight.

vLLM imports this module in its own processes (`--worker-extension-cls`) and mixes the class into
its worker. The reason: on a CPU vLLM multiplies with repacked copies of matrices. A reload makes
them anew for each layer that the checkpoint names, but an output head that is tied to the embedding
is not named, and would go on with the head of the first weights for ever.
"""

from __future__ import annotations

from typing import Any


class WorkerExtension:
    """Methods that the engine's client calls by name, in every worker."""

    model_runner: Any
    reload_weights: Any

    def take_over_weights(self, weights_path: str) -> None:
        """Load the weights in `weights_path`, the output head's copy included."""
        from vllm.model_executor.layers.vocab_parallel_embedding import (
            ParallelLMHead,
            UnquantizedEmbeddingMethod,
        )

        self.reload_weights(weights_path=weights_path)
        for module in self.model_runner.get_model().modules():
            if not isinstance(module, ParallelLMHead):
                continue
            method = module.quant_method
            if isinstance(method, UnquantizedEmbeddingMethod):
                method.process_weights_after_loading(module)
