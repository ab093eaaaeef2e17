"""Where a restarted learner stands: the newest checkpoint against the ledger.

A version is final once a checkpoint holds it. So a restart does two things: it completes the ledger
if the crash came between a checkpoint and its line, and it takes back the updates after the
checkpoint, to train their batches again first, in the same order and under the same numbers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from clawrl.errors import LearnerError
from clawrl.records.nouns import LedgerLine, Retired, Update


@dataclass(frozen=True, slots=True)
class Recovery:
    """What to append to the ledger, and what to train again."""

    append: list[LedgerLine] = field(default_factory=list)
    redo: list[Update] = field(default_factory=list)
    """In order; their versions follow the checkpoint's without a gap."""


def recover(lines: Sequence[LedgerLine], checkpoint: Update | None) -> Recovery:
    """Compare ledger and checkpoint (None: there is none, the base model is where to begin).

    Raises:
        LearnerError: the two cannot come from one run.
    """
    last: dict[int, Update] = {}
    surviving: dict[int, Update] = {}
    for line in lines:
        if isinstance(line, Update):
            last[line.version] = surviving[line.version] = line
        elif isinstance(line, Retired):
            surviving.pop(line.version, None)
    held = checkpoint.version if checkpoint else 0
    _require_same_run(surviving, checkpoint)
    recovery = Recovery()
    if checkpoint and held not in surviving:
        recovery.append.append(checkpoint)
    for version in sorted(surviving):
        if version > held:
            recovery.append.append(_retire(surviving[version]))
    # Not only the surviving ones: a crash while training again leaves some retired and not redone.
    recovery.redo.extend(last[version] for version in sorted(last) if version > held)
    expected = list(range(held + 1, held + 1 + len(recovery.redo)))
    if [update.version for update in recovery.redo] != expected:
        raise LearnerError(f"the ledger has a gap after version {held}, its last checkpoint")
    return recovery


def _require_same_run(surviving: dict[int, Update], checkpoint: Update | None) -> None:
    if checkpoint is None:
        return
    lost = [version for version in range(1, checkpoint.version) if version not in surviving]
    if lost:
        raise LearnerError(
            f"the checkpoint holds version {checkpoint.version}, but the ledger lacks {lost[0]}: "
            "restore updates.jsonl, or move checkpoints/ away to train everything again"
        )
    twin = surviving.get(checkpoint.version)
    if twin is not None and twin.digest_after != checkpoint.digest_after:
        raise LearnerError(
            f"version {checkpoint.version} of the checkpoint and of the ledger are different "
            "weights: they are not from the same run"
        )


def _retire(update: Update) -> Retired:
    return Retired(
        version=update.version,
        digest=update.digest_after,
        sample_ids=update.sample_ids,
        created=time.time(),
    )
