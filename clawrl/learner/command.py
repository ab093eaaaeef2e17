"""How the supervisor starts the learner: pure functions, so that a dry run can print the plan."""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

from clawrl.config import schema

MODEL_PATH = "CLAWRL_MODEL_PATH"
"""Environment variable that holds the base model's folder."""

_GIB = 2**30
_ASSUMED_VOCABULARY = 151_936
_ASSUMED_LAYERS = 32
_BYTES_OF_A_TOKEN_IN_A_LAYER = {"no": 68, "bf16": 34}
"""Activations kept for the backward pass, per hidden unit (arXiv:2205.05198, without attention)."""


def learner_command(
    config: schema.Config,
    run_dir: Path,
    until: int,
    *,
    replay: Path | None = None,
    bound_staleness: bool = True,
) -> list[str]:
    """The child's command line: one process, or `torchrun` on CPUs and `accelerate` on GPUs."""
    program = ["-m", "clawrl.learner", str(run_dir), "--until", str(until)]
    if replay is not None:
        program += ["--replay", str(replay)]
    if not bound_staleness:
        program += ["--no-staleness"]
    processes = learner_processes(config)
    if processes == 1:
        return [sys.executable, *program]
    if not config.resources.learner_gpus:
        # `accelerate launch --cpu --num_processes 2` starts one process: facts/LEARNER.md.
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
        return [sys.executable, *launcher, str(processes), *program]
    launcher = ["-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines", "1"]
    launcher += ["--num_processes", str(processes), "--main_process_port", "0"]
    launcher += ["--mixed_precision", config.learner.mixed_precision, "--dynamo_backend", "no"]
    return [sys.executable, *launcher, *program]


def learner_environment(config: schema.Config, model_path: Path) -> dict[str, str]:
    """What the child's environment needs beyond the supervisor's own."""
    environment = {MODEL_PATH: str(model_path), "HF_HUB_OFFLINE": "1"}
    gpus = config.resources.learner_gpus
    if gpus:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
        return environment
    cores = len(os.sched_getaffinity(0))
    threads = config.resources.learner_threads or max(1, cores // learner_processes(config))
    return environment | {
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": str(threads),
        # Spinning threads cost more than twice the processor time where another program runs too.
        "OMP_WAIT_POLICY": "PASSIVE",
    }


def learner_processes(config: schema.Config) -> int:
    """One for each of the learner's GPUs; on CPUs as configured."""
    return len(config.resources.learner_gpus) or config.resources.learner_processes


def memory_estimate_gib(config: schema.Config) -> float | None:
    """Memory that one learner process takes at its peak; None where the model's size is unknown.

    Counted are float32 weights, gradients and Adam's two moments of this process's share, the one
    layer that is whole at a time, activations of a micro-batch, and one chunk of logits with its
    softmax and gradient. Where the model's width is not configured it is derived from its size.
    """
    parameters = config.model.parameters
    if parameters is None:
        return None
    learner, processes = config.learner, learner_processes(config)
    layers = config.model.hidden_layers or _ASSUMED_LAYERS
    width = math.sqrt(parameters / (12 * layers))
    trained = parameters
    if config.model.lora is not None:
        trained = min(parameters, layers * 14 * config.model.lora.rank * width)
    copies = 4 * parameters + 12 * trained  # bytes: weights; gradient and two moments
    if config.objective.kl_beta > 0 and config.model.lora is None:
        copies += 4 * parameters  # the frozen reference
    whole_layer = 4 * parameters / layers if processes > 1 else 0.0
    unit = (
        2
        if learner.gradient_checkpointing
        else _BYTES_OF_A_TOKEN_IN_A_LAYER[learner.mixed_precision]
    )
    activations = learner.micro_batch_tokens * width * layers * unit
    logits = 3 * 4 * learner.logit_chunk_tokens * _ASSUMED_VOCABULARY
    return (copies / processes + whole_layer + activations + logits) / _GIB
