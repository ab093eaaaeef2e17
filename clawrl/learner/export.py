"""New weights in the form in which the engine and anyone else can load them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clawrl.config import schema
from clawrl.learner.batch import Scored, collate
from clawrl.learner.policy import Policy
from clawrl.learner.rank import Rank
from clawrl.records.nouns import Sample
from clawrl.records.versions import VersionMeta, write_version

PROBE = "probe.json"
_COMPANIONS = (".json", ".jinja", ".txt", ".model")
"""Suffixes of tokenizer and configuration files that belong to a model."""


def export_version(
    weights_root: Path,
    policy: Policy,
    whole: dict[str, Tensor],
    *,
    version: int,
    model: schema.Model,
    model_path: Path,
    probe: list[dict[str, Any]] | None,
) -> VersionMeta:
    """Write `weights/vN` in the engine's precision. First rank only.

    Args:
        weights_root: the run's folder of versions.
        policy: whose weights they are.
        whole: its trained parameters, by `Policy.weights`.
        version: N.
        model: the configured model; a version is an adapter where it has LoRA.
        model_path: the base model, whose tokenizer goes with the version.
        probe: what `probe_replies` gave; None: no `probe.json`.

    Returns:
        The version's meta data, with the digest of its tensors.

    Raises:
        OSError: it cannot be written; nothing appears.
    """
    dtype = torch.bfloat16 if model.dtype == "bfloat16" else torch.float32
    tensors = {name: value.to(dtype) for name, value in whole.items()}

    def write(folder: Path) -> None:
        if policy.lora:
            _write_adapter(folder, policy, tensors)
        else:
            _write_model(folder, policy, tensors, dtype=model.dtype, model_path=model_path)
        if probe is not None:
            (folder / PROBE).write_text(json.dumps(probe))

    return write_version(
        weights_root,
        version=version,
        parent=version - 1,
        kind="lora" if policy.lora else "full",
        dtype=model.dtype,
        write=write,
    )


def _write_model(
    folder: Path, policy: Policy, tensors: dict[str, Tensor], *, dtype: str, model_path: Path
) -> None:
    model: Any = policy.model
    model.save_pretrained(folder, state_dict=tensors)
    config_path = folder / "config.json"
    settings = json.loads(config_path.read_text())
    config_path.write_text(json.dumps(settings | {"dtype": dtype}, indent=2) + "\n")
    for path in model_path.iterdir():
        companion = path.suffix in _COMPANIONS and not path.name.endswith(".index.json")
        if companion and path.is_file() and not (folder / path.name).exists():
            shutil.copy(path, folder)


def _write_adapter(folder: Path, policy: Policy, tensors: dict[str, Tensor]) -> None:
    model: Any = policy.model
    model.save_pretrained(folder, state_dict=tensors, save_embedding_layers=False)


def probe_replies(
    policy: Policy, samples: Sequence[Sample], *, rank: Rank, count: int = 2
) -> list[dict[str, Any]]:
    """The shortest samples and their log-probs (nats, temperature 1) under the present weights.

    The supervisor compares the engine's with them. Every rank must call this.
    """
    shortest = sorted(samples, key=lambda s: len(s.prompt_ids) + len(s.reply_ids))[:count]
    items = [Scored(i, s.prompt_ids, s.reply_ids) for i, s in enumerate(shortest)]
    with policy.evaluating():
        logp = policy.logp(collate(items, rank.device)).cpu()
    parts = logp.split([len(item.reply_ids) for item in items])
    return [
        {
            "prompt_ids": list(item.prompt_ids),
            "reply_ids": list(item.reply_ids),
            "logp": part.tolist(),
        }
        for item, part in zip(items, parts, strict=True)
    ]
