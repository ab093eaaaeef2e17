"""What a history remembers of its session: each reply, with the words that it answered. Pure.

A link is one step of a conversation, the words and the reply to them. Clients rewrite the head of a
history, cut it, and drop turns from it; links near its end survive that, and no other session of
the same user has the same ones, unless both said the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from clawrl.gateway.resolving.normal import Said, Signature, words_of
from clawrl.gateway.resolving.rules import Rules, SideRule

Key = bytes
"""Eight bytes that stand for some words of one user."""
_QUOTED = 200
_SHORTEST_QUOTE = 8


@dataclass(frozen=True, slots=True)
class Trail:
    """What can be looked up of one request."""

    user: str | None
    links: tuple[Key, ...]
    """One for each reply in the history, oldest first."""
    replies: tuple[Key, ...]
    call_ids: tuple[str, ...]
    """Of tool calls, as far as they are nobody else's; oldest first."""
    system: Key
    first: Key
    """The first user message."""
    body: Key
    """The whole history but its leading system messages: the same again is the same request."""
    start: Key
    """The history up to its first reply."""
    tail: str
    """The words since the last reply, which the reply to this request will answer."""
    summary: str | None
    """The first message's words, where it stands for a history that was compacted."""
    last_user: Said | None
    errand: SideRule | None
    """What the last user message or the system prompt says that the request is for."""
    answers_tool: bool
    """The newest words are a tool's, or a framework's."""

    @property
    def opens(self) -> bool:
        """There is no reply in it."""
        return not self.replies

    def link_of(self, reply: Signature) -> Key:
        """The link that a reply to this request makes."""
        return _key(self.user, "link", self.tail, *_parts(reply))


def trail_of(said: Sequence[Said], user: str | None, rules: Rules) -> Trail:
    """Read a history's trail.

    Args:
        said: normalised messages.
        user: whose key asked; other users' sessions are never found.
        rules: what a summary and an errand look like.
    """
    lead = next((at for at, one in enumerate(said) if one.role != "system"), len(said))
    links: list[Key] = []
    replies: list[Key] = []
    since: list[str] = []
    for one in said[lead:]:
        if one.role != "assistant":
            since.append(one.words)
            continue
        parts = _parts(one.signature)
        links.append(_key(user, "link", " ".join(since), *parts))
        replies.append(_key(user, "reply", *parts))
        since = []
    end = next((at for at, one in enumerate(said) if one.role == "assistant"), len(said))
    users = [one for one in said if one.role == "user"]
    first = users[0] if users else None
    system = " ".join(one.words for one in said[:lead])
    return Trail(
        user=user,
        links=tuple(links),
        replies=tuple(replies),
        call_ids=tuple(identity for one in said for identity in one.call_ids),
        system=_key(user, "system", system),
        first=_key(user, "first", first.words if first else ""),
        body=_history_key(user, said[lead:]),
        start=_history_key(user, said[lead:end]),
        tail=" ".join(since),
        summary=_summary(first, rules),
        last_user=users[-1] if users else None,
        errand=_errand(said[:lead], users, rules),
        answers_tool=bool(said) and (said[-1].role == "tool" or said[-1].machine),
    )


def reply_key(user: str | None, reply: Signature) -> Key:
    """The key of a reply alone."""
    return _key(user, "reply", *_parts(reply))


def quote_of(words: str) -> str | None:
    """How a text is looked for in a summary of its conversation; None: it is too short to tell."""
    cut = words[:_QUOTED]
    return cut if len(cut) >= _SHORTEST_QUOTE else None


def _summary(first: Said | None, rules: Rules) -> str | None:
    compacted = first is not None and any(rule.search(first.text) for rule in rules.compacted)
    return first.words if first is not None and compacted else None


def _errand(systems: Sequence[Said], users: Sequence[Said], rules: Rules) -> SideRule | None:
    if users and users[-1].side is not None:
        return users[-1].side
    return next(
        (rule for rule in rules.side.system for one in systems if rule.like.search(one.text)), None
    )


def _history_key(user: str | None, said: Sequence[Said]) -> Key:
    return _key(user, "history", *(part for one in said for part in (one.role, *_body(one))))


def _parts(reply: Signature) -> list[str]:
    return [words_of(reply.words), *(part for call in reply.calls for part in call)]


def _body(one: Said) -> list[str]:
    return _parts(one.signature) if one.role == "assistant" else [one.words]


def _key(user: str | None, *parts: str) -> Key:
    digest = blake2b(digest_size=8)
    for part in (user or "", *parts):
        raw = part.encode("utf-8", "surrogatepass")
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.digest()
