"""What the page shows of a run: read from its records, as they are written."""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field

from clawrl.records.folder import RunFolder
from clawrl.records.nouns import Feedback, Interaction, Sample, Verdict
from clawrl.tastes.substance import substance_problems

_KEPT_TURNS = 2_000
_KEPT_SESSIONS = 2_000


@dataclass(slots=True)
class Turn:
    """One main turn, and what became of it."""

    interaction: Interaction
    feedback: Feedback | None = None
    verdict: Verdict | None = None
    sample: Sample | None = None

    @property
    def fate(self) -> str:
        """In a few words for people."""
        if self.interaction.untrainable is not None:
            return f"not learned from: {self.interaction.untrainable}"
        if self.feedback is None:
            return "waits for what comes back"
        if self.verdict is None:
            return "waits for the judge"
        if self.sample is None or self.sample.accepted:
            return "learned from"
        return f"not learned from: {self.sample.reason}"


@dataclass(slots=True)
class SessionRow:
    """One conversation in figures."""

    session_id: str
    user: str | None
    main: int = 0
    side: int = 0
    corrections: int = 0
    last: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter[str])


@dataclass(slots=True)
class VersionRow:
    """What was said of one version's replies."""

    version: int
    turns: int = 0
    judged: int = 0
    corrections: int = 0
    abnormal: int = 0
    sessions: set[str] = field(default_factory=set[str])


class RunView:
    """Follows a run folder; `poll` takes in what is new. The newest turns alone are kept whole."""

    def __init__(self, folder: RunFolder) -> None:
        self._interactions = folder.interactions.follow()
        self._feedback = folder.feedback.follow()
        self._verdicts = folder.verdicts.follow()
        self._samples = folder.samples.follow()
        self.turns: OrderedDict[str, Turn] = OrderedDict()
        self.sessions: OrderedDict[str, SessionRow] = OrderedDict()
        self.versions: dict[int, VersionRow] = {}

    def poll(self) -> None:
        """Read on. Raises RecordError for a line that is no record."""
        for interaction in self._interactions.poll():
            self._take(interaction)
        for feedback in self._feedback.poll():
            if (turn := self.turns.get(feedback.interaction_id)) is not None:
                turn.feedback = feedback
        for verdict in self._verdicts.poll():
            self._judge(verdict)
        for sample in self._samples.poll():
            if (turn := self.turns.get(sample.interaction_id)) is not None:
                turn.sample = sample

    def turns_of(self, user: str | None, *, everyone: bool) -> list[Turn]:
        """The newest first; another user's are never among them, unless `everyone` is to be."""
        return [
            turn
            for turn in reversed(self.turns.values())
            if everyone or turn.interaction.user == user
        ]

    def sessions_of(self, user: str | None, *, everyone: bool) -> list[SessionRow]:
        """The most recent first."""
        return [row for row in reversed(self.sessions.values()) if everyone or row.user == user]

    def _take(self, interaction: Interaction) -> None:
        row = self.sessions.setdefault(
            interaction.session_id, SessionRow(interaction.session_id, interaction.user)
        )
        self.sessions.move_to_end(interaction.session_id)
        row.last = interaction.created
        row.kinds[interaction.kind or interaction.turn_type] += 1
        while len(self.sessions) > _KEPT_SESSIONS:
            self.sessions.popitem(last=False)
        if interaction.turn_type == "side":
            row.side += 1
            return
        row.main += 1
        version = self._version(interaction)
        version.turns += 1
        version.sessions.add(interaction.session_id)
        version.abnormal += _abnormal(interaction)
        self.turns[interaction.interaction_id] = Turn(interaction)
        while len(self.turns) > _KEPT_TURNS:
            self.turns.popitem(last=False)

    def _judge(self, verdict: Verdict) -> None:
        turn = self.turns.get(verdict.interaction_id)
        if turn is None:
            return
        turn.verdict = verdict
        if verdict.score is None:
            return
        corrected = verdict.score == -1
        version = self._version(turn.interaction)
        version.judged += 1
        version.corrections += corrected
        if (row := self.sessions.get(verdict.session_id)) is not None:
            row.corrections += corrected

    def _version(self, interaction: Interaction) -> VersionRow:
        number = interaction.weights.version_first
        return self.versions.setdefault(number, VersionRow(number))


def _abnormal(interaction: Interaction) -> bool:
    """Cut off, or the same words over and over, or nothing at all."""
    text = str(interaction.reply.get("content") or "")
    if not text.strip():
        return not interaction.reply.get("tool_calls")
    found = substance_problems(text, interaction.finish_reason)
    return "cut_off" in found or "repetitive" in found
