"""What a stopped run left half done: turns with a next state but no verdict or no sample."""

from __future__ import annotations

from dataclasses import dataclass, field

from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction, Verdict


@dataclass
class Backlog:
    """Work to finish before new turns are taken."""

    unjudged: list[tuple[Interaction, Feedback]] = field(default_factory=list)
    unassembled: list[tuple[Interaction, Verdict]] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    """Accepted samples that no surviving update holds and that were not passed over as stale."""


def backlog(folder: RunFolder) -> Backlog:
    """Compare the streams of a run. Raises RecordError for a bad line."""
    sampled: set[str] = set()
    accepted: list[str] = []
    for sample in folder.samples.read():
        sampled.add(sample.interaction_id)
        if sample.accepted:
            accepted.append(sample.interaction_id)
    verdicts = {
        v.interaction_id: v for v in folder.verdicts.read() if v.interaction_id not in sampled
    }
    feedback = {
        f.interaction_id: f
        for f in folder.feedback.read()
        if f.interaction_id not in sampled and f.interaction_id not in verdicts
    }
    left = Backlog()
    if verdicts or feedback:
        for interaction in folder.interactions.read():
            if interaction.interaction_id in verdicts:
                left.unassembled.append((interaction, verdicts[interaction.interaction_id]))
            elif interaction.interaction_id in feedback:
                left.unjudged.append((interaction, feedback[interaction.interaction_id]))
    gone = consumed(folder)
    left.unused = [interaction_id for interaction_id in accepted if interaction_id not in gone]
    return left


def consumed(folder: RunFolder) -> set[str]:
    """Samples that a surviving update used or passed over as stale."""
    gone: set[str] = set()
    for update in folder.surviving_updates():
        gone.update(update.sample_ids)
        gone.update(update.stale)
    return gone
