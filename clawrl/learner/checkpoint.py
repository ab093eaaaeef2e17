"""Checkpoints: what a restarted learner goes on from, and the update that led to it.

`checkpoints/v000003/` holds `state.pt` (float32 weights and Adam's moments, whole, by name) and
`update.json` (the ledger line of version 3). It appears by one rename *before* the line is in the
ledger, so that no crash can lose a version that somebody was told of. Random numbers need no state
of their own: they are drawn from seed, version and rank (see `clawrl.learner.step`); the position
in the samples is the ledger itself (see `clawrl.learner.pool`).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from pydantic import ValidationError
from torch import Tensor

from clawrl.errors import LearnerError
from clawrl.learner.policy import Policy
from clawrl.learner.step import Trainer
from clawrl.processes.failpoints import failpoint
from clawrl.records.nouns import Update
from clawrl.records.versions import atomic_folder, version_folder, versions

STATE = "state.pt"
UPDATE = "update.json"


def newest_checkpoint(checkpoints: Path) -> Update | None:
    """The update of the newest checkpoint, or None where there is none.

    Raises:
        LearnerError: its `update.json` cannot be read.
    """
    held = versions(checkpoints)
    if not held:
        return None
    path = version_folder(checkpoints, held[-1]) / UPDATE
    try:
        return Update.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise LearnerError(f"{path}: {str(error).splitlines()[0]}") from None


def save_checkpoint(
    checkpoints: Path,
    update: Update,
    *,
    weights: dict[str, Tensor],
    optimiser: dict[str, dict[str, Tensor]],
) -> None:
    """Write the checkpoint of `update.version`, then delete the older ones. First rank only.

    Raises:
        OSError: it cannot be written; the previous one is still there.
    """
    with atomic_folder(version_folder(checkpoints, update.version)) as folder:
        torch.save({"weights": weights, "optimiser": optimiser}, folder / STATE)
        (folder / UPDATE).write_text(update.model_dump_json() + "\n")
        failpoint("learner.before_checkpoint_rename")
    for version in versions(checkpoints):
        if version != update.version:
            shutil.rmtree(version_folder(checkpoints, version), ignore_errors=True)


def load_checkpoint(checkpoints: Path, version: int, policy: Policy, trainer: Trainer) -> None:
    """Put a checkpoint's weights and moments into policy and optimiser. Every rank must call this.

    Raises:
        LearnerError: it does not fit this model.
    """
    path = version_folder(checkpoints, version) / STATE
    try:
        state = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (OSError, RuntimeError) as error:
        raise LearnerError(f"{path}: {str(error).splitlines()[0]}") from None
    expected = set(policy.trained())
    if set(state["weights"]) != expected:
        raise LearnerError(
            f"{path}: holds other parameters than this model trains; was model or model.lora "
            "changed since?"
        )
    policy.load(state["weights"])
    trainer.load_state(state["optimiser"])
