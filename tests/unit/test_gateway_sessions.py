"""Which requests belong together, and for how long that is remembered."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clawrl.gateway.resolving.marks import Marks
from clawrl.gateway.resolving.normal import normalised
from clawrl.gateway.resolving.rules import load_rules
from clawrl.gateway.resolving.session import Pending, Session
from clawrl.gateway.resolving.sessions import AMBIGUOUS, Placement, Sessions
from clawrl.gateway.resolving.trail import Trail, trail_of
from clawrl.records.nouns import Interaction, Sampling, Weights

Json = dict[str, Any]
RULES = load_rules()


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def said(role: str, content: str | None, **more: Any) -> Json:
    return {"role": role, "content": content, **more}


def tool_call(name: str, identity: str) -> Json:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": "{}"}}


def interaction(session: str, messages: list[Json], reply: Json, **more: Any) -> Interaction:
    values: Json = {
        "interaction_id": f"{session}-{len(messages)}",
        "turn": 0,
        "turn_type": "main",
        "created": 0.0,
        "sampling": Sampling(),
        "weights": Weights(version_first=0, version_last=0, digest=""),
        **more,
    }
    return Interaction(session_id=session, messages=messages, reply=reply, **values)


class Desk:
    """Sessions, and the gateway's part in filling them."""

    def __init__(self, idle_s: float = 10.0, **more: Any) -> None:
        self.clock = Clock()
        self.sessions = Sessions(idle_s, clock=self.clock, **more)

    def trail(self, messages: list[Json], user: str | None = None) -> Trail:
        return trail_of(normalised(messages, RULES), user, RULES)

    def place(
        self,
        messages: list[Json],
        *,
        user: str | None = None,
        tools: int = 0,
        **marks: Any,
    ) -> Placement:
        """A request that arrives, and is not yet answered."""
        self.sessions.forget_idle()
        placed = self.sessions.place(Marks(**marks), self.trail(messages, user), tools)
        placed.session.arrive()
        return placed

    def ask(self, messages: list[Json], reply: str | Json, **more: Any) -> Placement:
        """A request that is answered."""
        placed = self.place(messages, **more)
        self.answer(placed.session, messages, reply, user=more.get("user"))
        return placed

    def answer(
        self, session: Session, messages: list[Json], reply: str | Json, user: str | None = None
    ) -> None:
        message = said("assistant", reply) if isinstance(reply, str) else reply
        session.turns += 1
        self.sessions.learn(session, self.trail(messages, user), message)
        self.sessions.leave(session, done=False)


def names(*placed: Placement) -> list[str]:
    return [one.session.session_id for one in placed]


HI = [said("system", "You help."), said("user", "hi")]


def after(messages: list[Json], reply: str, words: str) -> list[Json]:
    return [*messages, said("assistant", reply), said("user", words)]


# --- without the client's help --------------------------------------------------------------------


def test_a_conversation_is_followed_by_its_words() -> None:
    desk = Desk()
    first = desk.ask(HI, "Hello!")
    again = desk.ask(after(HI, " Hello! ", "and now?"), "Now we talk.")
    assert names(first) == names(again)
    assert (first.placed_by, again.placed_by) == ("new", "own_reply")


def test_two_conversations_that_began_alike_stay_apart() -> None:
    desk = Desk()
    one = desk.ask(HI, "Hello!", session_id="one", placed_by="header")
    two = desk.ask(HI, "Good day.", session_id="two", placed_by="header")
    assert names(desk.place(after(HI, "Hello!", "more"))) == names(one)
    assert names(desk.place(after(HI, "Good day.", "more"))) == names(two)


def test_histories_that_fit_two_sessions_are_not_learned_from() -> None:
    desk = Desk()
    desk.ask(HI, "Hello!", session_id="one", placed_by="header")
    desk.clock.now += 1
    two = desk.ask(HI, "Hello!", session_id="two", placed_by="header")
    placed = desk.place(after(HI, "Hello!", "more"))
    assert names(placed) == names(two)
    assert placed.problem == AMBIGUOUS


def test_of_two_alike_the_one_that_went_on_is_not_meant() -> None:
    desk = Desk()
    one = desk.ask(HI, "Hello!", session_id="one", placed_by="header")
    desk.ask(HI, "Hello!", session_id="two", placed_by="header")
    desk.ask(after(HI, "Hello!", "tell me"), "What?", session_id="two", placed_by="header")
    placed = desk.place(after(HI, "Hello!", "more"))
    assert names(placed) == names(one)
    assert placed.problem is None


def test_a_rewritten_head_and_a_dropped_reply_lose_nothing() -> None:
    desk = Desk()
    history = after(HI, "Hello!", "list files")
    first = desk.ask(HI, "Hello!")
    desk.ask(history, "a, b")
    desk.ask(after(history, "a, b", "and c?"), "No c.")
    rewritten = [said("system", "It is Monday."), said("user", "hello there")]
    kept = after(history, "a, b", "and c?")[2:]
    later = [*rewritten, *kept, said("user", "please")]  # "No c." is gone
    assert names(desk.place(later)) == names(first)


def test_a_system_message_in_the_middle_tells_two_sessions_apart() -> None:
    desk = Desk()
    results = [[*HI, said("system", f"result: {n}")] for n in (1, 2)]
    one, two = (desk.ask(messages, "Fine.") for messages in results)
    assert names(one) != names(two)
    assert names(desk.place(after(results[0], "Fine.", "go on"))) == names(one)


def test_a_tool_call_s_own_id_is_the_strongest_sign() -> None:
    desk = Desk()
    identity = "call0123456789abcdef01234567"
    asked = said("assistant", None, tool_calls=[tool_call("run", identity)])
    first = desk.ask(HI, asked)
    desk.ask([said("user", "other")], "Hello!")
    renamed = said("assistant", "", tool_calls=[tool_call("invalid", identity)])
    result = said("tool", "no", tool_call_id=f"call_{identity[4:]}")
    placed = desk.place([said("user", "rewritten"), renamed, result])
    assert names(placed) == names(first)
    assert (placed.placed_by, placed.kind) == ("tool_call_id", "tool")


def test_examples_in_a_prompt_are_nobody_s_history() -> None:
    desk = Desk()
    examples = after([said("user", "1+1")], "2", "2+2")
    one = desk.ask(examples, "4")
    two = desk.ask([*examples[:-1], said("user", "3+3")], "6")
    assert names(one) != names(two)


def test_users_never_meet() -> None:
    desk = Desk()
    mine = desk.ask(HI, "Hello!", user="me")
    yours = desk.place(after(HI, "Hello!", "more"), user="you")
    assert names(mine) != names(yours)
    same_id = [desk.place(HI, user=user, session_id="s", placed_by="h") for user in ("me", "you")]
    assert names(*same_id) == ["me:s", "you:s"]


# --- asking again ---------------------------------------------------------------------------------


def test_the_same_opening_soon_after_is_the_same_session() -> None:
    desk = Desk(idle_s=1000)
    first = desk.place(HI)
    assert names(desk.place(HI)) == names(first)  # while the first still runs
    desk.answer(first.session, HI, "Hello!")
    assert names(desk.place(HI)) == names(first)  # a regeneration
    desk.clock.now += 301
    assert names(desk.place(HI)) != names(first)  # somebody says hi again


def test_an_opening_after_the_conversation_went_on_is_a_new_one() -> None:
    desk = Desk()
    first = desk.ask(HI, "Hello!")
    desk.ask(after(HI, "Hello!", "more"), "More.")
    assert names(desk.place(HI)) != names(first)


def test_an_opening_that_failed_leaves_no_session() -> None:
    desk = Desk()
    failed = desk.place(HI)
    desk.sessions.leave(failed.session, done=False)
    assert len(desk.sessions) == 0
    assert desk.sessions.remembered == 0


# --- housekeeping ---------------------------------------------------------------------------------


def test_an_errand_is_known_by_its_words_and_belongs_to_its_session() -> None:
    desk = Desk()
    first = desk.ask(HI, "Hello!")
    poll = desk.place(after(HI, "Hello!", "[OpenClaw heartbeat poll]"))
    assert names(poll) == names(first)
    assert (poll.turn_type, poll.kind) == ("side", "heartbeat")


def test_a_user_who_asks_for_a_summary_of_something_is_a_user() -> None:
    desk = Desk()
    for words in (
        "Summarize this article for me: the conversation between the two...",
        "Write me a title for my essay on bees",
        "What is a heartbeat?",
        "Generate a list of prime numbers",
    ):
        assert desk.place([said("user", words)]).turn_type == "main"


@pytest.mark.parametrize(
    ("system", "words", "kind"),
    [
        ("You are a title generator. You output ONLY a title.", "hi", "title"),
        ("", "Generate a title for this conversation:", "title"),
        ("", "### Task:\nSuggest 3-5 relevant follow-up questions for this chat", "title"),
        ("You help.", "Write a concise git commit message for this diff", "commit_message"),
        ("You are keeping a dream diary.", "Write.", "memory"),
    ],
)
def test_an_errand_of_no_session_is_not_kept(system: str, words: str, kind: str) -> None:
    desk = Desk()
    placed = desk.place([said("system", system), said("user", words)])
    assert (placed.turn_type, placed.kind, placed.placed_by) == ("side", kind, "nowhere")
    assert len(desk.sessions) == 0
    named = desk.place([said("user", words)], session_id="s", placed_by="header")
    assert names(named) == ["s"]


def test_a_compaction_finds_the_conversation_that_it_quotes() -> None:
    desk = Desk()
    first = desk.ask([said("user", "My favourite colour is blue")], "Noted, blue it is.")
    desk.ask([said("user", "What is the weather like?")], "I cannot know that.")
    words = (
        "<conversation>\n[User]: My favourite colour is blue\n"
        "[Assistant]: Noted, blue it is.\n</conversation>\nWrite a summary."
    )
    compaction = desk.place([said("system", "You summarize."), said("user", words)])
    assert names(compaction) == names(first)
    assert (compaction.turn_type, compaction.kind) == ("side", "compaction")


@pytest.mark.parametrize(
    "head",
    [
        "The conversation history before this point was compacted into the following summary:",
        "Here is a summary of the conversation to date:",
        "This session is being continued from a previous conversation:",
    ],
)
def test_a_conversation_goes_on_after_its_compaction(head: str) -> None:
    desk = Desk()
    opening = [said("user", "My favourite colour is blue")]
    first = desk.ask(opening, "Noted, blue it is.")
    compacted = [
        said("user", f"{head}\n- My favourite colour is blue"),
        said("assistant", "Noted, blue it is."),
        said("user", "So which one?"),
    ]
    placed = desk.place(compacted)
    assert names(placed) == names(first)
    assert placed.problem is None


def test_a_part_of_a_compaction_is_found_by_its_trace() -> None:
    desk = Desk()
    first = desk.ask(HI, "Hello!", trace="t1")
    part = [said("user", "<conversation>\n[User]: x\n</conversation>\nSummarize.")]
    assert names(desk.place(part, trace="t1")) == names(first)
    assert names(desk.place(part, trace="t2")) != names(first)


def test_a_scheduled_job_is_a_side_session_to_its_end() -> None:
    desk = Desk()
    job = [said("user", "[cron:b7432650 t1] Check the weather")]
    first = desk.ask(job, "Sunny.")
    second = desk.place(after(job, "Sunny.", "Report it."))
    assert names(first) == names(second)
    assert (second.turn_type, second.kind) == ("side", "cron")


def test_far_fewer_tools_than_the_main_line_are_an_errand_but_none_may_be_the_last_answer() -> None:
    desk = Desk()
    desk.ask(HI, "Hello!", tools=12)
    history = after(HI, "Hello!", "remember")
    assert desk.place(history, tools=2).kind == "few_tools"
    assert desk.place(history, tools=5).turn_type == "main"
    assert desk.place(history, tools=0).turn_type == "main"


def test_what_the_client_says_of_a_turn_goes_before_its_words() -> None:
    desk = Desk()
    title = [said("user", "Generate a title for this conversation")]
    assert desk.place(title, turn_type="main").turn_type == "main"
    assert desk.place(HI, turn_type="side").turn_type == "side"


# --- bounds ---------------------------------------------------------------------------------------


def test_a_session_is_kept_while_it_is_used_and_forgotten_when_it_is_not() -> None:
    desk = Desk()
    used = desk.place(HI, session_id="used", placed_by="h").session
    desk.place(HI, session_id="idle", placed_by="h")
    for desk.clock.now in (6.0, 12.0):
        assert desk.place(HI, session_id="used", placed_by="h").session is used
    assert len(desk.sessions) == 1


def test_a_session_that_ended_starts_anew_and_an_old_hold_on_it_ends_nothing() -> None:
    desk = Desk()
    old = desk.place(HI, session_id="s", placed_by="h").session
    desk.sessions.leave(old, done=True)
    new = desk.place(HI, session_id="s", placed_by="h").session
    assert new is not old
    desk.sessions.leave(old, done=True)
    assert desk.place(HI, session_id="s", placed_by="h").session is new


def test_more_sessions_than_the_limit_push_out_the_longest_unused() -> None:
    desk = Desk(idle_s=1000, max_sessions=3)
    for number in range(8):
        desk.ask([said("user", f"question {number}")], f"answer number {number}")
    desk.sessions.forget_idle()
    assert len(desk.sessions) == 3
    assert desk.sessions.remembered <= 3 * 5


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5), st.booleans()), max_size=40))
def test_no_session_outlives_its_idle_time(steps: list[tuple[str, float, bool]]) -> None:
    desk = Desk()
    last_used: dict[str, float] = {}
    for name, wait, done in steps:
        desk.clock.now += wait
        placed = desk.ask([said("user", name)], "ok", session_id=name, placed_by="h")
        desk.sessions.leave(placed.session, done=done)
        last_used[name] = desk.clock.now
        if done:
            del last_used[name]
        alive = [time for time in last_used.values() if time > desk.clock.now - 10.0]
        assert len(desk.sessions) == len(alive)


def test_nothing_is_left_of_a_forgotten_session() -> None:
    desk = Desk()
    reply = said("assistant", None, tool_calls=[tool_call("run", "call0123456789abcdef01234567")])
    history = [*HI]
    for number in range(5):
        desk.ask(history, reply, trace=f"trace{number}")
        history = [*history, reply, said("tool", f"result {number}")]
    desk.clock.now += 100
    assert desk.sessions.forget_idle() == []
    assert desk.sessions.remembered == 0


def test_an_endless_session_stays_small() -> None:
    desk = Desk(idle_s=1e9)
    session = desk.ask(HI, "Hello!").session
    for number in range(2000):
        messages = [said("user", f"question {number}")]
        desk.answer(session, messages, f"answer number {number}")
    assert desk.sessions.remembered < 600


# --- after a restart ------------------------------------------------------------------------------


def test_a_restored_session_goes_on_and_its_last_turn_still_waits() -> None:
    desk = Desk()
    record = interaction("auto-1", HI, said("assistant", "Hello!"))
    desk.sessions.restore(record, desk.trail(HI), waits=True)
    placed = desk.place(after(HI, "Hello!", "more"))
    assert names(placed) == ["auto-1"]
    assert placed.session.turns == 1
    assert placed.session.pending == Pending.of(record, desk.trail(HI), record.reply)


def test_a_restored_turn_that_got_its_next_state_waits_no_more() -> None:
    desk = Desk()
    desk.sessions.restore(
        interaction("s", HI, said("assistant", "Hello!")), desk.trail(HI), waits=False
    )
    assert desk.place(after(HI, "Hello!", "more")).session.pending is None


def test_a_restored_job_is_still_one() -> None:
    desk = Desk()
    job = [said("user", "[cron:b7432650 t1] Check the weather")]
    record = interaction("auto-1", job, said("assistant", "Sunny."), turn_type="side", kind="cron")
    desk.sessions.restore(record, desk.trail(job), waits=False)
    assert desk.place(after(job, "Sunny.", "Report it.")).kind == "cron"
