"""What each step of an episode earned, against the same step of the other attempts at its task.

The reward of a step is the episode's outcome plus the votes on what came back after it; how good
that is shows only beside the other attempts. What cannot be said (no outcome, no votes, nobody to
compare with, all alike) is said as a reason, never as a number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from clawrl.records.nouns import Episode, Verdict

ProcessReward = Literal["step", "trajectory_mean", "none"]


@dataclass(frozen=True, slots=True)
class Credit:
    """Of one step."""

    reward: float | None = None
    """Outcome and process together; None: it is not known."""
    advantage: float = 0.0
    reason: str | None = None
    """Why the step carries no gradient; None: it does."""


def step_credits(
    episodes: Iterable[Episode],
    verdicts: Mapping[str, Verdict],
    *,
    process: ProcessReward,
    outcome: Literal["zero_one", "pm1"],
) -> dict[str, Credit]:
    """The credit of every step, by interaction.

    Args:
        episodes: whole groups: attempts at one task have the same `group`.
        verdicts: of their turns, by interaction.
        process: how the votes enter: each step's own, their mean over the episode, or not at all.
        outcome: an episode's reward as it is, or as -1 to +1.

    Returns:
        Of all steps of all episodes. Reasons: `no_outcome` (the episode was not graded),
        `no_feedback_score` (no vote could be read), `group_of_one`, `no_spread`.

    Source: arXiv:2603.10165, step-wise reward and advantage.
    """
    import torch  # slow to import: only where there are episodes

    from clawrl.objective.advantages import group_advantage
    from clawrl.objective.rewards import step_rewards

    found: dict[str, Credit] = {}
    names: list[str] = []
    rows: list[tuple[float, float, int, int]] = []  # outcome, process, episode, group
    groups: dict[tuple[int, int], int] = {}
    for number, episode in enumerate(episodes):
        for index, step in enumerate(episode.steps):
            votes = _votes(verdicts.get(step.interaction_id))
            if episode.reward is None:
                found[step.interaction_id] = Credit(reason="no_outcome")
            elif votes is None and process != "none":
                found[step.interaction_id] = Credit(reason="no_feedback_score")
            else:
                reward = 2 * episode.reward - 1 if outcome == "pm1" else episode.reward
                group = groups.setdefault((episode.group, index), len(groups))
                names.append(step.interaction_id)
                rows.append((reward, votes or 0.0, number, group))
    if not names:
        return found
    table = torch.tensor(rows, dtype=torch.float64)  # [S, 4]
    which = table[:, 3].long()
    rewards = step_rewards(table[:, 0], table[:, 1], table[:, 2].long(), mode=process)
    advantage, kept = group_advantage(rewards, which)
    sizes = torch.bincount(which)[which].tolist()
    for name, reward, value, keep, size in zip(
        names, rewards.tolist(), advantage.tolist(), kept.tolist(), sizes, strict=True
    ):
        reason = None if keep else ("group_of_one" if size == 1 else "no_spread")
        found[name] = Credit(reward, value, reason)
    return found


def _votes(verdict: Verdict | None) -> float | None:
    """The mean of the votes that could be read; None: there are none."""
    scores = [vote.score for vote in verdict.votes if vote.score is not None] if verdict else []
    return sum(scores) / len(scores) if scores else None
