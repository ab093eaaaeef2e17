"""Find what came back after a reply, in a later request's history. Pure.

Clients rewrite their histories, so positions mean nothing; the reply itself is what is looked for.
When in doubt there is no next state: a turn that is not learned from costs little, a turn that
learns from an answer to something else does harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Literal

from clawrl.gateway.resolving.normal import Said, Signature


@dataclass(frozen=True, slots=True)
class NextState:
    """What came back: who speaks, and the words."""

    role: Literal["user", "tool"]
    content: str


def next_state(
    own: Signature,
    before: int,
    said: Sequence[Said],
    *,
    call_ids: Set[str] = frozenset(),
    others: Iterable[Signature] = (),
) -> NextState | None:
    """The first user or tool content after a turn's own reply.

    The reply is the last assistant message that says the same, with the same tool calls, or the one
    with the ids of its calls; a client may have joined it with another reply of the session. The
    messages that follow it directly (several tool results, a user who sent two messages) are joined
    by blank lines. The role is that of the first; a user message that a framework wrote counts as a
    tool's, and a person's words that a framework passed on count alone. Errands in between, and the
    replies to them, are passed over. System messages count only where nothing else came back: some
    clients report a tool's result in one.

    Args:
        own: the turn's reply.
        before: how many equal replies the turn's own request had in its history.
        said: a later request of the same session, normalised.
        call_ids: of the reply's tool calls, as far as no other reply has them.
        others: other replies of the session.

    Returns:
        None when the reply is not there, was there already in the turn's own request, or nothing
        that could be a next state follows it before another reply.
    """
    places = _places(own, said, call_ids, others)
    if len(places) <= before:  # an older reply said the same; this one was taken back
        return None
    after = _answer(said[places[-1] + 1 :])
    words = [one for one in after if one.role != "system"] or after
    # What a tool says of a call that a person refused is no answer; the person's words are.
    words = [one for one in words if one.person] or words
    if not words:
        return None
    content = "\n\n".join(one.text for one in words)
    return NextState(
        "user" if words[0].role == "user" and not words[0].machine else "tool", content
    )


def _places(
    own: Signature, said: Sequence[Said], call_ids: Set[str], others: Iterable[Signature]
) -> list[int]:
    replies = [(at, one) for at, one in enumerate(said) if one.role == "assistant"]
    exact = [
        at for at, one in replies if one.signature == own or not call_ids.isdisjoint(one.call_ids)
    ]
    if exact or not own.words:
        return exact
    known = [one.words for one in others if one.words]
    joined = {f"{own.words} {one}" for one in known} | {f"{one} {own.words}" for one in known}
    return [at for at, one in replies if one.words in joined and one.calls == own.calls]


def _answer(after: Sequence[Said]) -> list[Said]:
    """What follows a reply, up to the next reply that is not to an errand."""
    found: list[Said] = []
    on_errand = False
    for one in after:
        if one.side is not None:
            if any(other.role != "system" for other in found):
                break  # the answer is complete
            on_errand = True
        elif one.role == "assistant":
            if not on_errand:
                break
        elif one.role == "user" or not on_errand:
            on_errand = False
            found.append(one)
    return found
